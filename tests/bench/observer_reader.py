"""A reader for the bench, in a process of its own: reads a topic over and over from given nodes."""

from __future__ import annotations

import sys
import time
from contextlib import closing

from raftlog.client.connect import connect
from raftlog.client.connection import Connection
from raftlog.config import load
from raftlog.core.types import Offset
from raftlog.wire.calls import READ, ReadCall


def main() -> None:
    """Arguments: the topic, for how many seconds, the nodes. Prints how many rows were read."""
    name, seconds, *addresses = sys.argv[1:]
    servers = {"bootstrap_servers": ",".join(addresses), "zookeeper": ""}
    settings = load().client.model_copy(update=servers)
    with connect(settings=settings) as client:
        topic = client.describe_topic(name)
        mark = client.read_high_water_mark(topic).high_water_mark
    call = ReadCall(
        group=topic.group,
        incarnation=topic.incarnation,
        start=Offset(0),
        end=mark,
        mark=mark,
        field_ids=(),
        all_fields=True,
        verify=False,
    )
    rows, turn = 0, 0
    end_s = time.monotonic() + float(seconds)
    with closing(Connection(settings)) as connection:
        while time.monotonic() < end_s:
            turn += 1
            address = addresses[(turn + rows) % len(addresses)]
            for reply, _ in connection.stream(address, READ, call, 60.0):
                rows += reply.batch.record_count
                if time.monotonic() >= end_s:
                    break
    print(rows)


if __name__ == "__main__":
    main()

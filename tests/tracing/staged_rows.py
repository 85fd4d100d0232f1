"""Stages rows of an epoch in a process of its own, as Spark's tasks do, and traces it.

staged_rows.py SERVERS ENDPOINT ROWS prints the attempt, a line of JSON.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import pyarrow as pa

from raftlog.client.connect import connect
from raftlog.config import load
from raftlog.machines.commands import EpochKey

TOPIC = "t"
KEY = EpochKey(writer="w", query_id="q", run="r", epoch=0, streaming=False)


def main(servers: str, endpoint: str, rows: str) -> None:
    """Stage so many rows."""
    settings = {"bootstrap_servers": servers, "tracing_endpoint": endpoint}
    with connect(settings=load().client.model_copy(update=settings)) as client:
        attempt = client.attempt(TOPIC, KEY, create_writer=True)
        attempt.write(pa.record_batch({"id": pa.array(range(int(rows)), pa.int64())}))
        reference = attempt.finish()
        assert reference is not None, "there were rows"
    print(json.dumps(asdict(reference)))


if __name__ == "__main__":
    main(*sys.argv[1:])

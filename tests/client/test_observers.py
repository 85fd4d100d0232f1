"""Each further observer takes its share of the reads, so throughput grows with their number."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace

import pytest

from raftlog.client.connection import Connection
from raftlog.client.reader import TopicReader
from raftlog.config import ClientSettings
from raftlog.core.types import NodeId, Offset
from raftlog.wire.calls import DESCRIBE_CLUSTER, READ_SIZES, RangeSizes
from raftlog.wire.codec import encode_reply
from tests.client.answering import described, node
from tests.client.test_reader import TOPIC

READS = 24
_SIZES = RangeSizes(offsets=(Offset(0), Offset(1)), body_bytes=(8,))


@pytest.mark.parametrize("observers", [1, 2, 4])
def test_reads_that_prefer_observers_are_spread_evenly_over_them(observers: int) -> None:
    """CHECKLIST 79."""
    asked: Counter[int] = Counter()
    addresses: list[str] = []
    numbers = tuple(NodeId(2 + each) for each in range(observers))

    def describe(_: bytes) -> bytes:
        return encode_reply(DESCRIBE_CLUSTER, replace(described(addresses), observers=numbers))

    with ExitStack() as stack:
        for number in (1, *numbers):

            def sizes(_: bytes, number: int = number) -> bytes:
                asked[number] += 1
                return encode_reply(READ_SIZES, _SIZES)

            port = node(READ_SIZES.name, sizes, others={DESCRIBE_CLUSTER.name: describe})
            addresses.append(stack.enter_context(port))
        connection = Connection(ClientSettings(bootstrap_servers=addresses[0]))
        stack.callback(connection.close)
        reader = TopicReader(connection, TOPIC, preference="observer")
        for _ in range(READS):
            assert reader.wait(Offset(1), 60.0)
    assert asked == dict.fromkeys(numbers, READS // observers)

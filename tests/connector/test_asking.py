"""Which of a query's processes ask the cluster, before any batch has rows."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from pyspark.serializers import CPickleSerializer
from pyspark.sql.types import LongType, StructField, StructType

from raftlog.errors import DeadlineExceeded
from raftlog.spark.datasource import RaftlogDataSource
from raftlog.spark.limits import NONE
from raftlog.spark.offsets import LATEST, TopicRange
from raftlog.spark.options import ConnectionOptions, SourceOptions, Subscription
from raftlog.spark.partitions import BYTES_PER_TASK_MIN
from raftlog.spark.positions import Positions
from raftlog.spark.reader import SIZES_KEPT_S, RangeReader
from raftlog.spark.topics import Topics

SCHEMA = StructType([StructField("id", LongType())])


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The options of servers that nobody listens at: who asks them fails."""
    monkeypatch.setenv("RAFTLOG_CLIENT__REFUSED_TIMEOUT_S", "0.1")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield {"raftlog.bootstrap.servers": f"127.0.0.1:{bound.getsockname()[1]}"}


def sent(source: RaftlogDataSource) -> RaftlogDataSource:
    """The copy that another process gets."""
    serializer = CPickleSerializer()
    copy: RaftlogDataSource = serializer.loads(serializer.dumps(source))
    return copy


def test_of_a_batch_s_two_writers_the_one_that_plans_asks(nobody: dict[str, str]) -> None:
    """The other one, which ends the batch, has been sent its source."""
    source = RaftlogDataSource(nobody | {"topic": "flights", "raftlog.request.timeout.ms": "100"})
    with pytest.raises(DeadlineExceeded):
        source.streamWriter(SCHEMA, False)
    sent(source).streamWriter(SCHEMA, False)


def test_small_batches_are_not_measured_again_for_a_while() -> None:
    ranges = RangeReader(stream_options(), SCHEMA, ())
    assert not ranges._is_small(of_records(1), 1000.0), "nobody knows the records' size"
    ranges._record_bytes["a"] = (100.0, 1000.0)
    fits = BYTES_PER_TASK_MIN // 200
    assert ranges._is_small(of_records(fits), 1000.0)
    assert not ranges._is_small(of_records(fits + 1), 1000.0)
    assert not ranges._is_small(of_records(1), 1000.0 + SIZES_KEPT_S)
    wanted = RangeReader(stream_options(min_partitions=4), SCHEMA, ())
    wanted._record_bytes["a"] = (100.0, 1000.0)
    assert not wanted._is_small(of_records(4), 1000.0), "four tasks are wanted"


def of_records(count: int) -> TopicRange:
    return TopicRange(topic="flights", incarnation="a", start=0, end=count)


def stream_options(min_partitions: int | None = None) -> SourceOptions:
    return SourceOptions(
        subscription=Subscription(
            connection=ConnectionOptions(
                bootstrap_servers="127.0.0.1:1", zookeeper="", request_timeout_s=1.0
            ),
            topics=Topics(names=("flights",)),
            include_metadata=False,
        ),
        starting=Positions(named={}, others=LATEST),
        ending=Positions(named={}, others=LATEST),
        limits=NONE,
        min_partitions=min_partitions,
        max_records_per_partition=None,
        fail_on_data_loss=True,
    )

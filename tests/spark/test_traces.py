"""Driver and executors of a real Spark tell a collector what the epochs of a query took."""

from __future__ import annotations

import pytest

from raftlog.chaos.cluster import PATIENCE_S, wait_for
from raftlog.errors import InvalidOption
from raftlog.spark.options import connection_options
from tests.spark.conftest import finish
from tests.tracing.collector import KeptSpan, collecting


def test_an_epoch_of_a_query_is_one_trace_of_driver_and_tasks(lab):
    lab.rows_file("a", 1, 2)
    lab.rows_file("b", 3, 4)
    with collecting() as collector:
        rows = lab.file_stream().repartition(2)
        finish(lab.sink(rows).option("raftlog.tracing.endpoint", collector.endpoint).start())

        def epochs() -> list[list[KeptSpan]]:
            roots = {span.trace: span for span in collector.spans if span.name == "Epoch"}
            return [
                [span for span in collector.spans if span.parent == root.id]
                for root in sorted(roots.values(), key=lambda each: each.began_ns)
            ]

        def are_whole() -> bool:
            names = [sorted(span.name for span in asked) for asked in epochs()]
            return names == [["CommitEpoch", "Stage", "Stage"]] * 2

        wait_for(are_whole, "the spans of two epochs", PATIENCE_S)
        assert sum(batch["id"] for batch in lab.read(schema="id bigint").collect()) == 10


@pytest.mark.parametrize("ratio", ["2", "-1", "nan", "half"])
def test_a_share_that_is_none_is_refused(ratio):
    with pytest.raises(InvalidOption, match=r"raftlog\.tracing\.sample\.ratio"):
        connection_options({"raftlog.tracing.sample.ratio": ratio})


@pytest.mark.parametrize(
    "endpoint",
    ["localhost:4317", "ftp://h:1", "http://user:s3cret@h:1", "http://h", "http://h:1/x"],
)
def test_an_endpoint_that_is_none_is_refused_without_its_password(endpoint):
    with pytest.raises(InvalidOption, match=r"raftlog\.tracing\.endpoint") as refused:
        connection_options({"raftlog.tracing.endpoint": endpoint})
    assert "s3cret" not in str(refused.value)

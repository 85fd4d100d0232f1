"""Spark's queries while the nodes that they were told of are removed one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.joining import PATIENCE_S, grown
from tests.spark.conftest import Lab, wait_until


@pytest.mark.timeout(300)
def test_streams_and_batches_go_on_while_all_first_nodes_but_one_are_removed(
    spark, tmp_path: Path
) -> None:
    """The queries name nodes 1 to 3; what they read and write moves to 3, 4 and 5."""
    with grown(tmp_path, 2) as (cluster, client, _):
        lab = Lab(spark, cluster, client, tmp_path / "lab")
        lab.create()
        reader = Lab(spark, cluster, client, tmp_path / "reader")
        reader.topic = lab.topic
        seen: list[int] = []
        read = reader.collect(lab.read_stream(), seen, processingTime="0 seconds")
        write = lab.sink(lab.file_stream()).trigger(processingTime="0 seconds").start()
        number = 0

        def more() -> None:
            nonlocal number
            lab.rows_file(f"f{number}", *range(10 * number, 10 * number + 10))
            number += 1

        try:
            more()
            wait_until(lambda: len(seen) == 10, "the first rows", read, write)
            for leaving in (1, 2):
                for _ in client.members.remove(leaving, timeout_s=PATIENCE_S):
                    more()
                more()
                what = f"the rows after node {leaving} was removed"
                wait_until(lambda: len(seen) == 10 * number, what, read, write)
                assert sorted(row.id for row in lab.read().collect()) == list(range(10 * number))
        finally:
            read.stop()
            write.stop()
        assert seen == list(range(10 * number)) == lab.ids()
        assert client.describe_topic(lab.topic).voters == (3, 4, 5)

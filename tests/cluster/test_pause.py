"""A process that hangs: its connections stay open, and nothing comes over them."""

from __future__ import annotations

import time
from pathlib import Path

from raftlog.chaos.cluster import ProcessCluster
from raftlog.client.log_client import connect
from raftlog.config import load

TRY_S = 2.0


def test_a_replica_that_hangs_holds_up_one_read_and_not_every_third(tmp_path: Path) -> None:
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as first:
        topic = first.create_topic("t", "number bigint")
        first.append("t", [{"number": 1}])
        cluster.wait_caught_up(first, "t")
        cluster.pause(cluster.leader(first, "t") % 3 + 1)
        settings = load().client.model_copy(
            update={"bootstrap_servers": cluster.servers, "attempt_timeout_s": TRY_S}
        )
        took_s = []
        with connect(settings=settings) as client:
            client.read_mark(topic)
            for _ in range(9):
                start_s = time.monotonic()
                assert [batch.num_rows for batch in client.read(topic, 0, 1, mark=1)] == [1]
                took_s.append(time.monotonic() - start_s)
        assert sum(each >= TRY_S for each in took_s) <= 1, took_s

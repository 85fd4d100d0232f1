"""A compaction that hangs: the log grows up to a bound, then records are refused, until it ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.errors import DeadlineExceeded
from raftlog.machines.commands import EpochKey
from tests.cluster.test_compaction_kills import compaction_process

SETTINGS = ("storage.snapshot_entries=8", "storage.compaction_backlog_max=2")
ENTRIES_MAX = 8 * (1 + 4 + 2) + 30
"""The point that hangs, four that may wait, twice as many entries, and those of the group itself.
Far fewer than without a bound."""


def append_until_refused(client: LogClient, first: int) -> tuple[int, DeadlineExceeded]:
    """Append one number after the other. Returns the one that is refused, and how. On a slow
    machine a deadline may pass without a reason: then that number may be there or not."""
    for number in range(first, first + 2 * ENTRIES_MAX):
        try:
            client.append("t", [{"id": number}])
        except DeadlineExceeded as refused:
            if "is behind" in str(refused):
                return number, refused
    pytest.fail("nothing bounds the backlog")


def test_records_are_refused_while_a_compaction_is_far_behind_and_taken_after_it(
    tmp_path: Path,
) -> None:
    with (
        ProcessCluster.start(tmp_path / "data", nodes=1, settings=SETTINGS) as cluster,
        cluster.client() as client,
        cluster.client(request_timeout_s=2.0) as hasty,
    ):
        client.create_topic("t", "id bigint")
        for number in range(12):
            client.append("t", [{"id": number}])
        wait_for(
            lambda: client.watermark("t").replicas[0].history_end > 0, "a compaction", PATIENCE_S
        )
        process = compaction_process(cluster, 1)
        assert process is not None
        os.kill(process, signal.SIGSTOP)
        try:
            written, refused = append_until_refused(hasty, 12)
            assert "The compaction of topic 't' is behind" in str(refused)
            assert "storage.compaction_backlog_max" in str(refused)
            assert written < 12 + ENTRIES_MAX
            assert client.read_high_water_mark("t").high_water_mark > 12, "reads go on"
            epoch = EpochKey(writer="w", query_id="q", run="r", epoch=0, streaming=False)
            with pytest.raises(DeadlineExceeded, match="is behind"):
                hasty.commit_epoch("t", epoch, (), create_writer=True)
            assert client.abort_epoch("t", epoch) == 0, "what ends something is taken"
            client.trim("t", before=3)
        finally:
            os.kill(process, signal.SIGCONT)
        client.append("t", [{"id": written}])
        ids = [row for batch in client.read("t") for row in batch.column("id").to_pylist()]
        assert ids == sorted(set(ids)), "once, in order"
        assert (ids[0], ids[-1]) == (3, written)

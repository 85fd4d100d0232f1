"""Nodes and their compaction processes killed with -9 while small snapshots are taken all the time.

`COMPACTION_SEED=N` repeats the choices of a failed test; the moments depend on the machine.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.chaos.workload import OneNode
from raftlog.client.log_client import LogClient
from raftlog.config import load
from raftlog.server.compactor import COMPACTION_PROGRAM
from tests.cluster.load import NumberedLoad, numbers_in
from tests.cluster.test_kill import ACKNOWLEDGED_MIN

SEED = int(os.environ.get("COMPACTION_SEED") or Random().randrange(1 << 32))
SETTINGS = (
    "storage.snapshot_entries=20",
    "storage.segment_bytes_max=1048576",
    "storage.preallocate_bytes=65536",
    "server.entry_bytes_max=524288",
    "client.batch_bytes=262144",
)
TEXT = "a" * 10_000
"""So that a log has several segments, of which the first are dropped."""
KILLS = 12
COLUMNS = ("number", "_offset")


def compaction_process(
    cluster: ProcessCluster, node: int, program: str = COMPACTION_PROGRAM
) -> int | None:
    """The process id of the node's compaction process, if there is one."""
    data = os.fsencode(cluster.data / f"node-{node}")
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it has ended, or is no process
            # A forked process shows spaces between its words.
            arguments = (entry / "cmdline").read_bytes().replace(b"\0", b" ").split()
            if entry.name.isdigit() and program.encode() in arguments and data in arguments:
                return int(entry.name)
    return None


def kill_compaction(cluster: ProcessCluster, node: int) -> bool:
    """Kill only the node's compaction process; whether there was one."""
    found = compaction_process(cluster, node)
    if found is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(found, signal.SIGKILL)
    return True


def only(cluster: ProcessCluster, node: int) -> LogClient:
    """A client that asks only this node."""
    address = cluster.servers.split(",")[node - 1]
    return LogClient(OneNode(load().client, address))


def history_ends(client: LogClient) -> list[int]:
    """How far history goes on each replica that answers."""
    return [each.history_end for each in client.watermark("load").replicas]


@pytest.mark.soak
def test_nodes_and_compactions_killed_at_any_moment_lose_and_repeat_nothing(
    tmp_path: Path,
) -> None:
    print(f"seed {SEED}: repeat with COMPACTION_SEED={SEED}")
    random = Random(SEED)
    killed = 0
    with (
        ProcessCluster.start(tmp_path / "data", settings=SETTINGS) as cluster,
        cluster.client() as client,
    ):
        client.create_topic("load", "number bigint, text string")
        with NumberedLoad(client, "load", text=TEXT) as writes:
            writes.wait_for_more(100)
            wait_for(lambda: min(history_ends(client)) > 0, "history on every node", PATIENCE_S)
            for _ in range(KILLS):
                writes.wait_for_more(random.randrange(5, 60))
                node = random.choice((1, 2, 3))
                killed += kill_compaction(cluster, node)
                if random.randrange(2):
                    cluster.kill(node)
                    writes.wait_for_more(random.randrange(5, 30))
                    cluster.serve(node)
                    cluster.wait_caught_up(client, "load", lag_entries_max=50)
        cluster.wait_caught_up(client, "load")
        writes.check(client, acknowledged_min=ACKNOWLEDGED_MIN)
        every = numbers_in(client, "load")
        goal = len(every) // 2
        wait_for(lambda: min(history_ends(client)) > goal, "compactions to go on", PATIENCE_S)
        topic, mark = client.describe_topic("load"), len(every)
        for node in (1, 2, 3):
            copy = list(only(cluster, node).read(topic, 0, mark, mark=mark, columns=COLUMNS))
            assert pa.Table.from_batches(copy)["number"].to_pylist() == every
            assert pa.Table.from_batches(copy)["_offset"].to_pylist() == list(range(mark))
            logs = sorted((cluster.data / f"node-{node}/groups/{topic.group}").glob("*.log"))
            assert int(logs[0].stem) > 1, "the beginning of its log is gone"
    assert killed > 0, "no compaction process was killed"

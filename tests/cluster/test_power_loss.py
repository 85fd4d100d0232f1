"""The power fails under load, on one node and on all: no acknowledged record is lost or moved.

A node is killed (-9), then its folder is made what a power loss may have left: everything that no
sync had made durable is truncated, zeroed, garbled, kept or mixed, and names appear and disappear
(see `tests.chaos.power_loss`). `POWER_LOSS_SEED=N` repeats the choices of a failed test; the moment
of each kill depends on the machine.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.chaos.disks import ClusterDisks
from raftlog.chaos.faulty_disk import DiskFaults
from raftlog.client.log_client import LogClient
from raftlog.core.types import Offset
from raftlog.errors import RaftlogError
from tests.chaos import noted_compaction
from tests.chaos.noted_disk import NoteFiles
from tests.chaos.power_loss import PowerLoss, lose_power
from tests.cluster.test_compaction_kills import compaction_process, history_ends, only

SEED = int(os.environ.get("POWER_LOSS_SEED") or Random().randrange(1 << 32))
PROGRAM = "tests.chaos.noted_node"
TOPIC = "load"
WRITERS = 3
TEXT_BYTES_MAX = 20_000
"""A record may span several blocks."""
SETTINGS = (
    "storage.segment_bytes_max=1048576",
    "server.entry_bytes_max=524288",
    "client.batch_bytes=262144",
    "storage.snapshot_entries=40",
)
"""Many segments: their names are lost as well as their bytes. Many snapshots, which are made, named
and followed by a shorter log at most of these moments."""


class Writer:
    """Appends numbered records from a thread, one entry each, until told to stop."""

    def __init__(self, cluster: ProcessCluster, number: int, random: Random) -> None:
        self.acknowledged: list[tuple[int, int]] = []
        """(offset, number) of each append that was answered."""
        self.failed: list[str] = []
        self._cluster = cluster
        self._first = number << 32
        self._random = random
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(2 * PATIENCE_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = self._first
        with self._cluster.client(PATIENCE_S) as client:
            while not self._stop.is_set():
                number += 1
                text = self._random.randbytes(self._random.choice([20, TEXT_BYTES_MAX // 2])).hex()
                try:
                    reply = client.append(TOPIC, [{"number": number, "text": text}])
                except RaftlogError as error:
                    self.failed.append(str(error))
                else:
                    self.acknowledged.append((reply.start, number))


class LoadedCluster:
    """One cluster under load, its power losses, and what is found in it."""

    def __init__(self, cluster: ProcessCluster, disks: ClusterDisks, client: LogClient) -> None:
        self.cluster = cluster
        self.disks = disks
        self.client = client
        self.random = Random(SEED)
        self.writers: list[Writer] = []
        self.losses: list[PowerLoss] = []
        self.compaction_losses: list[PowerLoss] = []
        self.found: list[int] = []
        """Numbers by offset, as far as they were read."""

    def write_for_a_while(self) -> None:
        """Return at some moment after a few more appends were acknowledged."""
        goal = self.count() + self.random.randrange(1, 40)
        wait_for(lambda: self.count() >= goal, f"{goal} acknowledged appends", PATIENCE_S)

    def count(self) -> int:
        return sum(len(writer.acknowledged) for writer in self.writers)

    def lose_power(self, nodes: Sequence[int], chance: Random | None = None) -> None:
        """Kill the nodes that run, take what a power loss takes, and bring them back."""
        chance = chance or self.random
        for node in nodes:
            if self.cluster.runs(node):
                self.cluster.kill(node)
        for node in nodes:
            assert not self.cluster.runs(node), "its disk must not be changed under it"
            self._end_compaction(node, chance)
            data, files = self.cluster.data / f"node-{node}", NoteFiles.of(self.cluster.data, node)
            self.losses.append(lose_power(data, files, chance))
        for node in nodes:
            self.cluster.serve(node)

    def kill_only(self, nodes: Sequence[int]) -> None:
        """Kill the nodes and bring them back: what they had not synced is still in memory."""
        for node in nodes:
            self.cluster.kill(node)
            self._end_compaction(node, self.random)
            self.cluster.serve(node)

    def _end_compaction(self, node: int, chance: Random) -> None:
        """Kill a dead node's compaction process, if it still works, and take what it had not
        synced: nobody was told of that, and the next node may give its inodes to other files."""
        process = compaction_process(self.cluster, node, noted_compaction.__name__)
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        wait_for(
            lambda: compaction_process(self.cluster, node, noted_compaction.__name__) is None,
            f"the end of the compaction process of node {node}",
            PATIENCE_S,
        )
        data = self.cluster.data / f"node-{node}"
        files = NoteFiles.of_compaction(self.cluster.data, node)
        self.compaction_losses.append(lose_power(data, files, chance))

    def check(self) -> None:
        """Read what is new and compare it with what was acknowledged."""
        acknowledged = [pair for writer in self.writers for pair in list(writer.acknowledged)]
        topic = self.client.describe_topic(TOPIC)
        mark = self.client.read_high_water_mark(topic).high_water_mark
        start = Offset(len(self.found))
        for batch in self.client.read(topic, start, mark, columns=["number"]):
            self.found += batch.column("number").to_pylist()
        assert wrong(self.found, acknowledged) == []

    def settle(self) -> None:
        """Wait until all replicas of each group hold the same state, then check all again."""
        wait_for(lambda: _agreed(self.client), "all replicas to agree", PATIENCE_S)
        self.found.clear()
        self.check()
        topic, mark = self.client.describe_topic(TOPIC), Offset(len(self.found))
        for node in self.cluster.pids:
            with only(self.cluster, node) as client:
                copy = list(client.read(topic, Offset(0), mark, mark=mark, columns=["number"]))
            assert [each for batch in copy for each in batch.column("number").to_pylist()] == (
                self.found
            ), f"node {node} has other records"
        assert [text for writer in self.writers for text in writer.failed] == []


def wrong(found: Sequence[int], acknowledged: Sequence[tuple[int, int]]) -> list[str]:
    """A sentence for each way in which the log breaks its promise; at most one of a kind."""
    sentences = []
    lost = [pair for pair in acknowledged if pair[0] >= len(found) or found[pair[0]] != pair[1]]
    if lost:
        sentences.append(f"{len(lost)} acknowledged records are lost, such as {lost[0]}")
    if len(set(found)) != len(found):
        sentences.append("a record is in the log twice")
    for writer in {number >> 32 for number in found}:
        own = [number for number in found if number >> 32 == writer]
        if own != sorted(own):
            sentences.append(f"the records of writer {writer} are out of order")
    return sentences


def _agreed(client: LogClient) -> bool:
    answers = [answer for _, _, answer in client.views()]
    views = [() if isinstance(answer, RaftlogError) else answer.groups for answer in answers]
    states = {
        tuple(sorted((view.group, view.applied_index, view.state_hash) for view in each))
        for each in views
    }
    return len(answers) == 3 and len(states) == 1 and all(views)


@contextlib.contextmanager
def churn(cluster: ProcessCluster) -> Iterator[Callable[[], list[str]]]:
    """Create and delete topics all the time, so that there are always names to lose. The value
    gives the topics that must be there.
    """
    stop = threading.Event()
    kept: set[str] = set()
    failed: list[str] = []

    def run() -> None:
        with cluster.client(PATIENCE_S) as client:
            for number in itertools.count():
                if stop.is_set():
                    return
                name = f"churn-{number}"
                try:
                    client.create_topic(name, "number bigint")
                    kept.add(name)
                    if len(kept) > 5:
                        client.delete_topic(kept.pop())
                except RaftlogError as error:
                    failed.append(str(error))
                stop.wait(0.2)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: sorted(kept)
    finally:
        stop.set()
        thread.join(2 * PATIENCE_S)
        assert failed == []


@contextlib.contextmanager
def running(path: Path) -> Iterator[LoadedCluster]:
    with ProcessCluster.start(path / "data", settings=SETTINGS, program=PROGRAM) as cluster:
        disks = ClusterDisks(cluster)
        with cluster.client(PATIENCE_S) as client:
            client.create_topic(TOPIC, "number bigint, text string")
            yield LoadedCluster(cluster, disks, client)


def lose_power_in_rounds(loaded: LoadedCluster, rounds: int) -> None:
    """So many rounds on one node, then as many on all three at once."""
    print(f"seed {SEED}: repeat with POWER_LOSS_SEED={SEED}")
    nodes = list(loaded.cluster.pids)
    with contextlib.ExitStack() as stack:
        kept = stack.enter_context(churn(loaded.cluster))
        for number in range(1, WRITERS + 1):
            writer = Writer(loaded.cluster, number, Random(SEED + number))
            loaded.writers.append(stack.enter_context(writer))
        for number in range(2 * rounds):
            # Slow syncs, so that there is something to lose at most moments.
            for node in nodes:
                delay_s = loaded.random.choice([0.0, 0.002, 0.01, 0.05])
                loaded.disks.command(node, DiskFaults(sync_delay_s=delay_s))
            loaded.write_for_a_while()
            hit = [loaded.random.choice(nodes)] if number < rounds else nodes
            if loaded.random.randrange(8) == 0:
                loaded.kill_only(hit)
                loaded.write_for_a_while()
            loaded.lose_power(hit)
            loaded.disks.wait_until_all_serve()
            loaded.check()
    loaded.settle()
    wait_for(lambda: min(history_ends(loaded.client)) > 0, "history on every node", PATIENCE_S)
    names = {topic.name for topic in loaded.client.list_topics()}
    assert names == {TOPIC, *kept()}


def tell(loaded: LoadedCluster) -> None:
    """Print what the rounds took, and fail if they took nothing."""
    took: dict[str, Any] = {
        "names kept": sum(loss.names_kept for loss in loaded.losses),
        "names undone": sum(loss.names_undone for loss in loaded.losses),
    }
    for loss in loaded.losses:
        for fate, count in loss.blocks.items():
            took[f"blocks {fate}"] = took.get(f"blocks {fate}", 0) + count
    bit = sum(loss.took_anything for loss in loaded.losses)
    amid = sum(loss.took_anything for loss in loaded.compaction_losses)
    print(
        f"{len(loaded.losses)} power losses, {bit} took something: {took}; "
        f"{amid} took something of a compaction; {loaded.count()} records"
    )
    assert bit * 5 >= len(loaded.losses), "most power losses found nothing to take"
    assert loaded.count() >= 5 * len(loaded.losses), "a stalled load proves nothing"


@pytest.mark.parametrize("rounds", [3, pytest.param(10, marks=pytest.mark.soak)])
def test_power_losses_on_one_node_and_on_all_lose_nothing_acknowledged(
    tmp_path: Path, rounds: int
) -> None:
    """CHECKLIST 21, 22, 24, 77: `rounds` on one node, then `rounds` on all three at once."""
    with running(tmp_path) as loaded:
        lose_power_in_rounds(loaded, rounds)
        tell(loaded)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_hundreds_of_power_losses_lose_nothing_acknowledged(tmp_path: Path) -> None:
    """As above: 250 on one node, 250 on all three."""
    with running(tmp_path) as loaded:
        lose_power_in_rounds(loaded, 250)
        tell(loaded)


class Worst(Random):
    """Lose everything that was not synced: the first of every choice."""

    def choice(self, seq: Any) -> Any:
        return seq[0]


def test_syncs_that_did_nothing_are_noticed(tmp_path: Path) -> None:
    """A test of this file: on disks that only claim to sync, acknowledged records must be lost."""
    with running(tmp_path) as loaded:
        with contextlib.ExitStack() as stack:
            writer = Writer(loaded.cluster, 1, Random(SEED))
            loaded.writers.append(stack.enter_context(writer))
            loaded.write_for_a_while()
            for node in loaded.cluster.pids:
                loaded.disks.command(node, DiskFaults(syncs_lie=True))
            loaded.write_for_a_while()
        nodes = list(loaded.cluster.pids)
        for node in nodes:
            loaded.cluster.kill(node)  # before its disk is sound, and syncs it all
        for node in nodes:
            loaded.disks.heal(node)
        loaded.lose_power(nodes, Worst())
        loaded.disks.wait_until_all_serve()
        with pytest.raises(AssertionError, match="acknowledged records are lost"):
            loaded.check()

"""A node alone in its cluster, driven in one thread, over any file system."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from raftlog.compaction.compact import compact
from raftlog.core.ready import Role
from raftlog.core.types import LogIndex, NodeId, Payload, RaftTiming
from raftlog.errors import RaftlogError
from raftlog.image.job import CompactionJob, Reply
from raftlog.multiraft.catch_up_budget import CatchUpLimits
from raftlog.multiraft.compaction import CompactionLimits
from raftlog.multiraft.groups import GroupStore
from raftlog.multiraft.limits import MultiRaftLimits
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.multiraft import MultiRaft
from raftlog.replica import Applied, Replica
from raftlog.storage.contract import FileSystem
from raftlog.storage.limits import LogLimits
from raftlog.wire.codec import encode_command
from tests.stores import opened_folder

CLUSTER_ID = "golden"
NODE = NodeId(1)


class WitnessedReplica(Replica):
    """The real replica, with the state hash after each entry that it applied."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.hashes = {self.applied_index: self.state_hash}

    def _apply_entry(self, index: LogIndex, *others: Any) -> Applied:
        applied = super()._apply_entry(index, *others)
        self.hashes[index] = self.state_hash
        return applied


class OneNode:
    """A node alone in its cluster, in one thread: the real `MultiRaft`, driven until it is idle."""

    def __init__(self, fs: FileSystem) -> None:
        self.fs = fs
        self._todo: deque[Callable[[], None]] = deque()
        timing = RaftTiming()
        random = Random(1)
        folder = opened_folder(fs, NODE, (NODE,), cluster_id=CLUSTER_ID)
        store = GroupStore(
            folder=folder,
            timing=timing,
            log_limits=LogLimits(segment_bytes_max=16_384, preallocate_bytes=0),
            random=random,
            tell=self.tell,
            replica_type=WitnessedReplica,
        )
        self.multiraft = MultiRaft(
            node=NODE,
            nodes={NODE: ""},
            store=store,
            effects=self,
            timing=timing,
            boot_id="golden",
            random=random,
            limits=MultiRaftLimits(
                idle_ticks_max=10,
                quiesce_refresh_ticks=100_000,
                request_bytes_max=1 << 30,
                slow_disk_ticks=1_000,
                full_disk_ticks=10,
                reserve_bytes=0,
                retention_ticks=1_000_000,
                turn_work_us=1_000,
                catch_up=CatchUpLimits(1 << 20, 1 << 20, 1 << 40),
                compaction=CompactionLimits(
                    entries_max=1 << 30,
                    bytes_max=1 << 40,
                    age_ticks=1 << 30,
                    node_entries_max=1 << 30,
                    behind_bytes_max=1 << 40,
                    backlog_max=16,
                ),
            ),
        )
        self.multiraft.start(store.open_all())
        self.settle()

    def local(self, group: int) -> LocalReplica:
        """The replica of the group, which is here."""
        found = self.multiraft.replicas.get(group)
        assert found is not None
        return found

    def settle(self) -> None:
        """Tick until this node leads every group of which it is the only voter, and has applied all
        of each log."""
        for _ in range(1_000):
            self.run_pending()
            alone = [
                local
                for local in self.multiraft.replicas.values()
                if local.raft.membership.all_voters == (NODE,)
            ]
            if all(
                local.raft.role is Role.LEADER
                and local.replica.applied_index == local.raft.log.last_index
                for local in alone
            ):
                return
            self.multiraft.tick()
        raise AssertionError("the node is not at rest")

    def run_pending(self) -> None:
        """Do everything that is pending, without another tick."""
        while self._todo:
            self._todo.popleft()()

    def write(self, group: int, command: Any, batch: tuple[Any, bytes] | None = None) -> Any:
        """The outcome of the command."""
        header, body = batch if batch is not None else (None, b"")
        answers: list[Any] = []
        self.multiraft.propose(
            self.local(group), Payload(encode_command(command, header), body), answers.append
        )
        self.settle()
        return answers[0]

    def close(self) -> None:
        self.multiraft.stop()
        self.multiraft.close()

    # ------------------------------------------------------------ effects of `MultiRaft`

    def soon(self, turn: Callable[[], None]) -> None:
        self._todo.append(turn)

    def follow_nodes(self, nodes: Any) -> None:
        """There is no other node."""

    def report(self, report: Any) -> None:
        raise AssertionError("no group is moved")

    def send(self, peer: Any, messages: Any) -> None:
        """No other node is reachable."""

    def run_write(self, write: Any, ran: Callable[[], None]) -> None:
        write.run()
        self._todo.append(ran)

    def run_compaction(self, job: CompactionJob, done: Callable[[Reply], None]) -> None:
        try:
            reply: Reply = compact(self.fs, job)
        except RaftlogError as error:
            reply = error
        self._todo.append(lambda: done(reply))

    def abandon_compaction(self) -> None:
        """It has ended."""

    def run_job(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        value = work()
        self._todo.append(lambda: done(value))

    def later(self, delay_us: int, turn: Callable[[], None]) -> None:
        raise AssertionError("no follower catches up")

    def monotonic_us(self) -> int:
        return 0

    def boottime_us(self) -> int:
        return 0

    def clock_us(self) -> int:
        return 1

    def work_us(self) -> int:
        return 0

    def tell(self, event: Any) -> None:
        """No one listens."""

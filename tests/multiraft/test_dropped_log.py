"""A replica that starts at a snapshot, over a log that has dropped its beginning."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.core.membership import Membership, MembershipAt, Memberships
from raftlog.core.ready import Role
from raftlog.core.types import NO_INDEX, LogIndex, NodeId, Payload
from raftlog.errors import CorruptFile
from raftlog.machines.commands import RegisterNode
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.state import ControllerState
from raftlog.replica import Budget, Replica
from raftlog.state_hash import STATE_HASH_FIRST
from raftlog.storage.contract import ROOT
from raftlog.storage.hard_state import HardStateJournal
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.storage.prefix import NO_BASE, Base
from raftlog.wire.codec import encode_command
from tests.core.member import (
    GROUP,
    TIMING,
    Shortest,
    acceptance,
    heartbeat_reply,
    rejection,
    vote_reply,
)
from tests.storage.memory import MemoryFileSystem

FOLDER = "log"
LIMITS = LogLimits(segment_bytes_max=600, preallocate_bytes=0, payload_cache_bytes_max=0)
"""A few entries a segment, and everything durable is read from disk."""
COMMANDS = 20

Snapshot = tuple[LogIndex, ControllerState, bytes]
"""Index, state and state hash."""

START: Snapshot = (LogIndex(0), ControllerMachine().state(), STATE_HASH_FIRST)


class Driver:
    """A member of the controller's group whose disk writes at once."""

    def __init__(self, voters: int = 1) -> None:
        self.fs = MemoryFileSystem(Random(1))
        self.fs.make_folder(FOLDER)
        self.fs.sync_folder(ROOT)
        self.voters = voters
        log = GroupLog.create(self.fs, FOLDER, GROUP, LIMITS)
        self.start(log, START)

    def start(self, log: GroupLog, snapshot: Snapshot) -> None:
        applied_index, state, state_hash = snapshot
        self.journal = HardStateJournal.open(self.fs, ROOT)
        self.replica = Replica(
            node=NodeId(1),
            group=GROUP,
            memberships=Memberships(
                MembershipAt(
                    NO_INDEX, Membership(tuple(NodeId(node) for node in range(1, self.voters + 1)))
                )
            ),
            timing=TIMING,
            log=log,
            journal=self.journal,
            machine=ControllerMachine.restore(state),
            random=Shortest(),
            applied_index=applied_index,
            state_hash=state_hash,
        )

    def restart(self, base: Base, snapshot: Snapshot) -> None:
        """Lose the power, and start from the snapshot."""
        self.fs.crash()
        self.start(GroupLog.open(self.fs, FOLDER, GROUP, LIMITS, base=base), snapshot)

    def settle(self) -> None:
        """Write, and apply what is committed, until there is nothing to do."""
        while True:
            self.replica.advance()
            write, states = self.replica.take_write(), self.journal.take_write()
            if write is not None:
                write.run()
                self.replica.written(write)
            if states is not None:
                states.run()
                self.journal.written(states)
            if self.replica.has_to_apply:
                budget = Budget(entries=99, bytes_max=1 << 20, work_us=1, clock_us=lambda: 0)
                self.replica.apply(budget, 99)
            elif write is None and states is None:
                return

    def lead(self) -> None:
        raft = self.replica.raft
        while raft.role is Role.FOLLOWER:
            raft.tick()
            self.settle()
        for pre in (True, False) if self.voters > 1 else ():
            self.replica.step(vote_reply(self.replica, 2, term=1, pre=pre))
            self.settle()
        assert raft.role is Role.LEADER

    def write(self, number: int) -> None:
        """One command, applied where this member is the only one."""
        command = RegisterNode(
            node=NodeId(number), store_uuid=f"{number:032x}", address=f"host-{number}:1", rules=1
        )
        self.replica.raft.propose([Payload(encode_command(command, None), b"")])
        self.settle()

    def snapshot(self) -> Snapshot:
        replica = self.replica
        return replica.applied_index, replica.machine.state(), replica.state_hash


def written(*, snapshot_after: int) -> tuple[Driver, Snapshot]:
    """A member that has applied all commands, and its snapshot after so many."""
    driver = Driver()
    driver.lead()
    snapshot = START
    for number in range(1, COMMANDS + 1):
        driver.write(number)
        if number == snapshot_after:
            snapshot = driver.snapshot()
    return driver, snapshot


@pytest.mark.parametrize("snapshot_after", range(1, COMMANDS + 1, 3))
def test_a_replica_goes_on_from_a_snapshot_as_if_it_had_replayed_everything(
    snapshot_after: int,
) -> None:
    """The hash of its state goes on too, so it can be compared with other replicas'."""
    twin, _ = written(snapshot_after=0)
    twin.restart(NO_BASE, START)
    twin.lead()
    driver, snapshot = written(snapshot_after=snapshot_after)
    last_index = driver.replica.log.last_index
    removal = driver.replica.drop_log_to(snapshot[0])
    assert driver.replica.raft.log.base_index == driver.replica.log.base_index == removal.base[0]
    removal.run()
    driver.restart(removal.base, snapshot)
    replica = driver.replica
    assert (replica.applied_index, replica.has_to_apply) == (snapshot[0], False)
    assert replica.raft.commit_index == replica.raft.last_applied == snapshot[0]
    indexes = [index for index, _ in replica.logged_commands(NO_INDEX)]
    assert indexes == list(range(snapshot[0] + 1, last_index + 1))
    driver.lead()
    assert replica.applied_index == last_index + 1, "with the first entry of its term"
    assert replica.state_hash == twin.replica.state_hash
    assert replica.machine.fingerprint() == twin.replica.machine.fingerprint()


def test_a_snapshot_that_does_not_fit_the_log_is_refused() -> None:
    driver, early = written(snapshot_after=1)
    removal = driver.replica.drop_log_to(driver.replica.applied_index)
    removal.run()
    assert removal.base[0] > early[0]
    with pytest.raises(AssertionError, match="the snapshot reaches the log's first entry"):
        driver.restart(removal.base, early)
    late = LogIndex(driver.replica.log.last_index + 1)
    with pytest.raises(AssertionError, match="gone from this log"):
        driver.restart(removal.base, (late, *early[1:]))


def test_only_what_is_applied_is_dropped() -> None:
    driver = Driver(voters=3)
    driver.lead()
    for number in range(1, COMMANDS + 1):
        driver.write(number)
    replica = driver.replica
    replica.step(acceptance(replica, 2, 9))
    driver.settle()
    assert replica.applied_index == 9
    with pytest.raises(AssertionError, match="only what is applied"):
        replica.drop_log_to(LogIndex(10))
    assert 0 < replica.drop_log_to(LogIndex(9)).base[0] <= 9


def test_entries_that_are_dropped_while_they_are_read_for_a_follower_are_not_sent() -> None:
    """It is no damage that their file is gone."""
    driver = Driver(voters=3)
    driver.lead()
    for number in range(1, COMMANDS + 1):
        driver.write(number)
    replica = driver.replica
    last_index = replica.log.last_index
    replica.step(acceptance(replica, 2, last_index))
    driver.settle()
    replica.step(rejection(replica, 3, last_index, conflict=(0, 1)))
    replica.step(acceptance(replica, 3, 0))
    wishes = [wish for wish in replica.advance().replicate if wish.span is not None]
    assert [(wish.to, wish.span) for wish in wishes] == [(3, (1, last_index))]
    read = replica.plan_read(wishes[0])
    assert replica.stands(wishes[0])
    removal = replica.drop_log_to(replica.applied_index)
    removal.run()
    assert removal.removed
    read.run()
    with pytest.raises(CorruptFile, match="the file is gone"):
        read.entries()
    assert not replica.stands(wishes[0])
    assert replica.request(wishes[0], read) is None
    for _ in range(2 * TIMING.election_ticks_min):
        replica.raft.tick()
        for node in (2, 3):
            replica.step(heartbeat_reply(replica, node))
        for wish in replica.advance().replicate:
            assert wish.prev_index >= removal.base[0]
            assert replica.request(wish, replica.plan_read(wish)) is not None

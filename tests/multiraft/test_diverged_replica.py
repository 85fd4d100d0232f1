"""A replica that finds out that it has diverged answers nothing from its state."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from raftlog.comparison import Question, Trust, asking, questions
from raftlog.core.membership import Membership, MembershipAt, Memberships
from raftlog.core.messages import Heartbeat
from raftlog.core.ready import Role
from raftlog.core.types import NO_INDEX, LogIndex, NodeId
from raftlog.machines.controller import ControllerMachine
from raftlog.replica import Budget, Output, Replica
from raftlog.storage.contract import ROOT
from raftlog.storage.hard_state import HardStateJournal
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from tests.core.member import (
    GROUP,
    TIMING,
    Shortest,
    acceptance,
    heartbeat,
    heartbeat_reply,
    vote_reply,
)
from tests.storage.memory import MemoryFileSystem


class Driver:
    """A replica of three that compares states at every entry, on a disk that writes at once."""

    def __init__(self) -> None:
        fs = MemoryFileSystem(Random(1))
        fs.make_folder("log")
        self.journal = HardStateJournal.open(fs, ROOT)
        self.replica = Replica(
            node=NodeId(1),
            group=GROUP,
            memberships=Memberships(
                MembershipAt(NO_INDEX, Membership((NodeId(1), NodeId(2), NodeId(3))))
            ),
            timing=TIMING,
            log=GroupLog.create(fs, "log", GROUP, LogLimits(preallocate_bytes=0)),
            journal=self.journal,
            machine=ControllerMachine(),
            random=Shortest(),
        )
        self.replica.states_compared_every = 1

    def advance(self) -> Output:
        """Carry out everything asked of the disk; return the last output."""
        for _ in range(3):
            output = self.replica.advance()
            write = self.replica.take_write()
            if write is not None:
                write.run()
                self.replica.written(write)
            states = self.journal.take_write()
            if states is not None:
                states.run()
                self.journal.written(states)
        return output

    def lead(self, term: int = 1) -> None:
        """Win an election by the vote of node 2."""
        raft = self.replica.raft
        while raft.role is Role.FOLLOWER:
            raft.tick()
        for pre in (True, False):
            self.advance()
            self.replica.step(vote_reply(self.replica, 2, term=term, pre=pre))
        self.advance()
        assert raft.role is Role.LEADER

    def heartbeat(self) -> Heartbeat:
        """What this leader sends next to node 2."""
        for _ in range(TIMING.heartbeat_ticks):
            self.replica.raft.tick()
        sent = self.replica.advance().messages
        return next(each for each in sent if isinstance(each, Heartbeat) and each.to == 2)

    def apply(self) -> Output:
        """Apply what is committed."""
        budget = Budget(entries=9, bytes_max=1 << 20, work_us=1, clock_us=lambda: 0)
        return self.replica.apply(budget, 9)


def test_a_confirmed_read_is_dropped_if_the_entry_that_it_waits_for_shows_the_divergence() -> None:
    driver = Driver()
    replica = driver.replica
    driver.lead()
    replica.step(acceptance(replica, 2, 1))
    replica.raft.read_index(7)
    driver.advance()
    replica.step(heartbeat_reply(replica, 2, read_round=1, last_index=1))
    assert driver.advance().reads == [], "its index is not applied yet"
    told = heartbeat(replica, 2, term=1)
    replica.states.heard(questions(_with_agreement(told, 1, b"another"))[0], NodeId(3))
    output = driver.apply()
    assert (output.reads, output.reads_dropped) == ([], [7])
    assert output.state_trust is Trust.DIVERGED
    assert replica.raft.role is Role.LEADER, "only node 3 says so"


@pytest.mark.parametrize("confirms", [True, False])
def test_one_leader_s_word_stops_reads_and_no_election(confirms: bool) -> None:
    """The replica leads, once the one that said so is gone, and asks the others."""
    driver = Driver()
    replica = driver.replica
    driver.lead()
    replica.step(acceptance(replica, 2, 1))
    driver.advance()
    driver.apply()
    own = replica.state_hash
    replica.step(_with_agreement(heartbeat(replica, 3, term=2), 1, b"another"))
    driver.advance()
    assert replica.diverged
    for _ in range(2 * TIMING.election_ticks_min):
        replica.raft.tick()
    assert replica.raft.role is Role.FOLLOWER, "others go first"
    driver.lead(term=3)
    asked = driver.heartbeat()
    assert (asked.hash_index, asked.agreed_index) == (1, 0)
    answer = heartbeat_reply(replica, 2, last_index=1)
    said = b"another" if confirms else own
    replica.step(replace(answer, hash_index=LogIndex(1), state_hash=said))
    driver.advance()
    assert replica.diverged == confirms
    assert replica.raft.role is (Role.FOLLOWER if confirms else Role.LEADER)
    for _ in range(8 * TIMING.election_ticks_min * confirms):
        replica.raft.tick()
    assert replica.raft.role is (Role.FOLLOWER if confirms else Role.LEADER), "it tries no more"


@pytest.mark.parametrize("what", ["states", "histories"])
def test_the_next_leader_repeats_no_word_of_one_that_lied(what: str) -> None:
    driver = Driver()
    replica = driver.replica
    said = questions(heartbeat(replica, 3, term=1))
    lie = said[0]._replace(agreed_index=LogIndex(1 << 63), agreed_digest=b"x" * 8, disputed=True)
    told = (lie, said[1]) if what == "states" else (said[0], lie)
    replica.step(asking(heartbeat(replica, 3, term=1), *told))
    driver.advance()
    comparison = getattr(replica, what)
    assert comparison.trust is Trust.DISPUTED
    driver.lead(term=2)
    assert (comparison.trust, replica.troubles) == (Trust.TRUSTED, frozenset())
    assert questions(driver.heartbeat()) == (Question(), Question())


def test_a_change_of_the_state_is_reported_once() -> None:
    driver = Driver()
    replica = driver.replica
    driver.lead()
    replica.step(acceptance(replica, 2, 1))
    driver.advance()
    assert driver.apply().state_trust is None
    replica.step(_with_agreement(heartbeat(replica, 2, term=2), 1, b"another"))
    assert driver.replica.advance().state_trust is Trust.DIVERGED
    assert driver.replica.advance().state_trust is None
    replica.step(_with_agreement(heartbeat(replica, 2, term=2), 1, replica.state_hash))
    assert driver.replica.advance().state_trust is Trust.TRUSTED


def test_what_a_deposed_leader_says_of_states_is_ignored() -> None:
    driver = Driver()
    replica = driver.replica
    driver.lead()
    replica.step(acceptance(replica, 2, 1))
    driver.advance()
    driver.apply()
    replica.step(heartbeat(replica, 2, term=3))
    replica.step(_with_agreement(heartbeat(replica, 3, term=2), 1, b"another"))
    assert replica.states.trust is Trust.TRUSTED


def _with_agreement(told: Heartbeat, index: int, state_hash: bytes) -> Heartbeat:
    return replace(told, agreed_index=LogIndex(index), agreed_hash=state_hash)

"""The five cities of source F: athens, byzantium, cyrene, delphi, ephesus elect a new leader.

Ephesus leads the first term and has copied its second entry only to delphi and athens. Ephesus and
delphi are then cut off. Byzantium times out first, and cannot win; athens can.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from raftlog.core.messages import AppendRequest, VoteReply
from raftlog.core.ready import Role
from raftlog.core.types import RaftTiming
from raftlog.errors import NotLeader
from tests.core.member import TIMING, Longest, vote_request
from tests.core.network import Network

ATHENS, BYZANTIUM, CYRENE, DELPHI, EPHESUS = range(1, 6)


def _cut_off(timing: RaftTiming = TIMING) -> Network:
    network = Network.of(5, random=Longest(), timing=timing)
    ephesus = network.elect(EPHESUS)
    network.isolate(BYZANTIUM, CYRENE)
    network.cut -= {(BYZANTIUM, CYRENE), (CYRENE, BYZANTIUM)}
    ephesus.propose("entry 2")
    network.settle()
    network.heal()
    network.isolate(EPHESUS, DELPHI)
    lengths = [len(network[node].log) for node in range(1, 6)]
    assert lengths == [2, 1, 1, 2, 2]
    for node in (ATHENS, BYZANTIUM, CYRENE):
        # Long enough without a word from ephesus for each to vote, but not to campaign.
        network[node].tick(network[node].timing.election_ticks_min)
    return network


def _times_out(network: Network, node: int) -> None:
    _tries_to_lead(network, node)
    network.settle()


def _tries_to_lead(network: Network, node: int) -> None:
    """Its timer runs out, no other member's."""
    status = network[node].raft.status()
    network[node].tick(status.timeout_ticks - status.elapsed_ticks)


def test_byzantium_cannot_win_because_its_log_is_not_up_to_date() -> None:
    """CHECKLIST 32: cyrene grants, athens, which has one entry more, refuses."""
    network = _cut_off()
    _tries_to_lead(network, BYZANTIUM)
    network.collect()
    asked = {message.to: message for message in network.waiting}
    assert sorted(asked) == [ATHENS, CYRENE]
    for node, granted in ((CYRENE, True), (ATHENS, False)):
        network[node].step(asked[node])
        assert [reply.granted for reply in network[node].take(VoteReply)] == [granted]
        network[node].step(
            vote_request(network[node], BYZANTIUM, term=2, last=(1, 1)),
        )
        assert [reply.granted for reply in network[node].take(VoteReply)] == [granted]


def test_byzantium_s_pre_vote_changes_no_term() -> None:
    """CHECKLIST 36: the source raises the term to 2 here; a pre-vote does not."""
    network = _cut_off()
    _times_out(network, BYZANTIUM)
    assert network[BYZANTIUM].raft.role is not Role.LEADER
    assert [network[node].raft.term for node in range(1, 6)] == [1] * 5


def test_athens_wins_brings_the_others_its_entry_and_commits_it_with_its_no_op() -> None:
    """CHECKLIST 10, 11, 32, 33: entry 2 is of the first term and commits only with the no-op."""
    network = _cut_off()
    _times_out(network, BYZANTIUM)
    _times_out(network, ATHENS)
    athens = network[ATHENS]
    assert athens.raft.role is Role.LEADER
    for node in (BYZANTIUM, CYRENE):
        assert network[node].log == athens.log
        assert network[node].raft.leader == ATHENS
    assert athens.raft.commit_index == len(athens.log) == 3
    assert athens.applied[1].payload.command == b"entry 2"


def test_entry_2_at_a_majority_is_not_committed_before_athens_has_copied_its_no_op() -> None:
    """CHECKLIST 10, 11: figures 5 and 6 of the source, one entry at a time."""
    network = _cut_off(replace(TIMING, append_entries_max=1))
    athens = network[ATHENS]
    _tries_to_lead(network, ATHENS)
    held_back = []
    network.collect()
    while network.waiting:
        message = network.waiting.pop(0)
        has_entry_2 = len(network[message.to].log) == 2
        if isinstance(message, AppendRequest) and has_entry_2:
            held_back.append(message)
        else:
            network.deliver(message)
        network.collect()
    assert athens.match_index == {
        ATHENS: 3, BYZANTIUM: 2, CYRENE: 2, DELPHI: 0, EPHESUS: 0,
    }  # fmt: skip
    assert athens.raft.commit_index < 2
    assert sorted({message.to for message in held_back}) == [BYZANTIUM, CYRENE]
    network.waiting += held_back
    network.settle()
    assert athens.raft.commit_index == 3


def test_ephesus_returns_is_refused_and_follows() -> None:
    """CHECKLIST 16, 35: the write that it took meanwhile fails."""
    network = _cut_off()
    _times_out(network, ATHENS)
    ephesus = network[EPHESUS]
    assert ephesus.raft.role is Role.LEADER, "it does not know yet"
    ephesus.propose("never")
    network.settle()
    network.heal()
    network.tick(6)
    assert (ephesus.raft.role, ephesus.raft.leader) == (Role.FOLLOWER, ATHENS)
    with pytest.raises(NotLeader):
        ephesus.propose("refused")
    athens = network[ATHENS]
    network.tick(6)
    for member in network.up:
        assert member.log == athens.log
        assert b"never" not in [entry.payload.command for entry in member.applied]

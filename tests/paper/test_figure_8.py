"""Raft figure 8 (sources B and F): why copies of an older term's entry must not be counted.

Five members, S1 to S5. S1 led term 2 and wrote an entry at index 2 that only S2 also has; S5 led
term 3 and wrote another one there that no other member has. Now S5 is down, S1 leads term 4 and
copies its old entry to a majority. S5 may still win at that moment, so the old entry must not
count.
"""

from __future__ import annotations

from raftlog.core.messages import AppendReply, AppendRequest
from raftlog.core.ready import Role
from tests.core.member import append_request
from tests.core.network import Network


def _moment_c() -> Network:
    """Figure 8 (c): the entry of term 2 is at S1, S2 and S3; the one of term 4 only at S1."""
    network = Network.of(5, logs=[[1, 2], [1, 2], [1], [1], [1, 3]], term=3)
    network.crash(5)
    leader = network[1]
    while leader.raft.role is not Role.LEADER:
        leader.tick()
        network.collect()
        while network.waiting:
            message = network.waiting.pop(0)
            if not isinstance(message, AppendRequest):
                network.deliver(message)
            network.collect()
    assert (leader.raft.term, leader.terms) == (4, [1, 2, 4])

    for node, prev, terms in ((2, (2, 2), []), (3, (1, 1), [2])):
        follower = network[node]
        follower.step(append_request(follower, 1, term=4, prev=prev, terms=terms))
        (reply,) = follower.take(AppendReply)
        assert reply.accepted
        leader.step(reply)
    assert leader.match_index == {1: 3, 2: 2, 3: 2, 4: 0, 5: 0}
    return network


def test_an_old_entry_on_a_majority_is_not_committed_yet() -> None:
    """CHECKLIST 10: index 2 is at three of five, and is of term 2 while term 4 is led."""
    network = _moment_c()
    assert network[1].raft.commit_index == 0
    assert network[1].applied == []


def test_time_line_d_s5_wins_and_overwrites_the_entry_that_never_counted() -> None:
    """CHECKLIST 10: S1 dies first; its old entry is truncated, and no member had applied it."""
    network = _moment_c()
    network.crash(1)
    network.restart(5)
    winner = network.elect(5)
    network.tick(4)
    assert winner.terms[:2] == [1, 3]
    assert all(member.log == winner.log for member in network.up)
    network.restart(1)
    network.tick(20)
    assert network[1].log == winner.log
    applied = network.checker.applied
    assert [entry.term for entry in applied[:2]] == [1, 3]


def test_time_line_e_the_new_term_s_entry_commits_both_and_s5_cannot_win() -> None:
    """CHECKLIST 10, 32: S1 copies its entry of term 4 first."""
    network = _moment_c()
    leader = network[1]
    for node in (2, 3):
        follower = network[node]
        follower.step(append_request(follower, 1, term=4, prev=(2, 2)))
        entry = leader.log[2]
        request = append_request(follower, 1, term=4, prev=(2, 2), terms=[4])
        assert request.entries[0].index == entry.index
        network.deliver(
            AppendRequest(
                group=request.group,
                sender=request.sender,
                to=request.to,
                term=request.term,
                prev_index=request.prev_index,
                prev_term=request.prev_term,
                entries=(entry,),
                commit_index=request.commit_index,
            )
        )
        leader.step(*follower.take(AppendReply))
    assert leader.raft.commit_index == 3
    assert [entry.term for entry in leader.applied] == [1, 2, 4]

    network.crash(1)
    network.restart(5)
    for _ in range(10 * leader.timing.election_ticks_min):
        network[5].tick()
        network.settle()
        assert network[5].raft.role is not Role.LEADER
    winner = network.elect_any()
    network.tick(10)
    assert winner.node in (2, 3)
    assert [entry.term for entry in network[5].applied[:3]] == [1, 2, 4]

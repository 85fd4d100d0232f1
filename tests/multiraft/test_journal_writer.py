"""The journal of hard states is written as often as something is put there."""

from __future__ import annotations

from raftlog.core.messages import VoteReply
from raftlog.core.types import GroupId, NodeId, Term
from tests.multiraft.test_quarantine import disk_of_two_topics
from tests.multiraft.test_refused_messages import follower


def later_term(group: int) -> VoteReply:
    """It brings a term, and wants no answer that would wait for the journal."""
    return VoteReply(
        group=GroupId(group),
        sender=NodeId(2),
        to=NodeId(1),
        term=Term(7),
        granted=False,
        pre=False,
    )


def test_what_is_put_while_a_write_is_in_flight_is_written_after_it() -> None:
    disk = disk_of_two_topics()
    multiraft, driver = follower(disk)
    multiraft.receive(NodeId(2), [later_term(1)])
    driver.run_next()  # the turn, which begins a write
    multiraft.receive(NodeId(2), [later_term(2)])
    driver.run_last()  # another one, before the write has run
    driver.run()
    disk.crash()
    multiraft, _ = follower(disk)
    assert [multiraft.replicas[GroupId(group)].raft.term for group in (1, 2)] == [7, 7]

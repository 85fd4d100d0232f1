"""The table of what a damaged replica may do: in the code, on the page, and as it behaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from raftlog.core.messages import (
    AppendReply,
    AppendRequest,
    ImageManifest,
    ImageRequest,
    VoteReply,
    VoteRequest,
)
from raftlog.core.ready import Role
from raftlog.core.recovery import begun
from raftlog.core.types import (
    Entry,
    EntryKind,
    GroupId,
    LastEntry,
    LogIndex,
    NodeId,
    Offset,
    Payload,
    Term,
)
from raftlog.damage_table import RIGHTS, May, Trouble, as_markdown
from raftlog.errors import CorruptFile, RaftlogError
from raftlog.image.damage import DamagedEntry, DamagedFile
from raftlog.multiraft.multiraft import MultiRaft
from tests.multiraft.test_quarantine import (
    FRAME,
    SEGMENT,
    SEGMENT_ID,
    damage_header,
    disk_of_two_topics,
    flip,
)
from tests.multiraft.test_refused_messages import Driver, follower, heartbeat
from tests.simulation.repairs import GROUP, DamagedCluster, leader_and_followers
from tests.storage.memory import MemoryFileSystem

PAGE = Path(__file__).parents[1] / "docs" / "OPERATIONS.md"
CAUSE = CorruptFile(file=SEGMENT, position=70, problem="a bit was flipped")
WHOM = {"group": GroupId(1), "sender": NodeId(2), "to": NodeId(1), "term": Term(2)}


def test_the_page_has_the_table_of_the_code() -> None:
    assert as_markdown() in PAGE.read_text()
    assert set(RIGHTS) == set(Trouble)


def recovering(lost: LastEntry | None) -> MemoryFileSystem:
    """The same node, but its first topic is being filled again; its log ended with `lost`."""
    disk = disk_of_two_topics()
    multiraft, driver = follower(disk)
    journal = multiraft.replicas._store.journal
    state = journal.get(GroupId(1))
    assert state is not None
    journal.put(GroupId(1), begun(state, lost))
    driver.run()
    write = journal.take_write()
    assert write is not None
    write.run_whole()
    journal.written(write)
    multiraft.stop()
    multiraft.close()
    return disk


def in_trouble(trouble: Trouble | None) -> tuple[MultiRaft, Driver]:
    """A node whose first topic has this trouble."""
    if trouble is Trouble.RECOVERING:
        return follower(recovering(None))
    if trouble is Trouble.RECOVERING_KNOWN:
        return follower(recovering(LastEntry(Term(1), LogIndex(9))))
    disk = disk_of_two_topics()
    if trouble is Trouble.HEADER:
        flip(disk, SEGMENT, SEGMENT_ID)
        flip(disk, SEGMENT, FRAME)
    if trouble is Trouble.QUARANTINED:
        damage_header(disk, SEGMENT, SEGMENT_ID)
    multiraft, driver = follower(disk)
    if trouble is Trouble.ENTRY:
        damage = DamagedEntry(LogIndex(1), CAUSE)
        multiraft.repairs.found(multiraft.replicas[GroupId(1)], damage)
    elif trouble is Trouble.FILE:
        damaged = DamagedFile("history-1", CAUSE)
        multiraft.replicas[GroupId(1)].damaged_files = frozenset([damaged.name])
    elif trouble is Trouble.NEEDED_ENTRY:
        multiraft.replicas[GroupId(1)].replica.note_damage(damaged=True)
    elif trouble in (Trouble.DIVERGED, Trouble.ACCUSED, Trouble.DISPUTED):
        multiraft.replicas[GroupId(1)].replica.history_reached(LogIndex(2), b"own", Offset(0))
        told = replace(
            heartbeat(2),
            **WHOM,
            agreed_history_index=LogIndex(0 if trouble is Trouble.DISPUTED else 2),
            agreed_history_digest=b"another",
            history_disputed=trouble is Trouble.DISPUTED,
        )
        if trouble is Trouble.DIVERGED:
            third = replace(told, sender=NodeId(3), term=Term(1))
            multiraft.receive(NodeId(3), [third])
        multiraft.receive(NodeId(2), [told])
        driver.run()
        assert multiraft.replicas[GroupId(1)].replica.troubles == {trouble}
    driver.sent.clear()
    return multiraft, driver


@pytest.mark.parametrize("trouble", [None, *Trouble])
def test_it_votes_acknowledges_and_campaigns_as_the_table_says(trouble: Trouble | None) -> None:
    rights = RIGHTS[trouble] if trouble is not None else None

    def may(act: str) -> bool:
        return rights is None or getattr(rights, act) is not May.NO

    multiraft, driver = in_trouble(trouble)
    for _ in range(100):  # it has heard of no leader for long
        multiraft.tick()
        driver.run()
    whom = WHOM | {"term": Term(9)}
    ask = VoteRequest(**whom, last_index=LogIndex(9), last_term=Term(2), pre=False)
    multiraft.receive(NodeId(2), [ask])
    driver.run()
    granted = any(isinstance(each, VoteReply) and each.granted for each in driver.sent)
    assert granted == may("vote")

    multiraft, driver = in_trouble(trouble)
    entry = Entry(LogIndex(4), Term(2), EntryKind.NOOP, Payload(b"", b""))
    append = AppendRequest(
        **WHOM,
        prev_index=LogIndex(3),
        prev_term=Term(1),
        entries=(entry,),
        commit_index=LogIndex(0),
    )
    multiraft.receive(NodeId(2), [append])
    driver.run()
    replies = [each for each in driver.sent if isinstance(each, AppendReply) and each.accepted]
    # One that is being filled again says what it holds, and that it does not count.
    counted = [each for each in replies if each.recovery % 2 == 0]
    assert bool(counted) == may("acknowledge")

    multiraft, driver = in_trouble(trouble)
    for _ in range(100):
        multiraft.tick()
        driver.run()
    campaigned = any(isinstance(each, VoteRequest) and each.group == 1 for each in driver.sent)
    assert campaigned == may("campaign")


@pytest.mark.slow
def test_a_leader_steps_down_when_a_follower_needs_what_is_damaged_here() -> None:
    assert RIGHTS[Trouble.NEEDED_ENTRY].lead is May.NO
    cluster = DamagedCluster(1)
    leader, *_ = leader_and_followers(cluster)
    local = cluster.local(leader, GROUP)
    for trouble in (Trouble.FILE, Trouble.ENTRY):
        assert RIGHTS[trouble].lead is May.YES
    local.damaged_files = frozenset(["history-1"])
    cluster.pass_timeouts(2)
    assert local.raft.role is Role.LEADER
    local.replica.note_damage(damaged=True)
    assert local.raft.role is Role.FOLLOWER


@pytest.mark.slow
def test_images_are_given_without_what_is_damaged() -> None:
    assert RIGHTS[Trouble.FILE].give_images is May.REST
    cluster = DamagedCluster(1)
    leader, follower_node, _ = leader_and_followers(cluster)
    owner = cluster.nodes[leader]
    sent: list[object] = []
    owner.send = lambda peer, messages: sent.extend(messages)  # type: ignore[method-assign]
    local = cluster.local(leader, GROUP)
    local.damaged_files = frozenset([local.image.manifest.history[0].name])
    request = ImageRequest(group=GROUP, sender=follower_node, to=leader)
    owner.multiraft.receive(follower_node, [request])
    cluster.pass_timeouts(1)
    assert any(isinstance(each, ImageManifest) for each in sent)


@pytest.mark.slow
def test_reads_get_all_that_is_not_damaged() -> None:
    assert RIGHTS[Trouble.ENTRY].serve_reads is May.REST
    cluster = DamagedCluster(1)
    leader, *_ = leader_and_followers(cluster)
    history = cluster.local(leader, GROUP).image.manifest.history
    rows = cluster.rows(leader)
    cluster.put(leader, history[0].name, b"")
    local = cluster.local(leader, GROUP)
    local.image.close()
    with pytest.raises(RaftlogError):
        local.batch_at(history[0].start)
    assert local.batch_at(history[1].start).start == history[1].start
    assert len(rows) == cluster.appended

"""A topic whose files are damaged has no replica on its node; the node and its others go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from raftlog.core.messages import (
    AppendReply,
    AppendRequest,
    GroupDeleted,
    Heartbeat,
    HeartbeatReply,
    VoteReply,
    VoteRequest,
)
from raftlog.core.types import (
    CONTROLLER_GROUP,
    Entry,
    EntryKind,
    GroupId,
    HardState,
    LastEntry,
    LogIndex,
    NodeId,
    Payload,
    RaftTiming,
    Term,
    VotersAt,
)
from raftlog.errors import CorruptFile, ReplicaQuarantined
from raftlog.machines.commands import AddNode, Command, CreateTopic, DeleteTopic, TopicInfo
from raftlog.machines.group_info import CONTROLLER
from raftlog.machines.schema import Field, Schema
from raftlog.multiraft.effects import (
    DamagePassedOver,
    GroupQuarantined,
    GroupRefilling,
    GroupRemoved,
    ReplicaRecovered,
)
from raftlog.multiraft.groups import GroupStore, OpenedGroup
from raftlog.multiraft.multiraft import MultiRaft
from raftlog.storage.frames import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES
from raftlog.storage.limits import LogLimits
from raftlog.wire.codec import encode_command
from tests.multiraft.test_refused_messages import NODES, Driver, follower, heartbeat
from tests.storage.memory import MemoryFileSystem
from tests.stores import opened_folder

SCHEMA = Schema(version=1, fields=(Field(id=1, name="number", type="bigint", nullable=True),))

NOOP = (EntryKind.NOOP, Payload(b"command", b"body" * 20))


def topic(number: int) -> TopicInfo:
    return TopicInfo(
        name=f"topic-{number}",
        incarnation=f"{number:032x}",
        group=GroupId(number),
        schema=SCHEMA,
        voters=NODES,
        created_us=0,
        rules=1,
    )


def disk_of_two_topics(
    *,
    logged_by_controller: Sequence[Command] = (),
    voters: tuple[NodeId, ...] = NODES,
    promised: int = 1,
    logged: Sequence[tuple[EntryKind, Payload]] = (NOOP, NOOP, NOOP),
    founders: Sequence[int] = NODES,
    since: VotersAt | None = None,
) -> MemoryFileSystem:
    """A node's folder with topics 1 and 2, the entries `logged` of term 1 in each log. The node has
    voted in the term `promised`, and `since` came with entries of all groups' logs."""
    disk = MemoryFileSystem(Random(1))
    folder = opened_folder(disk, 1, founders)
    store = GroupStore(
        folder=folder,
        timing=RaftTiming(),
        log_limits=LogLimits(preallocate_bytes=0),
        random=Random(1),
        tell=lambda _: None,
    )
    controller = store.make_group(CONTROLLER).log
    controller.append(
        [
            Entry(
                LogIndex(index),
                Term(1),
                EntryKind.COMMAND,
                Payload(encode_command(each, None), b""),
            )
            for index, each in enumerate(logged_by_controller, 1)
        ]
    )
    controller.close()
    for number in (1, 2):
        log = store.make_group(replace(topic(number), voters=voters)).log
        log.append(
            [
                Entry(LogIndex(index), Term(1), kind, payload)
                for index, (kind, payload) in enumerate(logged, 1)
            ]
        )
        log.close()
        store.journal.put(GroupId(number), HardState(Term(promised), NodeId(2), voters=since))
    if since is not None:
        store.journal.put(CONTROLLER_GROUP, HardState(Term(promised), NodeId(2), voters=since))
    store.close([])
    return disk


def flip(disk: MemoryFileSystem, path: str, position: int, count: int = 1) -> None:
    file = disk.open(path, create=False)
    data = file.read_at(position, count)
    file.write_at(position, [bytes(byte ^ 1 for byte in data)])
    file.sync()
    file.close()


def everything_in(disk: MemoryFileSystem, folder: str) -> dict[str, bytes]:
    found = {}
    for name in disk.list(folder):
        file = disk.open(f"{folder}/{name}", create=False)
        found[name] = file.read_at(0, file.size())
        file.close()
    return found


CREATE = CreateTopic(
    name=topic(1).name,
    incarnation=topic(1).incarnation,
    schema=SCHEMA,
    voters=NODES,
    if_not_exists=False,
    timestamp_us=1,
)
SEGMENT = "groups/1/00000000000000000001.log"
SEGMENT_ID = 16
"""Where its header has the id: without it nothing tells where the log ends."""
FRAME = 72
"""Where its first frame has its lengths: the later frames tell where the log ends."""


def damage_header(disk: MemoryFileSystem, path: str, position: int) -> None:
    """Damage more of a header than can be rebuilt: the segment's id, or a frame's two lengths."""
    flip(disk, path, position, count=8)


@pytest.mark.parametrize(("path", "position"), [(SEGMENT, SEGMENT_ID), ("groups/1/manifest", 60)])
def test_a_damaged_topic_is_quarantined_and_the_others_of_its_node_serve(
    path: str, position: int
) -> None:
    disk = disk_of_two_topics()
    damage_header(disk, path, position)
    if path.endswith("manifest"):
        damage_header(disk, f"{path}.2", position)
    before = everything_in(disk, "groups/1")
    multiraft, driver = follower(disk)
    (told,) = (event for event in driver.told if isinstance(event, GroupQuarantined))
    assert told.group == 1
    assert path in told.cause
    assert multiraft.replicas.keys() == {CONTROLLER_GROUP, 2}
    with pytest.raises(ReplicaQuarantined, match="on node 1 is quarantined"):
        multiraft.replicas.of_topic(GroupId(1), topic(1).incarnation)
    assert multiraft.replicas.of_topic(GroupId(2), topic(2).incarnation) is not None
    assert everything_in(disk, "groups/1") == before


def test_a_quarantined_replica_neither_votes_nor_acknowledges_nor_says_that_it_is_gone() -> None:
    disk = disk_of_two_topics()
    damage_header(disk, SEGMENT, SEGMENT_ID)
    multiraft, driver = follower(disk)
    driver.sent.clear()
    for group in (1, 2):
        whom = {"group": GroupId(group), "sender": NodeId(2), "to": NodeId(1), "term": Term(2)}
        place = {"last_index": LogIndex(9), "last_term": Term(2)}
        multiraft.receive(
            NodeId(2),
            [
                VoteRequest(**whom, **place, pre=True),
                VoteRequest(**whom, **place, pre=False),
                Heartbeat(**whom, commit_index=LogIndex(0), read_round=0, quiesce_round=0),
                AppendRequest(
                    **whom,
                    prev_index=LogIndex(3),
                    prev_term=Term(1),
                    entries=(),
                    commit_index=LogIndex(0),
                ),
            ],
        )
        driver.run()
    assert not any(isinstance(message, GroupDeleted) for message in driver.sent)
    assert {message.group for message in driver.sent} == {GroupId(2)}


def test_only_a_node_that_may_lead_its_group_lets_a_quarantined_replica_be_filled_again() -> None:
    """Its damaged files are put aside then: without another copy a person could mend them."""
    disk = disk_of_two_topics()
    damage_header(disk, SEGMENT, SEGMENT_ID)
    multiraft, driver = follower(disk)
    observer, stranger = NodeId(8), NodeId(9)
    added = [AddNode(node=node, address=f"h{node}:1", observer=node == observer)
             for node in (observer, stranger)]  # fmt: skip
    apply_in_controller(multiraft, driver, [CREATE, *added], first=1)
    for sender in (observer, stranger):
        claim = replace(heartbeat(2, commit_index=LogIndex(0)), group=GroupId(1), sender=sender)
        multiraft.receive(sender, [claim])
        driver.run()
    assert multiraft.replicas.quarantined.keys() == {1}
    assert multiraft.refusals.counts == {observer: 1}
    claim = replace(heartbeat(2, commit_index=LogIndex(0)), group=GroupId(1))
    multiraft.receive(NodeId(2), [claim])
    driver.run()
    assert not multiraft.replicas.quarantined


def test_a_quarantined_topic_that_is_deleted_is_removed() -> None:
    disk = disk_of_two_topics()
    damage_header(disk, SEGMENT, SEGMENT_ID)
    multiraft, driver = follower(disk)
    commands = [CREATE, DeleteTopic(name=topic(1).name, incarnation=topic(1).incarnation)]
    apply_in_controller(multiraft, driver, commands[:1], first=1)
    assert multiraft.replicas.quarantined.keys() == {1}
    apply_in_controller(multiraft, driver, commands[1:], first=2)
    assert not multiraft.replicas.quarantined
    assert disk.list("groups") == ["0", "2"]
    (removed,) = (event for event in driver.told if isinstance(event, GroupRemoved))
    assert removed.group == 1


def test_a_topic_whose_folder_was_removed_is_quarantined_at_once() -> None:
    disk = disk_of_two_topics()
    disk.remove("groups/1")
    multiraft, driver = follower(disk)
    apply_in_controller(multiraft, driver, [CREATE], first=1)
    assert multiraft.replicas.keys() == {CONTROLLER_GROUP, 2}
    (told,) = (event for event in driver.told if isinstance(event, GroupQuarantined))
    assert "the group's log is missing" in told.cause


@pytest.mark.parametrize("path", [SEGMENT, "groups/1"])
@pytest.mark.parametrize("is_folder", [False, True])
def test_a_file_or_folder_in_the_place_of_another_damages_its_topic_only(
    path: str, is_folder: bool
) -> None:
    disk = disk_of_two_topics()
    disk.remove(path)
    if is_folder:
        disk.make_folder(path)
    else:
        disk.open(path, create=True).close()
    multiraft, driver = follower(disk)
    apply_in_controller(multiraft, driver, [CREATE], first=1)
    assert multiraft.replicas.quarantined.keys() == {1}
    multiraft.receive(NodeId(2), from_leader())
    driver.run()
    assert multiraft.replicas[GroupId(1)].raft.recovering
    assert disk.exists(ASIDE)


@pytest.mark.parametrize("left", ["nothing", "no groups", "a file", "a folder for the log"])
def test_a_node_without_its_controllers_group_recovers_it(left: str) -> None:
    disk = disk_of_two_topics()
    for name in disk.list("groups") if left == "no groups" else ["0"]:
        if left != "a folder for the log":
            disk.remove(f"groups/{name}")
    if left == "a file":
        disk.open("groups/0", create=True).close()
    if left == "a folder for the log":
        disk.remove("groups/0/00000000000000000001.log")
        disk.make_folder("groups/0/00000000000000000001.log")
    multiraft, _ = follower(disk)
    assert multiraft.replicas.of_controller.raft.recovering


def apply_in_controller(
    multiraft: MultiRaft, driver: Driver, commands: Sequence[Command], *, first: int
) -> None:
    entries = tuple(
        Entry(LogIndex(index), Term(1), EntryKind.COMMAND, Payload(encode_command(each, None), b""))
        for index, each in enumerate(commands, first)
    )
    last = LogIndex(first + len(commands) - 1)
    request = AppendRequest(
        group=CONTROLLER_GROUP,
        sender=NodeId(2),
        to=NodeId(1),
        term=Term(1),
        prev_index=LogIndex(first - 1),
        prev_term=Term(1 if first > 1 else 0),
        entries=entries,
        commit_index=last,
    )
    multiraft.receive(NodeId(2), [request])
    driver.run()
    multiraft.receive(NodeId(2), [heartbeat(2, commit_index=last)])
    driver.run()


def test_a_node_whose_controllers_group_is_damaged_recovers_it_and_serves_its_topics() -> None:
    disk = disk_of_two_topics()
    before = everything_in(disk, "groups/0")
    damage_header(disk, "groups/0/00000000000000000001.log", SEGMENT_ID)
    multiraft, driver = follower(disk)
    assert multiraft.replicas.keys() == {CONTROLLER_GROUP, 1, 2}
    assert multiraft.replicas.of_controller.raft.recovering
    assert everything_in(disk, "groups/0.damaged-1").keys() == before.keys()
    told = [event for event in driver.told if isinstance(event, GroupQuarantined | GroupRefilling)]
    assert [event.group for event in told] == [CONTROLLER_GROUP, CONTROLLER_GROUP]
    apply_in_controller(multiraft, driver, [CREATE], first=1)
    assert multiraft.replicas.controller.info_of(GroupId(1)) is not None


def test_a_damaged_command_in_the_controllers_log_is_found_before_it_is_replayed() -> None:
    """Opening a log reads its frames only. A topic's replica ends when it meets such a command."""
    disk = disk_of_two_topics(logged_by_controller=[CREATE])
    command = SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES
    flip(disk, "groups/0/00000000000000000001.log", command + 1)
    multiraft, driver = follower(disk)
    assert multiraft.replicas.of_controller.raft.recovering
    assert disk.exists("groups/0.damaged-1")
    apply_in_controller(multiraft, driver, [CREATE], first=1)
    assert multiraft.replicas.controller.info_of(GroupId(1)) is not None


def damaged_controller(*founders: int, since: VotersAt | None = None) -> GroupStore:
    """Node 1's, in a cluster of these founders."""
    disk = disk_of_two_topics(founders=founders, since=since)
    damage_header(disk, "groups/0/00000000000000000001.log", SEGMENT_ID)
    folder = opened_folder(disk, 1, founders)
    return GroupStore(
        folder=folder,
        timing=RaftTiming(),
        log_limits=LogLimits(),
        random=Random(1),
        tell=lambda _: None,
    )


def test_the_only_node_of_a_cluster_has_nobody_to_get_the_controllers_group_from() -> None:
    with pytest.raises(CorruptFile, match="groups/0"):
        damaged_controller(1).open_all()


def test_who_decides_now_says_whether_the_controllers_group_comes_from_other_nodes() -> None:
    """Not who founded the cluster: it may have grown since, or shrunk."""
    grown = damaged_controller(1, since=VotersAt(LogIndex(3), NODES)).open_all()[0]
    assert isinstance(grown, OpenedGroup)
    raft = grown.replica.raft
    assert raft.recovering
    assert raft.membership.voters == NODES, "by which its node is refused, if it is"
    joint = VotersAt(LogIndex(3), NODES[:1], NODES[:2])
    assert isinstance(damaged_controller(1, since=joint).open_all()[0], OpenedGroup)
    with pytest.raises(CorruptFile, match="groups/0"):
        damaged_controller(*NODES, since=VotersAt(LogIndex(3), NODES[:1])).open_all()


def test_a_node_that_joined_the_only_one_gets_the_controllers_group_from_it() -> None:
    controller = damaged_controller(2).open_all()[0]
    assert isinstance(controller, OpenedGroup)
    assert controller.replica.group == CONTROLLER_GROUP
    assert controller.replica.raft.recovering


# ------------------------------------------------------------ filled again


ASIDE = "groups/1.damaged-1"


def from_leader(*, last: int = 3, recovered: int = 0) -> list[Heartbeat | AppendRequest]:
    """What the leader of topic 1 says in term 2, with its three entries."""
    whom = {"group": GroupId(1), "sender": NodeId(2), "to": NodeId(1), "term": Term(2)}
    return [
        Heartbeat(
            **whom,
            commit_index=LogIndex(0),
            read_round=0,
            quiesce_round=0,
            recovered=recovered,
        ),
        AppendRequest(
            **whom,
            prev_index=LogIndex(0),
            prev_term=Term(0),
            entries=tuple(
                Entry(LogIndex(index), Term(1), EntryKind.NOOP, Payload(b"", b"body"))
                for index in range(1, last + 1)
            ),
            commit_index=LogIndex(0),
        ),
    ]


def test_a_quarantined_replica_is_filled_again_once_a_leader_speaks() -> None:
    disk = disk_of_two_topics()
    damage_header(disk, SEGMENT, SEGMENT_ID)
    before = everything_in(disk, "groups/1")
    multiraft, driver = follower(disk)
    apply_in_controller(multiraft, driver, [CREATE], first=1)
    multiraft.receive(NodeId(2), from_leader())
    driver.run()
    assert not multiraft.replicas.quarantined
    assert any(isinstance(event, GroupRefilling) for event in driver.told)
    assert everything_in(disk, ASIDE) == before
    local = multiraft.replicas[GroupId(1)]
    assert local.raft.recovering
    driver.sent.clear()
    multiraft.receive(NodeId(2), from_leader())
    driver.run()
    (reply,) = (message for message in driver.sent if isinstance(message, AppendReply))
    assert (reply.accepted, reply.match_index, reply.recovery) == (True, 3, 1)
    assert not any(isinstance(event, ReplicaRecovered) for event in driver.told)
    for _ in range(2):
        multiraft.receive(NodeId(2), from_leader(recovered=1)[:1])
        driver.run()
    assert not local.raft.recovering
    (told,) = (event for event in driver.told if isinstance(event, ReplicaRecovered))
    assert (told.group, told.info, told.index) == (1, local.info, 3)
    assert multiraft.replicas[GroupId(1)].replica.log.last_index == 3


@pytest.mark.parametrize("position", [FRAME, FRAME + FRAME_HEADER_BYTES + NOOP[1].size])
def test_a_replica_that_knows_where_its_log_ended_is_filled_again_at_once_and_votes(
    position: int,
) -> None:
    disk = disk_of_two_topics()
    damage_header(disk, SEGMENT, position)
    before = everything_in(disk, "groups/1")
    multiraft, driver = follower(disk)
    kinds = [type(event) for event in driver.told]
    assert kinds.index(GroupQuarantined) < kinds.index(GroupRefilling)
    assert not multiraft.replicas.quarantined
    assert everything_in(disk, ASIDE) == before
    local = multiraft.replicas[GroupId(1)]
    assert local.raft.recovering
    driver.sent.clear()
    whom = {"group": GroupId(1), "sender": NodeId(2), "to": NodeId(1), "term": Term(9)}
    shorter, as_long = (
        VoteRequest(**whom, last_index=LogIndex(last), last_term=Term(1), pre=True)
        for last in (2, 3)
    )
    multiraft.receive(NodeId(2), [shorter])
    driver.run()
    multiraft.receive(NodeId(2), [as_long])
    driver.run()
    votes = [message.granted for message in driver.sent if isinstance(message, VoteReply)]
    assert votes == [False, True]
    multiraft.receive(NodeId(2), from_leader(last=2))
    driver.run()
    assert local.raft.recovering
    multiraft.receive(NodeId(2), from_leader(last=3))
    driver.run()
    assert not local.raft.recovering, "it has what it had"


@pytest.mark.parametrize("source", [0, 1])
def test_a_manifest_of_another_group_is_damage_of_the_folder_that_it_is_in(source: int) -> None:
    """It would give the log of that group where this one ended, and with it a vote."""
    disk = disk_of_two_topics()
    damage_header(disk, SEGMENT, SEGMENT_ID)
    for name, data in everything_in(disk, f"groups/{source}").items():
        if name.startswith("manifest"):
            disk.remove(f"groups/2/{name}")
            file = disk.open(f"groups/2/{name}", create=True)
            file.write_at(0, [data])
            file.close()
    multiraft, driver = follower(disk)
    assert multiraft.replicas.quarantined.keys() == {1, 2}, "1 does not know where its log ended"
    assert not [event for event in driver.told if isinstance(event, GroupRefilling)]


def test_the_only_voter_of_a_topic_stays_quarantined() -> None:
    """There is nobody to fill it from."""
    disk = disk_of_two_topics(voters=NODES[:1])
    damage_header(disk, SEGMENT, FRAME)
    multiraft, _ = follower(disk)
    assert multiraft.replicas.quarantined.keys() == {1}
    assert not disk.exists(ASIDE)


def test_a_topic_that_grew_from_one_replica_is_filled_again_at_once() -> None:
    disk = disk_of_two_topics(voters=NODES[:1], since=VotersAt(LogIndex(2), NODES))
    damage_header(disk, SEGMENT, FRAME)
    multiraft, _ = follower(disk)
    assert not multiraft.replicas.quarantined
    assert multiraft.replicas[GroupId(1)].raft.recovering
    assert multiraft.replicas[GroupId(1)].raft.membership.voters == NODES


def test_the_only_copy_of_a_topic_that_shrank_stays_where_it_is() -> None:
    """Also when another node says that it leads the topic: only this one could have let it."""
    disk = disk_of_two_topics(since=VotersAt(LogIndex(2), NODES[:1]))
    damage_header(disk, SEGMENT, FRAME)
    multiraft, driver = follower(disk)
    apply_in_controller(multiraft, driver, [CREATE], first=1)
    multiraft.receive(NodeId(2), from_leader())
    driver.run()
    assert multiraft.replicas.quarantined.keys() == {1}
    assert not disk.exists(ASIDE)


def test_a_leader_of_an_earlier_term_hears_from_the_new_replica_what_was_promised() -> None:
    disk = disk_of_two_topics(promised=3)
    damage_header(disk, SEGMENT, SEGMENT_ID)
    multiraft, driver = follower(disk)
    apply_in_controller(multiraft, driver, [CREATE], first=1)
    for _ in range(2):
        driver.sent.clear()
        multiraft.receive(NodeId(2), from_leader())
        driver.run()
    local = multiraft.replicas[GroupId(1)]
    assert local.raft.recovering
    answers = [m for m in driver.sent if isinstance(m, AppendReply | HeartbeatReply)]
    assert [answer.term for answer in answers] == [3, 3]
    assert local.replica.log.last_index == 0, "nothing was taken from it"


class Crash(BaseException):
    """The process dies here."""


def test_a_crash_anywhere_in_it_loses_neither_the_damaged_files_nor_the_mark() -> None:
    for changes in range(60):
        disk = disk_of_two_topics()
        damage_header(disk, SEGMENT, SEGMENT_ID)
        before = everything_in(disk, "groups/1")
        multiraft, driver = follower(disk)
        apply_in_controller(multiraft, driver, [CREATE], first=1)
        left = [changes]

        def crash(operation: str, path: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Crash

        disk.interrupt = crash
        multiraft.receive(NodeId(2), from_leader())
        try:
            driver.run()
        except Crash:
            crashed = True
        else:
            crashed = False
        disk.interrupt = None
        disk.crash()
        multiraft, driver = follower(disk)
        multiraft.receive(NodeId(2), [heartbeat(2, commit_index=1)])
        driver.run()
        for _ in range(2):
            multiraft.receive(NodeId(2), from_leader())
            driver.run()
        local = multiraft.replicas[GroupId(1)]
        assert local.raft.recovering
        assert local.replica.log.last_index == 3
        folders = [name for name in disk.list("groups") if name.startswith("1.damaged")]
        assert before in [everything_in(disk, f"groups/{name}") for name in folders]
        if not crashed:
            return
    raise AssertionError("it never came to its end")


def test_damage_met_while_entries_are_applied_quarantines_the_replica() -> None:
    """A command is read again when it is applied, which opening the log did not do."""
    disk = disk_of_two_topics()
    flip(disk, SEGMENT, SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES)
    multiraft, driver = follower(disk)
    apply_in_controller(multiraft, driver, [CREATE], first=1)
    assert multiraft.replicas.keys() == {CONTROLLER_GROUP, 1, 2}
    heard = from_leader()[1]
    multiraft.receive(
        NodeId(2),
        [
            replace(
                heard,
                entries=(),
                prev_index=LogIndex(3),
                prev_term=Term(1),
                commit_index=LogIndex(3),
            )
        ],
    )
    driver.run()
    (told,) = (event for event in driver.told if isinstance(event, GroupQuarantined))
    assert SEGMENT in told.cause
    local = multiraft.replicas[GroupId(1)]
    assert local.raft.recovering
    assert local.raft.recovery.lost == LastEntry(Term(1), LogIndex(3))
    assert disk.exists(ASIDE)


@pytest.mark.parametrize("position", [20, SEGMENT_HEADER_BYTES + 12, SEGMENT_HEADER_BYTES + 50])
@pytest.mark.parametrize("voters", [NODES, NODES[:1]])
def test_a_damaged_header_that_can_be_rebuilt_is_told_and_costs_the_replica_nothing(
    position: int, voters: tuple[NodeId, ...]
) -> None:
    """Neither its peers nor its vote: the only voter of a topic goes on as well."""
    disk = disk_of_two_topics(voters=voters)
    before = everything_in(disk, "groups/1")
    flip(disk, SEGMENT, position)
    multiraft, driver = follower(disk)
    (told,) = (event for event in driver.told if isinstance(event, DamagePassedOver))
    assert told.group == 1
    assert SEGMENT in told.cause
    assert not any(isinstance(event, GroupQuarantined) for event in driver.told)
    local = multiraft.replicas[GroupId(1)]
    assert not local.raft.recovering
    assert local.replica.log.last_index == 3
    assert everything_in(disk, "groups/1") == before


def test_damaged_headers_of_the_controllers_log_are_written_again() -> None:
    disk = disk_of_two_topics(logged_by_controller=[CREATE])
    before = everything_in(disk, "groups/0")
    flip(disk, "groups/0/00000000000000000001.log", SEGMENT_HEADER_BYTES + 9)
    multiraft, _ = follower(disk)
    assert not multiraft.replicas.of_controller.raft.recovering
    assert everything_in(disk, "groups/0") == before

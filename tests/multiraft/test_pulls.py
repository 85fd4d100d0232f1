"""What an observer asks its parents for, whom it leaves alone, and which answers it takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from raftlog.core.messages import PullDone, PulledEntries, PullRequest
from raftlog.core.ready import Role
from raftlog.core.types import (
    CONTROLLER_GROUP,
    EMPTY_PAYLOAD,
    NO_INDEX,
    Entry,
    EntryKind,
    GroupId,
    LogIndex,
    NodeId,
    Payload,
    Term,
)
from raftlog.errors import CorruptFile
from raftlog.image.damage import DamagedLog
from raftlog.machines.commands import AddNode, Command, CreateTopic, RegisterNode
from raftlog.machines.rules import RULES_LATEST
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.pulls import _Asked
from raftlog.wire.codec import encode_command
from tests.machines.scenes import SCHEMA
from tests.multiraft.test_placed_replicas import Node
from tests.multiraft.test_quarantine import SEGMENT, SEGMENT_ID, damage_header
from tests.multiraft.test_refused_messages import NODES, started
from tests.storage.memory import MemoryFileSystem

ONE, TWO, THREE = NODES
HERE = NodeId(9)
GROUP = GroupId(1)
TERM = Term(1)
PULL_TICKS = 2
SILENT_TICKS = 40
"""A parent that has said nothing for so long is left alone."""
REST_TICKS = 20
"""For so long."""


def register(node: NodeId) -> RegisterNode:
    address = f"h{node}:1"
    return RegisterNode(node=node, store_uuid=f"s{node}", address=address, rules=RULES_LATEST)


TOPIC = CreateTopic(
    name="t", incarnation="i", schema=SCHEMA, voters=NODES, if_not_exists=False, timestamp_us=1
)


def observer(*parents: NodeId) -> AddNode:
    return AddNode(node=HERE, address=f"h{HERE}:1", observer=True, parents=parents)


def entry(index: int, command: Command | None = None) -> Entry:
    if command is None:
        return Entry(LogIndex(index), TERM, EntryKind.NOOP, EMPTY_PAYLOAD)
    payload = Payload(encode_command(command, None), b"")
    return Entry(LogIndex(index), TERM, EntryKind.COMMAND, payload)


class Puller:
    """Node 9, which is no member of any group. `logs` is what the nodes have committed."""

    def __init__(self, *commands: Command, disk: MemoryFileSystem | None = None) -> None:
        self.disk = disk or MemoryFileSystem(Random(1))
        self.multiraft, self.driver = started(self.disk, node=HERE)
        self.logs: dict[GroupId, list[Entry]] = {
            CONTROLLER_GROUP: [entry(index, each) for index, each in enumerate(commands, 1)],
            GROUP: [entry(index) for index in (1, 2, 3)],
        }

    def local(self, group: int = GROUP) -> LocalReplica:
        return self.multiraft.replicas[GroupId(group)]

    def tick(self, count: int = 1) -> list[PullRequest]:
        """What it asks for meanwhile."""
        for _ in range(count):
            self.multiraft.tick()
            self.driver.run()
        return self.take()

    def take(self) -> list[PullRequest]:
        """What it has asked for since the last call."""
        sent, self.driver.sent = self.driver.sent, []
        return [each for each in sent if isinstance(each, PullRequest)]

    def ask(self) -> PullRequest:
        """The one request that it sends next."""
        (request,) = self.tick(PULL_TICKS)
        return request

    def hear(self, sender: NodeId, *messages: Any) -> None:
        self.multiraft.receive(sender, list(messages))
        self.driver.run()

    def entries(self, request: PullRequest, group: int, **others: Any) -> PulledEntries:
        """The answer for one of the groups that were asked for."""
        row = next(row for row in request.rows if row.group == group)
        log = self.logs[row.group]
        answer: dict[str, Any] = {
            "group": row.group,
            "sender": request.to,
            "to": HERE,
            "term": TERM,
            "leader": TWO,
            "held": True,
            "base_index": NO_INDEX,
            "commit_index": LogIndex(len(log)),
            "prev_index": row.index,
            "prev_term": row.term,
            "entries": tuple(log[row.index :]),
        }
        return PulledEntries(**answer | others)

    def answer(self, request: PullRequest) -> None:
        """The parent gives all that it has of what was asked for."""
        self.hear(request.to, *(self.entries(request, row.group) for row in request.rows))
        self.hear(request.to, done(request))

    def pull(self, count: int) -> list[PullRequest]:
        """Let so many ticks pass, in which every parent answers at once; what was asked for."""
        asked = []
        for _ in range(count):
            for request in self.tick():
                asked.append(request)
                self.answer(request)
        return asked


def done(request: PullRequest, *, more: bool = False) -> PullDone:
    return PullDone(sender=request.to, to=HERE, number=request.number, more=more)


def nodes_asked(requests: list[PullRequest], group: int) -> set[NodeId]:
    """Whom they ask for the group."""
    return {each.to for each in requests if group in {row.group for row in each.rows}}


def observing(*parents: NodeId) -> Puller:
    """Node 9 as an observer, which has all of the controller's log and nothing of the topic's."""
    puller = Puller(*map(register, NODES), observer(*parents), TOPIC)
    puller.answer(puller.ask())
    assert puller.multiraft.replicas.observes
    assert puller.local().raft.log.last_index == 0
    return puller


def test_an_observer_pulls_the_controllers_log_and_then_every_group_of_it() -> None:
    puller = observing()
    puller.pull(2 * PULL_TICKS)
    for group, log in puller.logs.items():
        local = puller.local(group)
        assert local.raft.log.last_index == local.replica.applied_index == len(log)
    assert puller.local().raft.leader == TWO
    assert puller.local().parents == NODES


def test_an_observer_that_restarts_cut_off_serves_all_that_it_had() -> None:
    """All that is in its log is committed, so it needs no word of any parent."""
    before = observing()
    before.pull(2 * PULL_TICKS)
    before.multiraft.stop()
    before.multiraft.close()
    again = Puller(disk=before.disk)
    again.tick(2 * PULL_TICKS)
    for group, log in before.logs.items():
        assert again.local(group).replica.applied_index == len(log)
        assert again.local(group).serves_reads


def test_a_parent_is_asked_once_until_all_of_its_answer_is_here() -> None:
    puller = observing(TWO)
    request = puller.ask()
    assert nodes_asked([request], GROUP) == {TWO}
    assert not puller.tick(SILENT_TICKS // 2)
    puller.hear(TWO, puller.entries(request, GROUP))
    puller.hear(TWO, PullDone(sender=TWO, to=HERE, number=request.number - 1, more=False))
    assert not puller.tick(SILENT_TICKS // 2), "it has spoken, so it is not silent"
    puller.hear(TWO, done(request))
    assert puller.tick(PULL_TICKS)


def test_what_an_answer_had_no_room_for_is_asked_for_at_once() -> None:
    puller = observing(TWO)
    request = puller.ask()
    some = puller.entries(request, GROUP, entries=tuple(puller.logs[GROUP][:1]))
    puller.hear(TWO, some, done(request, more=True))
    (again,) = puller.take()
    assert again.to == TWO


def test_an_answer_without_news_is_followed_by_the_next_request_at_the_usual_pace() -> None:
    """Else a parent that lies would have it ask without end."""
    puller = observing(TWO)
    request = puller.ask()
    nothing = puller.entries(request, GROUP, entries=())
    puller.hear(TWO, nothing, done(request, more=True))
    assert not puller.take()
    assert puller.ask().to == TWO


def test_a_silent_parent_is_left_alone_for_a_while_and_the_others_are_asked() -> None:
    puller = Puller(*map(register, NODES), observer(), TOPIC)
    request = puller.ask()
    assert not puller.tick(SILENT_TICKS - 1), "its answer may be on its way"
    others = puller.pull(REST_TICKS)
    assert nodes_asked(others, CONTROLLER_GROUP)
    assert request.to not in {each.to for each in others}
    assert request.to in {each.to for each in puller.pull(5 * REST_TICKS)}


def test_a_parent_that_lacks_a_group_is_asked_for_others_only() -> None:
    puller = observing()
    requests = puller.tick(PULL_TICKS)
    (lacks,) = nodes_asked(requests, GROUP)
    for each in requests:
        if each.to == lacks:
            puller.hear(lacks, puller.entries(each, GROUP, held=False, entries=()), done(each))
        else:
            puller.answer(each)
    assert puller.local().raft.log.last_index == 0
    requests = puller.pull(REST_TICKS - 1)
    assert lacks not in nodes_asked(requests, GROUP)
    assert lacks in nodes_asked(requests, CONTROLLER_GROUP)
    assert lacks in nodes_asked(puller.pull(5 * REST_TICKS), GROUP)


def test_what_no_honest_parent_sends_changes_nothing_and_is_counted() -> None:
    puller = observing(TWO)
    request = puller.ask()
    puller.hear(TWO, puller.entries(request, GROUP, commit_index=LogIndex(1)), done(request))
    assert puller.multiraft.refusals.counts == {TWO: 1}
    assert puller.local().raft.log.last_index == 0
    requests = puller.pull(REST_TICKS - 1)
    assert not nodes_asked(requests, GROUP)
    assert nodes_asked(requests, CONTROLLER_GROUP) == {TWO}


def test_what_was_not_asked_for_changes_nothing() -> None:
    puller = observing(TWO)
    request = puller.ask()
    came = puller.entries(request, GROUP)
    puller.hear(THREE, puller.entries(request, GROUP, sender=THREE))
    assert puller.local().raft.log.last_index == 0, "node 3 was not asked"
    puller.hear(TWO, done(request))
    puller.hear(TWO, came)
    assert puller.local().raft.log.last_index == 0, "that request was answered whole"


def test_an_answer_for_a_group_that_was_not_asked_for_changes_nothing() -> None:
    puller = observing(TWO)
    puller.local().installing = True
    request = puller.ask()
    assert not nodes_asked([request], GROUP)
    puller.local().installing = False
    asked = next(row for row in request.rows if row.group == CONTROLLER_GROUP)
    row = replace(asked, group=GROUP, index=NO_INDEX, term=Term(0))
    puller.hear(TWO, puller.entries(replace(request, rows=(row,)), GROUP))
    assert puller.local().raft.log.last_index == 0


def test_an_answer_for_a_replica_that_is_gone_or_gets_an_image_changes_nothing() -> None:
    puller = observing(TWO)
    came = puller.entries(puller.ask(), GROUP)
    local = puller.local()
    local.installing = True
    puller.hear(TWO, came)
    assert local.raft.log.last_index == 0
    local.installing = False
    damage = CorruptFile(file="groups/1", position=0, problem="its log is gone")
    puller.multiraft.repairs.found(local, DamagedLog(damage))
    assert GROUP not in puller.multiraft.replicas
    puller.hear(TWO, came)
    assert puller.local() is not local
    assert puller.local().raft.log.last_index == 0


def test_a_replica_that_gets_an_image_observes_only_once_it_is_installed() -> None:
    puller = observing(TWO)
    local = puller.local()
    local.installing = True
    puller.pull(PULL_TICKS)
    assert not local.observing
    local.installing = False
    puller.pull(PULL_TICKS)
    assert local.observing


def test_an_observer_fills_a_damaged_replica_again_though_no_leader_speaks_to_it() -> None:
    before = observing()
    before.pull(2 * PULL_TICKS)
    before.multiraft.stop()
    before.multiraft.close()
    damage_header(before.disk, SEGMENT, SEGMENT_ID)
    again = Puller(disk=before.disk)
    again.logs = before.logs
    assert again.multiraft.replicas.quarantined.keys() == {GROUP}
    again.pull(3 * PULL_TICKS)
    assert not again.multiraft.replicas.quarantined
    assert again.local().replica.applied_index == len(again.logs[GROUP])


def test_an_observer_below_its_parents_logs_serves_no_read_until_it_has_caught_up() -> None:
    puller = observing(TWO)
    request = puller.ask()
    assert puller.local().serves_reads
    dropped = puller.entries(
        request, GROUP, base_index=LogIndex(2), prev_index=NO_INDEX, prev_term=Term(0), entries=()
    )
    puller.hear(TWO, dropped, done(request))
    assert not puller.local().serves_reads
    puller.pull(PULL_TICKS)
    assert puller.local().serves_reads


def test_only_the_parents_that_are_configured_are_asked_while_one_answers() -> None:
    puller = observing(TWO)
    requests = puller.pull(5 * REST_TICKS)
    assert nodes_asked(requests, GROUP) == nodes_asked(requests, CONTROLLER_GROUP) == {TWO}


def test_while_all_parents_are_silent_any_voter_is_asked_who_they_are() -> None:
    """They may be gone for good: the controller's log says what to pull from instead."""
    puller = observing(TWO)
    puller.ask()
    requests = puller.pull(SILENT_TICKS + REST_TICKS - 1)
    assert not nodes_asked(requests, GROUP)
    assert nodes_asked(requests, CONTROLLER_GROUP) == {ONE, THREE}


def test_where_no_parent_has_a_group_its_voters_are_asked() -> None:
    puller = Puller(
        *map(register, (*NODES, NodeId(4))),
        observer(NodeId(4)),
        TOPIC,
    )
    puller.answer(puller.ask())
    requests = puller.pull(5 * REST_TICKS)
    assert nodes_asked(requests, GROUP) == set(NODES)
    assert nodes_asked(requests, CONTROLLER_GROUP) == {NodeId(4)}


def test_nothing_is_asked_for_a_replica_that_gets_an_image() -> None:
    puller = observing(TWO)
    puller.local().installing = True
    requests = puller.pull(REST_TICKS)
    assert nodes_asked(requests, CONTROLLER_GROUP)
    assert not nodes_asked(requests, GROUP)


def test_a_node_pulls_nothing_more_once_the_cluster_knows_it() -> None:
    """It may vote and lead from then on, so what it is sent as a member counts, and no pull."""
    puller = Puller(*map(register, (*NODES, HERE)))
    request = puller.ask()
    puller.hear(request.to, puller.entries(request, CONTROLLER_GROUP))
    last = puller.local(CONTROLLER_GROUP).raft.log.last_index
    assert last == len(NODES) + 1
    further = puller.entries(
        request,
        CONTROLLER_GROUP,
        prev_index=last,
        prev_term=TERM,
        commit_index=LogIndex(last + 1),
        entries=(entry(last + 1),),
    )
    puller.hear(request.to, further, done(request))
    assert puller.local(CONTROLLER_GROUP).raft.log.last_index == last
    assert not puller.tick(REST_TICKS)


def test_an_answer_that_comes_when_the_node_leads_is_dropped(tmp_path: Path) -> None:
    node = Node(tmp_path)
    raft = node.multiraft.replicas.of_controller.raft
    assert raft.role is Role.LEADER
    last, term = raft.log.last_index, raft.term
    pulls = node.multiraft._observing.pulls
    pulls._asked[TWO] = _Asked(1, frozenset({CONTROLLER_GROUP}))
    late = PulledEntries(
        group=CONTROLLER_GROUP,
        sender=TWO,
        to=ONE,
        term=Term(term + 1),
        leader=TWO,
        prev_index=last,
        prev_term=raft.log.last_term,
        entries=(Entry(LogIndex(last + 1), Term(term + 1), EntryKind.NOOP, EMPTY_PAYLOAD),),
        commit_index=LogIndex(last + 1),
        base_index=NO_INDEX,
        held=True,
    )
    node.multiraft.receive(TWO, [late])
    node.run_pending()
    assert (raft.role, raft.term, raft.log.last_index) == (Role.LEADER, term, last)
    assert not node.multiraft.refusals.counts

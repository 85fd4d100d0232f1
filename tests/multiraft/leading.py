"""Node 1 of three, which leads by what node 2 answers. Node 3 is silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from raftlog.core.messages import (
    AppendRequest,
    Heartbeat,
    NodeHeartbeat,
    PeerMessage,
    TimeoutNow,
    VoteRequest,
)
from raftlog.core.ready import Role
from raftlog.core.types import (
    EMPTY_PAYLOAD,
    NO_INDEX,
    Entry,
    EntryKind,
    GroupId,
    LogIndex,
    NodeId,
    Payload,
    RaftTiming,
    Term,
)
from raftlog.machines.group_info import CONTROLLER
from raftlog.multiraft.groups import GroupStore
from raftlog.multiraft.leader_moves import LeaderLimits
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.storage.limits import LogLimits
from raftlog.wire.codec import encode_command
from tests.multiraft.compaction_scene import topic_of
from tests.multiraft.test_refused_messages import NODES, started
from tests.storage.memory import MemoryFileSystem
from tests.stores import opened_folder

ONE, TWO, THREE = NODES
TIMING = RaftTiming()
TICKS_MAX = 200
"""An election and all that a test waits for take fewer."""


def disk_of_topics(count: int, node: NodeId = ONE) -> MemoryFileSystem:
    """The node's disk with so many topics, of groups 1 and so on, whose logs are empty."""
    disk = MemoryFileSystem(Random(1))
    folder = opened_folder(disk, node, NODES)
    store = GroupStore(
        folder=folder,
        timing=TIMING,
        log_limits=LogLimits(preallocate_bytes=0),
        random=Random(1),
        tell=lambda _: None,
    )
    store.make_group(CONTROLLER).log.close()
    for number in range(1, count + 1):
        store.make_group(replace(topic_of(number), voters=NODES)).log.close()
    store.close([])
    return disk


class LeadingNode:
    """The real `MultiRaft` of node 1. `sent` is what it said since the test looked last."""

    def __init__(self, topics: int = 1, **limits: Any) -> None:
        stays = LeaderLimits(spread=False)
        self.multiraft, self.driver = started(disk_of_topics(topics), leaders=stays, **limits)
        self.sent: list[PeerMessage] = []
        self._follower_ends: dict[GroupId, LogIndex] = {}
        """Where each log of node 2 ends."""
        self.wait(lambda: self.led == len(self.multiraft.replicas))
        self.answer()

    @property
    def led(self) -> int:
        """How many groups it leads and is handing over to nobody."""
        return sum(
            local.raft.role is Role.LEADER and not local.raft.transferring_to
            for local in self.multiraft.replicas.values()
        )

    def local(self, group: int) -> LocalReplica:
        return self.multiraft.replicas[GroupId(group)]

    def tick(self) -> None:
        """One tick passes, and node 2 answers."""
        self.multiraft.tick()
        self.answer()

    def wait(self, done: Callable[[], bool]) -> None:
        """Let ticks pass until it holds."""
        for _ in range(TICKS_MAX):
            if done():
                return
            self.tick()
        assert done(), f"not within {TICKS_MAX} ticks"

    def take(self, kind: type[Any]) -> list[Any]:
        """What of this kind was said to node 2 since the last call; the rest is forgotten."""
        sent, self.sent = self.sent, []
        return [each for each in sent if isinstance(each, kind) and each.to == TWO]

    def write(self, command: Any, group: int = 0) -> Any:
        """The outcome of a command, which node 2 acknowledges."""
        answers: list[Any] = []
        payload = Payload(encode_command(command, None), b"")
        self.multiraft.propose(self.local(group), payload, answers.append)
        self.wait(lambda: bool(answers))
        return answers[0]

    def answer(self) -> None:
        """Let node 2 answer all that it was sent, until nothing more is said."""
        self.driver.run()
        while self.driver.sent:
            sent, self.driver.sent = self.driver.sent, []
            self.sent += sent
            answers = [self._answer(each) for each in sent if each.to == TWO]
            self.multiraft.receive(TWO, [each for each in answers if each is not None])
            self.driver.run()

    def _answer(self, message: PeerMessage) -> PeerMessage | None:
        match message:
            case VoteRequest():
                return message.reply(message.term, granted=True)
            case AppendRequest():
                last = LogIndex(message.prev_index + len(message.entries))
                self._follower_ends[message.group] = last
                return message.accepted(message.term, last, last)
            case Heartbeat():
                return message.reply(
                    message.term,
                    last_index=self._follower_ends.get(message.group, NO_INDEX),
                    quiesce_round=message.quiesce_round,
                    disk_keeps_up=True,
                    may_lead=True,
                )
            case NodeHeartbeat():
                return NodeHeartbeat(sender=TWO, to=ONE, boot_id="2.1")
            case _:
                return None

    def take_over(self, handed_over: TimeoutNow) -> None:
        """Node 2 does as it was told: it is elected, and leads the group."""
        raft = self.local(handed_over.group).raft
        term = Term(handed_over.term + 1)
        whom: dict[str, Any] = {"group": handed_over.group, "sender": TWO, "to": ONE, "term": term}
        asks = VoteRequest(
            **whom,
            last_index=raft.log.last_index,
            last_term=raft.log.last_term,
            pre=False,
            transfer=True,
        )
        leads = Heartbeat(**whom, commit_index=NO_INDEX, read_round=0, quiesce_round=0)
        self.multiraft.receive(TWO, [asks])
        self.driver.run()
        self.multiraft.receive(TWO, [leads])
        self.driver.run()


def heartbeat(group: int, sender: NodeId, term: int, **others: Any) -> Heartbeat:
    """What the leader of a group says to node 1."""
    return Heartbeat(
        **{
            "group": GroupId(group),
            "sender": sender,
            "to": ONE,
            "term": Term(term),
            "commit_index": NO_INDEX,
            "read_round": 0,
            "quiesce_round": 0,
            **others,
        }
    )


def first_entries(
    group: GroupId, sender: NodeId, *, count: int, commit_index: int
) -> AppendRequest:
    """`sender` leads the group, and sends node 1 its first entries."""
    return AppendRequest(
        group=group,
        sender=sender,
        to=ONE,
        term=Term(1),
        prev_index=NO_INDEX,
        prev_term=Term(0),
        entries=tuple(
            Entry(LogIndex(index), Term(1), EntryKind.NOOP, EMPTY_PAYLOAD)
            for index in range(1, count + 1)
        ),
        commit_index=LogIndex(commit_index),
    )

"""Three members of one Raft group in one process: elect a leader, write, lose it, write again.

    .venv/bin/python docs/examples/three_members.py

`Member.settle` is the whole host loop: it does what `Ready` asks, in the order its rules demand.
A list stands for the disk and a queue for the network; both are perfect here, and need not be.
"""

from __future__ import annotations

import random
from collections import deque

from raftlog.core.log_view import LogView
from raftlog.core.membership import Membership, MembershipAt, Memberships
from raftlog.core.messages import AppendRequest, OutMessage, RaftMessage, Replicate
from raftlog.core.raft import Raft
from raftlog.core.ready import Role
from raftlog.core.types import (
    NO_INDEX,
    NO_NODE,
    Entry,
    GroupId,
    HardState,
    NodeId,
    Payload,
    RaftTiming,
    Term,
)

MEMBERS = Membership((NodeId(1), NodeId(2), NodeId(3)))


class Member:
    """Drives one `Raft`: a log of entries, and what the state machine was given."""

    def __init__(self, node: NodeId, network: deque[RaftMessage]) -> None:
        self.network = network
        self.log: list[Entry] = []
        self.applied: list[bytes] = []
        self.raft = Raft(
            node=node,
            group=GroupId(1),
            memberships=Memberships(MembershipAt(NO_INDEX, MEMBERS)),
            timing=RaftTiming(),
            hard_state=HardState(Term(0), NO_NODE),
            log=LogView(),
            random=random.Random(node),
        )

    def settle(self) -> None:
        """Carry out what the core wants until it wants nothing more."""
        while ready := self.raft.ready():
            self.send(ready.messages)  # nothing in them depends on the disk
            if ready.truncate_from is not None:
                del self.log[ready.truncate_from - 1 :]
            self.log.extend(ready.entries)
            # A real host loop writes hard state and entries here, and syncs. Only then:
            if ready.write_number:
                self.raft.persisted(ready.write_number)
            self.send(ready.messages_after_persist)
            if ready.committed is not None:
                first, last = ready.committed
                committed = self.log[first - 1 : last]
                self.applied += [entry.payload.command for entry in committed if entry.payload.size]
                self.raft.applied(last)

    def send(self, messages: tuple[OutMessage, ...]) -> None:
        """Put messages on the wire; entries are read from the log only now."""
        for message in messages:
            if isinstance(message, Replicate):
                span = message.span
                self.network.append(
                    AppendRequest(
                        group=message.group,
                        sender=message.sender,
                        to=message.to,
                        term=message.term,
                        prev_index=message.prev_index,
                        prev_term=message.prev_term,
                        entries=tuple(self.log[span.first - 1 : span.last]) if span else (),
                        commit_index=message.commit_index,
                    )
                )
            else:
                self.network.append(message)


class Group:
    """The members and the network between them. A member that is taken out hears nothing."""

    def __init__(self) -> None:
        self.network: deque[RaftMessage] = deque()
        self.members = {node: Member(node, self.network) for node in MEMBERS.voters}

    def tick(self) -> None:
        """One tick for everybody, then deliver until nothing is in flight."""
        for member in self.members.values():
            member.raft.tick()
            member.settle()
        while self.network:
            message = self.network.popleft()
            member = self.members.get(message.to)
            if member is not None:
                member.raft.step(message)
                member.settle()

    def leader(self) -> Member:
        """Tick until a member leads; of two, the one of the later term."""
        while not (leading := [m for m in self.members.values() if m.raft.role is Role.LEADER]):
            self.tick()
        return max(leading, key=lambda member: member.raft.term)

    def write(self, text: str) -> Member:
        """Propose at the leader and wait until every member in reach has applied it."""
        leader = self.leader()
        leader.raft.propose([Payload(text.encode(), b"")])
        leader.settle()
        while any(text.encode() not in member.applied for member in self.members.values()):
            self.tick()
        return leader


def main() -> None:
    """Elect, write, lose the leader, write again; print what each member applied."""
    group = Group()
    leader = group.write("first")
    print(f"member {leader.raft.node} leads term {leader.raft.term}")
    lost = group.members.pop(leader.raft.node)
    leader = group.write("second")
    gone = f"member {lost.raft.node} is gone"
    print(f"{gone}; member {leader.raft.node} leads term {leader.raft.term}")
    group.members[lost.raft.node] = lost
    while lost.applied != leader.applied:
        group.tick()
    for node, member in group.members.items():
        print(f"member {node}: {b', '.join(member.applied).decode()}")


if __name__ == "__main__":
    main()

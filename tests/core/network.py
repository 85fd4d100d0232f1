"""A few members and the messages between them as values, with the safety checks outside.

The checks are those of Raft figure 3, over all members and all of the past, after every delivery
and tick: Election Safety, Log Matching, Leader Completeness, State Machine Safety.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from raftlog.core.membership import Membership
from raftlog.core.messages import RaftMessage
from raftlog.core.ready import Role
from raftlog.core.types import Entry, RaftTiming
from tests.core.member import NOBODY_DECIDES, TIMING, Member, node_ids


class Checker:
    """Remembers who led and what was applied, and compares it with what it sees."""

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self.applied: list[Entry] = []
        self._seen: dict[int, int] = {}
        """How often each member's log had changed when it was last compared with the others."""

    def look(self, members: Iterable[Member]) -> None:
        members = list(members)
        changed = [each for each in members if self._seen.get(each.node) != each.changes]
        self._seen |= {each.node: each.changes for each in changed}
        for member in members:
            if member.raft.role is Role.LEADER:
                known = self.leaders.setdefault(member.raft.term, member.node)
                assert known == member.node, "Election Safety: two leaders in one term"
        for member in changed:
            self._look_at_applied(member)
        for member in members:
            if member.raft.role is Role.LEADER and member.raft.term == max(self.leaders):
                held = member.log[: len(self.applied)]
                assert held == self.applied, "Leader Completeness: a committed entry is missing"
        for number, one in enumerate(changed):
            for other in members:
                if other not in changed[: number + 1]:
                    self._compare_logs(one.log, other.log)

    def _look_at_applied(self, member: Member) -> None:
        count = min(len(member.applied), len(self.applied))
        assert member.applied[:count] == self.applied[:count], "State Machine Safety"
        self.applied.extend(member.applied[len(self.applied) :])

    def _compare_logs(self, one: Sequence[Entry], other: Sequence[Entry]) -> None:
        shared = min(len(one), len(other))
        for position in range(shared - 1, -1, -1):
            if one[position].term == other[position].term:
                assert one[: position + 1] == other[: position + 1], "Log Matching"
                return


class Network:
    """Members 1 to n. Messages wait until delivered; links can be cut in one direction."""

    def __init__(self, members: Iterable[Member]) -> None:
        self.members = {member.node: member for member in members}
        self.waiting: list[RaftMessage] = []
        self.cut: set[tuple[int, int]] = set()
        self.down: set[int] = set()
        self.checker = Checker()

    @classmethod
    def of(
        cls,
        count: int,
        *,
        others: int = 0,
        logs: Sequence[Sequence[int]] | None = None,
        term: int | None = None,
        timing: RaftTiming = TIMING,
        seed: int = 1,
        random: object | None = None,
    ) -> Network:
        """`count` voters and `others` that nothing has named yet. `logs` are the terms of each
        member's entries; without `random` each member has a generator of its own, from `seed`."""
        voters = Membership(node_ids(*range(1, count + 1)))
        return cls(
            Member(
                node,
                membership=voters if node <= count else NOBODY_DECIDES,
                terms=logs[node - 1] if logs is not None else (),
                term=term,
                timing=timing,
                random=random if random is not None else Random(f"{seed} {node}"),
            )
            for node in range(1, count + others + 1)
        )

    def __getitem__(self, node: int) -> Member:
        return self.members[node]

    @property
    def up(self) -> list[Member]:
        return [member for node, member in self.members.items() if node not in self.down]

    @property
    def leader(self) -> Member | None:
        """The running leader with the latest term."""
        leaders = [member for member in self.up if member.raft.role is Role.LEADER]
        return max(leaders, key=lambda member: member.raft.term, default=None)

    # ------------------------------------------------------------ faults

    def isolate(self, *nodes: int) -> None:
        """Cut the links between `nodes` and all others, both ways."""
        for one in nodes:
            for other in self.members:
                if other not in nodes:
                    self.cut |= {(one, other), (other, one)}

    def heal(self) -> None:
        self.cut.clear()

    def crash(self, node: int) -> None:
        """The process dies: what was not synced is gone."""
        self.down.add(node)
        self.members[node].outgoing.clear()

    def tell_of_deaths(self) -> None:
        """Every member whose leader is down has its connection reset."""
        for member in self.up:
            if member.raft.leader in self.down:
                member.leader_lost(member.raft.leader, member.raft.term)

    def restart(self, node: int) -> None:
        self.down.discard(node)
        self.members[node].start()

    # ------------------------------------------------------------ time and transport

    def collect(self) -> None:
        """Take what the members sent; what crosses a cut link or comes to a dead member is lost."""
        for member in self.up:
            self.waiting.extend(
                message
                for message in member.take()
                if (message.sender, message.to) not in self.cut and message.to not in self.down
            )

    def deliver(self, message: RaftMessage) -> None:
        if message.to not in self.down and (message.sender, message.to) not in self.cut:
            self.members[message.to].step(message)
        self.checker.look(self.up)

    def settle(self) -> None:
        """Deliver in order until nothing is in flight."""
        self.collect()
        while self.waiting:
            waiting, self.waiting = self.waiting, []
            for message in waiting:
                self.deliver(message)
            self.collect()

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            for member in self.up:
                member.tick()
            self.settle()

    def tick_until(self, condition: Callable[[], bool], *, ticks_max: int = 400) -> int:
        """Tick until it holds; return how many ticks that took. Fails after `ticks_max`."""
        for ticks in range(ticks_max):
            if condition():
                return ticks
            self.tick()
        raise AssertionError(f"not within {ticks_max} ticks")

    def elect(self, node: int) -> Member:
        """Let time pass only for `node` until it leads; fails if it cannot."""
        self.tell_of_deaths()
        member = self.members[node]
        for _ in range(4 * member.timing.election_ticks_min):
            if member.raft.role is Role.LEADER:
                return member
            member.tick()
            self.settle()
        raise AssertionError(f"{node} was not elected")

    def elect_any(self) -> Member:
        self.tick_until(lambda: self.leader is not None)
        assert self.leader is not None
        return self.leader

"""Three members that rest when there is nothing to do: quiescence as a policy over the core.

    .venv/bin/python docs/examples/quiescence.py

The core agrees on when a group may rest, and sends nothing then. When to tick a member, and what
wakes it, is its driver's business: `Resting` is the whole of it. Here the members are one group's;
a process with a thousand groups watches the other processes just as seldom.
"""

from __future__ import annotations

from three_members import Group, Member


class Resting(Group):
    """Does not tick quiesced members. Processes tell one another that they live, for all their
    groups at once; a member is woken when the process of its leader has not done so for long."""

    def __init__(self) -> None:
        super().__init__()
        self.messages = 0
        """That the group itself has sent."""
        self.silent_ticks = {
            node: {other: 0 for other in self.members if other != node} for node in self.members
        }
        """For how many ticks each process has not heard each other one."""

    def tick(self) -> None:
        """One tick for those that are awake, then deliver until nothing is in flight."""
        for node, member in self.members.items():
            silent_ticks = self.silent_ticks[node]
            for other in silent_ticks:
                silent_ticks[other] = 0 if other in self.members else silent_ticks[other] + 1
            patience = member.raft.timing.election_ticks_min
            silent = [other for other, ticks in silent_ticks.items() if ticks >= patience]
            if member.raft.quiesced and member.raft.leader in silent:
                member.raft.wake(silent_ticks)
            if not member.raft.quiesced:
                member.raft.tick(silent)
                member.settle()
        while self.network:
            message = self.network.popleft()
            self.messages += 1
            receiver = self.members.get(message.to)
            if receiver is None:
                continue
            raft = receiver.raft
            if raft.quiesced and not raft.stays_quiesced_through(message):
                raft.wake(self.silent_ticks[raft.node])
            raft.step(message)
            receiver.settle()

    def all_rest(self) -> bool:
        """Is there nothing to tick?"""
        return all(member.raft.quiesced for member in self.members.values())

    def until_all_rest(self) -> None:
        """Tick until there is nothing to tick."""
        while not self.all_rest():
            self.tick()

    def messages_in(self, ticks: int) -> int:
        """How many the group sends in so many ticks."""
        before = self.messages
        for _ in range(ticks):
            self.tick()
        return self.messages - before


def lose(group: Resting, lost: Member) -> int:
    """Take the member out; how many ticks until another one leads?"""
    del group.members[lost.raft.node]
    ticks = 0
    while not any(member.raft.leader == node for node, member in group.members.items()):
        group.tick()
        ticks += 1
    return ticks


def main() -> None:
    """Rest, write, rest again, lose the leader's process."""
    group = Resting()
    group.write("first")
    group.until_all_rest()
    print(f"all rest: {group.messages_in(1000)} messages in 1000 ticks")
    leader = group.write("second")
    print(f"a write wakes them: all rest is {group.all_rest()}")
    group.until_all_rest()
    ticks = lose(group, leader)
    print(f"the leader's process is gone: another leads after {ticks} ticks")


if __name__ == "__main__":
    main()

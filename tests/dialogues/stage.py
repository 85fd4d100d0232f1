"""Plays a dialogue: a script of commands, each followed by what the members said and did.

A script begins with `# ` and the sentence that it shows. A line at the margin is a command; what
is indented below it is the answer, which `play` writes again. Empty lines and comments stay.

    group 3 others=1 logs=112,11,-,- term=2 NAME=N ...   three voters and a member that nothing
                            names; the terms of each log's entries; settings of `RaftTiming`.
                            Member 1 times out after 10 ticks, 2 after 12, and so on
    campaign N              member N's clock alone runs until it asks for votes
    tick N... [xK]          the clocks of these members alone tick K times
    pause N K; lease N      K ticks pass for N that it does not see; does it hold a lease now?
    elect N                 N's clock runs, and everything is delivered, until N leads
    run K                   every clock ticks K times; after each everything is delivered
    deliver|drop|repeat|hold [1>2] [1>] [>2] [KIND] [first|last]
                            what is in flight (or these messages): it arrives, is lost, is in flight
                            twice, or is kept back until `release`
    settle                  deliver until nothing is in flight
    propose N TEXT...       also: change N VOTERS [learners=...], transfer N TO, read N ID
    cut 1>2 ...; isolate N...; heal          links
    crash N; restart N; deaths               processes; `deaths`: the others' connections are reset
    lose-log N [knows-end|unnoticed]; image N from M
                            what becomes of a disk while its process is down
    disk N waits|syncs; sync N [OUTPUTS]     N's disk syncs only when it is told to; it does now
    note N slow-disk|fast-disk|unfit|fit     what the host loop has noticed of N
    drop-log N INDEX [SNAPSHOT]; wake N [silent=M:T]; back N M
    show N...; members N...; progress N      a member as it is; who decides, by its log; what a
                            leader knows of each follower
    hide KIND...            messages that are not told from here on
    quietly COMMAND         without an answer: how the scene is set
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from raftlog.core.membership import Membership
from raftlog.core.messages import RaftMessage
from raftlog.core.ready import Role
from raftlog.core.types import NodeId
from raftlog.errors import (
    AcknowledgedEntriesLost,
    PeerProtocolViolation,
    RaftlogError,
    TransferRefused,
)
from tests.core.member import NOBODY_DECIDES, TIMING, Member, node_ids
from tests.core.network import Network
from tests.dialogues import words

FOLDER = Path(__file__).parent
SCRIPTS = {path.stem: path for path in sorted(FOLDER.glob("*.txt"))}
INDENT = "    "


class Staggered:
    """A generator whose choices are small, and larger for a member with a higher number: so
    members time out one after the other."""

    def __init__(self, node: int) -> None:
        self._later = 2 * (node - 1)

    def randrange(self, start: int, stop: int) -> int:
        """The same each time: two ticks apart from the member's neighbours."""
        return min(start + self._later, stop - 1)


class Told(Network):
    """A network that tells what its members say and do, when that leaves them."""

    def __init__(self, members: Sequence[Member]) -> None:
        super().__init__(members)
        self.lines: list[str] = []
        self.hidden: set[str] = set()
        self._quiesced: set[int] = set()

    def collect(self) -> None:
        """Tell what the members did since the last time, and take what they sent."""
        for member in self.up:
            self._tell(member)
        super().collect()

    def deliver(self, message: RaftMessage) -> None:
        """It arrives, or is lost on a link that was cut meanwhile; its receiver may refuse it."""
        if not self._arrives(message):
            self._say(message)
        try:
            super().deliver(message)
        except AcknowledgedEntriesLost as error:
            self.lines.append(f"{message.to} gives no vote: {type(error).__name__}")
            self[message.to].settle()
        except PeerProtocolViolation as error:
            self.lines.append(f"{message.to} refuses: {type(error).__name__}")

    def restart(self, node: int) -> None:
        """A member that starts is awake."""
        self._quiesced.discard(node)
        super().restart(node)

    def _tell(self, member: Member) -> None:
        for ready in member.outputs:
            self.lines += words.output_in_words(member, ready)
        member.outputs.clear()
        if member.raft.quiesced != (member.node in self._quiesced):
            self._quiesced ^= {member.node}
            self.lines.append(f"{member.node} {'quiesces' if member.raft.quiesced else 'wakes'}")
        for message in member.outgoing:
            self._say(message)

    def _say(self, message: RaftMessage) -> None:
        if words.kind_of(message) not in self.hidden:
            lost = "" if self._arrives(message) else " (lost)"
            self.lines.append(words.message_in_words(message) + lost)

    def _arrives(self, message: RaftMessage) -> bool:
        return message.to not in self.down and (message.sender, message.to) not in self.cut


class Stage:
    """One play. The commands of a script are its methods `do_...`."""

    def __init__(self) -> None:
        self.network = Told([])
        self.held: list[RaftMessage] = []

    def play(self, command: str) -> list[str]:
        """Carry out one command; what was said and done meanwhile."""
        verb, *arguments = command.split()
        if verb == "quietly":
            self.play(" ".join(arguments))
            return []
        does: Callable[..., None] | None = getattr(self, f"do_{verb.replace('-', '_')}", None)
        assert does is not None, f"no such command: {command}"
        refused = []
        try:
            does(*arguments)
        except RaftlogError as error:
            problem = f" ({error.problem})" if isinstance(error, TransferRefused) else ""
            refused = [f"refused: {type(error).__name__}{problem}"]
        self.network.collect()
        self.network.checker.look(self.network.up)
        lines, self.network.lines = self.network.lines, []
        return lines + refused

    def do_group(self, count: str, *options: str) -> None:
        chosen = dict(option.split("=") for option in options)
        others = int(chosen.pop("others", 0))
        logs, term = chosen.pop("logs", None), chosen.pop("term", None)
        ends = logs.split(",") if logs is not None else ["-"] * (int(count) + others)
        timing = replace(TIMING, **{name: int(value) for name, value in chosen.items()})
        voters = Membership(node_ids(*range(1, int(count) + 1)))
        self.network = Told(
            [
                Member(
                    node,
                    membership=voters if node <= int(count) else NOBODY_DECIDES,
                    terms=[int(each) for each in log.strip("-")],
                    term=int(term) if term is not None else None,
                    timing=timing,
                    random=Staggered(node),
                )
                for node, log in enumerate(ends, 1)
            ]
        )

    # ------------------------------------------------------------ time

    def do_campaign(self, node: str) -> None:
        member = self._member(node)
        assert member.raft.role is not Role.LEADER, "a leader does not campaign"
        status = member.raft.status()
        member.tick(status.timeout_ticks - status.elapsed_ticks)

    def do_tick(self, *arguments: str) -> None:
        nodes = [each for each in arguments if not each.startswith("x")]
        count = next((int(each[1:]) for each in arguments if each.startswith("x")), 1)
        for node in nodes:
            self._member(node).tick(count)

    def do_pause(self, node: str, ticks: str) -> None:
        self._member(node).pause(int(ticks))

    def do_lease(self, node: str) -> None:
        holds = "a" if self._member(node).holds_lease else "no"
        self.network.lines.append(f"{node} holds {holds} lease")

    def do_elect(self, node: str) -> None:
        self.network.elect(int(node))

    def do_run(self, count: str) -> None:
        for _ in range(int(count)):
            for member in self.network.up:
                if not member.raft.quiesced:
                    member.tick()
            self.network.settle()

    # ------------------------------------------------------------ what is in flight

    def do_deliver(self, *which: str) -> None:
        for message in self._take(which):
            self.network.deliver(message)

    def do_drop(self, *which: str) -> None:
        self._take(which)

    def do_hold(self, *which: str) -> None:
        self.held += self._take(which)

    def do_release(self) -> None:
        self.network.waiting[:0] = self.held
        self.held.clear()

    def do_repeat(self, *which: str) -> None:
        found = self._take(which)
        self.network.waiting += [*found, *map(replace, found)]

    def do_settle(self) -> None:
        self.network.settle()

    def _take(self, which: Sequence[str]) -> list[RaftMessage]:
        """Take these messages out of what is in flight. There must be some."""
        waiting = self.network.waiting
        taken = [each for each in waiting if all(_fits(each, word) for word in which)]
        taken = taken[:1] if "first" in which else taken[-1:] if "last" in which else taken
        assert taken, f"nothing like this is in flight: {' '.join(which)}"
        self.network.waiting = [each for each in waiting if not any(each is t for t in taken)]
        return taken

    # ------------------------------------------------------------ what is asked of a member

    def do_propose(self, node: str, *texts: str) -> None:
        self._member(node).propose(*texts)

    def do_change(self, node: str, voters: str, learners: str = "learners=") -> None:
        learning = learners.removeprefix("learners=")
        self._member(node).change(*_nodes(voters), learners=_nodes(learning))

    def do_transfer(self, node: str, to: str) -> None:
        self._member(node).transfer(int(to))

    def do_read(self, node: str, request: str) -> None:
        self._member(node).read_index(int(request))

    def do_note(self, node: str, what: str) -> None:
        member = self._member(node)
        match what:
            case "slow-disk" | "fast-disk":
                member.raft.note_disk(keeps_up=what == "fast-disk")
            case "fit" | "unfit":
                member.raft.note_fitness(may_lead=what == "fit")
            case _:
                raise AssertionError(f"nothing to note: {what}")
        member.settle()

    def do_drop_log(self, node: str, index: str, snapshot: str = "") -> None:
        self._member(node).drop_log_to(int(index), snapshot=int(snapshot or index))

    def do_wake(self, node: str, silent: str = "") -> None:
        pairs = silent.removeprefix("silent=").split(",") if silent else []
        ticks = {NodeId(int(n)): int(t) for n, t in (pair.split(":") for pair in pairs)}
        self._member(node).raft.wake(ticks)
        self._member(node).settle()

    def do_back(self, node: str, other: str) -> None:
        self._member(node).raft.node_is_back(NodeId(int(other)))

    # ------------------------------------------------------------ links, processes and disks

    def do_cut(self, *links: str) -> None:
        self.network.cut |= {(int(one), int(other)) for one, other in (x.split(">") for x in links)}

    def do_isolate(self, *nodes: str) -> None:
        self.network.isolate(*map(int, nodes))

    def do_heal(self) -> None:
        self.network.heal()

    def do_crash(self, node: str) -> None:
        self.network.crash(int(node))

    def do_restart(self, node: str) -> None:
        self.network.restart(int(node))

    def do_deaths(self) -> None:
        self.network.tell_of_deaths()

    def do_lose_log(self, node: str, how: str = "") -> None:
        assert int(node) in self.network.down, "a log gets lost while nobody uses it"
        assert how in ("", "knows-end", "unnoticed"), how
        member = self._member(node)
        if how == "unnoticed":
            member.disk_log.clear()
        else:
            member.lose_log(knows_end=how == "knows-end")

    def do_image(self, node: str, origin: str, giver: str) -> None:
        """What the giver's log has dropped is on the member's disk now, in a snapshot."""
        assert int(node) in self.network.down, "an image is opened by a start"
        assert origin == "from", origin
        member, other = self._member(node), self._member(giver)
        member.disk_log = other.disk_log[: other.disk_base]
        member.disk_base = member.disk_snapshot = other.disk_base
        member.disk_membership = other.disk_membership

    def do_disk(self, node: str, how: str) -> None:
        assert how in ("waits", "syncs"), how
        self._member(node).sync = how == "syncs"

    def do_sync(self, node: str, outputs: str = "") -> None:
        self._member(node).persist(int(outputs) if outputs else None)

    # ------------------------------------------------------------ looking

    def do_show(self, *nodes: str) -> None:
        for node in nodes:
            member = self._member(node)
            self.network.lines.append(words.status_in_words(member, member.raft.status()))

    def do_members(self, *nodes: str) -> None:
        for node in nodes:
            raft = self._member(node).raft
            decides = words.membership_in_words(raft.membership)
            self.network.lines.append(f"{node} by entry {raft.memberships.latest_index}: {decides}")

    def do_progress(self, node: str) -> None:
        views = self._member(node).raft.followers()
        assert views, "it does not lead"
        self.network.lines += [words.follower_in_words(v) for v in views if v.node != int(node)]

    def do_hide(self, *kinds: str) -> None:
        self.network.hidden = set(kinds)

    def _member(self, node: str) -> Member:
        return self.network[int(node)]


def _nodes(text: str) -> list[int]:
    return [int(node) for node in text.split(",") if node]


def _fits(message: RaftMessage, word: str) -> bool:
    if word in ("first", "last"):
        return True
    link = re.fullmatch(r"(\d*)>(\d*)", word)
    if link is None:
        return words.kind_of(message) == word
    sender, to = link.groups()
    return sender in ("", str(message.sender)) and to in ("", str(message.to))


def play(script: str) -> str:
    """The script with its answers as they are now."""
    stage, written = Stage(), []
    for number, line in enumerate(script.splitlines(), 1):
        if line.startswith(INDENT):
            continue
        written.append(line)
        if line and not line.startswith("#"):
            try:
                written += [INDENT + said for said in stage.play(line)]
            except AssertionError as error:
                error.add_note(f"in line {number}: {line}")
                raise
    return "\n".join(written) + "\n"

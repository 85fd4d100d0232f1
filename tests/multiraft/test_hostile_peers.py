"""A member that turns against the others: whatever it sends ends no process, and changes nothing
that is committed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.checksum import crc32c
from raftlog.core import messages as sent
from raftlog.core.membership import Membership, encode_membership
from raftlog.core.messages import Heartbeat, PeerMessage
from raftlog.core.types import (
    EMPTY_PAYLOAD,
    NO_INDEX,
    NO_NODE,
    Entry,
    EntryKind,
    GroupId,
    LogIndex,
    NodeId,
    Payload,
    Term,
)
from raftlog.core.validity import TERMS_ALWAYS
from raftlog.errors import AcknowledgedEntriesLost, MalformedRequest
from raftlog.image.manifest import encode_image
from raftlog.machines.commands import (
    Append,
    RegisterNode,
    RemoveWriter,
    RetireNode,
    SetDuty,
    Stage,
)
from raftlog.machines.rules import RULES_LATEST
from raftlog.multiraft.multiraft import MultiRaft
from raftlog.wire.batch import BatchHeader
from raftlog.wire.codec import decode_peer_messages, encode_command, encode_peer_messages
from tests.costs import seed_of_the_day
from tests.multiraft.leading import LeadingNode, disk_of_topics, first_entries, heartbeat
from tests.multiraft.test_refused_messages import NODES, Driver, started
from tests.wire.strategies import COMMAND_TYPES, values_of

ONE, TWO, THREE = NODES
GROUP = GroupId(1)
NOW_US, TICK_US = 1_800_000_000_000_000, 100_000
HELD = 3
"""Entries of each group that are committed before the attack."""
NUMBERS = (0, 1, HELD, HELD + 1, 2**32, 2**62 - 1, 2**62, 2**64 - 1)
SIGNED = (-(2**63), -1, 0, 1, 2**62, 2**63 - 1)
BYTES = (b"", b"\0", b"\x01", b"x" * 100, b"x" * 100_000)
TEXTS = ("", "x" * 100_000, "../../identity", "snapshot-00000000000000000001")
COMMANDS = (b"", b"\x01", b"\x01\xff\xff", b"\x02junk", b"{}", b"[" * 100_000)


@dataclass
class Victim:
    """Node 1, after the other two have made it what it is."""

    multiraft: MultiRaft
    driver: Driver

    def hear(self, message: PeerMessage) -> None:
        """It comes as a frame, as from the wire."""
        try:
            frame = encode_peer_messages([message])
        except (ValueError, AssertionError):
            return  # no frame can say it
        try:
            decoded = decode_peer_messages(frame)
        except MalformedRequest:
            return  # the stream ends
        self.multiraft.receive(message.sender, decoded)
        self.driver.run()

    def tick(self, count: int) -> None:
        for _ in range(count):
            self.multiraft.tick()
            self.driver.run()

    def fingerprint(self) -> list[Any]:
        """Another one after a message: it did something."""
        locals_ = self.multiraft.replicas.values()
        states = [(each.raft.fingerprint(), each.replica.applied_index) for each in locals_]
        return [states, len(self.driver.sent), len(self.driver.told)]

    def committed(self) -> dict[GroupId, list[Any]]:
        return {
            group: list(map(local.replica.log.command, range(1, local.raft.commit_index + 1)))
            for group, local in self.multiraft.replicas.items()
        }


def following() -> Victim:
    """It follows node 2, and holds what that has committed."""
    multiraft, driver = started(disk_of_topics(1))
    victim = Victim(multiraft, driver)
    for group in (GroupId(0), GROUP):
        victim.hear(first_entries(group, TWO, count=HELD, commit_index=HELD))
        assert multiraft.replicas[group].replica.applied_index == HELD
    return victim


def leading() -> Victim:
    """It leads both groups."""
    node = LeadingNode()
    for group in (0, 1):
        node.wait(lambda group=group: node.local(group).replica.applied_index > 0)
    return Victim(node.multiraft, node.driver)


def values_for(hint: Any, name: str) -> tuple[Any, ...]:
    plain = getattr(hint, "__supertype__", hint)
    if plain is bool:
        return (False, True)
    if plain is int:
        return SIGNED if name == "clock_us" else NUMBERS
    return {bytes: BYTES, str: TEXTS}.get(plain, ())


def usual(kind: type, group: GroupId, sender: NodeId, state: Victim, later: int) -> Any:
    """What an honest node might send, so many terms later."""
    raft = state.multiraft.replicas[group].raft
    term = Term(raft.term + later)
    last, last_term = raft.log.last_index, raft.log.last_term
    given: dict[str, Any] = {
        "group": group, "sender": sender, "to": ONE, "term": term, "last_index": last,
        "last_term": Term(0) if kind is sent.VoteRequest and term == 1 else last_term,
        "prev_index": last, "prev_term": last_term, "commit_index": raft.commit_index,
        "match_index": last, "base_index": NO_INDEX, "index": last, "leader": TWO, "held": True,
        "boot_id": "b", "accepted": True, "payload": Payload(b"c", b"b"), "name": "n",
        "text": encode_image(state.multiraft.replicas[group].image.manifest), "number": 1,
        "rows": (sent.PullRow(group=group, index=last, term=last_term, leader_term=term,
                              leader=TWO),),
        "entries": (),
    }  # fmt: skip
    hints = get_type_hints(kind)
    blank = {bool: False, int: 0, str: "", bytes: b""}
    return kind(
        **{
            each.name: given.get(each.name, blank.get(getattr(h, "__supertype__", h)))
            for each in fields(kind)
            for h in [hints[each.name]]
        }
    )


def hostile(message: Any) -> Iterator[PeerMessage]:
    """The message with each of its values replaced, one at a time."""
    for name, hint in get_type_hints(type(message)).items():
        if name in ("sender", "to"):
            continue  # a frame with another one ends its stream
        for value in values_for(hint, name):
            yield replace(message, **{name: value})
    if isinstance(message, sent.PullRequest):
        for name in ("group", "index", "term", "leader_term", "leader"):
            for value in NUMBERS:
                yield replace(message, rows=(replace(message.rows[0], **{name: value}),))


def entries_after(message: Any) -> Iterator[PeerMessage]:
    """The message with an entry of each kind that holds anything, said to be committed."""
    index = LogIndex(message.prev_index + 1)
    for kind in EntryKind:
        for command in COMMANDS:
            entry = Entry(index, message.term, kind, Payload(command, b""))
            yield replace(message, entries=(entry,), commit_index=index)
            yield replace(message, entries=(entry,), term=Term(message.term + 1))


KINDS = get_args(PeerMessage)
STATES: dict[str, Callable[[], Victim]] = {"follower": following, "leader": leading}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    ("group", "sender", "later"),
    [
        (1, TWO, 0),
        *(
            pytest.param(*attack, marks=marks)
            for *attack, marks in (
                (0, TWO, 0, pytest.mark.slow),
                (1, THREE, 0, pytest.mark.soak),
                (1, THREE, 1, pytest.mark.slow),
            )
        ),
    ],
)
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_no_value_of_a_message_ends_the_node_or_changes_what_is_committed(
    every: int, group: int, sender: NodeId, later: int, state: str, kind: type
) -> None:
    """Other values each day. Replay: VALUES_SEED=<seed>."""
    seed = seed_of_the_day("VALUES_SEED")
    print(f"seed {seed}")
    heard, more = 0, True
    while more:
        victim = STATES[state]()
        before, committed = victim.fingerprint(), victim.committed()
        cases = cases_of(usual(kind, GroupId(group), sender, victim, later))[seed % every :: every]
        more = False
        for case in cases[heard:]:
            heard += 1
            victim.hear(case)
            if victim.fingerprint() != before:
                victim.tick(3)
                for each, commands in victim.committed().items():
                    assert commands[: len(committed[each])] == committed[each], case
                more = True  # the rest goes to another one that is as this one was
                break


def cases_of(message: Any) -> list[PeerMessage]:
    cases = list(hostile(message))
    return cases + list(entries_after(message)) if hasattr(message, "entries") else cases


@pytest.mark.slow
@pytest.mark.parametrize("kind", COMMAND_TYPES, ids=lambda kind: kind.__name__)
@settings(max_examples=12, deadline=None)
@given(data=st.data(), group=st.sampled_from([GroupId(0), GROUP]))
def test_no_command_that_a_leader_commits_ends_the_node(
    kind: type, data: st.DataObject, group: GroupId
) -> None:
    command = data.draw(_values(kind))
    header = None
    if isinstance(command, Append | Stage):
        count = command.batch.record_count  # with another one it is refused
        header = replace(data.draw(_values(BatchHeader)), record_count=count)
    victim = following()
    index = LogIndex(HELD + 1)
    payload = Payload(encode_command(command, header), b"")
    entry = Entry(index, Term(1), EntryKind.COMMAND, payload)
    request = first_entries(group, TWO, count=0, commit_index=index)
    victim.hear(replace(request, prev_index=HELD, prev_term=Term(1), entries=(entry,)))
    victim.tick(3)


_values = cache(values_of)


# ------------------------------------------------------------ after the attack


class Honest:
    """Nodes 1 and 2 of three. The third says what a test wants, and answers nothing."""

    def __init__(self) -> None:
        self._disks = {node: disk_of_topics(1, node) for node in (ONE, TWO)}
        self.start()
        self.wait_for_leader()

    def start(self) -> None:
        self.victims = {}
        for node, disk in self._disks.items():
            multiraft, driver = started(disk, node=node)
            driver.wall_us = NOW_US
            self.victims[node] = Victim(multiraft, driver)

    def restart(self) -> None:
        for disk in self._disks.values():
            disk.crash()
        self.start()

    def hear(self, *messages: PeerMessage) -> None:
        for message in messages:
            self.victims[message.to].hear(message)

    def tick(self) -> None:
        for victim in self.victims.values():
            victim.driver.wall_us += TICK_US
            victim.tick(1)
        while any(victim.driver.sent for victim in self.victims.values()):
            for victim in self.victims.values():
                out, victim.driver.sent = victim.driver.sent, []
                for message in out:
                    if message.to != THREE:
                        self.hear(message)

    def leader(self) -> NodeId:
        """Who leads group 1 of those that agree; NO_NODE: they do not."""
        rafts = [victim.multiraft.replicas[GROUP].raft for victim in self.victims.values()]
        told = {(raft.leader, raft.term, raft.commit_index) for raft in rafts}
        leader = told.pop()[0]
        return leader if not told and leader in self.victims else NO_NODE

    def wait_for_leader(self, ticks_max: int = 600) -> None:
        for _ in range(ticks_max):
            if self.leader() != NO_NODE:
                return
            self.tick()
        raise AssertionError(f"no leader within {ticks_max} ticks")

    def write(self) -> None:
        """A new record of the log is committed on both."""
        self.wait_for_leader()
        local = self.victims[self.leader()].multiraft.replicas[GROUP]
        before = local.raft.commit_index
        self.victims[self.leader()].multiraft.propose(
            local, Payload(encode_command(RemoveWriter(writer="w"), None), b""), lambda _: None
        )
        for _ in range(100):
            self.tick()
            rafts = [each.multiraft.replicas[GROUP].raft for each in self.victims.values()]
            if all(raft.commit_index > before for raft in rafts):
                return
        raise AssertionError("not written")

    def term(self, node: NodeId) -> Term:
        return self.victims[node].multiraft.replicas[GROUP].raft.term


def claim(to: NodeId, term: int, commit_index: int = 0) -> Heartbeat:
    """Node 3 says that it leads group 1."""
    at = {"commit_index": LogIndex(commit_index), "commit_term": Term(min(commit_index, term))}
    return heartbeat(1, THREE, term, to=to, **at)


def test_terms_that_one_member_is_brought_to_part_it_from_no_other_and_leave_room() -> None:
    """With a bound on what one message may lift, two messages to node 1 would part the others."""
    honest = Honest()
    for term in (2**64 - 1, 2**63 - 1, 2**62, 2**62 - 1, 2 * NOW_US):
        honest.hear(claim(ONE, term))
        assert honest.term(ONE) < 2**32, "nothing is accepted beyond this node's time"
    for step in range(1, 100):
        honest.hear(claim(ONE, NOW_US * step // 100))
    honest.hear(claim(ONE, NOW_US))
    assert honest.term(ONE) == NOW_US
    assert honest.term(TWO) < 2**32
    honest.write()
    assert 0 < honest.term(ONE) - NOW_US < 100, "elections went on from there"


def test_a_member_that_missed_a_year_of_elections_comes_back_whatever_its_clock_shows() -> None:
    honest = Honest()
    for victim in honest.victims.values():
        victim.driver.wall_us = 0
        victim.tick(1)
    honest.hear(claim(TWO, TERMS_ALWAYS - 100))
    assert honest.term(TWO) == TERMS_ALWAYS - 100
    honest.write()


def test_a_term_beyond_the_clock_is_accepted_when_the_clock_gets_there() -> None:
    """Node 2's clock is a second behind that of node 1, which was brought to its own time."""
    honest = Honest()
    honest.victims[TWO].driver.wall_us -= 10 * TICK_US
    honest.hear(claim(ONE, honest.victims[ONE].driver.wall_us - TICK_US))
    honest.write()


def test_a_claimed_loss_ends_no_process_and_a_restart_ends_its_effect() -> None:
    """The claim may be true, and a leader without what was lost must not be elected."""
    honest = Honest()
    term = honest.term(ONE) + 1
    honest.hear(*(claim(to, term, 2**61) for to in (ONE, TWO)))
    for victim in honest.victims.values():
        assert isinstance(victim.driver.refusals()[-1].latest, AcknowledgedEntriesLost)
    for _ in range(300):
        honest.tick()
    assert honest.leader() == NO_NODE, "no vote is given"
    honest.restart()
    honest.write()


# ------------------------------------------------------------ a node that was removed


def removal() -> tuple[Entry, ...]:
    """The entries of the controller's log that remove node 3, the first ones of term 1."""
    commands = (
        RegisterNode(node=THREE, store_uuid="s3", address="c:1", rules=RULES_LATEST),
        SetDuty(node=THREE, draining=True, leaving=True),
        RetireNode(node=THREE),
    )
    wanted = [(EntryKind.COMMAND, Payload(encode_command(each, None), b"")) for each in commands]
    without = encode_membership(Membership((ONE, TWO)))
    wanted.insert(0, (EntryKind.CONFIGURATION, without))
    return tuple(Entry(LogIndex(index), Term(1), *each) for index, each in enumerate(wanted, 1))


def appended(entries: Sequence[Entry], prev_term: int = 1, commit_index: int = 0) -> PeerMessage:
    """Node 2 leads the controller's group, and sends these entries."""
    prev_index = LogIndex(entries[0].index - 1)
    return replace(
        first_entries(GroupId(0), TWO, count=0, commit_index=commit_index),
        term=entries[-1].term,
        prev_index=prev_index,
        prev_term=Term(prev_term if prev_index else 0),
        entries=tuple(entries),
    )


def test_a_node_that_the_log_removes_is_no_peer_before_that_is_known_to_be_committed() -> None:
    disk = disk_of_topics(1)
    *before, retire = removal()
    victim = Victim(*started(disk))
    replicas = victim.multiraft.replicas
    victim.hear(appended(before))
    assert set(replicas.nodes) == {*NODES}
    victim.hear(appended([retire]))
    assert set(replicas.nodes) == {ONE, TWO}
    assert not replicas.controller.nodes.retired, "it is not applied"
    disk.crash()
    victim = Victim(*started(disk))
    replicas = victim.multiraft.replicas
    assert set(replicas.nodes) == {ONE, TWO}, "nor when it starts again and knows no more"
    noop = Entry(retire.index, Term(2), EntryKind.NOOP, EMPTY_PAYLOAD)
    victim.hear(appended([noop]))
    assert set(replicas.nodes) == {*NODES}, "the entry was truncated"
    again = replace(retire, index=LogIndex(noop.index + 1), term=Term(2))
    victim.hear(appended([again], prev_term=2, commit_index=again.index))
    assert replicas.controller.nodes.retired == {THREE}
    assert set(replicas.nodes) == {ONE, TWO}


# ------------------------------------------------------------ images


def offered(victim: Victim, sender: NodeId) -> bool:
    """Does the node ask for the image that this one offers?"""
    victim.driver.sent.clear()
    victim.hear(sent.ImageOffer(group=GROUP, sender=sender, to=ONE, index=LogIndex(1_000)))
    return any(isinstance(each, sent.ImageRequest) for each in victim.driver.sent)


def test_only_its_leader_gives_a_replica_an_image_in_place_of_its_log() -> None:
    victim = following()
    assert not offered(victim, THREE)
    assert offered(victim, TWO)


SNAPSHOT = [1000, 1, 0, "00" * 16]
STAGES = [900, 1000, 50, 7]
HISTORY = [0, 9, 90, 900, 7, 7, "00" * 32]


def manifests() -> Iterator[bytes]:
    """Of an image at entry 1,000, with one value that no honest node's has."""
    table = {
        "generation": 1, "base": [1000, 1], "snapshots": [SNAPSHOT], "stages": [STAGES],
        "history": [HISTORY], "fresh_log": 0, "agreed_mark": 0,
    }  # fmt: skip
    yield json.dumps({**table, "snapshots": []}).encode()
    for name in ("snapshots", "stages", "history"):
        (row,) = table[name]  # type: ignore[misc]
        for column in range(len(row)):
            for value in (0, 2**62 - 1, 2**62, 2**64 - 1, -1, "zz", "00" * 10_000):
                wrong = [*row[:column], value, *row[column + 1 :]]
                yield json.dumps({**table, name: [wrong]}).encode()
                yield json.dumps({**table, name: [wrong, row]}).encode()
    yield from (b"", b"{", b"[" * 100_000, b"null", b"0" * 1_000_000)


@pytest.mark.slow
@pytest.mark.parametrize("snapshot_bytes", [100, 2**64 - 1])
def test_no_value_of_a_manifest_ends_the_node_or_changes_what_is_committed(
    snapshot_bytes: int,
) -> None:
    for text in manifests():
        victim = following()
        committed = victim.committed()
        assert offered(victim, TWO)
        manifest = sent.ImageManifest(
            group=GROUP, sender=TWO, to=ONE, text=text, snapshot_bytes=snapshot_bytes
        )
        victim.hear(manifest)
        asked = [each for each in victim.driver.sent if isinstance(each, sent.ImageChunkRequest)]
        for each in asked[:1]:
            data = bytes(each.length)
            victim.hear(
                sent.ImageChunk(
                    group=GROUP, sender=TWO, to=ONE, name=each.name, position=each.position,
                    crc=crc32c(data), gone=False, data=data,
                )
            )  # fmt: skip
        victim.tick(1)
        assert victim.committed() == committed


def test_streams_that_a_peer_opens_and_closes_again_cost_one_look_in_a_tick() -> None:
    victim = following()
    raft = victim.multiraft.replicas[GROUP].raft
    for leader in (NO_NODE, TWO):
        victim.multiraft.peer_closed(TWO)
        assert raft.leader == leader
        victim.hear(heartbeat(GROUP, TWO, raft.term))
    victim.tick(1)
    victim.multiraft.peer_closed(TWO)
    assert raft.leader == NO_NODE

"""A message that no honest peer sends is refused before it changes anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.core.messages import (
    AppendReply,
    AppendRequest,
    Heartbeat,
    HeartbeatReply,
    RaftMessage,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from raftlog.core.ready import Role
from raftlog.core.types import Entry, EntryKind, Payload, RaftTiming
from raftlog.core.validity import NUMBER_MAX
from raftlog.errors import (
    NotLeader,
    Overloaded,
    PeerProtocolViolation,
    TransferRefused,
    TransferUnderWay,
)
from tests.core.member import (
    GROUP,
    Member,
    acceptance,
    append_request,
    heartbeat,
    heartbeat_reply,
    rejection,
    vote_reply,
    vote_request,
)


def follower() -> Member:
    """Node 2 leads term 2; entries 1 and 2 are committed, entry 3 is not."""
    member = Member(1, terms=[1, 1, 2], term=2, vote=2)
    member.step(heartbeat(member, 2, term=2, commit_index=2))
    return member


def leader() -> Member:
    """Of term 2; entries 1 to 3 are committed, entry 4 is not."""
    member = Member(1, terms=[1, 1]).lead()
    member.step(acceptance(member, 2, 3))
    member.propose("a")
    assert (member.raft.commit_index, member.raft.log.last_index) == (3, 4)
    member.take()
    return member


def refused(member: Member, message: RaftMessage) -> str:
    """Why it was refused, after checking that nothing has changed."""
    before = member.raft.fingerprint()
    with pytest.raises(PeerProtocolViolation) as info:
        member.step(message)
    assert member.raft.fingerprint() == before
    assert (info.value.group, info.value.peer) == (GROUP, message.sender)
    return info.value.problem


Make = Callable[[Member], RaftMessage]

TO_A_FOLLOWER: dict[str, tuple[Make, str]] = {
    "a second leader appends": (
        lambda m: append_request(m, 3, term=2, prev=(2, 3)),
        "node 2 leads term 2",
    ),
    "a second leader's heartbeat": (lambda m: heartbeat(m, 3, term=2), "node 2 leads term 2"),
    "a leader of term 0": (lambda m: heartbeat(m, 2, term=0), "term 0 has no leader"),
    "another entry for a committed one": (
        lambda m: append_request(m, 2, term=3, prev=(1, 1), terms=[3]),
        "entry 2 conflicts with a committed one",
    ),
    "another entry before a committed one": (
        lambda m: append_request(m, 2, term=3, prev=(2, 2), terms=[3]),
        "entry 2 of term 2 conflicts with a committed one",
    ),
    "an entry is left out": (
        lambda m: replace(
            append_request(m, 2, term=2, prev=(2, 3)),
            entries=(Entry(5, 2, EntryKind.COMMAND, Payload(b"", b"")),),
        ),
        "entry 5 follows entry 3",
    ),
    "terms fall": (
        lambda m: append_request(m, 2, term=2, prev=(2, 3), terms=[2, 1]),
        "entry 5 has term 1",
    ),
    "an entry of a future term": (
        lambda m: append_request(m, 2, term=2, prev=(2, 3), terms=[3]),
        "entry 4 has term 3",
    ),
    "the previous entry of a future term": (
        lambda m: append_request(m, 2, term=2, prev=(3, 3)),
        "entry 3 has term 3, above 2",
    ),
    "a term before the first entry": (
        lambda m: append_request(m, 2, term=2, prev=(1, 0)),
        "entry 0 has term 1",
    ),
    "a negative commit_index": (
        lambda m: append_request(m, 2, term=2, prev=(2, 3), commit_index=-1),
        "commit_index is -1",
    ),
    "a term that is too large": (lambda m: heartbeat(m, 2, term=NUMBER_MAX + 1), "term is"),
    "itself": (lambda m: heartbeat(m, 1, term=3), "node 1 is this member itself"),
    "a candidate whose log is of its own term": (
        lambda m: vote_request(m, 3, term=3, last=(3, 4)),
        "last entry 4 has term 3, above 2",
    ),
    "a candidate whose last term has no entry": (
        lambda m: vote_request(m, 3, term=3, last=(2, 0)),
        "last entry 0 has term 2",
    ),
    "a vote for nobody's election": (lambda m: vote_reply(m, 3, term=2), "never asked for"),
    "a vote in a future term": (lambda m: vote_reply(m, 3, term=9), "never asked for"),
    "an acknowledgement in a future term": (
        lambda m: acceptance(m, 3, 1, term=9),
        "nothing was sent in term 9",
    ),
}

TO_A_LEADER: dict[str, tuple[Make, str]] = {
    "another leader of its term": (lambda m: heartbeat(m, 2, term=2), "node 1 leads term 2"),
    "an acknowledgement above the last entry": (
        lambda m: acceptance(m, 2, 5),
        "entry 5 was never sent: 4 is the last",
    ),
    "a negative match_index": (lambda m: acceptance(m, 2, -1), "match_index is -1"),
    "a conflict out of range": (
        lambda m: rejection(m, 3, 4, conflict=(NUMBER_MAX + 1, 1)),
        "conflict_term is",
    ),
    "a read round that was never started": (
        lambda m: heartbeat_reply(m, 2, read_round=1),
        "read round 1 was never started",
    ),
    "an answer to a question that was never asked": (
        lambda m: heartbeat_reply(m, 2, quiesce_round=1),
        "round 1 of asking to quiesce never began",
    ),
}


@pytest.mark.parametrize("case", TO_A_FOLLOWER)
def test_a_follower_refuses(case: str) -> None:
    make, problem = TO_A_FOLLOWER[case]
    member = follower()
    assert problem in refused(member, make(member))
    member.step(append_request(member, 2, term=2, prev=(2, 3), terms=[2], commit_index=4))
    assert member.raft.commit_index == 4, "it follows its leader as before"


@pytest.mark.parametrize("case", TO_A_LEADER)
def test_a_leader_refuses(case: str) -> None:
    make, problem = TO_A_LEADER[case]
    member = leader()
    assert problem in refused(member, make(member))
    member.step(acceptance(member, 2, 4))
    assert member.raft.commit_index == 4, "it leads as before"


def test_a_replaced_leader_may_contradict_what_was_committed_since() -> None:
    """It is answered like any message of an earlier term."""
    member = follower()
    member.step(append_request(member, 3, term=1, prev=(0, 0), terms=[1, 1, 1, 1]))
    member.step(heartbeat(member, 3, term=1, commit_index=9))
    assert [reply.accepted for reply in member.take(AppendReply)] == [False]


def test_late_votes_and_acknowledgements_are_not_refused() -> None:
    member = follower()
    member.step(vote_reply(member, 3, term=1), acceptance(member, 3, 9, term=1))
    member.step(vote_reply(member, 3, term=9, pre=True))
    assert member.raft.term == 2


def test_a_leader_that_lost_what_it_had_sent_survives_the_acknowledgement() -> None:
    """It sends entries before its own disk has them, is killed, and then gets the answer."""
    member = Member(1, terms=[1, 1], sync=False)
    member.lead()
    member.persist()
    member.lead()
    member.persist()
    member.propose("a")
    last_index = member.raft.log.last_index
    term = member.raft.term
    member.start()
    assert (member.raft.term, member.raft.log.last_index < last_index) == (term, True)
    member.step(acceptance(member, 2, last_index, term=term))


# ------------------------------------------------------------ anything at all

SMALL = st.integers(0, 6)
NUMBERS = st.one_of(SMALL, SMALL, st.sampled_from([-1, NUMBER_MAX, NUMBER_MAX + 1, 1 << 64]))
SENDERS = st.sampled_from([2, 3, 2, 3, 1, 9])


def messages(**fields: st.SearchStrategy) -> dict[str, st.SearchStrategy]:
    return {"group": st.just(GROUP), "to": st.just(1), "sender": SENDERS, "term": NUMBERS, **fields}


@st.composite
def requests(draw: st.DrawFn) -> AppendRequest:
    """Entries follow `prev_index`, more often than not."""
    request = draw(
        st.builds(
            AppendRequest,
            **messages(
                prev_index=NUMBERS, prev_term=NUMBERS, commit_index=NUMBERS, entries=st.just(())
            ),
        )
    )
    gap = draw(st.sampled_from([0, 0, 0, 1]))
    terms = draw(st.lists(NUMBERS, max_size=4))
    if draw(st.booleans()):
        terms.sort()
    entries = tuple(
        Entry(request.prev_index + gap + number, term, EntryKind.COMMAND, Payload(b"x", b""))
        for number, term in enumerate(terms, 1)
    )
    return replace(request, entries=entries)


MESSAGES = st.one_of(
    requests(),
    requests(),
    st.builds(
        AppendReply,
        **messages(
            accepted=st.booleans(),
            prev_index=NUMBERS,
            match_index=NUMBERS,
            conflict_term=NUMBERS,
            conflict_index=NUMBERS,
            last_index=NUMBERS,
        ),
    ),
    st.builds(
        Heartbeat, **messages(commit_index=NUMBERS, read_round=NUMBERS, quiesce_round=NUMBERS)
    ),
    st.builds(
        HeartbeatReply,
        **messages(
            read_round=NUMBERS,
            last_index=NUMBERS,
            quiesce_round=NUMBERS,
            disk_keeps_up=st.booleans(),
            may_lead=st.booleans(),
        ),
    ),
    st.builds(
        VoteRequest,
        **messages(
            last_index=NUMBERS, last_term=NUMBERS, pre=st.booleans(), transfer=st.booleans()
        ),
    ),
    st.builds(TimeoutNow, **messages(wished=st.booleans())),
    st.builds(VoteReply, **messages(granted=st.booleans(), pre=st.booleans())),
)

EVENTS = st.one_of(
    MESSAGES,
    MESSAGES,
    MESSAGES,
    st.sampled_from(["tick", "timeout", "propose", "read", "transfer", "persist", "start"]),
)

TIMING = RaftTiming(election_ticks_min=4, heartbeat_ticks=1, resend_ticks=3, quiesce_after_ticks=2)


def happen(member: Member, event: RaftMessage | str) -> None:
    try:
        match event:
            case "tick" | "timeout":
                for _ in range(1 if event == "tick" else 9):
                    if not member.raft.quiesced:
                        member.tick()
            case "propose":
                member.propose("p")
            case "read":
                member.read_index(1)
            case "transfer":
                member.transfer(2)
            case "persist":
                member.persist()
            case "start":
                member.start()
            case Heartbeat() if member.raft.log.last_index < event.commit_index <= NUMBER_MAX:
                pass  # this would say that the disk here lost an entry, and stop the member
            case _ if event.term == NUMBER_MAX:
                pass  # no clock gets there, and the member would have no term left to campaign in
            case _:
                before = member.raft.fingerprint()
                try:
                    member.step(event)
                except PeerProtocolViolation:
                    assert member.raft.fingerprint() == before, "a refused message changed it"
    except (NotLeader, Overloaded, TransferRefused, TransferUnderWay):
        pass


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(st.sampled_from(Role), st.booleans(), st.sampled_from([0, 2]), st.lists(EVENTS, max_size=20))
def test_no_message_of_a_peer_fails_an_assertion_or_changes_what_was_applied(
    role: Role, sync: bool, base: int, events: list[RaftMessage | str]
) -> None:
    """`Member` checks the invariants of the core around each event."""
    member = Member(1, terms=[1, 2, 2], term=2, timing=TIMING, base=base)
    if role in (Role.CANDIDATE, Role.PRE_CANDIDATE):
        member.tick(5)
    if role is Role.CANDIDATE:
        member.step(vote_reply(member, 2, term=3, pre=True))
    if role is Role.LEADER:
        member.lead()
        member.step(acceptance(member, 2, 4))
    if role is Role.FOLLOWER:
        member.step(heartbeat(member, 2, term=2, commit_index=2))
    assert member.raft.role is role
    member.sync = sync
    applied: list[Entry] = list(member.applied)
    for event in events:
        happen(member, event)
        if event == "start":
            applied = []
        assert member.applied[: len(applied)] == applied, "what was applied stays"
        applied = list(member.applied)

"""What a core takes for durable is on its disk, and stays there whatever the disk does next.

A follower may truncate an entry and get the same one again, index, term and content: the leader of
term 2 wrote it, the leader of term 3 replaced it, the leader of term 4 has it again. The first
write of the entry is on disk before the truncation, so it must not count for the copy that is
appended after the truncation.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.core.raft import Raft
from raftlog.core.types import LogIndex
from tests.core.member import Member, append_request, entries_of


def surely_durable(member: Member) -> int:
    """The last index that is on disk now and after each of the writes to come."""
    safe = len(member.disk_log)
    for ready in member.unsynced:
        if ready.truncate_from is not None:
            safe = min(safe, ready.truncate_from - 1)
    return safe


def test_a_write_proves_nothing_about_the_same_entry_appended_again() -> None:
    member = Member(1, terms=[1], sync=False)
    member.step(append_request(member, 2, term=2, prev=(1, 1), terms=[2]))
    member.step(append_request(member, 3, term=3, prev=(1, 1), terms=[3]))
    member.step(append_request(member, 2, term=4, prev=(1, 1), terms=[2, 4]))
    assert member.terms == [1, 2, 4]
    member.persist(1)
    assert [entry.term for entry in member.disk_log] == [1, 2]
    assert member.raft.durable_index == 1, "entry 2 of term 2 is about to be truncated"
    member.persist(1)
    assert member.raft.durable_index == 1
    member.persist()
    assert member.raft.durable_index == 3


def test_a_write_counts_for_entries_that_no_truncation_touched() -> None:
    member = Member(1, terms=[1], sync=False)
    member.step(append_request(member, 2, term=2, prev=(1, 1), terms=[2, 2, 2, 2]))
    member.step(append_request(member, 3, term=3, prev=(2, 3), terms=[3, 3]))
    assert member.raft.durable_index == 1
    member.persist(1)
    assert member.raft.durable_index == 3
    member.persist()
    assert member.raft.durable_index == 5


def test_writes_are_numbered_from_one_without_a_gap() -> None:
    member = Member(1, terms=[1])
    member.step(append_request(member, 2, term=2, prev=(1, 1), terms=[2]))
    member.step(append_request(member, 2, term=2, prev=(2, 2)))
    member.step(append_request(member, 3, term=3, prev=(1, 1), terms=[3]))
    numbers = [ready.write_number for ready in member.outputs]
    assert [number for number in numbers if number] == [1, 2]
    for ready in member.outputs:
        assert bool(ready.write_number) == bool(ready.entries or ready.truncate_from)


def test_entries_never_handed_out_cannot_be_durable() -> None:
    member = Member(1, terms=[1], sync=False)
    with pytest.raises(AssertionError):
        member.raft.persisted(1)


TERMS = 12


def log_of_leader(term: int) -> tuple[int, ...]:
    """The leader's log of each term: one (index, term) has one entry and one log before it."""
    match term % 4:
        case 0 | 2:
            return (1, 2, 2, term) if term > 2 else (1, 2, 2)
        case 1:
            return (1, 2, term, term)
        case _:
            return (1, term, term)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.booleans(), st.integers(1, 3)),
        st.tuples(st.just("persist"), st.just(True), st.integers(1, 3)),
        st.tuples(st.just("copy"), st.just(True), st.just(0)),
    ),
    max_size=40,
)
"""An append by a new leader or the same one, from an index on; a number of writes; a copy."""


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_what_counts_as_durable_survives_every_write_to_come(steps: list) -> None:
    member, term = Member(1, terms=[1], sync=False), 2
    for what, new_leader, number in steps:
        if what == "append":
            term = min(term + new_leader, TERMS)
            log = log_of_leader(term)
            request = append_request(
                member,
                2 + term % 2,
                term=term,
                prev=(log[number - 1], number),
                terms=log[number:],
            )
            member.step(request)
        elif what == "persist":
            member.persist(min(number, len(member.unsynced)))
        else:
            copy: Raft = member.raft.clone()
            assert copy.fingerprint() == member.raft.fingerprint()
            member.raft = copy
        assert member.raft.durable_index <= surely_durable(member)
        durable = LogIndex(member.raft.durable_index)
        assert member.disk_log[:durable] == member.log[:durable]
    member.persist()
    assert member.raft.durable_index == len(member.log)
    assert member.disk_log == member.log == entries_of(member.terms)

"""The key-value store's machine: writes once and by version, reads now and at an index."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import pytest

from raftlog.auth import grant_keys, quota_keys
from raftlog.core.types import GroupId, LogIndex, NodeId
from raftlog.errors import MalformedRequest
from raftlog.machines import kv
from raftlog.machines.commands import CreateKv, KvCommand
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.encoding import encode_outcome
from raftlog.machines.group_info import KvInfo
from raftlog.machines.kv import KvMachine
from raftlog.machines.kv_commands import ANY_VERSION, DeleteKey, KeyValue, OpenSession, PutKey
from raftlog.machines.limits import KvLimits
from raftlog.machines.outcomes import KeyWritten, KvCreated, KvOutcome, Refused, SessionOpened
from raftlog.machines.rules import RULES_LATEST
from raftlog.wire.codec import (
    GroupState,
    decode_command,
    decode_state,
    encode_command,
    encode_state,
)

INFO = KvInfo(group=GroupId(1), voters=(NodeId(1),), created_us=1, rules=RULES_LATEST)


class Store:
    """A machine, and a session whose writes count by themselves."""

    def __init__(self, limits: KvLimits | None = None) -> None:
        self.machine = KvMachine(INFO, limits)
        self.index = 0
        self.sequence = 0
        self.owner = ""
        self.share = ""
        self.session = self.open()

    def apply(self, command: KvCommand) -> KvOutcome:
        self.index += 1
        return self.machine.apply(LogIndex(self.index), command)

    def open(self, owner: str = "", ends: str = "") -> str:
        session = f"{self.index:032x}"
        outcome = self.apply(OpenSession(session=session, owner=owner, ends=ends))
        assert outcome == SessionOpened(session=session)
        return session

    def put(self, key: str, value: bytes = b"", expected: int = ANY_VERSION) -> KvOutcome:
        self.sequence += 1
        return self.apply(self.a_put(key, value, expected))

    def a_put(self, key: str, value: bytes = b"", expected: int = ANY_VERSION) -> PutKey:
        return PutKey(
            session=self.session,
            owner=self.owner,
            sequence=self.sequence,
            key=key,
            value=value,
            expected=expected,
            share=self.share,
        )

    def delete(self, key: str, expected: int = ANY_VERSION) -> KvOutcome:
        self.sequence += 1
        return self.apply(
            DeleteKey(
                session=self.session,
                owner=self.owner,
                sequence=self.sequence,
                key=key,
                expected=expected,
            )
        )

    def pairs(
        self, prefix: str = "", start: str = "", end: str = "", at: int | None = None
    ) -> list[KeyValue]:
        index = LogIndex(self.index if at is None else at)
        return list(self.machine.pairs(prefix, start, end, index))


def test_a_version_is_the_index_of_the_entry_that_wrote_the_value() -> None:
    store = Store()
    assert store.put("a", b"1") == KeyWritten(version=LogIndex(2), previous=LogIndex(0))
    assert store.put("a", b"2") == KeyWritten(version=LogIndex(3), previous=LogIndex(2))
    assert store.pairs() == [KeyValue("a", LogIndex(3), b"2")]
    assert store.delete("a") == KeyWritten(version=LogIndex(0), previous=LogIndex(3))
    assert store.delete("a") == KeyWritten(version=LogIndex(0), previous=LogIndex(0))
    assert store.pairs() == []


def test_compare_and_set_is_done_only_at_the_expected_version() -> None:
    store = Store()
    assert isinstance(store.put("a", b"1", expected=0), KeyWritten)
    found = store.put("a", b"2", expected=0)
    assert found == Refused(
        code="VersionConflict", values=(("expected", 0), ("found", 2), ("key", "a"))
    )
    assert isinstance(store.delete("a", expected=7), Refused)
    assert store.pairs() == [KeyValue("a", LogIndex(2), b"1")]
    assert isinstance(store.put("a", b"2", expected=2), KeyWritten)
    assert isinstance(store.delete("a", expected=5), KeyWritten)


def test_a_resend_gets_the_first_outcome_and_changes_nothing() -> None:
    store = Store()
    first = store.put("a", b"1", expected=0)
    changes = store.machine.changes(LogIndex(0), "")
    assert store.apply(store.a_put("a", b"1", expected=0)) == first
    assert store.machine.changes(LogIndex(0), "") == changes


def test_a_refusal_is_remembered_so_a_late_resend_of_it_is_not_done() -> None:
    """The caller was told that nothing happened."""
    store = Store()
    store.put("a", b"1")
    refused = store.put("a", b"2", expected=0)
    late = store.a_put("a", b"2", expected=0)
    other = Store.__new__(Store)
    other.machine, other.index, other.sequence = store.machine, store.index, 0
    other.owner = other.share = ""
    other.session = other.open()
    other.delete("a")
    store.index = other.index
    assert store.apply(late) == dataclasses.replace(refused)
    assert store.pairs() == []


def test_a_resend_after_the_next_write_of_its_session_is_refused() -> None:
    store = Store()
    store.put("a", b"1")
    late = store.a_put("a", b"1")
    store.put("a", b"2")
    found = store.apply(late)
    assert isinstance(found, Refused)
    assert found.code == "SequencePassed"
    assert store.pairs()[0].value == b"2"


def test_the_session_that_is_silent_longest_ends() -> None:
    store = Store(KvLimits(sessions_max=2))
    second = store.open()
    store.put("a")
    store.open()
    found = store.apply(a_put(second))
    assert found == Refused(code="UnknownSession", values=(("session", second),))
    assert isinstance(store.put("c"), KeyWritten)


def a_put(session: str, owner: str = "", sequence: int = 1, value: bytes = b"") -> PutKey:
    return PutKey(
        session=session, owner=owner, sequence=sequence, key="b", value=value, expected=ANY_VERSION
    )


def code(outcome: KvOutcome) -> str:
    return outcome.code if isinstance(outcome, Refused) else ""


def test_who_has_most_sessions_loses_one_so_nobody_ends_those_of_others() -> None:
    store = Store(KvLimits(sessions_max=5))
    adas = store.open("ada")
    eves = [store.open("eve") for _ in range(20)]
    assert code(store.apply(a_put(adas, "ada"))) == ""
    assert code(store.put("a")) == "", "nor those of callers without a name"
    alive = [session for session in eves if not code(store.apply(a_put(session, "eve")))]
    assert alive == eves[-3:]


def test_a_session_is_its_owners_alone() -> None:
    store = Store()
    session = store.open("ada")
    for owner in ("eve", ""):
        assert code(store.apply(a_put(session, owner))) == "UnknownSession"
        store.open(owner, ends=session)
    assert code(store.apply(a_put(session, "ada"))) == ""


def test_the_next_session_ends_the_one_that_was_given_up() -> None:
    """So a write that is still on its way is not done after what the client writes next."""
    store = Store()
    former, late = store.session, a_put(store.session)
    store.session = store.open(ends=former)
    assert code(store.put("b", b"newer")) == ""
    assert code(store.apply(late)) == "UnknownSession"
    assert [each.value for each in store.pairs()] == [b"newer"]


@pytest.mark.parametrize(
    "other",
    [
        {"value": b"2"},
        {"key": "a"},
        {"expected": 0},
    ],
)
def test_another_write_under_a_used_number_is_no_repeat(other: dict[str, Any]) -> None:
    store = Store()
    first = a_put(store.session, value=b"1")
    written = store.apply(first)
    assert store.apply(first) == written
    assert code(store.apply(dataclasses.replace(first, **other))) == "SequenceReused"
    deleted = DeleteKey(
        session=first.session, owner="", sequence=1, key=first.key, expected=first.expected
    )
    assert code(store.apply(deleted)) == "SequenceReused"
    assert [each.value for each in store.pairs()] == [b"1"]


@pytest.mark.parametrize("sequence", [2, 1 << 62])
def test_a_number_that_is_not_the_next_one_blocks_no_session(sequence: int) -> None:
    store = Store()
    assert code(store.apply(a_put(store.session, sequence=sequence))) == "SequenceGap"
    assert code(store.put("a")) == ""


def test_the_bounds_refuse_what_would_exceed_them_and_nothing_else() -> None:
    store = Store(KvLimits(keys_max=2, bytes_max=8))
    store.put("a", b"123")
    assert isinstance(store.put("b", b"1234"), Refused)
    assert isinstance(store.put("b", b"123"), KeyWritten)
    assert isinstance(store.put("c", b""), Refused)
    assert isinstance(store.put("a", b""), KeyWritten)
    store.delete("b")
    assert isinstance(store.put("c", b"123456"), KeyWritten)


@pytest.mark.parametrize("limits", [KvLimits(keys_max=10), KvLimits(bytes_max=200)])
@pytest.mark.parametrize("prefix", [grant_keys.KEY_PREFIX, quota_keys.KEY_PREFIX])
def test_who_fills_the_store_leaves_room_for_grants_and_quotas(
    limits: KvLimits, prefix: str
) -> None:
    store = Store(limits)
    full = next(n for n in range(100) if code(store.put(f"raftlog/positions/{n}")) == "TooMany")
    assert code(store.put(f"key-{full}-and-more")) == "TooMany"
    assert code(store.put(f"{prefix}a")) == ""


class Principal(Store):
    """What a principal writes into a store that others use too."""

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.machine = store.machine
        self.sequence = 0
        self.owner = self.share = name
        self.session = f"{store.index:032x}"
        self.apply(OpenSession(session=self.session, owner=name, ends=""))

    def apply(self, command: KvCommand) -> KvOutcome:
        return self.store.apply(command)


@pytest.mark.parametrize("limits", [KvLimits(keys_max=100), KvLimits(bytes_max=10_000)])
@pytest.mark.parametrize(
    ("prefix", "part"),
    [("app/", 2), ("raftlog/written/", 10), (grant_keys.KEY_PREFIX, 10)],
)
def test_no_principal_fills_the_store(limits: KvLimits, prefix: str, part: int) -> None:
    """Grants too: an admin of one topic grants rights on it to as many principals as it likes."""
    store = Store(limits)
    eve, ada = Principal(store, "eve"), Principal(store, "ada")
    value = b"x" * (100 - len(f"{prefix}000"))
    full = next(n for n in range(100) if code(eve.put(f"{prefix}{n:03}", value)))
    assert full == 90 // part, "of the room that is for no grants, which is 90 keys"
    refused = eve.put(f"{prefix}{full:03}", value)
    assert isinstance(refused, Refused)
    assert dict(refused.values)["what"] == "The share of eve in the key-value store"
    assert code(eve.put(f"{prefix}000", value[::-1])) == "", "as large as it was"
    assert code(eve.put("other/" if part == 10 else "raftlog/queries/i/q", b"")) == ""
    assert code(ada.put(f"{prefix}ada", value[:90])) == ""
    assert code(store.put(f"{prefix}admin", value[:90])) == "", "an admin has no share"
    assert code(eve.delete(f"{prefix}000")) == ""
    assert code(eve.put(f"{prefix}{full:03}", value)) == "", "in place of that"


def test_a_key_is_in_the_share_of_the_principal_that_wrote_it_last() -> None:
    store = Store(KvLimits(keys_max=20))
    eve, ada = Principal(store, "eve"), Principal(store, "ada")
    assert code(ada.put("raftlog/positions/g/t")) == ""
    assert code(ada.put("raftlog/positions/g/u")) == "TooMany"
    assert code(eve.put("raftlog/positions/g/t")) == ""
    assert code(ada.put("raftlog/positions/g/u")) == ""
    assert code(ada.put("raftlog/positions/g/t")) == "TooMany", "it would be the second one again"
    assert code(eve.put("raftlog/positions/g/v")) == "TooMany"
    assert [each.owner for each in store.pairs()] == ["eve", "ada"]


@pytest.mark.parametrize(
    "command",
    [
        PutKey(
            session="0" * 32, owner="", sequence=1, key="a", value=b"", expected=0, share="s" * 1025
        ),
        PutKey(session="0" * 32, owner="", sequence=0, key="a", value=b"", expected=0),
        PutKey(session="0" * 32, owner="", sequence=1, key="", value=b"", expected=0),
        PutKey(session="0" * 32, owner="", sequence=1, key="a" * 1025, value=b"", expected=0),
        PutKey(session="0" * 32, owner="", sequence=1, key="a", value=b"1" * 65_537, expected=0),
        DeleteKey(session="0" * 32, owner="", sequence=1, key="a", expected=-2),
        OpenSession(session="0" * 31, owner="", ends=""),
    ],
)
def test_what_the_rules_cannot_judge_is_refused(command: KvCommand) -> None:
    found = Store().apply(command)
    assert isinstance(found, Refused)
    assert found.code == "MalformedRequest"


def test_a_scan_is_of_a_prefix_and_a_range_in_order() -> None:
    store = Store()
    for key in ("b/2", "a", "b/1", "c", "b", "b/3"):
        store.put(key)
    assert [each.key for each in store.pairs()] == ["a", "b", "b/1", "b/2", "b/3", "c"]
    assert [each.key for each in store.pairs("b/")] == ["b/1", "b/2", "b/3"]
    assert [each.key for each in store.pairs("b/", start="b/2")] == ["b/2", "b/3"]
    assert [each.key for each in store.pairs(start="b", end="b/3")] == ["b", "b/1", "b/2"]


def random_command(chance: Random, store: Store, sessions: dict[str, int]) -> KvCommand:
    """`sessions`: by id, the number of its last write."""
    key = chance.choice("abcde") * chance.randint(1, 2)
    expected = chance.choice([ANY_VERSION, ANY_VERSION, 0, max(0, store.index - 3)])
    if chance.randrange(6) == 0:
        return OpenSession(session=f"{store.index:032x}", owner="", ends="")
    session, step = chance.choice(list(sessions)), chance.choice([1, 1, 1, 1, 1, 1, 0, 2, -1])
    sequence = max(1, sessions[session] + step)
    sessions[session] += sequence == sessions[session] + 1
    given: dict[str, Any] = {
        "session": session,
        "owner": "",
        "sequence": sequence,
        "key": key,
        "expected": expected,
    }
    if chance.randrange(5) == 0:
        return DeleteKey(**given)
    share = chance.choice(["", "ada", "eve"])
    return PutKey(**given, value=chance.randbytes(chance.randint(0, 4)), share=share)


@pytest.mark.parametrize("seed", range(20))
def test_the_state_at_every_kept_index_is_what_it_was_then(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kv, "CHANGES_KEPT", 30)
    chance, store = Random(seed), Store()
    then: dict[int, list[KeyValue]] = {1: []}
    sessions = {store.session: 0}
    for _ in range(200):
        outcome = store.apply(random_command(chance, store, sessions))
        if isinstance(outcome, SessionOpened):
            sessions[outcome.session] = 0
        then[store.index] = store.pairs()
    kept = [index for index in then if store.machine.knows(LogIndex(index))]
    assert len(kept) >= 30
    assert kept[0] == store.machine.changes_after, "the first that is kept is known as well"
    for index in kept:
        assert store.pairs(at=index) == then[index]
        after = {each.key: each._replace(owner="") for each in then[index]}
        for change in store.machine.changes(LogIndex(index), ""):
            after.pop(change.key, None)
            if not change.deleted:
                after[change.key] = KeyValue(change.key, change.version, change.value)
        found = [each._replace(owner="") for each in store.pairs()]
        assert sorted(after.values()) == found, "the changes lead to what is there now"


def test_a_machine_made_from_its_state_goes_on_as_the_same() -> None:
    for seed in range(20):
        _goes_on_as_the_same(seed)


def _goes_on_as_the_same(seed: int) -> None:
    limits = KvLimits(keys_max=6, bytes_max=20, sessions_max=3)
    chance, store = Random(seed), Store(limits)
    again = KvMachine.restore(INFO, store.machine.state(), limits)
    sessions = {store.session: 0}
    for _ in range(200):
        command = random_command(chance, store, sessions)
        outcome = store.apply(decode_command(encode_command(command, None)))
        if isinstance(outcome, SessionOpened):
            sessions[outcome.session] = 0
        assert again.apply(LogIndex(store.index), command) == outcome
        assert encode_outcome(outcome)
        assert again.fingerprint() == store.machine.fingerprint()
        if chance.random() < 0.1:
            state = decode_state(encode_state(GroupState(store.machine.state()))).machine
            assert state == store.machine.state()
            again = KvMachine.restore(INFO, state, limits)
            assert again.fingerprint() == store.machine.fingerprint()


def test_a_state_that_no_machine_has_is_a_clear_error() -> None:
    store = Store()
    store.put("a", b"1")
    store.put("b", b"1")
    state = store.machine.state()
    replace = dataclasses.replace
    for what, broken in (
        ("keys that are not in order", replace(state, keys=state.keys[::-1])),
        ("keys, of which two", replace(state, keys=state.keys[:1] * 2)),
        ("between 0 and entry 2", replace(state, last_index=LogIndex(2))),
        ("sessions, of which", replace(state, sessions=state.sessions * 2)),
        ("a result of 9", replace(state, sessions=(replace(state.sessions[0], result=9),))),
        ("id has 3", replace(state, sessions=(replace(state.sessions[0], session="abc"),))),
        ("a digest of 0", replace(state, sessions=(replace(state.sessions[0], digest=b""),))),
        ("a number of 0 in KvState.rules", replace(state, rules=0)),
    ):
        with pytest.raises(MalformedRequest, match=what):
            decode_state(encode_state(GroupState(broken)))


def test_the_controller_creates_one_store_and_returns_it_ever_after() -> None:
    controller = ControllerMachine()
    create = CreateKv(voters=(NodeId(1),), timestamp_us=5)
    before = controller.fingerprint()
    created = controller.apply(LogIndex(1), create)
    assert isinstance(created, KvCreated)
    assert not created.existed
    assert controller.fingerprint() != before
    assert controller.groups() == [created.kv]
    assert controller.info_of(created.kv.group) == created.kv
    again = controller.apply(LogIndex(2), create)
    assert again == dataclasses.replace(created, existed=True)
    state = decode_state(encode_state(GroupState(controller.state()))).machine
    restored = ControllerMachine.restore(state)
    assert (restored.kv, restored.fingerprint()) == (created.kv, controller.fingerprint())

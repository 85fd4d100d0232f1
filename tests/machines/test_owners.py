"""Whose a writer is, and who may continue it."""

from __future__ import annotations

import pytest

from raftlog.machines.commands import AbortEpoch, CommitEpoch, SetWriterOwner, Stage
from raftlog.machines.outcomes import EpochAborted, Outcome, Refused, WriterOwnerSet
from raftlog.machines.topic import TopicMachine
from tests.machines.scenes import TOPIC, batch, key, reference


class Owned:
    """A topic whose commands come from identities."""

    def __init__(self) -> None:
        self.machine = TopicMachine(TOPIC)
        self._index = 0

    def _apply(self, command: object) -> Outcome:
        self._index += 1
        return self.machine.apply(self._index, command)  # type: ignore[arg-type]

    def stage(
        self, epoch: int, owner: str, run: str = "r", *, any_owner: bool = False, writer: str = "w"
    ) -> Outcome:
        return self._apply(
            Stage(
                key=key(epoch, run=run, writer=writer),
                attempt="a",
                number=0,
                timestamp_us=0,
                batch=batch(1),
                create_writer=False,
                owner=owner,
                any_owner=any_owner,
            )
        )

    def commit(self, epoch: int, owner: str, run: str = "r", *, any_owner: bool = False) -> Outcome:
        return self._apply(
            CommitEpoch(
                key=key(epoch, run=run),
                attempts=(reference("a", [batch(1)]),),
                schema_version=1,
                timestamp_us=0,
                keep_on_mismatch=False,
                create_writer=False,
                transient_writer=False,
                owner=owner,
                any_owner=any_owner,
            )
        )

    def abort(self, epoch: int, owner: str, *, any_owner: bool = False) -> Outcome:
        return self._apply(AbortEpoch(key=key(epoch, run="r"), owner=owner, any_owner=any_owner))

    def give(self, owner: str) -> Outcome:
        return self._apply(SetWriterOwner(writer=key(0).writer, owner=owner))

    @property
    def owner(self) -> str:
        row = self.machine.writer(key(0).writer)
        assert row is not None
        return row.owner


def is_of_another(outcome: Outcome) -> bool:
    return isinstance(outcome, Refused) and outcome.code == "WriterOfAnother"


@pytest.fixture
def topic() -> Owned:
    return Owned()


def test_a_writer_belongs_to_who_began_it(topic: Owned) -> None:
    assert not isinstance(topic.stage(0, "ada"), Refused)
    before = topic.machine.fingerprint()
    assert is_of_another(topic.stage(0, "eve", run="of-eve"))
    assert is_of_another(topic.commit(0, "eve", run="of-eve"))
    assert is_of_another(topic.abort(0, "eve"))
    assert topic.machine.fingerprint() == before, "nothing was fenced, staged or dropped"
    assert not isinstance(topic.commit(0, "ada"), Refused)
    assert is_of_another(topic.commit(0, "eve")), "not even what was committed is told"
    assert topic.owner == "ada"


def test_one_that_is_nobodys_belongs_to_the_first_who_continues_it(topic: Owned) -> None:
    topic.stage(0, "")
    topic.commit(0, "")
    assert topic.owner == ""
    topic.stage(1, "eve")
    assert topic.owner == "eve"
    assert is_of_another(topic.stage(1, "ada"))


def test_a_principal_that_may_continue_all_takes_none_over(topic: Owned) -> None:
    topic.stage(0, "ada")
    assert not isinstance(topic.commit(0, "root", any_owner=True), Refused)
    assert topic.owner == "ada"
    topic.stage(1, "ada")
    assert topic.abort(1, "root", any_owner=True) == EpochAborted(attempts=1)


def test_a_principal_that_may_continue_all_owns_what_it_begins(topic: Owned) -> None:
    topic.stage(0, "root", any_owner=True)
    assert topic.owner == "root"
    before = topic.machine.fingerprint()
    assert is_of_another(topic.stage(0, "eve", run="of-eve"))
    assert is_of_another(topic.commit(0, "eve", run="of-eve"))
    assert is_of_another(topic.abort(0, "eve"))
    assert is_of_another(topic.stage(0, "", run="unknown")), "nor a caller without an identity"
    assert topic.machine.fingerprint() == before
    assert not isinstance(topic.commit(0, "root", any_owner=True), Refused)
    assert not isinstance(topic.stage(1, "root"), Refused), "also without the right"


def test_nodes_that_authenticate_no_caller_let_it_continue_all(topic: Owned) -> None:
    topic.stage(0, "ada")
    assert not isinstance(topic.commit(0, "", any_owner=True), Refused)
    assert topic.owner == "ada"


def test_a_writer_that_was_handed_over_belongs_to_its_new_owner_alone(topic: Owned) -> None:
    topic.stage(0, "token:old")
    staged = topic.machine.staged_bytes_of("token:old")
    assert topic.give("token:new") == WriterOwnerSet(known=True, former="token:old")
    assert topic.machine.staged_bytes_of("token:new") == staged == topic.machine.staged_bytes > 0
    assert topic.machine.staged_bytes_of("token:old") == 0
    assert is_of_another(topic.commit(0, "token:old"))
    assert not isinstance(topic.commit(0, "token:new"), Refused), "what was staged is kept"
    assert topic.owner == "token:new"


def test_a_writer_that_is_not_known_is_not_made_by_handing_it_over(topic: Owned) -> None:
    before = topic.machine.fingerprint()
    assert topic.give("token:new") == WriterOwnerSet(known=False, former="")
    assert topic.machine.fingerprint() == before


@pytest.mark.parametrize("owner", ["", "x" * 1025])
def test_an_owner_is_a_text_of_bounded_length(topic: Owned, owner: str) -> None:
    topic.stage(0, "token:old")
    outcome = topic.give(owner)
    assert isinstance(outcome, Refused)
    assert outcome.code == "MalformedRequest"
    assert topic.owner == "token:old"

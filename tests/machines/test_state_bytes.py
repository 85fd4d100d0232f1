"""No topic's state becomes larger than a file may be, whatever its writers do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args, get_type_hints

import pytest

from raftlog.image.limits import RECEIVED_SNAPSHOT_BYTES_MAX
from raftlog.machines import state
from raftlog.machines.columns import NUMBER_BYTES
from raftlog.machines.commands import EpochKey
from raftlog.machines.evolution import FIELD_TYPE_CHARACTERS_MAX, problem_of_schema
from raftlog.machines.limits import (
    EPOCH_COUNTS_KEPT,
    EPOCHS_OF_WRITER,
    FENCED_RUNS_KEPT,
    FORMER_FIELDS_MAX,
    NAME_CHARACTERS_MAX,
    OPEN_ATTEMPT_BYTES,
    SCHEMA_CHARACTERS_MAX,
    STAGED_ENTRY_BYTES,
    TEXT_CHARACTERS_MAX,
    ControllerLimits,
    KvLimits,
    TopicLimits,
)
from raftlog.machines.outcomes import Outcome
from raftlog.machines.schema import Field, FormerField, Schema
from raftlog.machines.settings import SETTINGS
from raftlog.machines.state import (
    AgesState,
    ExtentsState,
    FencedWrite,
    OpenAttemptState,
    OpenEpochState,
    TopicState,
    WriterRowState,
)
from raftlog.storage.checked_file import BYTES_MAX
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec_states import RECEIVED_FIELDS_MAX, GroupState, encode_state
from tests.machines.scenes import Scene, code, key

WIDE = "\U0001f600"
"""A character of four bytes."""
TEXT_BYTES = 4 * TEXT_CHARACTERS_MAX + 3
NAME_BYTES = 4 * NAME_CHARACTERS_MAX + 3
HEAD_BYTES = 1024
"""Numbers that a state has once."""
POSITIONS_MAX = 4096
COLUMNS_MAX = ControllerLimits().fields_max + FORMER_FIELDS_MAX
COUNTED = 0
"""It counts against a bound of bytes, which is in the table at the field around it."""


def most(limits: TopicLimits) -> dict[str, int]:
    """The most bytes of each part of a topic's state."""
    counts = limits.writers_max * EPOCH_COUNTS_KEPT * NUMBER_BYTES
    return {
        **dict.fromkeys(fields(TopicState), HEAD_BYTES),
        **dict.fromkeys(fields(ExtentsState), HEAD_BYTES),
        "ExtentsState.position_offsets": NUMBER_BYTES * POSITIONS_MAX,
        "ExtentsState.position_bytes": NUMBER_BYTES * POSITIONS_MAX,
        "TopicState.settings": 100 * len(SETTINGS),
        "TopicState.schemas": 4 * SCHEMA_CHARACTERS_MAX + COLUMNS_MAX * 100,
        "TopicState.producers": limits.producer_bytes_max,
        "ProducersState.names": COUNTED,
        "ProducersState.owners": COUNTED,
        "ProducersState.next_sequences": COUNTED,
        "ProducersState.append_counts": COUNTED,
        "ProducersState.appends": COUNTED,
        "ProducersState.ages": COUNTED,
        "ProducersState.forgotten": limits.producers_max * NAME_BYTES,
        **dict.fromkeys(fields(AgesState), COUNTED),
        "WritersState.rows": 2 * limits.writer_bytes_max,
        "WritersState.transient": COUNTED,
        "WritersState.open_epochs": COUNTED,
        "WritersState.forgotten": limits.transient_writers_max * TEXT_BYTES,
        "WritersState.dead_bytes": HEAD_BYTES,
        **dict.fromkeys(fields(WriterRowState), COUNTED),
        # An operator may give any row another owner.
        "WriterRowState.owner": limits.writers_max * TEXT_BYTES,
        "WriterRowState.epochs": counts,
        "WriterRowState.record_counts": counts,
        **dict.fromkeys(fields(FencedWrite), COUNTED),
        **dict.fromkeys(fields(OpenEpochState), COUNTED),
        **dict.fromkeys(fields(OpenAttemptState), COUNTED),
    }


def fields(kind: type[Any]) -> list[str]:
    return [f"{kind.__name__}.{name}" for name in get_type_hints(kind)]


def kinds_within(kind: type[Any]) -> Iterator[type[Any]]:
    """The kinds of values of raftlog's own states in this one, itself included."""
    yield kind
    for hint in get_type_hints(kind).values():
        for each in (hint, *get_args(hint)):
            if isinstance(each, type) and each.__module__ == state.__name__:
                yield from kinds_within(each)


def test_all_bounds_together_keep_a_topics_state_far_below_what_a_file_may_have() -> None:
    bounds = most(TopicLimits())
    found = {name for kind in kinds_within(TopicState) for name in fields(kind)}
    assert found == set(bounds), "what a state may hold has a bound here"
    assert 3 * sum(bounds.values()) < 2 * BYTES_MAX
    assert sum(bounds.values()) < RECEIVED_SNAPSHOT_BYTES_MAX


def test_a_state_of_a_topic_or_of_keys_within_all_bounds_is_taken_from_another_node() -> None:
    limits, keys = TopicLimits(), KvLimits()
    rows = limits.writers_max + limits.transient_writers_max
    epochs = limits.epochs_max + EPOCHS_OF_WRITER * rows
    # A row has them all; an attempt's are not counted, and each has a name and an entry.
    of_a_row = len(pb.WriterRowState.DESCRIPTOR.fields) + FENCED_RUNS_KEPT
    attempt_bytes = OPEN_ATTEMPT_BYTES + 1 + STAGED_ENTRY_BYTES
    counts = (
        rows * (1 + of_a_row),
        epochs * len(pb.OpenEpochState.DESCRIPTOR.fields),
        2 * limits.writer_bytes_max // attempt_bytes,
        limits.transient_writers_max,
        3 * limits.producers_max,
        COLUMNS_MAX,
        HEAD_BYTES,
    )
    assert sum(counts) < RECEIVED_FIELDS_MAX
    assert keys.keys_max + keys.sessions_max + HEAD_BYTES < RECEIVED_FIELDS_MAX


def length(scene: Scene) -> int:
    return len(encode_state(GroupState(scene.machine.state())))


def bare_rows(scene: Scene) -> Outcome:
    return scene.commit_epoch(key(0, writer=f"{scene.index}", query_id="q", run="r"))


def rows_of_wide_texts(scene: Scene) -> Outcome:
    wide = f"{scene.index}".ljust(TEXT_CHARACTERS_MAX, WIDE)
    of = EpochKey(
        writer=wide, query_id=wide, run=wide, epoch=0, streaming=False, stream=wide,
        stream_run=wide, stream_batch=0,
    )  # fmt: skip
    return scene.commit_epoch(of, plan=wide, owner=wide)


def runs_of_one_row(scene: Scene) -> Outcome:
    writer, run = divmod(scene.index, 20)
    of = key(run, writer=f"{writer}", run=f"{run}".ljust(TEXT_CHARACTERS_MAX, WIDE))
    return scene.commit_epoch(of, create_writer=True)


def attempts_of_an_epoch(scene: Scene) -> Outcome:
    return scene.stage(key(0), f"{scene.index}", 0, scene.new_batch(1))


def attempts_of_wide_names(scene: Scene) -> Outcome:
    attempt = f"{scene.index}".ljust(NAME_CHARACTERS_MAX, WIDE)
    return scene.stage(key(0), attempt, 0, scene.new_batch(1))


def epochs_of_one_attempt(scene: Scene) -> Outcome:
    return scene.stage(key(2**62 + scene.index), "a", 0, scene.new_batch(1), create_writer=True)


def stages_of_an_attempt(scene: Scene) -> Outcome:
    return scene.stage(key(0), "a", scene.index, scene.new_batch(1))


@pytest.mark.parametrize(
    "write",
    [
        bare_rows, rows_of_wide_texts, runs_of_one_row, attempts_of_an_epoch,
        attempts_of_wide_names, epochs_of_one_attempt, stages_of_an_attempt,
    ],
)  # fmt: skip
def test_what_counts_of_lasting_writers_is_no_less_than_what_their_state_takes(
    write: Callable[[Scene], Outcome],
) -> None:
    limits = TopicLimits(writer_bytes_max=256 * 1024)
    scene = Scene(limits)
    while code(outcome := write(scene)) in ("EpochCommitted", "Staged"):
        pass
    assert code(outcome) == "TooMany"
    counts = sum(len(row.epochs) for row in scene.machine.state().writers.rows) * 2
    assert length(scene) < limits.writer_bytes_max + counts + HEAD_BYTES


def test_what_counts_of_transient_writers_is_no_less_than_what_their_state_takes() -> None:
    limits = TopicLimits(writer_bytes_max=64 * 1024)
    scene = Scene(limits)
    for number in range(2000):
        scene.commit_epoch(
            key(number, writer=f"{number % 20}", run=f"{number % 20}", streaming=False),
            transient=True,
        )
    kept = scene.machine.state().writers
    assert 0 < len(kept.rows) < 20, "epochs count for transient rows"
    assert length(scene) < limits.writer_bytes_max + HEAD_BYTES


@pytest.mark.parametrize("appends", [1, 70])
@pytest.mark.parametrize("wide", [False, True])
def test_what_counts_of_producers_is_no_less_than_what_their_state_takes(
    appends: int, wide: bool
) -> None:
    limits = TopicLimits(producer_bytes_max=64 * 1024)
    scene = Scene(limits)
    number = 0
    while not (forgotten := scene.machine.state().producers.forgotten):
        text = f"{number}".ljust(NAME_CHARACTERS_MAX if wide else 1, WIDE)
        for sequence in range(appends):
            scene.append(sequence, scene.new_batch(1), producer=text, owner=text)
        number += 1
        assert number < 1000, "they make room"
    assert number > 10
    names = sum(len(name.encode()) + 3 for name in forgotten)
    assert length(scene) < limits.producer_bytes_max + names + HEAD_BYTES


def test_a_schema_of_too_many_characters_is_refused() -> None:
    count, rest = divmod(SCHEMA_CHARACTERS_MAX, FIELD_TYPE_CHARACTERS_MAX)
    assert rest == 0
    types = ["t" * (FIELD_TYPE_CHARACTERS_MAX - 5)] * count
    columns = [
        Field(id=number, name=f"{number:05}", type=each, nullable=True)
        for number, each in enumerate(types, 1)
    ]
    assert problem_of_schema(Schema(version=1, fields=tuple(columns))) is None
    former = FormerField(id=99999, name="", type="t", nullable=True, until=1)
    problem = problem_of_schema(Schema(version=2, fields=tuple(columns), former=(former,)))
    assert problem is not None
    assert f"has {SCHEMA_CHARACTERS_MAX + 1} characters" in problem

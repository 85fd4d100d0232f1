"""Whether a machine can be made of a state that was read from bytes: sizes, ranges, places, names.

A snapshot's file has a checksum, and its machine's fingerprint is known. So what is found here was
written by a defective program, and must be an error that can be reported, not a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from raftlog.machines.columns import NUMBER_BYTES, unpack
from raftlog.machines.commands import TopicInfo
from raftlog.machines.digest import DIGEST_BYTES
from raftlog.machines.evolution import problem_of_schema
from raftlog.machines.kv import Result
from raftlog.machines.kv_commands import SESSION_CHARACTERS
from raftlog.machines.rules import RULES_FIRST
from raftlog.machines.state import (
    AgesState,
    ControllerState,
    ExtentsState,
    KvState,
    OpenAttemptState,
    ProducersState,
    TopicState,
    WriterRowState,
    WritersState,
)


def problem_of_topic_state(state: TopicState) -> str | None:
    """What is wrong with the state, or None."""
    numbers = (
        state.rules - RULES_FIRST,
        state.last_index,
        state.now_us,
        state.unused_bytes,
        state.writers.dead_bytes,
        state.settings_version,
        *(setting.value for setting in state.settings),
        *(schema.version for schema in state.schemas),
    )
    if len(state.schemas) > 1:
        return f"{len(state.schemas)} schemas; there is one at most"
    for schema in state.schemas:
        if schema.version < 2 or problem_of_schema(schema) is not None:
            return f"a schema of version {schema.version} that no topic comes to"
    return (
        _problem_of_numbers(numbers)
        or _problem_of_extents(state.extents)
        or _problem_of_producers(state.producers)
        or _problem_of_writers(state.writers)
    )


def problem_of_kv_state(state: KvState) -> str | None:
    """What is wrong with the state, or None."""
    keys = [each.key for each in state.keys]
    if keys != sorted(keys) or "" in keys:
        return "keys that are not in order"
    if any(not 0 < each.version <= state.last_index for each in state.keys):
        return f"a version that is not between 0 and entry {state.last_index}"
    for each in state.sessions:
        if len(each.session) != SESSION_CHARACTERS:
            return f"a session whose id has {len(each.session)} characters"
        if len(each.digest) != (DIGEST_BYTES if each.sequence else 0):
            return f"a session whose last write has a digest of {len(each.digest)} bytes"
        numbers = (each.sequence, each.version, each.previous)
        if each.result not in set(Result):
            return f"a result of {each.result}"
        if problem := _problem_of_numbers(numbers):
            return problem
    return (
        _problem_of_numbers((state.rules - RULES_FIRST, state.last_index))
        or _problem_of_keys("keys", keys)
        or _problem_of_keys("sessions", ((each.owner, each.session) for each in state.sessions))
    )


def problem_of_controller_state(state: ControllerState) -> str | None:
    """What is wrong with the state, or None."""
    topics: list[tuple[str, Callable[[TopicInfo], object], tuple[TopicInfo, ...]]] = [
        ("names of topics", lambda topic: topic.name, state.topics),
        ("groups", lambda topic: topic.group, state.topics + state.deleted),
        ("deleted incarnations", lambda topic: topic.incarnation, state.deleted),
    ]
    if len(state.kvs) > 1:
        return f"{len(state.kvs)} key-value stores; there is one at most"
    for what, key, infos in topics:
        if problem := _problem_of_keys(what, map(key, infos)):
            return problem
    groups = [each.group for each in state.topics + state.deleted]
    groups += [each.group for each in state.kvs]
    if any(not 0 < group < state.next_group_id for group in groups):
        return f"a group that is not between 0 and {state.next_group_id}"
    numbers = (state.rules - RULES_FIRST, state.last_index, state.last_timestamp_us)
    return _problem_of_numbers(numbers) or _problem_of_keys(
        "nodes", (node.node for node in state.nodes)
    )


def _problem_of_extents(state: ExtentsState) -> str | None:
    if len(state.digest) != DIGEST_BYTES:
        return f"a digest of {len(state.digest)} bytes"
    columns = (state.position_offsets, state.position_bytes)
    if problem := _problem_of_columns("byte positions", columns):
        return problem
    ends = (state.high_water_mark, state.published_bytes)
    for column, end in zip(map(unpack, columns), ends, strict=True):
        if not column or column[0] < 0 or column[-1] > end:
            return f"byte positions that are not between 0 and {end}"
        if any(after < before for before, after in pairwise(column)):
            return "byte positions that fall"
    return None


def _problem_of_producers(state: ProducersState) -> str | None:
    columns = (state.next_sequences, state.append_counts)
    if problem := _problem_of_columns("producers", columns, len(state.names)):
        return problem
    if len(state.owners) != len(state.names):
        return f"{len(state.owners)} owners of {len(state.names)} producers"
    counts = unpack(state.append_counts)
    if min(counts, default=0) < 0 or len(state.appends) != 3 * NUMBER_BYTES * sum(counts):
        return f"appends of {len(state.appends)} bytes, which are not those of the producers"
    return (
        _problem_of_keys("producers", state.names)
        or _problem_of_keys("forgotten producers", state.forgotten)
        or _problem_of_ages("producers", state.ages, len(state.names), all_of_them=True)
    )


def _problem_of_writers(state: WritersState) -> str | None:
    open_epochs = sum(len(row.open_epochs) for row in state.rows)
    return (
        _problem_of_keys("writers", (row.name for row in state.rows))
        or _problem_of_keys("forgotten writers", state.forgotten)
        or next(filter(None, map(_problem_of_row, state.rows)), None)
        or _problem_of_ages("transient writers", state.transient, len(state.rows))
        or _problem_of_ages("open epochs", state.open_epochs, open_epochs, all_of_them=True)
    )


def _problem_of_row(row: WriterRowState) -> str | None:
    return (
        _problem_of_columns("epochs", (row.epochs, row.record_counts))
        or _problem_of_keys("open epochs", (each.epoch for each in row.open_epochs))
        or next(filter(None, _problems_of_attempts(row)), None)
    )


def _problems_of_attempts(row: WriterRowState) -> Iterator[str | None]:
    for opened in row.open_epochs:
        yield _problem_of_keys("attempts", (each.attempt for each in opened.attempts))
        yield from map(_problem_of_attempt, opened.attempts)


def _problem_of_attempt(attempt: OpenAttemptState) -> str | None:
    if not 0 <= attempt.chained_crc < 2**32:
        return f"a chained CRC of {attempt.chained_crc}"
    columns = (attempt.indexes, attempt.record_counts, attempt.body_bytes, attempt.crcs)
    return _problem_of_columns("stages", columns)


def _problem_of_ages(
    what: str, ages: AgesState, keys: int, *, all_of_them: bool = False
) -> str | None:
    number = keys if all_of_them else None
    if problem := _problem_of_columns(f"ages of {what}", (ages.keys, ages.times_us), number):
        return problem
    places = unpack(ages.keys)
    if places and not 0 <= min(places) <= max(places) < keys:
        return f"ages of {what} that are not there"
    return _problem_of_keys(f"ages of {what}", places)


def _problem_of_columns(
    what: str, columns: tuple[bytes, ...], number: int | None = None
) -> str | None:
    """Whether the packed columns are whole and of one length: `number`, if it is given."""
    wanted = len(columns[0]) if number is None else NUMBER_BYTES * number
    if any(len(column) != wanted for column in columns) or wanted % NUMBER_BYTES:
        return f"{what} in columns of {[len(column) for column in columns]} bytes"
    return None


def _problem_of_keys(what: str, keys: Iterable[object]) -> str | None:
    seen: set[object] = set()
    for key in keys:
        if key in seen:
            return f"{what}, of which two are the same"
        seen.add(key)
    return None


def _problem_of_numbers(numbers: Iterable[int]) -> str | None:
    negative = [number for number in numbers if number < 0]
    return f"a number of {negative[0]}" if negative else None

"""Whether a machine can be made of a state that was read from bytes: sizes, ranges, places, names.

What is found here was written by a defective program, or by a member that lies: the state came
with an image. It must be an error that can be reported, and never an assertion of the machine that
is made of it. So this checks what the machine keeps true whatever its log holds, and no more: a
node checks its own snapshots in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, assert_never, get_type_hints

from raftlog.machines.columns import NUMBER_BYTES, unpack
from raftlog.machines.commands import (
    AddNode,
    Configure,
    CreateKv,
    CreateTopic,
    PlaceGroup,
    RegisterNode,
    TopicInfo,
)
from raftlog.machines.digest import DIGEST_BYTES
from raftlog.machines.evolution import problem_of_schema
from raftlog.machines.group_info import CreatedInfo, KvInfo
from raftlog.machines.kv import Result
from raftlog.machines.kv_commands import SESSION_CHARACTERS
from raftlog.machines.limits import (
    EPOCHS_OF_WRITER,
    INTEGER_MAX,
    KEY_CHARACTERS_MAX,
    VALUE_BYTES_MAX,
    TopicLimits,
)
from raftlog.machines.rules import RULES_FIRST
from raftlog.machines.settings import TopicSetting
from raftlog.machines.state import (
    COUNTED,
    GIVEN,
    AgesState,
    ControllerState,
    ExtentsState,
    KvState,
    MachineState,
    NodeState,
    OpenAttemptState,
    PlacementState,
    ProducersState,
    Range,
    TopicState,
    WriterRowState,
    WritersState,
)
from raftlog.machines.topic_names import is_topic_name
from raftlog.machines.validity import (
    problem_of_configure,
    problem_of_kv,
    problem_of_node,
    problem_of_node_command,
    problem_of_placement,
    problem_of_topic,
)

_RANGES = {
    (TopicInfo, "created_us"): GIVEN,
    (KvInfo, "created_us"): GIVEN,
    (TopicSetting, "value"): Range(0, INTEGER_MAX),
}
"""Of numbers in records that are not only in states."""


def problem_of_state(state: MachineState, counted_max: int = INTEGER_MAX) -> str | None:
    """What is wrong with the state, or None. No number that a machine counts is above
    `counted_max`."""
    problem = next(_problems_of_numbers(state, Range(0, counted_max)), None)
    if problem is not None:
        return problem
    match state:
        case TopicState():
            return _problem_of_topic_state(state)
        case ControllerState():
            return _problem_of_controller_state(state)
        case KvState():
            return _problem_of_kv_state(state)
        case _:
            assert_never(state)


def _problems_of_numbers(record: Any, counted: Range) -> Iterator[str]:
    """Whether each number of the record, and of those in it, is in its range."""
    kind: type = type(record)
    for name, named in _ranges_of(kind):
        value = getattr(record, name)
        numbers: Sequence[int] = ()
        match value:
            case bool() | str():
                continue
            case int():
                numbers = (value,)
            case bytes():
                if named is not None and len(value) % NUMBER_BYTES == 0:
                    numbers = unpack(value)
            case tuple() if not hasattr(value, "_fields"):
                if value and isinstance(value[0], int):
                    numbers = value
                elif value and not isinstance(value[0], str):
                    for each in value:
                        yield from _problems_of_numbers(each, counted)
            case _:
                yield from _problems_of_numbers(value, counted)
        first, last = named if isinstance(named, Range) else counted
        if numbers and not first <= min(numbers) <= max(numbers) <= last:
            wrong = next(number for number in numbers if not first <= number <= last)
            where = f"{kind.__name__}.{name}"
            yield f"a number of {wrong} in {where}, where {first} to {last} are allowed"


@cache
def _ranges_of(kind: type) -> tuple[tuple[str, Range | str | None], ...]:
    """The fields of a kind of record, each with the range that it names, or `COUNTED`; None: it
    names none. Then a number is counted, and bytes are no column."""
    found = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        ranges = [
            each
            for each in getattr(hint, "__metadata__", ())
            if isinstance(each, Range) or each == COUNTED
        ]
        found.append((name, ranges[0] if ranges else _RANGES.get((kind, name))))
    return tuple(found)


def _problem_of_topic_state(state: TopicState) -> str | None:
    if len(state.schemas) > 1:
        return f"{len(state.schemas)} schemas; there is one at most"
    for schema in state.schemas:
        if schema.version < 2 or problem_of_schema(schema) is not None:
            return f"a schema of version {schema.version} that no topic comes to"
    return (
        _problem_of_settings(state)
        or _problem_of_extents(state.extents)
        or _problem_of_producers(state.producers)
        or _problem_of_writers(state.writers)
        or next(filter(None, (_problem_of_row(row, state) for row in state.writers.rows)), None)
    )


def _problem_of_settings(state: TopicState) -> str | None:
    if not state.settings_version:
        return "settings that no entry has set" if state.settings else None
    return problem_of_configure(Configure(version=state.settings_version, settings=state.settings))


def _problem_of_kv_state(state: KvState) -> str | None:
    keys = [each.key for each in state.keys]
    if keys != sorted(keys) or "" in keys:
        return "keys that are not in order"
    if any(not 0 < each.version <= state.last_index for each in state.keys):
        return f"a version that is not between 0 and entry {state.last_index}"
    if max(map(len, keys), default=0) > KEY_CHARACTERS_MAX:
        return f"a key of more than {KEY_CHARACTERS_MAX} characters"
    if max((len(each.value) for each in state.keys), default=0) > VALUE_BYTES_MAX:
        return f"a value of more than {VALUE_BYTES_MAX} bytes"
    for each in state.sessions:
        if len(each.session) != SESSION_CHARACTERS:
            return f"a session whose id has {len(each.session)} characters"
        if len(each.digest) != (DIGEST_BYTES if each.sequence else 0):
            return f"a session whose last write has a digest of {len(each.digest)} bytes"
        if each.result not in set(Result):
            return f"a result of {each.result}"
        if max(each.version, each.previous) > state.last_index:
            return f"a session's version above entry {state.last_index}"
    return _problem_of_keys("keys", keys) or _problem_of_keys(
        "sessions", ((each.owner, each.session) for each in state.sessions)
    )


def _problem_of_controller_state(state: ControllerState) -> str | None:
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
    return (
        next(filter(None, _problems_of_groups(state)), None)
        or next(filter(None, map(_problem_of_node, state.nodes)), None)
        or _problem_of_keys("nodes", (*state.retired, *(node.node for node in state.nodes)))
        or _problem_of_levels(state.nodes)
        or next(filter(None, map(_problem_of_placement, state.placements)), None)
        or _problem_of_keys("placements", (each.group for each in state.placements))
    )


def _problems_of_groups(state: ControllerState) -> Iterator[str | None]:
    """Whether each group is one that a command could have created in this state."""
    time_us = state.last_timestamp_us
    infos: tuple[CreatedInfo, ...] = (*state.topics, *state.deleted, *state.kvs)
    for info in infos:
        if not RULES_FIRST <= info.rules <= state.rules:
            yield f"a group under rules {info.rules}, where {state.rules} are the latest"
        if info.created_us > time_us:
            yield f"a group of {info.created_us}, which is later than {time_us}"
        if isinstance(info, KvInfo):
            yield problem_of_kv(CreateKv(voters=info.voters, timestamp_us=info.created_us))
        else:
            yield _problem_of_topic(info)


def _problem_of_topic(info: TopicInfo) -> str | None:
    ids = [field.id for field in info.schema.fields]
    if not is_topic_name(info.name) or ids != sorted(ids) or info.schema.version < 1:
        return "a topic whose name or columns no topic has"
    if (problem := problem_of_schema(info.schema)) is not None:
        return f"a topic whose schema {problem}"
    if info.settings:
        known = Configure(version=info.settings_version, settings=info.settings)
        if (problem := problem_of_configure(known)) is not None:
            return problem
    return problem_of_topic(
        CreateTopic(
            name=info.name,
            incarnation=info.incarnation,
            schema=info.schema,
            voters=info.voters,
            if_not_exists=False,
            timestamp_us=info.created_us,
        )
    )


def _problem_of_node(node: NodeState) -> str | None:
    """One that has registered was not always added, but could have been."""
    added = AddNode(
        node=node.node, address=node.address, observer=node.observer, parents=node.parents
    )
    problem = problem_of_node_command(added)
    if problem is None and node.store_uuid:
        problem = problem_of_node(
            RegisterNode(
                node=node.node,
                store_uuid=node.store_uuid,
                address=node.address,
                rules=node.rules,
                rack=node.rack,
                boot_id=node.boot_id,
                registered_at=node.registered_at,
            )
        )
    return problem


def _problem_of_levels(nodes: Sequence[NodeState]) -> str | None:
    """The way up from each observer must end: its parents are looked for level by level."""
    parents = {node.node: {*node.parents} for node in nodes if node.observer}
    while rest := {node: above & parents.keys() for node, above in parents.items()}:
        parents = {node: above for node, above in rest.items() if above}
        if len(parents) == len(rest):
            return f"observers that pull from each other: {sorted(parents)}"
    return None


def _problem_of_placement(placement: PlacementState) -> str | None:
    if placement.reached > placement.generation:
        return f"a placement of which {placement.reached} of {placement.generation} was reached"
    return problem_of_placement(
        PlaceGroup(
            group=placement.group,
            voters=placement.voters,
            generation=placement.generation,
            former=placement.former,
        )
    )


def _problem_of_extents(state: ExtentsState) -> str | None:
    if len(state.digest) != DIGEST_BYTES:
        return f"a digest of {len(state.digest)} bytes"
    columns = (state.position_offsets, state.position_bytes)
    if problem := _problem_of_columns("byte positions", columns):
        return problem
    mark, byte_count = ends = state.high_water_mark, state.published_bytes
    offsets, positions = unpacked = tuple(map(unpack, columns))
    for column, end in zip(unpacked, ends, strict=True):
        if not column or column[0] < 0 or column[-1] > end:
            return f"byte positions that are not between 0 and {end}"
        if any(after < before for before, after in pairwise(column)):
            return "byte positions that fall"
    if not _rises(offsets):
        return "two byte positions of one offset"
    if offsets[-1] == mark and positions[-1] != byte_count:
        return f"a byte position of {positions[-1]} at {mark}, where {byte_count} bytes end"
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
    further = sum(max(0, len(row.open_epochs) - EPOCHS_OF_WRITER) for row in state.rows)
    if further > TopicLimits().epochs_max:
        return "the writers have too many open epochs"
    return (
        _problem_of_keys("writers", (row.name for row in state.rows))
        or _problem_of_keys("forgotten writers", state.forgotten)
        or _problem_of_ages("transient writers", state.transient, len(state.rows))
        or _problem_of_ages("open epochs", state.open_epochs, open_epochs, all_of_them=True)
    )


def _problem_of_row(row: WriterRowState, topic: TopicState) -> str | None:
    if problem := _problem_of_columns("epochs", (row.epochs, row.record_counts)):
        return problem
    epochs = unpack(row.epochs)
    if not _rises(epochs) or row.last_epoch != (epochs[-1] if epochs else -1):
        return f"epochs that do not rise to the last one, {row.last_epoch}"
    if not row.last_start <= row.last_end <= topic.extents.high_water_mark:
        return f"an epoch that ends at {row.last_end}, or beyond the topic"
    if max(row.last_index, *(each.renewed_at for each in row.open_epochs), 0) > topic.last_index:
        return f"a writer that was active after entry {topic.last_index}"
    if len(row.open_epochs) > TopicLimits().epochs_per_writer_max:
        return "a writer has too many open epochs"
    return _problem_of_keys("open epochs", (each.epoch for each in row.open_epochs)) or next(
        filter(None, _problems_of_attempts(row)), None
    )


def _problems_of_attempts(row: WriterRowState) -> Iterator[str | None]:
    for opened in row.open_epochs:
        yield _problem_of_keys("attempts", (each.attempt for each in opened.attempts))
        for attempt in opened.attempts:
            yield _problem_of_attempt(attempt, row)


def _problem_of_attempt(attempt: OpenAttemptState, row: WriterRowState) -> str | None:
    columns = (attempt.indexes, attempt.record_counts, attempt.body_bytes, attempt.crcs)
    if problem := _problem_of_columns("stages", columns):
        return problem
    indexes = unpack(attempt.indexes)
    if not _rises(indexes) or (indexes and not 0 < indexes[0] <= indexes[-1] <= row.last_index):
        return f"stages that do not rise up to entry {row.last_index}"
    if sum(unpack(attempt.record_counts)) != attempt.record_count:
        return f"stages that do not hold {attempt.record_count} records"
    return None


def _rises(numbers: Sequence[int]) -> bool:
    return all(before < after for before, after in pairwise(numbers))


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

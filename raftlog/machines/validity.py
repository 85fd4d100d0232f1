"""Whether the rules can judge a command's values: ranges, lengths, non-empty names.

Every replica applies every command in the log, now and whenever it reopens the log. So an invalid
one must become a refusal; an assertion would stop all nodes for good.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from raftlog.core.types import NodeId
from raftlog.machines.commands import (
    AbortEpoch,
    AddNode,
    AlterSchema,
    AlterTopic,
    Append,
    BatchSummary,
    CommitEpoch,
    Configure,
    CreateKv,
    CreateTopic,
    EpochKey,
    Expire,
    PlaceGroup,
    RegisterNode,
    RemoveWriter,
    ReportPlacement,
    RetireNode,
    SetDuty,
    SetParents,
    SetSchema,
    SnapshotPoint,
    Stage,
    Trim,
)
from raftlog.machines.evolution import problem_of_changes, problem_of_schema
from raftlog.machines.kv_commands import ANY_VERSION, KeyWrite, PutKey
from raftlog.machines.limits import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    INTEGER_MAX,
    KEY_CHARACTERS_MAX,
    PARENTS_MAX,
    REPLICAS_MAX,
    TEXT_CHARACTERS_MAX,
    VALUE_BYTES_MAX,
)
from raftlog.machines.outcomes import Refused, refused
from raftlog.machines.rules import (
    RULES_WITH_EVOLUTION,
    RULES_WITH_KV,
    RULES_WITH_MEMBERS,
    RULES_WITH_OBSERVERS,
    RULES_WITH_OVERWRITE,
    RULES_WITH_OWNERS,
)
from raftlog.machines.schema import Schema

_CRC_END = 2**32

_ADDRESS = re.compile(r"[A-Za-z0-9._\-\[\]:%]{1,253}:\d{1,5}", re.ASCII)
"""A host's name, IPv4 or bracketed IPv6 address, and a port."""


def problem_of_append(command: Append) -> str | None:
    """What is invalid about the command, or None."""
    if not 0 <= command.sequence < INTEGER_MAX:
        return f"sequence is {command.sequence}"
    return (
        _text_problem("producer", command.producer)
        or _time_problem(command.timestamp_us)
        or _batch_problem(command.batch)
    )


def problem_of_stage(command: Stage, rules: int) -> str | None:
    """What is invalid about the command, or None."""
    if not 0 <= command.number < INTEGER_MAX:
        return f"number is {command.number}"
    return (
        _key_problem(command.key)
        or _stream_problem(command.key, rules)
        or _text_problem("attempt", command.attempt)
        or _time_problem(command.timestamp_us)
        or _batch_problem(command.batch)
        or _owner_problem(command, rules)
    )


def problem_of_commit(command: CommitEpoch, rules: int) -> str | None:
    """What is invalid about the command, or None. Its attempts are compared, not stored."""
    if command.transient_writer and command.key.streaming:
        return "a stream's writer is never transient"
    return (
        _key_problem(command.key)
        or _stream_problem(command.key, rules)
        or (_length_problem("plan", command.plan) if rules >= 2 else None)
        or (_rules_problem(rules, RULES_WITH_OVERWRITE) if command.overwrite else None)
        or _time_problem(command.timestamp_us)
        or _owner_problem(command, rules)
    )


def problem_of_abort(command: AbortEpoch, rules: int) -> str | None:
    """What is invalid about the command, or None."""
    return _key_problem(command.key) or _owner_problem(command, rules)


def problem_of_expire(command: Expire, rules: int) -> str | None:
    """What is invalid about the command, or None."""
    leases = (
        command.epoch_lease_us,
        command.transient_writer_lease_us,
        command.producer_lease_us,
    )
    if not all(0 <= lease_us < INTEGER_MAX for lease_us in leases):
        return f"leases are {leases}"
    return _rules_problem(rules, 2) or _time_problem(command.timestamp_us)


def problem_of_removal(command: RemoveWriter, rules: int) -> str | None:
    """What is invalid about the command, or None."""
    return _rules_problem(rules, 2) or _text_problem("writer", command.writer)


def problem_of_trim(command: Trim, rules: int) -> str | None:
    """What is invalid about the command, or None."""
    if not 0 <= command.offset < INTEGER_MAX:
        return f"offset is {command.offset}"
    return _rules_problem(rules, 3)


def problem_of_configure(command: Configure, rules: int) -> str | None:
    """What is invalid about the command, or None. Its settings were judged by the controller."""
    if not 0 < command.version < INTEGER_MAX:
        return f"version is {command.version}"
    return _rules_problem(rules, 3)


def problem_of_alteration(command: AlterTopic, rules: int) -> str | None:
    """What is invalid about the command besides its settings, or None."""
    if not command.settings:
        return "it changes no setting"
    return _rules_problem(rules, 3)


def problem_of_schema_change(command: AlterSchema, rules: int) -> str | None:
    """What is invalid about the command, whatever the topic has, or None."""
    if not 1 <= command.version < INTEGER_MAX:
        return f"version is {command.version}"
    problem = problem_of_changes(command.changes)
    return _rules_problem(rules, RULES_WITH_EVOLUTION) or (problem and f"its changes {problem}")


def problem_of_set_schema(command: SetSchema, known: Schema, rules: int) -> str | None:
    """What is invalid about the command in a topic whose schema is `known`, or None."""
    given = command.schema
    if not 1 <= given.version < INTEGER_MAX:
        return f"version is {given.version}"
    problem = _rules_problem(rules, RULES_WITH_EVOLUTION) or problem_of_schema(given)
    if problem is not None or given.version <= known.version:
        return problem
    if given.at(known.version) != known:
        return f"version {given.version} does not continue version {known.version}"
    return None


def problem_of_snapshot_point(command: SnapshotPoint, rules: int) -> str | None:
    """What is invalid about the command, or None."""
    if not 0 <= command.keep_from < INTEGER_MAX:
        return f"keep_from is {command.keep_from}"
    return _rules_problem(rules, 3)


def problem_of_node(command: RegisterNode) -> str | None:
    """What is invalid about the command, or None."""
    if not 0 < command.node <= INTEGER_MAX:
        return f"node is {command.node}"
    return (
        _text_problem("store_uuid", command.store_uuid)
        or _text_problem("address", command.address)
        or _length_problem("rack", command.rack)
    )


def problem_of_node_command(
    command: AddNode | SetParents | SetDuty | RetireNode | ReportPlacement, rules: int
) -> str | None:
    """What is invalid about the command, or None."""
    match command:
        case SetParents(parents=parents) | AddNode(observer=True, parents=parents):
            problem = _parents_problem(parents) or _rules_problem(rules, RULES_WITH_OBSERVERS)
            if problem is not None:
                return problem
        case AddNode() if command.parents:
            return "a node that is no observer has parents"
        case _:
            pass
    match command:
        case ReportPlacement():
            numbers = (command.generation, command.group + 1)
        case AddNode() if _ADDRESS.fullmatch(command.address) is None:
            return f"address is {command.address[:TEXT_CHARACTERS_MAX]!r}, not host:port"
        case _:
            numbers = (command.node, 1)
    wrong = [number for number in numbers if not 0 < number <= INTEGER_MAX]
    return f"a number is {wrong[0]}" if wrong else _rules_problem(rules, RULES_WITH_MEMBERS)


def _parents_problem(parents: Sequence[NodeId]) -> str | None:
    if len(parents) > PARENTS_MAX:
        return f"parents are {len(parents)}; {PARENTS_MAX} are allowed"
    if list(parents) != sorted(set(parents)) or (parents and not 1 <= parents[0] <= INTEGER_MAX):
        return f"parents are {list(parents)}"
    return None


def problem_of_placement(command: PlaceGroup, rules: int) -> str | None:
    """What is invalid about the command, or None."""
    for what, nodes in (("voters", command.voters), ("former voters", command.former)):
        if not 1 <= len(nodes) <= REPLICAS_MAX:
            return f"{what} are {len(nodes)}; 1 to {REPLICAS_MAX} are allowed"
        if list(nodes) != sorted(set(nodes)) or nodes[0] < 1:
            return f"{what} are {list(nodes)}"
    if not 0 <= command.generation < INTEGER_MAX:
        return f"generation is {command.generation}"
    return _rules_problem(rules, RULES_WITH_MEMBERS)


def problem_of_topic(command: CreateTopic) -> str | None:
    """What is invalid about the command besides its name and schema, or None."""
    return (
        _voters_problem(command.voters)
        or _text_problem("incarnation", command.incarnation)
        or _time_problem(command.timestamp_us)
    )


def problem_of_key_write(command: KeyWrite) -> str | None:
    """What is invalid about the command, or None."""
    if not 1 <= command.sequence < INTEGER_MAX:
        return f"sequence is {command.sequence}"
    if not ANY_VERSION <= command.expected < INTEGER_MAX:
        return f"expected is {command.expected}"
    if not 0 < len(command.key) <= KEY_CHARACTERS_MAX:
        return f"key has {len(command.key)} characters; 1 to {KEY_CHARACTERS_MAX} are allowed"
    if isinstance(command, PutKey) and len(command.value) > VALUE_BYTES_MAX:
        return f"value has {len(command.value)} bytes; {VALUE_BYTES_MAX} are allowed"
    return None


def problem_of_kv(command: CreateKv, rules: int) -> str | None:
    """What is invalid about the command, or None."""
    return (
        _rules_problem(rules, RULES_WITH_KV)
        or _voters_problem(command.voters)
        or _time_problem(command.timestamp_us)
    )


def malformed(call: str, problem: str) -> Refused:
    """The refusal of an invalid command."""
    return refused("MalformedRequest", call=call, what=problem)


def _key_problem(key: EpochKey) -> str | None:
    if not 0 <= key.epoch < INTEGER_MAX:
        return f"epoch is {key.epoch}"
    return _texts_problem((("writer", key.writer), ("query_id", key.query_id), ("run", key.run)))


def _stream_problem(key: EpochKey, rules: int) -> str | None:
    """What is invalid about the fence. Version 1 has no fences and ignores it."""
    if rules < 2:
        return None
    if not key.stream:
        unset = not key.stream_run and not key.stream_batch
        return None if unset else "stream_run or stream_batch is set without stream"
    if key.streaming:
        return "a stream's epoch names another stream's batch"
    if not 0 <= key.stream_batch < INTEGER_MAX:
        return f"stream_batch is {key.stream_batch}"
    return _length_problem("stream", key.stream) or _length_problem("stream_run", key.stream_run)


def _owner_problem(command: Stage | CommitEpoch | AbortEpoch, rules: int) -> str | None:
    """What is invalid about whose writer it is to be. Earlier versions know no owners."""
    return _length_problem("owner", command.owner) if rules >= RULES_WITH_OWNERS else None


def _texts_problem(named: Iterable[tuple[str, str]]) -> str | None:
    for name, value in named:
        problem = _text_problem(name, value)
        if problem is not None:
            return problem
    return None


def _text_problem(name: str, value: str) -> str | None:
    if 0 < len(value) <= TEXT_CHARACTERS_MAX:
        return None
    return f"{name} has {len(value)} characters; 1 to {TEXT_CHARACTERS_MAX} are allowed"


def _length_problem(name: str, value: str) -> str | None:
    """Like `_text_problem`, but the text may be empty."""
    return _text_problem(name, value) if value else None


def _time_problem(timestamp_us: int) -> str | None:
    return None if timestamp_us < INTEGER_MAX else f"timestamp_us is {timestamp_us}"


def _rules_problem(rules: int, needed: int) -> str | None:
    return None if rules >= needed else f"this group applies rules {rules}; it needs {needed}"


def _voters_problem(voters: Sequence[NodeId]) -> str | None:
    if not voters or list(voters) != sorted(set(voters)) or voters[0] < 1:
        return f"voters are {list(voters)}"
    return None


def _batch_problem(batch: BatchSummary) -> str | None:
    if not 1 <= batch.record_count <= BATCH_RECORDS_MAX:
        return f"record_count is {batch.record_count}"
    if not 0 <= batch.body_bytes <= BATCH_BYTES_MAX:
        return f"body_bytes is {batch.body_bytes}"
    if not 0 <= batch.crc < _CRC_END:
        return f"crc is {batch.crc}"
    return None

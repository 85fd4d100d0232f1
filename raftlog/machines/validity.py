"""Whether the rules can judge a command's values: ranges, lengths, non-empty names.

Every replica applies every command in the log, now and whenever it reopens the log. So an invalid
one must become a refusal; an assertion would stop all nodes for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from raftlog.config_hosts import is_address
from raftlog.core.types import BOOT_IDS_MAX, NodeId
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
    SetWriterOwner,
    SnapshotPoint,
    Stage,
    Trim,
)
from raftlog.machines.evolution import problem_of_changes, problem_of_schema
from raftlog.machines.kv_commands import (
    ANY_VERSION,
    SESSION_CHARACTERS,
    DeleteKey,
    KeyWrite,
    OpenSession,
)
from raftlog.machines.limits import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    INTEGER_MAX,
    KEY_CHARACTERS_MAX,
    NAME_CHARACTERS_MAX,
    NODE_MAX,
    PARENTS_MAX,
    REPLICAS_MAX,
    STORE_CHARACTERS_MAX,
    TEXT_CHARACTERS_MAX,
    VALUE_BYTES_MAX,
)
from raftlog.machines.outcomes import Refused, refused
from raftlog.machines.rules import RULES_FIRST
from raftlog.machines.schema import Schema
from raftlog.machines.settings import problem_of_setting

_CRC_END = 2**32


def problem_of_append(command: Append) -> str | None:
    """What is invalid about the command, or None."""
    if not 0 <= command.sequence < INTEGER_MAX:
        return f"sequence is {command.sequence}"
    return (
        _text_problem("producer", command.producer, NAME_CHARACTERS_MAX)
        or _time_problem(command.timestamp_us)
        or _batch_problem(command.batch)
        or _length_problem("owner", command.owner)
    )


def problem_of_stage(command: Stage) -> str | None:
    """What is invalid about the command, or None."""
    if not 0 <= command.number < INTEGER_MAX:
        return f"number is {command.number}"
    return (
        _key_problem(command.key)
        or _stream_problem(command.key)
        or _text_problem("attempt", command.attempt, NAME_CHARACTERS_MAX)
        or _time_problem(command.timestamp_us)
        or _batch_problem(command.batch)
        or _length_problem("owner", command.owner)
    )


def problem_of_commit(command: CommitEpoch) -> str | None:
    """What is invalid about the command, or None. Its attempts are compared, not stored."""
    if command.transient_writer and not command.key.anonymous:
        return "only the writer of an anonymous batch write is transient"
    return (
        _key_problem(command.key)
        or _stream_problem(command.key)
        or _length_problem("plan", command.plan)
        or _time_problem(command.timestamp_us)
        or _length_problem("owner", command.owner)
    )


def problem_of_abort(command: AbortEpoch) -> str | None:
    """What is invalid about the command, or None."""
    return _key_problem(command.key) or _length_problem("owner", command.owner)


def problem_of_expire(command: Expire) -> str | None:
    """What is invalid about the command, or None."""
    leases = (
        command.epoch_lease_us,
        command.transient_writer_lease_us,
        command.producer_lease_us,
    )
    if not all(0 <= lease_us < INTEGER_MAX for lease_us in leases):
        return f"leases are {leases}"
    return _time_problem(command.timestamp_us)


def problem_of_removal(command: RemoveWriter) -> str | None:
    """What is invalid about the command, or None."""
    return _text_problem("writer", command.writer)


def problem_of_owner(command: SetWriterOwner) -> str | None:
    """What is invalid about the command, or None."""
    return _text_problem("writer", command.writer) or _text_problem("owner", command.owner)


def problem_of_trim(command: Trim) -> str | None:
    """What is invalid about the command, or None."""
    if not 0 <= command.offset < INTEGER_MAX:
        return f"offset is {command.offset}"
    return None


def problem_of_configure(command: Configure) -> str | None:
    """What is invalid about the command, or None."""
    if not 0 < command.version < INTEGER_MAX:
        return f"version is {command.version}"
    names = [setting.name for setting in command.settings]
    for setting in command.settings:
        problem = problem_of_setting(setting)
        if problem is not None:
            return f"{setting.name[:TEXT_CHARACTERS_MAX]} {problem}"
    return None if names == sorted(set(names)) else "its settings are not in the order of names"


def problem_of_alteration(command: AlterTopic) -> str | None:
    """What is invalid about the command besides its settings, or None."""
    return None if command.settings else "it changes no setting"


def problem_of_schema_change(command: AlterSchema) -> str | None:
    """What is invalid about the command, whatever the topic has, or None."""
    if not 1 <= command.version < INTEGER_MAX:
        return f"version is {command.version}"
    problem = problem_of_changes(command.changes)
    return problem and f"its changes {problem}"


def problem_of_set_schema(command: SetSchema, known: Schema) -> str | None:
    """What is invalid about the command in a topic whose schema is `known`, or None."""
    given = command.schema
    if not 1 <= given.version < INTEGER_MAX:
        return f"version is {given.version}"
    problem = problem_of_schema(given)
    if problem is not None or given.version <= known.version:
        return problem
    if given.at(known.version) != known:
        return f"version {given.version} does not continue version {known.version}"
    return None


def problem_of_snapshot_point(command: SnapshotPoint) -> str | None:
    """What is invalid about the command, or None."""
    if not 0 <= command.keep_from < INTEGER_MAX:
        return f"keep_from is {command.keep_from}"
    return None


def problem_of_node(command: RegisterNode) -> str | None:
    """What is invalid about the command, or None."""
    if not 0 < command.node <= NODE_MAX:
        return f"node is {command.node}"
    if not RULES_FIRST <= command.rules <= INTEGER_MAX:
        return f"rules are {command.rules}"
    if not 0 <= command.registered_at < INTEGER_MAX:
        return f"registered_at is {command.registered_at}"
    if len(command.earlier_boot_ids) > BOOT_IDS_MAX:
        return f"there are {len(command.earlier_boot_ids)} earlier boot_ids"
    for boot_id in command.earlier_boot_ids:
        if problem := _text_problem("an earlier boot_id", boot_id, STORE_CHARACTERS_MAX):
            return problem
    return (
        _text_problem("store_uuid", command.store_uuid, STORE_CHARACTERS_MAX)
        or _address_problem(command.address)
        or _length_problem("rack", command.rack)
        or _length_problem("boot_id", command.boot_id, STORE_CHARACTERS_MAX)
    )


def problem_of_node_command(
    command: AddNode | SetParents | SetDuty | RetireNode | ReportPlacement,
) -> str | None:
    """What is invalid about the command, or None."""
    match command:
        case SetParents(parents=parents) | AddNode(observer=True, parents=parents):
            problem = _parents_problem(parents)
            if problem is not None:
                return problem
        case AddNode() if command.parents:
            return "a node that is no observer has parents"
        case _:
            pass
    match command:
        case ReportPlacement():
            numbers = (command.generation, command.group + 1)
            wrong = [number for number in numbers if not 0 < number <= INTEGER_MAX]
            return f"a number is {wrong[0]}" if wrong else None
        case _ if not 0 < command.node <= NODE_MAX:
            return f"node is {command.node}"
        case AddNode():
            return _address_problem(command.address)
        case _:
            return None


def _address_problem(address: str) -> str | None:
    if is_address(address):
        return None
    return f"address is {address[:TEXT_CHARACTERS_MAX]!r}, not host:port"


def _parents_problem(parents: Sequence[NodeId]) -> str | None:
    if len(parents) > PARENTS_MAX:
        return f"parents are {len(parents)}; {PARENTS_MAX} are allowed"
    return _nodes_problem("parents", parents)


def _nodes_problem(what: str, nodes: Sequence[NodeId]) -> str | None:
    """What is invalid about the ids of nodes, or None."""
    if list(nodes) != sorted(set(nodes)) or (nodes and not 1 <= nodes[0] <= nodes[-1] <= NODE_MAX):
        return f"{what} are {list(nodes)}"
    return None


def problem_of_placement(command: PlaceGroup) -> str | None:
    """What is invalid about the command, or None."""
    if not 0 <= command.generation < INTEGER_MAX:
        return f"generation is {command.generation}"
    return _voters_problem("voters", command.voters) or _voters_problem(
        "former voters", command.former
    )


def problem_of_topic(command: CreateTopic) -> str | None:
    """What is invalid about the command besides its name and schema, or None."""
    return (
        _voters_problem("voters", command.voters)
        or _text_problem("incarnation", command.incarnation, NAME_CHARACTERS_MAX)
        or _time_problem(command.timestamp_us)
    )


def problem_of_session(command: OpenSession) -> str | None:
    """What is invalid about the command, or None."""
    if len(command.session) != SESSION_CHARACTERS:
        return f"session has {len(command.session)} characters; it has {SESSION_CHARACTERS}"
    return _length_problem("owner", command.owner)


def problem_of_key_write(command: KeyWrite) -> str | None:
    """What is invalid about the command, or None."""
    if not 1 <= command.sequence < INTEGER_MAX:
        return f"sequence is {command.sequence}"
    if not ANY_VERSION <= command.expected < INTEGER_MAX:
        return f"expected is {command.expected}"
    if not 0 < len(command.key) <= KEY_CHARACTERS_MAX:
        return f"key has {len(command.key)} characters; 1 to {KEY_CHARACTERS_MAX} are allowed"
    if isinstance(command, DeleteKey):
        return None
    if len(command.value) > VALUE_BYTES_MAX:
        return f"value has {len(command.value)} bytes; {VALUE_BYTES_MAX} are allowed"
    return _length_problem("share", command.share)


def problem_of_kv(command: CreateKv) -> str | None:
    """What is invalid about the command, or None."""
    return _voters_problem("voters", command.voters) or _time_problem(command.timestamp_us)


def malformed(call: str, problem: str) -> Refused:
    """The refusal of an invalid command."""
    return refused("MalformedRequest", call=call, what=problem)


def _key_problem(key: EpochKey) -> str | None:
    if not 0 <= key.epoch < INTEGER_MAX:
        return f"epoch is {key.epoch}"
    return _texts_problem((("writer", key.writer), ("query_id", key.query_id), ("run", key.run)))


def _stream_problem(key: EpochKey) -> str | None:
    """What is invalid about the fence, or None."""
    if not key.stream:
        unset = not key.stream_run and not key.stream_batch
        return None if unset else "stream_run or stream_batch is set without stream"
    if key.streaming:
        return "a stream's epoch names another stream's batch"
    if not 0 <= key.stream_batch < INTEGER_MAX:
        return f"stream_batch is {key.stream_batch}"
    return _length_problem("stream", key.stream) or _length_problem("stream_run", key.stream_run)


def _texts_problem(named: Iterable[tuple[str, str]]) -> str | None:
    for name, value in named:
        problem = _text_problem(name, value)
        if problem is not None:
            return problem
    return None


def _text_problem(name: str, value: str, most: int = TEXT_CHARACTERS_MAX) -> str | None:
    if 0 < len(value) <= most:
        return None
    return f"{name} has {len(value)} characters; 1 to {most} are allowed"


def _length_problem(name: str, value: str, most: int = TEXT_CHARACTERS_MAX) -> str | None:
    """Like `_text_problem`, but the text may be empty."""
    return _text_problem(name, value, most) if value else None


def _time_problem(timestamp_us: int) -> str | None:
    return None if timestamp_us < INTEGER_MAX else f"timestamp_us is {timestamp_us}"


def _voters_problem(what: str, voters: Sequence[NodeId]) -> str | None:
    if not 1 <= len(voters) <= REPLICAS_MAX:
        return f"{what} are {len(voters)}; 1 to {REPLICAS_MAX} are allowed"
    return _nodes_problem(what, voters)


def _batch_problem(batch: BatchSummary) -> str | None:
    if not 1 <= batch.record_count <= BATCH_RECORDS_MAX:
        return f"record_count is {batch.record_count}"
    if not 0 <= batch.body_bytes <= BATCH_BYTES_MAX:
        return f"body_bytes is {batch.body_bytes}"
    if not 0 <= batch.crc < _CRC_END:
        return f"crc is {batch.crc}"
    return None

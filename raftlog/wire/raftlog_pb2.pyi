from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Truth(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NULL: _ClassVar[Truth]
    FALSE: _ClassVar[Truth]
    TRUE: _ClassVar[Truth]
NULL: Truth
FALSE: Truth
TRUE: Truth

class Field(_message.Message):
    __slots__ = ("id", "name", "type", "nullable", "since")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NULLABLE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    type: str
    nullable: bool
    since: int
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., type: _Optional[str] = ..., nullable: _Optional[bool] = ..., since: _Optional[int] = ...) -> None: ...

class FormerField(_message.Message):
    __slots__ = ("id", "name", "type", "nullable", "until", "since")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NULLABLE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    type: str
    nullable: bool
    until: int
    since: int
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., type: _Optional[str] = ..., nullable: _Optional[bool] = ..., until: _Optional[int] = ..., since: _Optional[int] = ...) -> None: ...

class Schema(_message.Message):
    __slots__ = ("version", "fields", "former")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    FORMER_FIELD_NUMBER: _ClassVar[int]
    version: int
    fields: _containers.RepeatedCompositeFieldContainer[Field]
    former: _containers.RepeatedCompositeFieldContainer[FormerField]
    def __init__(self, version: _Optional[int] = ..., fields: _Optional[_Iterable[_Union[Field, _Mapping]]] = ..., former: _Optional[_Iterable[_Union[FormerField, _Mapping]]] = ...) -> None: ...

class TopicInfo(_message.Message):
    __slots__ = ("name", "incarnation", "group", "schema", "voters", "created_us", "rules", "settings", "settings_version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    group: int
    schema: Schema
    voters: _containers.RepeatedScalarFieldContainer[int]
    created_us: int
    rules: int
    settings: _containers.RepeatedCompositeFieldContainer[TopicSetting]
    settings_version: int
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ..., group: _Optional[int] = ..., schema: _Optional[_Union[Schema, _Mapping]] = ..., voters: _Optional[_Iterable[int]] = ..., created_us: _Optional[int] = ..., rules: _Optional[int] = ..., settings: _Optional[_Iterable[_Union[TopicSetting, _Mapping]]] = ..., settings_version: _Optional[int] = ...) -> None: ...

class TopicSetting(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: int
    def __init__(self, name: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...

class Bound(_message.Message):
    __slots__ = ("truth", "integer", "real", "text", "binary")
    TRUTH_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    REAL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BINARY_FIELD_NUMBER: _ClassVar[int]
    truth: bool
    integer: int
    real: float
    text: str
    binary: bytes
    def __init__(self, truth: _Optional[bool] = ..., integer: _Optional[int] = ..., real: _Optional[float] = ..., text: _Optional[str] = ..., binary: _Optional[bytes] = ...) -> None: ...

class ColumnChunk(_message.Message):
    __slots__ = ("field_id", "position", "length", "crc", "null_count", "minimum", "maximum", "in_planes")
    FIELD_ID_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    NULL_COUNT_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    IN_PLANES_FIELD_NUMBER: _ClassVar[int]
    field_id: int
    position: int
    length: int
    crc: int
    null_count: int
    minimum: Bound
    maximum: Bound
    in_planes: bool
    def __init__(self, field_id: _Optional[int] = ..., position: _Optional[int] = ..., length: _Optional[int] = ..., crc: _Optional[int] = ..., null_count: _Optional[int] = ..., minimum: _Optional[_Union[Bound, _Mapping]] = ..., maximum: _Optional[_Union[Bound, _Mapping]] = ..., in_planes: _Optional[bool] = ...) -> None: ...

class BatchHeader(_message.Message):
    __slots__ = ("record_count", "schema_version", "columns")
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    record_count: int
    schema_version: int
    columns: _containers.RepeatedCompositeFieldContainer[ColumnChunk]
    def __init__(self, record_count: _Optional[int] = ..., schema_version: _Optional[int] = ..., columns: _Optional[_Iterable[_Union[ColumnChunk, _Mapping]]] = ...) -> None: ...

class ColumnReference(_message.Message):
    __slots__ = ("field_id", "name")
    FIELD_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    field_id: int
    name: str
    def __init__(self, field_id: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class Comparison(_message.Message):
    __slots__ = ("column", "operator", "value")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    column: ColumnReference
    operator: str
    value: Bound
    def __init__(self, column: _Optional[_Union[ColumnReference, _Mapping]] = ..., operator: _Optional[str] = ..., value: _Optional[_Union[Bound, _Mapping]] = ...) -> None: ...

class Membership(_message.Message):
    __slots__ = ("column", "values")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    column: ColumnReference
    values: _containers.RepeatedCompositeFieldContainer[Bound]
    def __init__(self, column: _Optional[_Union[ColumnReference, _Mapping]] = ..., values: _Optional[_Iterable[_Union[Bound, _Mapping]]] = ...) -> None: ...

class Prefix(_message.Message):
    __slots__ = ("column", "prefix")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    column: ColumnReference
    prefix: str
    def __init__(self, column: _Optional[_Union[ColumnReference, _Mapping]] = ..., prefix: _Optional[str] = ...) -> None: ...

class Predicates(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[Predicate]
    def __init__(self, parts: _Optional[_Iterable[_Union[Predicate, _Mapping]]] = ...) -> None: ...

class Predicate(_message.Message):
    __slots__ = ("unknown", "constant", "comparison", "membership", "prefix", "is_null", "negation", "all_of", "any_of")
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    CONSTANT_FIELD_NUMBER: _ClassVar[int]
    COMPARISON_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    IS_NULL_FIELD_NUMBER: _ClassVar[int]
    NEGATION_FIELD_NUMBER: _ClassVar[int]
    ALL_OF_FIELD_NUMBER: _ClassVar[int]
    ANY_OF_FIELD_NUMBER: _ClassVar[int]
    unknown: bool
    constant: Truth
    comparison: Comparison
    membership: Membership
    prefix: Prefix
    is_null: ColumnReference
    negation: Predicate
    all_of: Predicates
    any_of: Predicates
    def __init__(self, unknown: _Optional[bool] = ..., constant: _Optional[_Union[Truth, str]] = ..., comparison: _Optional[_Union[Comparison, _Mapping]] = ..., membership: _Optional[_Union[Membership, _Mapping]] = ..., prefix: _Optional[_Union[Prefix, _Mapping]] = ..., is_null: _Optional[_Union[ColumnReference, _Mapping]] = ..., negation: _Optional[_Union[Predicate, _Mapping]] = ..., all_of: _Optional[_Union[Predicates, _Mapping]] = ..., any_of: _Optional[_Union[Predicates, _Mapping]] = ...) -> None: ...

class BatchSummary(_message.Message):
    __slots__ = ("record_count", "schema_version", "body_bytes", "crc")
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    BODY_BYTES_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    record_count: int
    schema_version: int
    body_bytes: int
    crc: int
    def __init__(self, record_count: _Optional[int] = ..., schema_version: _Optional[int] = ..., body_bytes: _Optional[int] = ..., crc: _Optional[int] = ...) -> None: ...

class EpochKey(_message.Message):
    __slots__ = ("writer", "query_id", "run", "epoch", "streaming", "stream", "stream_run", "stream_batch")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STREAMING_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    STREAM_RUN_FIELD_NUMBER: _ClassVar[int]
    STREAM_BATCH_FIELD_NUMBER: _ClassVar[int]
    writer: str
    query_id: str
    run: str
    epoch: int
    streaming: bool
    stream: str
    stream_run: str
    stream_batch: int
    def __init__(self, writer: _Optional[str] = ..., query_id: _Optional[str] = ..., run: _Optional[str] = ..., epoch: _Optional[int] = ..., streaming: _Optional[bool] = ..., stream: _Optional[str] = ..., stream_run: _Optional[str] = ..., stream_batch: _Optional[int] = ...) -> None: ...

class AttemptReference(_message.Message):
    __slots__ = ("attempt", "entry_count", "record_count", "chained_crc")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ENTRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHAINED_CRC_FIELD_NUMBER: _ClassVar[int]
    attempt: str
    entry_count: int
    record_count: int
    chained_crc: int
    def __init__(self, attempt: _Optional[str] = ..., entry_count: _Optional[int] = ..., record_count: _Optional[int] = ..., chained_crc: _Optional[int] = ...) -> None: ...

class Append(_message.Message):
    __slots__ = ("producer", "sequence", "timestamp_us", "batch", "batch_header", "owner")
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    BATCH_HEADER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    producer: str
    sequence: int
    timestamp_us: int
    batch: BatchSummary
    batch_header: bytes
    owner: str
    def __init__(self, producer: _Optional[str] = ..., sequence: _Optional[int] = ..., timestamp_us: _Optional[int] = ..., batch: _Optional[_Union[BatchSummary, _Mapping]] = ..., batch_header: _Optional[bytes] = ..., owner: _Optional[str] = ...) -> None: ...

class Stage(_message.Message):
    __slots__ = ("key", "attempt", "number", "timestamp_us", "batch", "create_writer", "batch_header", "owner", "any_owner")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    CREATE_WRITER_FIELD_NUMBER: _ClassVar[int]
    BATCH_HEADER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ANY_OWNER_FIELD_NUMBER: _ClassVar[int]
    key: EpochKey
    attempt: str
    number: int
    timestamp_us: int
    batch: BatchSummary
    create_writer: bool
    batch_header: bytes
    owner: str
    any_owner: bool
    def __init__(self, key: _Optional[_Union[EpochKey, _Mapping]] = ..., attempt: _Optional[str] = ..., number: _Optional[int] = ..., timestamp_us: _Optional[int] = ..., batch: _Optional[_Union[BatchSummary, _Mapping]] = ..., create_writer: _Optional[bool] = ..., batch_header: _Optional[bytes] = ..., owner: _Optional[str] = ..., any_owner: _Optional[bool] = ...) -> None: ...

class CommitEpoch(_message.Message):
    __slots__ = ("key", "attempts", "schema_version", "timestamp_us", "keep_on_mismatch", "create_writer", "transient_writer", "plan", "overwrite", "owner", "any_owner")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    KEEP_ON_MISMATCH_FIELD_NUMBER: _ClassVar[int]
    CREATE_WRITER_FIELD_NUMBER: _ClassVar[int]
    TRANSIENT_WRITER_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    OVERWRITE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ANY_OWNER_FIELD_NUMBER: _ClassVar[int]
    key: EpochKey
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptReference]
    schema_version: int
    timestamp_us: int
    keep_on_mismatch: bool
    create_writer: bool
    transient_writer: bool
    plan: str
    overwrite: bool
    owner: str
    any_owner: bool
    def __init__(self, key: _Optional[_Union[EpochKey, _Mapping]] = ..., attempts: _Optional[_Iterable[_Union[AttemptReference, _Mapping]]] = ..., schema_version: _Optional[int] = ..., timestamp_us: _Optional[int] = ..., keep_on_mismatch: _Optional[bool] = ..., create_writer: _Optional[bool] = ..., transient_writer: _Optional[bool] = ..., plan: _Optional[str] = ..., overwrite: _Optional[bool] = ..., owner: _Optional[str] = ..., any_owner: _Optional[bool] = ...) -> None: ...

class AbortEpoch(_message.Message):
    __slots__ = ("key", "owner", "any_owner")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ANY_OWNER_FIELD_NUMBER: _ClassVar[int]
    key: EpochKey
    owner: str
    any_owner: bool
    def __init__(self, key: _Optional[_Union[EpochKey, _Mapping]] = ..., owner: _Optional[str] = ..., any_owner: _Optional[bool] = ...) -> None: ...

class Expire(_message.Message):
    __slots__ = ("timestamp_us", "epoch_lease_us", "transient_writer_lease_us", "producer_lease_us")
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    EPOCH_LEASE_US_FIELD_NUMBER: _ClassVar[int]
    TRANSIENT_WRITER_LEASE_US_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_LEASE_US_FIELD_NUMBER: _ClassVar[int]
    timestamp_us: int
    epoch_lease_us: int
    transient_writer_lease_us: int
    producer_lease_us: int
    def __init__(self, timestamp_us: _Optional[int] = ..., epoch_lease_us: _Optional[int] = ..., transient_writer_lease_us: _Optional[int] = ..., producer_lease_us: _Optional[int] = ...) -> None: ...

class RemoveWriter(_message.Message):
    __slots__ = ("writer",)
    WRITER_FIELD_NUMBER: _ClassVar[int]
    writer: str
    def __init__(self, writer: _Optional[str] = ...) -> None: ...

class SetWriterOwner(_message.Message):
    __slots__ = ("writer", "owner")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    writer: str
    owner: str
    def __init__(self, writer: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class Rules(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class RegisterNode(_message.Message):
    __slots__ = ("node", "store_uuid", "address", "rules", "rack", "boot_id", "earlier_boot_ids", "registered_at")
    NODE_FIELD_NUMBER: _ClassVar[int]
    STORE_UUID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    EARLIER_BOOT_IDS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_FIELD_NUMBER: _ClassVar[int]
    node: int
    store_uuid: str
    address: str
    rules: int
    rack: str
    boot_id: str
    earlier_boot_ids: _containers.RepeatedScalarFieldContainer[str]
    registered_at: int
    def __init__(self, node: _Optional[int] = ..., store_uuid: _Optional[str] = ..., address: _Optional[str] = ..., rules: _Optional[int] = ..., rack: _Optional[str] = ..., boot_id: _Optional[str] = ..., earlier_boot_ids: _Optional[_Iterable[str]] = ..., registered_at: _Optional[int] = ...) -> None: ...

class AddNode(_message.Message):
    __slots__ = ("node", "address", "observer", "parents")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    OBSERVER_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    node: int
    address: str
    observer: bool
    parents: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node: _Optional[int] = ..., address: _Optional[str] = ..., observer: _Optional[bool] = ..., parents: _Optional[_Iterable[int]] = ...) -> None: ...

class SetParents(_message.Message):
    __slots__ = ("node", "parents")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    node: int
    parents: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node: _Optional[int] = ..., parents: _Optional[_Iterable[int]] = ...) -> None: ...

class SetDuty(_message.Message):
    __slots__ = ("node", "draining", "leaving", "keeps_leaving")
    NODE_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    KEEPS_LEAVING_FIELD_NUMBER: _ClassVar[int]
    node: int
    draining: bool
    leaving: bool
    keeps_leaving: bool
    def __init__(self, node: _Optional[int] = ..., draining: _Optional[bool] = ..., leaving: _Optional[bool] = ..., keeps_leaving: _Optional[bool] = ...) -> None: ...

class RetireNode(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: int
    def __init__(self, node: _Optional[int] = ...) -> None: ...

class PlaceGroup(_message.Message):
    __slots__ = ("group", "voters", "generation", "former")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    FORMER_FIELD_NUMBER: _ClassVar[int]
    group: int
    voters: _containers.RepeatedScalarFieldContainer[int]
    generation: int
    former: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, group: _Optional[int] = ..., voters: _Optional[_Iterable[int]] = ..., generation: _Optional[int] = ..., former: _Optional[_Iterable[int]] = ...) -> None: ...

class ReportPlacement(_message.Message):
    __slots__ = ("group", "generation")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    group: int
    generation: int
    def __init__(self, group: _Optional[int] = ..., generation: _Optional[int] = ...) -> None: ...

class CreateTopic(_message.Message):
    __slots__ = ("name", "incarnation", "schema", "voters", "if_not_exists", "timestamp_us", "settings")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    IF_NOT_EXISTS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    schema: Schema
    voters: _containers.RepeatedScalarFieldContainer[int]
    if_not_exists: bool
    timestamp_us: int
    settings: _containers.RepeatedCompositeFieldContainer[TopicSetting]
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ..., schema: _Optional[_Union[Schema, _Mapping]] = ..., voters: _Optional[_Iterable[int]] = ..., if_not_exists: _Optional[bool] = ..., timestamp_us: _Optional[int] = ..., settings: _Optional[_Iterable[_Union[TopicSetting, _Mapping]]] = ...) -> None: ...

class AlterTopic(_message.Message):
    __slots__ = ("name", "incarnation", "settings")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    settings: _containers.RepeatedCompositeFieldContainer[TopicSetting]
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ..., settings: _Optional[_Iterable[_Union[TopicSetting, _Mapping]]] = ...) -> None: ...

class ColumnChange(_message.Message):
    __slots__ = ("action", "name", "type", "to")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    action: str
    name: str
    type: str
    to: str
    def __init__(self, action: _Optional[str] = ..., name: _Optional[str] = ..., type: _Optional[str] = ..., to: _Optional[str] = ...) -> None: ...

class AlterSchema(_message.Message):
    __slots__ = ("name", "incarnation", "version", "changes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    version: int
    changes: _containers.RepeatedCompositeFieldContainer[ColumnChange]
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ..., version: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[ColumnChange, _Mapping]]] = ...) -> None: ...

class SetSchema(_message.Message):
    __slots__ = ("schema",)
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    schema: Schema
    def __init__(self, schema: _Optional[_Union[Schema, _Mapping]] = ...) -> None: ...

class DeleteTopic(_message.Message):
    __slots__ = ("name", "incarnation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("append", "stage", "commit_epoch", "abort_epoch", "register_node", "create_topic", "delete_topic", "rules", "expire", "remove_writer", "trim", "snapshot_point", "alter_topic", "configure", "add_node", "set_duty", "retire_node", "place_group", "report_placement", "set_parents", "alter_schema", "set_schema", "create_kv", "open_session", "put_key", "delete_key", "set_writer_owner")
    APPEND_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ABORT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REGISTER_NODE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    DELETE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_WRITER_FIELD_NUMBER: _ClassVar[int]
    TRIM_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_POINT_FIELD_NUMBER: _ClassVar[int]
    ALTER_TOPIC_FIELD_NUMBER: _ClassVar[int]
    CONFIGURE_FIELD_NUMBER: _ClassVar[int]
    ADD_NODE_FIELD_NUMBER: _ClassVar[int]
    SET_DUTY_FIELD_NUMBER: _ClassVar[int]
    RETIRE_NODE_FIELD_NUMBER: _ClassVar[int]
    PLACE_GROUP_FIELD_NUMBER: _ClassVar[int]
    REPORT_PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    SET_PARENTS_FIELD_NUMBER: _ClassVar[int]
    ALTER_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SET_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    CREATE_KV_FIELD_NUMBER: _ClassVar[int]
    OPEN_SESSION_FIELD_NUMBER: _ClassVar[int]
    PUT_KEY_FIELD_NUMBER: _ClassVar[int]
    DELETE_KEY_FIELD_NUMBER: _ClassVar[int]
    SET_WRITER_OWNER_FIELD_NUMBER: _ClassVar[int]
    append: Append
    stage: Stage
    commit_epoch: CommitEpoch
    abort_epoch: AbortEpoch
    register_node: RegisterNode
    create_topic: CreateTopic
    delete_topic: DeleteTopic
    rules: Rules
    expire: Expire
    remove_writer: RemoveWriter
    trim: Trim
    snapshot_point: SnapshotPoint
    alter_topic: AlterTopic
    configure: Configure
    add_node: AddNode
    set_duty: SetDuty
    retire_node: RetireNode
    place_group: PlaceGroup
    report_placement: ReportPlacement
    set_parents: SetParents
    alter_schema: AlterSchema
    set_schema: SetSchema
    create_kv: CreateKv
    open_session: OpenSession
    put_key: PutKey
    delete_key: DeleteKey
    set_writer_owner: SetWriterOwner
    def __init__(self, append: _Optional[_Union[Append, _Mapping]] = ..., stage: _Optional[_Union[Stage, _Mapping]] = ..., commit_epoch: _Optional[_Union[CommitEpoch, _Mapping]] = ..., abort_epoch: _Optional[_Union[AbortEpoch, _Mapping]] = ..., register_node: _Optional[_Union[RegisterNode, _Mapping]] = ..., create_topic: _Optional[_Union[CreateTopic, _Mapping]] = ..., delete_topic: _Optional[_Union[DeleteTopic, _Mapping]] = ..., rules: _Optional[_Union[Rules, _Mapping]] = ..., expire: _Optional[_Union[Expire, _Mapping]] = ..., remove_writer: _Optional[_Union[RemoveWriter, _Mapping]] = ..., trim: _Optional[_Union[Trim, _Mapping]] = ..., snapshot_point: _Optional[_Union[SnapshotPoint, _Mapping]] = ..., alter_topic: _Optional[_Union[AlterTopic, _Mapping]] = ..., configure: _Optional[_Union[Configure, _Mapping]] = ..., add_node: _Optional[_Union[AddNode, _Mapping]] = ..., set_duty: _Optional[_Union[SetDuty, _Mapping]] = ..., retire_node: _Optional[_Union[RetireNode, _Mapping]] = ..., place_group: _Optional[_Union[PlaceGroup, _Mapping]] = ..., report_placement: _Optional[_Union[ReportPlacement, _Mapping]] = ..., set_parents: _Optional[_Union[SetParents, _Mapping]] = ..., alter_schema: _Optional[_Union[AlterSchema, _Mapping]] = ..., set_schema: _Optional[_Union[SetSchema, _Mapping]] = ..., create_kv: _Optional[_Union[CreateKv, _Mapping]] = ..., open_session: _Optional[_Union[OpenSession, _Mapping]] = ..., put_key: _Optional[_Union[PutKey, _Mapping]] = ..., delete_key: _Optional[_Union[DeleteKey, _Mapping]] = ..., set_writer_owner: _Optional[_Union[SetWriterOwner, _Mapping]] = ...) -> None: ...

class NodeAddress(_message.Message):
    __slots__ = ("node", "address")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node: int
    address: str
    def __init__(self, node: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class DescribeCluster(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClusterDescription(_message.Message):
    __slots__ = ("cluster_id", "node", "store_uuid", "leader", "term", "nodes", "version", "registered", "disk_keeps_up", "disk_full", "rules", "rules_known", "behind_rules", "observers", "racks", "unregistered", "lease_us", "caller", "caller_groups")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    STORE_UUID_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    DISK_KEEPS_UP_FIELD_NUMBER: _ClassVar[int]
    DISK_FULL_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    RULES_KNOWN_FIELD_NUMBER: _ClassVar[int]
    BEHIND_RULES_FIELD_NUMBER: _ClassVar[int]
    OBSERVERS_FIELD_NUMBER: _ClassVar[int]
    RACKS_FIELD_NUMBER: _ClassVar[int]
    UNREGISTERED_FIELD_NUMBER: _ClassVar[int]
    LEASE_US_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CALLER_GROUPS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    node: int
    store_uuid: str
    leader: int
    term: int
    nodes: _containers.RepeatedCompositeFieldContainer[NodeAddress]
    version: str
    registered: bool
    disk_keeps_up: bool
    disk_full: str
    rules: int
    rules_known: int
    behind_rules: _containers.RepeatedScalarFieldContainer[int]
    observers: _containers.RepeatedScalarFieldContainer[int]
    racks: _containers.RepeatedScalarFieldContainer[str]
    unregistered: _containers.RepeatedScalarFieldContainer[int]
    lease_us: int
    caller: str
    caller_groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cluster_id: _Optional[str] = ..., node: _Optional[int] = ..., store_uuid: _Optional[str] = ..., leader: _Optional[int] = ..., term: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[NodeAddress, _Mapping]]] = ..., version: _Optional[str] = ..., registered: _Optional[bool] = ..., disk_keeps_up: _Optional[bool] = ..., disk_full: _Optional[str] = ..., rules: _Optional[int] = ..., rules_known: _Optional[int] = ..., behind_rules: _Optional[_Iterable[int]] = ..., observers: _Optional[_Iterable[int]] = ..., racks: _Optional[_Iterable[str]] = ..., unregistered: _Optional[_Iterable[int]] = ..., lease_us: _Optional[int] = ..., caller: _Optional[str] = ..., caller_groups: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeRegistered(_message.Message):
    __slots__ = ("known_before",)
    KNOWN_BEFORE_FIELD_NUMBER: _ClassVar[int]
    known_before: bool
    def __init__(self, known_before: _Optional[bool] = ...) -> None: ...

class NodeAdded(_message.Message):
    __slots__ = ("known_before",)
    KNOWN_BEFORE_FIELD_NUMBER: _ClassVar[int]
    known_before: bool
    def __init__(self, known_before: _Optional[bool] = ...) -> None: ...

class DutySet(_message.Message):
    __slots__ = ("draining", "leaving")
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    draining: bool
    leaving: bool
    def __init__(self, draining: _Optional[bool] = ..., leaving: _Optional[bool] = ...) -> None: ...

class ParentsSet(_message.Message):
    __slots__ = ("parents",)
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    parents: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, parents: _Optional[_Iterable[int]] = ...) -> None: ...

class NodeRetired(_message.Message):
    __slots__ = ("known_before",)
    KNOWN_BEFORE_FIELD_NUMBER: _ClassVar[int]
    known_before: bool
    def __init__(self, known_before: _Optional[bool] = ...) -> None: ...

class GroupPlaced(_message.Message):
    __slots__ = ("generation",)
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    generation: int
    def __init__(self, generation: _Optional[int] = ...) -> None: ...

class PlacementReported(_message.Message):
    __slots__ = ("done",)
    DONE_FIELD_NUMBER: _ClassVar[int]
    done: bool
    def __init__(self, done: _Optional[bool] = ...) -> None: ...

class TransferCall(_message.Message):
    __slots__ = ("group", "to")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    group: int
    to: int
    def __init__(self, group: _Optional[int] = ..., to: _Optional[int] = ...) -> None: ...

class TransferReply(_message.Message):
    __slots__ = ("leader",)
    LEADER_FIELD_NUMBER: _ClassVar[int]
    leader: int
    def __init__(self, leader: _Optional[int] = ...) -> None: ...

class PlaceGroupCall(_message.Message):
    __slots__ = ("group", "voters", "generation")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    group: int
    voters: _containers.RepeatedScalarFieldContainer[int]
    generation: int
    def __init__(self, group: _Optional[int] = ..., voters: _Optional[_Iterable[int]] = ..., generation: _Optional[int] = ...) -> None: ...

class DescribePlacements(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NodePlaces(_message.Message):
    __slots__ = ("node", "address", "rack", "registered", "draining", "leaving", "observer", "parents", "level")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    OBSERVER_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    node: int
    address: str
    rack: str
    registered: bool
    draining: bool
    leaving: bool
    observer: bool
    parents: _containers.RepeatedScalarFieldContainer[int]
    level: int
    def __init__(self, node: _Optional[int] = ..., address: _Optional[str] = ..., rack: _Optional[str] = ..., registered: _Optional[bool] = ..., draining: _Optional[bool] = ..., leaving: _Optional[bool] = ..., observer: _Optional[bool] = ..., parents: _Optional[_Iterable[int]] = ..., level: _Optional[int] = ...) -> None: ...

class Founder(_message.Message):
    __slots__ = ("node", "address", "store_uuid")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STORE_UUID_FIELD_NUMBER: _ClassVar[int]
    node: int
    address: str
    store_uuid: str
    def __init__(self, node: _Optional[int] = ..., address: _Optional[str] = ..., store_uuid: _Optional[str] = ...) -> None: ...

class GroupPlace(_message.Message):
    __slots__ = ("group", "topic", "voters", "former", "generation", "reached")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    FORMER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    group: int
    topic: str
    voters: _containers.RepeatedScalarFieldContainer[int]
    former: _containers.RepeatedScalarFieldContainer[int]
    generation: int
    reached: bool
    def __init__(self, group: _Optional[int] = ..., topic: _Optional[str] = ..., voters: _Optional[_Iterable[int]] = ..., former: _Optional[_Iterable[int]] = ..., generation: _Optional[int] = ..., reached: _Optional[bool] = ...) -> None: ...

class PlacementsReply(_message.Message):
    __slots__ = ("nodes", "groups", "founders", "removed")
    NODES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    FOUNDERS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodePlaces]
    groups: _containers.RepeatedCompositeFieldContainer[GroupPlace]
    founders: _containers.RepeatedCompositeFieldContainer[Founder]
    removed: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodePlaces, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[GroupPlace, _Mapping]]] = ..., founders: _Optional[_Iterable[_Union[Founder, _Mapping]]] = ..., removed: _Optional[_Iterable[int]] = ...) -> None: ...

class CreateTopicCall(_message.Message):
    __slots__ = ("name", "incarnation", "schema", "if_not_exists", "settings", "replicas")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    IF_NOT_EXISTS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    schema: Schema
    if_not_exists: bool
    settings: _containers.RepeatedCompositeFieldContainer[TopicSetting]
    replicas: int
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ..., schema: _Optional[_Union[Schema, _Mapping]] = ..., if_not_exists: _Optional[bool] = ..., settings: _Optional[_Iterable[_Union[TopicSetting, _Mapping]]] = ..., replicas: _Optional[int] = ...) -> None: ...

class AlterTopicCall(_message.Message):
    __slots__ = ("name", "incarnation", "settings")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    settings: _containers.RepeatedCompositeFieldContainer[TopicSetting]
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ..., settings: _Optional[_Iterable[_Union[TopicSetting, _Mapping]]] = ...) -> None: ...

class TopicAltered(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: TopicInfo
    def __init__(self, topic: _Optional[_Union[TopicInfo, _Mapping]] = ...) -> None: ...

class SchemaSet(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class DeleteTopicCall(_message.Message):
    __slots__ = ("name", "incarnation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...

class DescribeTopic(_message.Message):
    __slots__ = ("name", "any_node")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ANY_NODE_FIELD_NUMBER: _ClassVar[int]
    name: str
    any_node: bool
    def __init__(self, name: _Optional[str] = ..., any_node: _Optional[bool] = ...) -> None: ...

class TopicReply(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: TopicInfo
    def __init__(self, topic: _Optional[_Union[TopicInfo, _Mapping]] = ...) -> None: ...

class TopicCreated(_message.Message):
    __slots__ = ("topic", "existed")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    topic: TopicInfo
    existed: bool
    def __init__(self, topic: _Optional[_Union[TopicInfo, _Mapping]] = ..., existed: _Optional[bool] = ...) -> None: ...

class TopicDeleted(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: TopicInfo
    def __init__(self, topic: _Optional[_Union[TopicInfo, _Mapping]] = ...) -> None: ...

class ListTopics(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TopicsReply(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicInfo]
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicInfo, _Mapping]]] = ...) -> None: ...

class AppendCall(_message.Message):
    __slots__ = ("group", "incarnation", "producer", "sequence", "batch", "crc")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    group: int
    incarnation: str
    producer: str
    sequence: int
    batch: BatchHeader
    crc: int
    def __init__(self, group: _Optional[int] = ..., incarnation: _Optional[str] = ..., producer: _Optional[str] = ..., sequence: _Optional[int] = ..., batch: _Optional[_Union[BatchHeader, _Mapping]] = ..., crc: _Optional[int] = ...) -> None: ...

class Appended(_message.Message):
    __slots__ = ("start", "end", "repeated")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    repeated: bool
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., repeated: _Optional[bool] = ...) -> None: ...

class StageCall(_message.Message):
    __slots__ = ("group", "incarnation", "key", "attempt", "number", "create_writer", "batch", "crc")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CREATE_WRITER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    group: int
    incarnation: str
    key: EpochKey
    attempt: str
    number: int
    create_writer: bool
    batch: BatchHeader
    crc: int
    def __init__(self, group: _Optional[int] = ..., incarnation: _Optional[str] = ..., key: _Optional[_Union[EpochKey, _Mapping]] = ..., attempt: _Optional[str] = ..., number: _Optional[int] = ..., create_writer: _Optional[bool] = ..., batch: _Optional[_Union[BatchHeader, _Mapping]] = ..., crc: _Optional[int] = ...) -> None: ...

class Staged(_message.Message):
    __slots__ = ("number", "repeated")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    number: int
    repeated: bool
    def __init__(self, number: _Optional[int] = ..., repeated: _Optional[bool] = ...) -> None: ...

class CommitEpochCall(_message.Message):
    __slots__ = ("group", "incarnation", "key", "attempts", "schema_version", "keep_on_mismatch", "create_writer", "transient_writer", "plan", "overwrite")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    KEEP_ON_MISMATCH_FIELD_NUMBER: _ClassVar[int]
    CREATE_WRITER_FIELD_NUMBER: _ClassVar[int]
    TRANSIENT_WRITER_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    OVERWRITE_FIELD_NUMBER: _ClassVar[int]
    group: int
    incarnation: str
    key: EpochKey
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptReference]
    schema_version: int
    keep_on_mismatch: bool
    create_writer: bool
    transient_writer: bool
    plan: str
    overwrite: bool
    def __init__(self, group: _Optional[int] = ..., incarnation: _Optional[str] = ..., key: _Optional[_Union[EpochKey, _Mapping]] = ..., attempts: _Optional[_Iterable[_Union[AttemptReference, _Mapping]]] = ..., schema_version: _Optional[int] = ..., keep_on_mismatch: _Optional[bool] = ..., create_writer: _Optional[bool] = ..., transient_writer: _Optional[bool] = ..., plan: _Optional[str] = ..., overwrite: _Optional[bool] = ...) -> None: ...

class EpochCommitted(_message.Message):
    __slots__ = ("start", "end", "record_count", "replayed", "kept")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    record_count: int
    replayed: bool
    kept: bool
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., record_count: _Optional[int] = ..., replayed: _Optional[bool] = ..., kept: _Optional[bool] = ...) -> None: ...

class AbortEpochCall(_message.Message):
    __slots__ = ("group", "incarnation", "key")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    group: int
    incarnation: str
    key: EpochKey
    def __init__(self, group: _Optional[int] = ..., incarnation: _Optional[str] = ..., key: _Optional[_Union[EpochKey, _Mapping]] = ...) -> None: ...

class EpochAborted(_message.Message):
    __slots__ = ("attempts",)
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    attempts: int
    def __init__(self, attempts: _Optional[int] = ...) -> None: ...

class ReadHighWaterMark(_message.Message):
    __slots__ = ("group", "incarnation")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    group: int
    incarnation: str
    def __init__(self, group: _Optional[int] = ..., incarnation: _Optional[str] = ...) -> None: ...

class ReadableRange(_message.Message):
    __slots__ = ("log_start_offset", "high_water_mark", "record_bytes")
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATER_MARK_FIELD_NUMBER: _ClassVar[int]
    RECORD_BYTES_FIELD_NUMBER: _ClassVar[int]
    log_start_offset: int
    high_water_mark: int
    record_bytes: int
    def __init__(self, log_start_offset: _Optional[int] = ..., high_water_mark: _Optional[int] = ..., record_bytes: _Optional[int] = ...) -> None: ...

class ReadCall(_message.Message):
    __slots__ = ("group", "incarnation", "start", "end", "mark", "field_ids", "all_fields", "verify")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    FIELD_IDS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELDS_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    group: int
    incarnation: str
    start: int
    end: int
    mark: int
    field_ids: _containers.RepeatedScalarFieldContainer[int]
    all_fields: bool
    verify: bool
    def __init__(self, group: _Optional[int] = ..., incarnation: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., mark: _Optional[int] = ..., field_ids: _Optional[_Iterable[int]] = ..., all_fields: _Optional[bool] = ..., verify: _Optional[bool] = ...) -> None: ...

class BatchReply(_message.Message):
    __slots__ = ("start", "batch", "timestamp_us", "term", "writer", "epoch", "runs")
    START_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    start: int
    batch: BatchHeader
    timestamp_us: int
    term: int
    writer: str
    epoch: int
    runs: Runs
    def __init__(self, start: _Optional[int] = ..., batch: _Optional[_Union[BatchHeader, _Mapping]] = ..., timestamp_us: _Optional[int] = ..., term: _Optional[int] = ..., writer: _Optional[str] = ..., epoch: _Optional[int] = ..., runs: _Optional[_Union[Runs, _Mapping]] = ...) -> None: ...

class ReadSizes(_message.Message):
    __slots__ = ("group", "incarnation", "start", "end", "mark", "pieces_max", "where", "where_version")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    PIECES_MAX_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    WHERE_VERSION_FIELD_NUMBER: _ClassVar[int]
    group: int
    incarnation: str
    start: int
    end: int
    mark: int
    pieces_max: int
    where: _containers.RepeatedCompositeFieldContainer[Predicate]
    where_version: int
    def __init__(self, group: _Optional[int] = ..., incarnation: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., mark: _Optional[int] = ..., pieces_max: _Optional[int] = ..., where: _Optional[_Iterable[_Union[Predicate, _Mapping]]] = ..., where_version: _Optional[int] = ...) -> None: ...

class RangeSizes(_message.Message):
    __slots__ = ("offsets", "body_bytes", "matches")
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    BODY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    body_bytes: _containers.RepeatedScalarFieldContainer[int]
    matches: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, offsets: _Optional[_Iterable[int]] = ..., body_bytes: _Optional[_Iterable[int]] = ..., matches: _Optional[_Iterable[bool]] = ...) -> None: ...

class WatchGroups(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, groups: _Optional[_Iterable[int]] = ...) -> None: ...

class FollowerView(_message.Message):
    __slots__ = ("node", "match_index", "contact_ms_ago")
    NODE_FIELD_NUMBER: _ClassVar[int]
    MATCH_INDEX_FIELD_NUMBER: _ClassVar[int]
    CONTACT_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    node: int
    match_index: int
    contact_ms_ago: int
    def __init__(self, node: _Optional[int] = ..., match_index: _Optional[int] = ..., contact_ms_ago: _Optional[int] = ...) -> None: ...

class GroupView(_message.Message):
    __slots__ = ("group", "topic", "incarnation", "node", "role", "leader", "term", "last_index", "commit_index", "applied_index", "log_start_offset", "high_water_mark", "open_epochs", "staged_bytes", "state_hash", "followers", "dead_bytes", "state", "log_start_index", "log_bytes", "snapshot_index", "history_end", "history_bytes", "points_behind", "history", "scrub", "scrub_read_bytes", "scrub_total_bytes", "scrubbed_us", "damage_found", "damage_healed", "damage_not_healable", "damage_latest", "retention_start", "held_for")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATER_MARK_FIELD_NUMBER: _ClassVar[int]
    OPEN_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    STAGED_BYTES_FIELD_NUMBER: _ClassVar[int]
    STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    FOLLOWERS_FIELD_NUMBER: _ClassVar[int]
    DEAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LOG_START_INDEX_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_INDEX_FIELD_NUMBER: _ClassVar[int]
    HISTORY_END_FIELD_NUMBER: _ClassVar[int]
    HISTORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    POINTS_BEHIND_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    SCRUB_FIELD_NUMBER: _ClassVar[int]
    SCRUB_READ_BYTES_FIELD_NUMBER: _ClassVar[int]
    SCRUB_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SCRUBBED_US_FIELD_NUMBER: _ClassVar[int]
    DAMAGE_FOUND_FIELD_NUMBER: _ClassVar[int]
    DAMAGE_HEALED_FIELD_NUMBER: _ClassVar[int]
    DAMAGE_NOT_HEALABLE_FIELD_NUMBER: _ClassVar[int]
    DAMAGE_LATEST_FIELD_NUMBER: _ClassVar[int]
    RETENTION_START_FIELD_NUMBER: _ClassVar[int]
    HELD_FOR_FIELD_NUMBER: _ClassVar[int]
    group: int
    topic: str
    incarnation: str
    node: int
    role: str
    leader: int
    term: int
    last_index: int
    commit_index: int
    applied_index: int
    log_start_offset: int
    high_water_mark: int
    open_epochs: int
    staged_bytes: int
    state_hash: str
    followers: _containers.RepeatedCompositeFieldContainer[FollowerView]
    dead_bytes: int
    state: str
    log_start_index: int
    log_bytes: int
    snapshot_index: int
    history_end: int
    history_bytes: int
    points_behind: int
    history: str
    scrub: str
    scrub_read_bytes: int
    scrub_total_bytes: int
    scrubbed_us: int
    damage_found: int
    damage_healed: int
    damage_not_healable: int
    damage_latest: str
    retention_start: int
    held_for: str
    def __init__(self, group: _Optional[int] = ..., topic: _Optional[str] = ..., incarnation: _Optional[str] = ..., node: _Optional[int] = ..., role: _Optional[str] = ..., leader: _Optional[int] = ..., term: _Optional[int] = ..., last_index: _Optional[int] = ..., commit_index: _Optional[int] = ..., applied_index: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., high_water_mark: _Optional[int] = ..., open_epochs: _Optional[int] = ..., staged_bytes: _Optional[int] = ..., state_hash: _Optional[str] = ..., followers: _Optional[_Iterable[_Union[FollowerView, _Mapping]]] = ..., dead_bytes: _Optional[int] = ..., state: _Optional[str] = ..., log_start_index: _Optional[int] = ..., log_bytes: _Optional[int] = ..., snapshot_index: _Optional[int] = ..., history_end: _Optional[int] = ..., history_bytes: _Optional[int] = ..., points_behind: _Optional[int] = ..., history: _Optional[str] = ..., scrub: _Optional[str] = ..., scrub_read_bytes: _Optional[int] = ..., scrub_total_bytes: _Optional[int] = ..., scrubbed_us: _Optional[int] = ..., damage_found: _Optional[int] = ..., damage_healed: _Optional[int] = ..., damage_not_healable: _Optional[int] = ..., damage_latest: _Optional[str] = ..., retention_start: _Optional[int] = ..., held_for: _Optional[str] = ...) -> None: ...

class QuarantineView(_message.Message):
    __slots__ = ("group", "topic", "problem")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    group: int
    topic: str
    problem: str
    def __init__(self, group: _Optional[int] = ..., topic: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class NodeView(_message.Message):
    __slots__ = ("node", "groups", "quarantined", "set_aside")
    NODE_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    node: int
    groups: _containers.RepeatedCompositeFieldContainer[GroupView]
    quarantined: _containers.RepeatedCompositeFieldContainer[QuarantineView]
    set_aside: _containers.RepeatedCompositeFieldContainer[SetAsideView]
    def __init__(self, node: _Optional[int] = ..., groups: _Optional[_Iterable[_Union[GroupView, _Mapping]]] = ..., quarantined: _Optional[_Iterable[_Union[QuarantineView, _Mapping]]] = ..., set_aside: _Optional[_Iterable[_Union[SetAsideView, _Mapping]]] = ...) -> None: ...

class SetAsideView(_message.Message):
    __slots__ = ("folder", "byte_count")
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    BYTE_COUNT_FIELD_NUMBER: _ClassVar[int]
    folder: str
    byte_count: int
    def __init__(self, folder: _Optional[str] = ..., byte_count: _Optional[int] = ...) -> None: ...

class ScrubCall(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, groups: _Optional[_Iterable[int]] = ...) -> None: ...

class ListWriters(_message.Message):
    __slots__ = ("group", "incarnation", "after", "writer")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    group: int
    incarnation: str
    after: str
    writer: str
    def __init__(self, group: _Optional[int] = ..., incarnation: _Optional[str] = ..., after: _Optional[str] = ..., writer: _Optional[str] = ...) -> None: ...

class WriterView(_message.Message):
    __slots__ = ("writer", "kind", "owner", "query_id", "run", "last_epoch", "open_epochs", "staged_bytes", "active_us", "plan", "last_start", "last_end", "stream", "stream_batch")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    OPEN_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    STAGED_BYTES_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_US_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    LAST_START_FIELD_NUMBER: _ClassVar[int]
    LAST_END_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    STREAM_BATCH_FIELD_NUMBER: _ClassVar[int]
    writer: str
    kind: str
    owner: str
    query_id: str
    run: str
    last_epoch: int
    open_epochs: int
    staged_bytes: int
    active_us: int
    plan: str
    last_start: int
    last_end: int
    stream: str
    stream_batch: int
    def __init__(self, writer: _Optional[str] = ..., kind: _Optional[str] = ..., owner: _Optional[str] = ..., query_id: _Optional[str] = ..., run: _Optional[str] = ..., last_epoch: _Optional[int] = ..., open_epochs: _Optional[int] = ..., staged_bytes: _Optional[int] = ..., active_us: _Optional[int] = ..., plan: _Optional[str] = ..., last_start: _Optional[int] = ..., last_end: _Optional[int] = ..., stream: _Optional[str] = ..., stream_batch: _Optional[int] = ...) -> None: ...

class WritersReply(_message.Message):
    __slots__ = ("writers", "more")
    WRITERS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    writers: _containers.RepeatedCompositeFieldContainer[WriterView]
    more: bool
    def __init__(self, writers: _Optional[_Iterable[_Union[WriterView, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class RemoveWriterCall(_message.Message):
    __slots__ = ("group", "incarnation", "writer")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    group: int
    incarnation: str
    writer: str
    def __init__(self, group: _Optional[int] = ..., incarnation: _Optional[str] = ..., writer: _Optional[str] = ...) -> None: ...

class SetWriterOwnerCall(_message.Message):
    __slots__ = ("group", "incarnation", "writer", "owner")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    group: int
    incarnation: str
    writer: str
    owner: str
    def __init__(self, group: _Optional[int] = ..., incarnation: _Optional[str] = ..., writer: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class WriterOwnerSet(_message.Message):
    __slots__ = ("known", "former")
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    FORMER_FIELD_NUMBER: _ClassVar[int]
    known: bool
    former: str
    def __init__(self, known: _Optional[bool] = ..., former: _Optional[str] = ...) -> None: ...

class WriterRemoved(_message.Message):
    __slots__ = ("known", "staged_bytes")
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    STAGED_BYTES_FIELD_NUMBER: _ClassVar[int]
    known: bool
    staged_bytes: int
    def __init__(self, known: _Optional[bool] = ..., staged_bytes: _Optional[int] = ...) -> None: ...

class ErrorValue(_message.Message):
    __slots__ = ("name", "text")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    name: str
    text: str
    def __init__(self, name: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "values")
    CODE_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    code: str
    values: _containers.RepeatedCompositeFieldContainer[ErrorValue]
    def __init__(self, code: _Optional[str] = ..., values: _Optional[_Iterable[_Union[ErrorValue, _Mapping]]] = ...) -> None: ...

class PeerHello(_message.Message):
    __slots__ = ("cluster_id", "node", "store_uuid", "boot_id", "address", "format", "earlier_boot_ids", "registered_at")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    STORE_UUID_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    EARLIER_BOOT_IDS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    node: int
    store_uuid: str
    boot_id: str
    address: str
    format: str
    earlier_boot_ids: _containers.RepeatedScalarFieldContainer[str]
    registered_at: int
    def __init__(self, cluster_id: _Optional[str] = ..., node: _Optional[int] = ..., store_uuid: _Optional[str] = ..., boot_id: _Optional[str] = ..., address: _Optional[str] = ..., format: _Optional[str] = ..., earlier_boot_ids: _Optional[_Iterable[str]] = ..., registered_at: _Optional[int] = ...) -> None: ...

class PeerWelcome(_message.Message):
    __slots__ = ("node", "store_uuid", "boot_id", "message_bytes_max", "format")
    NODE_FIELD_NUMBER: _ClassVar[int]
    STORE_UUID_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    node: int
    store_uuid: str
    boot_id: str
    message_bytes_max: int
    format: str
    def __init__(self, node: _Optional[int] = ..., store_uuid: _Optional[str] = ..., boot_id: _Optional[str] = ..., message_bytes_max: _Optional[int] = ..., format: _Optional[str] = ...) -> None: ...

class VoteRequest(_message.Message):
    __slots__ = ("group", "sender", "to", "term", "last_index", "last_term", "pre", "transfer")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    PRE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    term: int
    last_index: int
    last_term: int
    pre: bool
    transfer: bool
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., term: _Optional[int] = ..., last_index: _Optional[int] = ..., last_term: _Optional[int] = ..., pre: _Optional[bool] = ..., transfer: _Optional[bool] = ...) -> None: ...

class TimeoutNow(_message.Message):
    __slots__ = ("group", "sender", "to", "term", "wished")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    WISHED_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    term: int
    wished: bool
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., term: _Optional[int] = ..., wished: _Optional[bool] = ...) -> None: ...

class VoteReply(_message.Message):
    __slots__ = ("group", "sender", "to", "term", "granted", "pre")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    PRE_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    term: int
    granted: bool
    pre: bool
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., term: _Optional[int] = ..., granted: _Optional[bool] = ..., pre: _Optional[bool] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("group", "sender", "to", "term", "prev_index", "prev_term", "commit_index", "entry_terms", "entry_kinds", "command_lengths", "body_lengths")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    PREV_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREV_TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ENTRY_TERMS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_KINDS_FIELD_NUMBER: _ClassVar[int]
    COMMAND_LENGTHS_FIELD_NUMBER: _ClassVar[int]
    BODY_LENGTHS_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    term: int
    prev_index: int
    prev_term: int
    commit_index: int
    entry_terms: _containers.RepeatedScalarFieldContainer[int]
    entry_kinds: _containers.RepeatedScalarFieldContainer[int]
    command_lengths: _containers.RepeatedScalarFieldContainer[int]
    body_lengths: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., term: _Optional[int] = ..., prev_index: _Optional[int] = ..., prev_term: _Optional[int] = ..., commit_index: _Optional[int] = ..., entry_terms: _Optional[_Iterable[int]] = ..., entry_kinds: _Optional[_Iterable[int]] = ..., command_lengths: _Optional[_Iterable[int]] = ..., body_lengths: _Optional[_Iterable[int]] = ...) -> None: ...

class AppendReply(_message.Message):
    __slots__ = ("group", "sender", "to", "term", "accepted", "prev_index", "match_index", "conflict_term", "conflict_index", "last_index", "recovery")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    PREV_INDEX_FIELD_NUMBER: _ClassVar[int]
    MATCH_INDEX_FIELD_NUMBER: _ClassVar[int]
    CONFLICT_TERM_FIELD_NUMBER: _ClassVar[int]
    CONFLICT_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    term: int
    accepted: bool
    prev_index: int
    match_index: int
    conflict_term: int
    conflict_index: int
    last_index: int
    recovery: int
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., term: _Optional[int] = ..., accepted: _Optional[bool] = ..., prev_index: _Optional[int] = ..., match_index: _Optional[int] = ..., conflict_term: _Optional[int] = ..., conflict_index: _Optional[int] = ..., last_index: _Optional[int] = ..., recovery: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("group", "sender", "to", "term", "commit_index", "read_round", "quiesce_round", "hash_index", "agreed_index", "agreed_hash", "disputed", "recovered", "history_index", "agreed_history_index", "agreed_history_digest", "history_disputed", "commit_term", "recovery")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    READ_ROUND_FIELD_NUMBER: _ClassVar[int]
    QUIESCE_ROUND_FIELD_NUMBER: _ClassVar[int]
    HASH_INDEX_FIELD_NUMBER: _ClassVar[int]
    AGREED_INDEX_FIELD_NUMBER: _ClassVar[int]
    AGREED_HASH_FIELD_NUMBER: _ClassVar[int]
    DISPUTED_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_FIELD_NUMBER: _ClassVar[int]
    HISTORY_INDEX_FIELD_NUMBER: _ClassVar[int]
    AGREED_HISTORY_INDEX_FIELD_NUMBER: _ClassVar[int]
    AGREED_HISTORY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    HISTORY_DISPUTED_FIELD_NUMBER: _ClassVar[int]
    COMMIT_TERM_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    term: int
    commit_index: int
    read_round: int
    quiesce_round: int
    hash_index: int
    agreed_index: int
    agreed_hash: bytes
    disputed: bool
    recovered: int
    history_index: int
    agreed_history_index: int
    agreed_history_digest: bytes
    history_disputed: bool
    commit_term: int
    recovery: int
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., term: _Optional[int] = ..., commit_index: _Optional[int] = ..., read_round: _Optional[int] = ..., quiesce_round: _Optional[int] = ..., hash_index: _Optional[int] = ..., agreed_index: _Optional[int] = ..., agreed_hash: _Optional[bytes] = ..., disputed: _Optional[bool] = ..., recovered: _Optional[int] = ..., history_index: _Optional[int] = ..., agreed_history_index: _Optional[int] = ..., agreed_history_digest: _Optional[bytes] = ..., history_disputed: _Optional[bool] = ..., commit_term: _Optional[int] = ..., recovery: _Optional[int] = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ("group", "sender", "to", "term", "read_round", "last_index", "quiesce_round", "disk_keeps_up", "hash_index", "state_hash", "diverged", "recovery", "history_index", "history_digest", "history_diverged", "may_lead", "lease_us")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    READ_ROUND_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    QUIESCE_ROUND_FIELD_NUMBER: _ClassVar[int]
    DISK_KEEPS_UP_FIELD_NUMBER: _ClassVar[int]
    HASH_INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    DIVERGED_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    HISTORY_INDEX_FIELD_NUMBER: _ClassVar[int]
    HISTORY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    HISTORY_DIVERGED_FIELD_NUMBER: _ClassVar[int]
    MAY_LEAD_FIELD_NUMBER: _ClassVar[int]
    LEASE_US_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    term: int
    read_round: int
    last_index: int
    quiesce_round: int
    disk_keeps_up: bool
    hash_index: int
    state_hash: bytes
    diverged: bool
    recovery: int
    history_index: int
    history_digest: bytes
    history_diverged: bool
    may_lead: bool
    lease_us: int
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., term: _Optional[int] = ..., read_round: _Optional[int] = ..., last_index: _Optional[int] = ..., quiesce_round: _Optional[int] = ..., disk_keeps_up: _Optional[bool] = ..., hash_index: _Optional[int] = ..., state_hash: _Optional[bytes] = ..., diverged: _Optional[bool] = ..., recovery: _Optional[int] = ..., history_index: _Optional[int] = ..., history_digest: _Optional[bytes] = ..., history_diverged: _Optional[bool] = ..., may_lead: _Optional[bool] = ..., lease_us: _Optional[int] = ...) -> None: ...

class NodeHeartbeat(_message.Message):
    __slots__ = ("sender", "to", "boot_id", "clock_us", "disk_full")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    CLOCK_US_FIELD_NUMBER: _ClassVar[int]
    DISK_FULL_FIELD_NUMBER: _ClassVar[int]
    sender: int
    to: int
    boot_id: str
    clock_us: int
    disk_full: bool
    def __init__(self, sender: _Optional[int] = ..., to: _Optional[int] = ..., boot_id: _Optional[str] = ..., clock_us: _Optional[int] = ..., disk_full: _Optional[bool] = ...) -> None: ...

class GroupDeleted(_message.Message):
    __slots__ = ("group", "sender", "to")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ...) -> None: ...

class ImageOffer(_message.Message):
    __slots__ = ("group", "sender", "to", "index")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    index: int
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class ImageRequest(_message.Message):
    __slots__ = ("group", "sender", "to", "refused")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    refused: str
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., refused: _Optional[str] = ...) -> None: ...

class ImageManifest(_message.Message):
    __slots__ = ("group", "sender", "to", "text", "snapshot_bytes")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_BYTES_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    text: bytes
    snapshot_bytes: int
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., text: _Optional[bytes] = ..., snapshot_bytes: _Optional[int] = ...) -> None: ...

class ImageChunkRequest(_message.Message):
    __slots__ = ("group", "sender", "to", "name", "position", "length")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    name: str
    position: int
    length: int
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., name: _Optional[str] = ..., position: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class ImageChunk(_message.Message):
    __slots__ = ("group", "sender", "to", "name", "position", "crc", "gone", "length")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    name: str
    position: int
    crc: int
    gone: bool
    length: int
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., name: _Optional[str] = ..., position: _Optional[int] = ..., crc: _Optional[int] = ..., gone: _Optional[bool] = ..., length: _Optional[int] = ...) -> None: ...

class EntryRequest(_message.Message):
    __slots__ = ("group", "sender", "to", "index", "term")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    index: int
    term: int
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., index: _Optional[int] = ..., term: _Optional[int] = ...) -> None: ...

class EntryReply(_message.Message):
    __slots__ = ("group", "sender", "to", "index", "term", "held", "dropped", "crc", "command_length", "body_length")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    COMMAND_LENGTH_FIELD_NUMBER: _ClassVar[int]
    BODY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    index: int
    term: int
    held: bool
    dropped: bool
    crc: int
    command_length: int
    body_length: int
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., index: _Optional[int] = ..., term: _Optional[int] = ..., held: _Optional[bool] = ..., dropped: _Optional[bool] = ..., crc: _Optional[int] = ..., command_length: _Optional[int] = ..., body_length: _Optional[int] = ...) -> None: ...

class PullRow(_message.Message):
    __slots__ = ("group", "index", "term", "leader_term", "leader")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    group: int
    index: int
    term: int
    leader_term: int
    leader: int
    def __init__(self, group: _Optional[int] = ..., index: _Optional[int] = ..., term: _Optional[int] = ..., leader_term: _Optional[int] = ..., leader: _Optional[int] = ...) -> None: ...

class PullRequest(_message.Message):
    __slots__ = ("sender", "to", "number", "rows")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    sender: int
    to: int
    number: int
    rows: _containers.RepeatedCompositeFieldContainer[PullRow]
    def __init__(self, sender: _Optional[int] = ..., to: _Optional[int] = ..., number: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[PullRow, _Mapping]]] = ...) -> None: ...

class PulledEntries(_message.Message):
    __slots__ = ("group", "sender", "to", "term", "leader", "held", "base_index", "commit_index", "prev_index", "prev_term", "entry_terms", "entry_kinds", "command_lengths", "body_lengths")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    BASE_INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREV_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREV_TERM_FIELD_NUMBER: _ClassVar[int]
    ENTRY_TERMS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_KINDS_FIELD_NUMBER: _ClassVar[int]
    COMMAND_LENGTHS_FIELD_NUMBER: _ClassVar[int]
    BODY_LENGTHS_FIELD_NUMBER: _ClassVar[int]
    group: int
    sender: int
    to: int
    term: int
    leader: int
    held: bool
    base_index: int
    commit_index: int
    prev_index: int
    prev_term: int
    entry_terms: _containers.RepeatedScalarFieldContainer[int]
    entry_kinds: _containers.RepeatedScalarFieldContainer[int]
    command_lengths: _containers.RepeatedScalarFieldContainer[int]
    body_lengths: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, group: _Optional[int] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., term: _Optional[int] = ..., leader: _Optional[int] = ..., held: _Optional[bool] = ..., base_index: _Optional[int] = ..., commit_index: _Optional[int] = ..., prev_index: _Optional[int] = ..., prev_term: _Optional[int] = ..., entry_terms: _Optional[_Iterable[int]] = ..., entry_kinds: _Optional[_Iterable[int]] = ..., command_lengths: _Optional[_Iterable[int]] = ..., body_lengths: _Optional[_Iterable[int]] = ...) -> None: ...

class PullDone(_message.Message):
    __slots__ = ("sender", "to", "number", "more")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    sender: int
    to: int
    number: int
    more: bool
    def __init__(self, sender: _Optional[int] = ..., to: _Optional[int] = ..., number: _Optional[int] = ..., more: _Optional[bool] = ...) -> None: ...

class PeerMessage(_message.Message):
    __slots__ = ("vote_request", "vote_reply", "append_request", "append_reply", "heartbeat", "heartbeat_reply", "group_deleted", "node_heartbeat", "image_offer", "image_request", "image_manifest", "image_chunk_request", "image_chunk", "entry_request", "entry_reply", "pull_request", "pulled_entries", "pull_done", "timeout_now")
    VOTE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    VOTE_REPLY_FIELD_NUMBER: _ClassVar[int]
    APPEND_REQUEST_FIELD_NUMBER: _ClassVar[int]
    APPEND_REPLY_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_REPLY_FIELD_NUMBER: _ClassVar[int]
    GROUP_DELETED_FIELD_NUMBER: _ClassVar[int]
    NODE_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_OFFER_FIELD_NUMBER: _ClassVar[int]
    IMAGE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    IMAGE_MANIFEST_FIELD_NUMBER: _ClassVar[int]
    IMAGE_CHUNK_REQUEST_FIELD_NUMBER: _ClassVar[int]
    IMAGE_CHUNK_FIELD_NUMBER: _ClassVar[int]
    ENTRY_REQUEST_FIELD_NUMBER: _ClassVar[int]
    ENTRY_REPLY_FIELD_NUMBER: _ClassVar[int]
    PULL_REQUEST_FIELD_NUMBER: _ClassVar[int]
    PULLED_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    PULL_DONE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NOW_FIELD_NUMBER: _ClassVar[int]
    vote_request: VoteRequest
    vote_reply: VoteReply
    append_request: AppendRequest
    append_reply: AppendReply
    heartbeat: Heartbeat
    heartbeat_reply: HeartbeatReply
    group_deleted: GroupDeleted
    node_heartbeat: NodeHeartbeat
    image_offer: ImageOffer
    image_request: ImageRequest
    image_manifest: ImageManifest
    image_chunk_request: ImageChunkRequest
    image_chunk: ImageChunk
    entry_request: EntryRequest
    entry_reply: EntryReply
    pull_request: PullRequest
    pulled_entries: PulledEntries
    pull_done: PullDone
    timeout_now: TimeoutNow
    def __init__(self, vote_request: _Optional[_Union[VoteRequest, _Mapping]] = ..., vote_reply: _Optional[_Union[VoteReply, _Mapping]] = ..., append_request: _Optional[_Union[AppendRequest, _Mapping]] = ..., append_reply: _Optional[_Union[AppendReply, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., heartbeat_reply: _Optional[_Union[HeartbeatReply, _Mapping]] = ..., group_deleted: _Optional[_Union[GroupDeleted, _Mapping]] = ..., node_heartbeat: _Optional[_Union[NodeHeartbeat, _Mapping]] = ..., image_offer: _Optional[_Union[ImageOffer, _Mapping]] = ..., image_request: _Optional[_Union[ImageRequest, _Mapping]] = ..., image_manifest: _Optional[_Union[ImageManifest, _Mapping]] = ..., image_chunk_request: _Optional[_Union[ImageChunkRequest, _Mapping]] = ..., image_chunk: _Optional[_Union[ImageChunk, _Mapping]] = ..., entry_request: _Optional[_Union[EntryRequest, _Mapping]] = ..., entry_reply: _Optional[_Union[EntryReply, _Mapping]] = ..., pull_request: _Optional[_Union[PullRequest, _Mapping]] = ..., pulled_entries: _Optional[_Union[PulledEntries, _Mapping]] = ..., pull_done: _Optional[_Union[PullDone, _Mapping]] = ..., timeout_now: _Optional[_Union[TimeoutNow, _Mapping]] = ...) -> None: ...

class PeerMessages(_message.Message):
    __slots__ = ("messages", "traced")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TRACED_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[PeerMessage]
    traced: _containers.RepeatedCompositeFieldContainer[TracedEntry]
    def __init__(self, messages: _Optional[_Iterable[_Union[PeerMessage, _Mapping]]] = ..., traced: _Optional[_Iterable[_Union[TracedEntry, _Mapping]]] = ...) -> None: ...

class TracedEntry(_message.Message):
    __slots__ = ("group", "index", "term", "carried")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    CARRIED_FIELD_NUMBER: _ClassVar[int]
    group: int
    index: int
    term: int
    carried: str
    def __init__(self, group: _Optional[int] = ..., index: _Optional[int] = ..., term: _Optional[int] = ..., carried: _Optional[str] = ...) -> None: ...

class Runs(_message.Message):
    __slots__ = ("counts", "timestamp_steps", "term_steps", "epoch_steps", "writers", "names")
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_STEPS_FIELD_NUMBER: _ClassVar[int]
    TERM_STEPS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_STEPS_FIELD_NUMBER: _ClassVar[int]
    WRITERS_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    timestamp_steps: _containers.RepeatedScalarFieldContainer[int]
    term_steps: _containers.RepeatedScalarFieldContainer[int]
    epoch_steps: _containers.RepeatedScalarFieldContainer[int]
    writers: _containers.RepeatedScalarFieldContainer[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, counts: _Optional[_Iterable[int]] = ..., timestamp_steps: _Optional[_Iterable[int]] = ..., term_steps: _Optional[_Iterable[int]] = ..., epoch_steps: _Optional[_Iterable[int]] = ..., writers: _Optional[_Iterable[int]] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class RowGroupDescription(_message.Message):
    __slots__ = ("header", "runs", "digest")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    header: BatchHeader
    runs: Runs
    digest: bytes
    def __init__(self, header: _Optional[_Union[BatchHeader, _Mapping]] = ..., runs: _Optional[_Union[Runs, _Mapping]] = ..., digest: _Optional[bytes] = ...) -> None: ...

class HistoryFooter(_message.Message):
    __slots__ = ("record_counts", "record_bytes", "body_lengths", "description_lengths", "description_crcs")
    RECORD_COUNTS_FIELD_NUMBER: _ClassVar[int]
    RECORD_BYTES_FIELD_NUMBER: _ClassVar[int]
    BODY_LENGTHS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_LENGTHS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_CRCS_FIELD_NUMBER: _ClassVar[int]
    record_counts: _containers.RepeatedScalarFieldContainer[int]
    record_bytes: _containers.RepeatedScalarFieldContainer[int]
    body_lengths: _containers.RepeatedScalarFieldContainer[int]
    description_lengths: _containers.RepeatedScalarFieldContainer[int]
    description_crcs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, record_counts: _Optional[_Iterable[int]] = ..., record_bytes: _Optional[_Iterable[int]] = ..., body_lengths: _Optional[_Iterable[int]] = ..., description_lengths: _Optional[_Iterable[int]] = ..., description_crcs: _Optional[_Iterable[int]] = ...) -> None: ...

class SnapshotPoint(_message.Message):
    __slots__ = ("keep_from",)
    KEEP_FROM_FIELD_NUMBER: _ClassVar[int]
    keep_from: int
    def __init__(self, keep_from: _Optional[int] = ...) -> None: ...

class Trim(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class Configure(_message.Message):
    __slots__ = ("version", "settings")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    version: int
    settings: _containers.RepeatedCompositeFieldContainer[TopicSetting]
    def __init__(self, version: _Optional[int] = ..., settings: _Optional[_Iterable[_Union[TopicSetting, _Mapping]]] = ...) -> None: ...

class AgesState(_message.Message):
    __slots__ = ("keys", "times_us")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TIMES_US_FIELD_NUMBER: _ClassVar[int]
    keys: bytes
    times_us: bytes
    def __init__(self, keys: _Optional[bytes] = ..., times_us: _Optional[bytes] = ...) -> None: ...

class ExtentsState(_message.Message):
    __slots__ = ("high_water_mark", "published_bytes", "digest", "position_offsets", "position_bytes")
    HIGH_WATER_MARK_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    POSITION_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    POSITION_BYTES_FIELD_NUMBER: _ClassVar[int]
    high_water_mark: int
    published_bytes: int
    digest: bytes
    position_offsets: bytes
    position_bytes: bytes
    def __init__(self, high_water_mark: _Optional[int] = ..., published_bytes: _Optional[int] = ..., digest: _Optional[bytes] = ..., position_offsets: _Optional[bytes] = ..., position_bytes: _Optional[bytes] = ...) -> None: ...

class ProducersState(_message.Message):
    __slots__ = ("names", "next_sequences", "append_counts", "appends", "ages", "forgotten", "owners")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    APPEND_COUNTS_FIELD_NUMBER: _ClassVar[int]
    APPENDS_FIELD_NUMBER: _ClassVar[int]
    AGES_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    next_sequences: bytes
    append_counts: bytes
    appends: bytes
    ages: AgesState
    forgotten: _containers.RepeatedScalarFieldContainer[str]
    owners: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ..., next_sequences: _Optional[bytes] = ..., append_counts: _Optional[bytes] = ..., appends: _Optional[bytes] = ..., ages: _Optional[_Union[AgesState, _Mapping]] = ..., forgotten: _Optional[_Iterable[str]] = ..., owners: _Optional[_Iterable[str]] = ...) -> None: ...

class OpenAttemptState(_message.Message):
    __slots__ = ("attempt", "record_count", "chained_crc", "indexes", "record_counts", "body_bytes", "crcs")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHAINED_CRC_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNTS_FIELD_NUMBER: _ClassVar[int]
    BODY_BYTES_FIELD_NUMBER: _ClassVar[int]
    CRCS_FIELD_NUMBER: _ClassVar[int]
    attempt: str
    record_count: int
    chained_crc: int
    indexes: bytes
    record_counts: bytes
    body_bytes: bytes
    crcs: bytes
    def __init__(self, attempt: _Optional[str] = ..., record_count: _Optional[int] = ..., chained_crc: _Optional[int] = ..., indexes: _Optional[bytes] = ..., record_counts: _Optional[bytes] = ..., body_bytes: _Optional[bytes] = ..., crcs: _Optional[bytes] = ...) -> None: ...

class OpenEpochState(_message.Message):
    __slots__ = ("epoch", "renewed_at", "attempts")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RENEWED_AT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    renewed_at: int
    attempts: _containers.RepeatedCompositeFieldContainer[OpenAttemptState]
    def __init__(self, epoch: _Optional[int] = ..., renewed_at: _Optional[int] = ..., attempts: _Optional[_Iterable[_Union[OpenAttemptState, _Mapping]]] = ...) -> None: ...

class FencedWrite(_message.Message):
    __slots__ = ("stream_run", "stream_batch", "epoch", "run")
    STREAM_RUN_FIELD_NUMBER: _ClassVar[int]
    STREAM_BATCH_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    stream_run: str
    stream_batch: int
    epoch: int
    run: str
    def __init__(self, stream_run: _Optional[str] = ..., stream_batch: _Optional[int] = ..., epoch: _Optional[int] = ..., run: _Optional[str] = ...) -> None: ...

class WriterRowState(_message.Message):
    __slots__ = ("name", "run", "fenced_runs", "owner", "streaming", "active_us", "admitted", "transient", "last_index", "query_id", "last_epoch", "last_run", "last_references", "last_start", "last_end", "plan", "stream", "stream_batch", "fenced", "epochs", "record_counts", "open_epochs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    FENCED_RUNS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    STREAMING_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_US_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    TRANSIENT_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_RUN_FIELD_NUMBER: _ClassVar[int]
    LAST_REFERENCES_FIELD_NUMBER: _ClassVar[int]
    LAST_START_FIELD_NUMBER: _ClassVar[int]
    LAST_END_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    STREAM_BATCH_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNTS_FIELD_NUMBER: _ClassVar[int]
    OPEN_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    name: str
    run: str
    fenced_runs: _containers.RepeatedScalarFieldContainer[str]
    owner: str
    streaming: bool
    active_us: int
    admitted: bool
    transient: bool
    last_index: int
    query_id: str
    last_epoch: int
    last_run: str
    last_references: bytes
    last_start: int
    last_end: int
    plan: str
    stream: str
    stream_batch: int
    fenced: FencedWrite
    epochs: bytes
    record_counts: bytes
    open_epochs: _containers.RepeatedCompositeFieldContainer[OpenEpochState]
    def __init__(self, name: _Optional[str] = ..., run: _Optional[str] = ..., fenced_runs: _Optional[_Iterable[str]] = ..., owner: _Optional[str] = ..., streaming: _Optional[bool] = ..., active_us: _Optional[int] = ..., admitted: _Optional[bool] = ..., transient: _Optional[bool] = ..., last_index: _Optional[int] = ..., query_id: _Optional[str] = ..., last_epoch: _Optional[int] = ..., last_run: _Optional[str] = ..., last_references: _Optional[bytes] = ..., last_start: _Optional[int] = ..., last_end: _Optional[int] = ..., plan: _Optional[str] = ..., stream: _Optional[str] = ..., stream_batch: _Optional[int] = ..., fenced: _Optional[_Union[FencedWrite, _Mapping]] = ..., epochs: _Optional[bytes] = ..., record_counts: _Optional[bytes] = ..., open_epochs: _Optional[_Iterable[_Union[OpenEpochState, _Mapping]]] = ...) -> None: ...

class WritersState(_message.Message):
    __slots__ = ("rows", "transient", "open_epochs", "forgotten", "dead_bytes")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TRANSIENT_FIELD_NUMBER: _ClassVar[int]
    OPEN_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    DEAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[WriterRowState]
    transient: AgesState
    open_epochs: AgesState
    forgotten: _containers.RepeatedScalarFieldContainer[str]
    dead_bytes: int
    def __init__(self, rows: _Optional[_Iterable[_Union[WriterRowState, _Mapping]]] = ..., transient: _Optional[_Union[AgesState, _Mapping]] = ..., open_epochs: _Optional[_Union[AgesState, _Mapping]] = ..., forgotten: _Optional[_Iterable[str]] = ..., dead_bytes: _Optional[int] = ...) -> None: ...

class TopicState(_message.Message):
    __slots__ = ("rules", "last_index", "now_us", "extents", "producers", "writers", "unused_bytes", "settings", "settings_version", "schemas")
    RULES_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    EXTENTS_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    WRITERS_FIELD_NUMBER: _ClassVar[int]
    UNUSED_BYTES_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_VERSION_FIELD_NUMBER: _ClassVar[int]
    SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    rules: int
    last_index: int
    now_us: int
    extents: ExtentsState
    producers: ProducersState
    writers: WritersState
    unused_bytes: int
    settings: _containers.RepeatedCompositeFieldContainer[TopicSetting]
    settings_version: int
    schemas: _containers.RepeatedCompositeFieldContainer[Schema]
    def __init__(self, rules: _Optional[int] = ..., last_index: _Optional[int] = ..., now_us: _Optional[int] = ..., extents: _Optional[_Union[ExtentsState, _Mapping]] = ..., producers: _Optional[_Union[ProducersState, _Mapping]] = ..., writers: _Optional[_Union[WritersState, _Mapping]] = ..., unused_bytes: _Optional[int] = ..., settings: _Optional[_Iterable[_Union[TopicSetting, _Mapping]]] = ..., settings_version: _Optional[int] = ..., schemas: _Optional[_Iterable[_Union[Schema, _Mapping]]] = ...) -> None: ...

class NodeState(_message.Message):
    __slots__ = ("node", "store_uuid", "address", "rules", "rack", "draining", "leaving", "observer", "parents", "boot_id", "registered_at")
    NODE_FIELD_NUMBER: _ClassVar[int]
    STORE_UUID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    OBSERVER_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_FIELD_NUMBER: _ClassVar[int]
    node: int
    store_uuid: str
    address: str
    rules: int
    rack: str
    draining: bool
    leaving: bool
    observer: bool
    parents: _containers.RepeatedScalarFieldContainer[int]
    boot_id: str
    registered_at: int
    def __init__(self, node: _Optional[int] = ..., store_uuid: _Optional[str] = ..., address: _Optional[str] = ..., rules: _Optional[int] = ..., rack: _Optional[str] = ..., draining: _Optional[bool] = ..., leaving: _Optional[bool] = ..., observer: _Optional[bool] = ..., parents: _Optional[_Iterable[int]] = ..., boot_id: _Optional[str] = ..., registered_at: _Optional[int] = ...) -> None: ...

class PlacementState(_message.Message):
    __slots__ = ("group", "voters", "generation", "reached", "former")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    FORMER_FIELD_NUMBER: _ClassVar[int]
    group: int
    voters: _containers.RepeatedScalarFieldContainer[int]
    generation: int
    reached: int
    former: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, group: _Optional[int] = ..., voters: _Optional[_Iterable[int]] = ..., generation: _Optional[int] = ..., reached: _Optional[int] = ..., former: _Optional[_Iterable[int]] = ...) -> None: ...

class ControllerState(_message.Message):
    __slots__ = ("rules", "last_index", "last_timestamp_us", "next_group_id", "nodes", "topics", "deleted", "retired", "placements", "kvs")
    RULES_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    NEXT_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    RETIRED_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    KVS_FIELD_NUMBER: _ClassVar[int]
    rules: int
    last_index: int
    last_timestamp_us: int
    next_group_id: int
    nodes: _containers.RepeatedCompositeFieldContainer[NodeState]
    topics: _containers.RepeatedCompositeFieldContainer[TopicInfo]
    deleted: _containers.RepeatedCompositeFieldContainer[TopicInfo]
    retired: _containers.RepeatedScalarFieldContainer[int]
    placements: _containers.RepeatedCompositeFieldContainer[PlacementState]
    kvs: _containers.RepeatedCompositeFieldContainer[KvInfo]
    def __init__(self, rules: _Optional[int] = ..., last_index: _Optional[int] = ..., last_timestamp_us: _Optional[int] = ..., next_group_id: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[NodeState, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[TopicInfo, _Mapping]]] = ..., deleted: _Optional[_Iterable[_Union[TopicInfo, _Mapping]]] = ..., retired: _Optional[_Iterable[int]] = ..., placements: _Optional[_Iterable[_Union[PlacementState, _Mapping]]] = ..., kvs: _Optional[_Iterable[_Union[KvInfo, _Mapping]]] = ...) -> None: ...

class MachineState(_message.Message):
    __slots__ = ("topic", "controller", "kv", "membership")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    KV_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_FIELD_NUMBER: _ClassVar[int]
    topic: TopicState
    controller: ControllerState
    kv: KvState
    membership: MembershipState
    def __init__(self, topic: _Optional[_Union[TopicState, _Mapping]] = ..., controller: _Optional[_Union[ControllerState, _Mapping]] = ..., kv: _Optional[_Union[KvState, _Mapping]] = ..., membership: _Optional[_Union[MembershipState, _Mapping]] = ...) -> None: ...

class MembershipState(_message.Message):
    __slots__ = ("index", "command")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    index: int
    command: bytes
    def __init__(self, index: _Optional[int] = ..., command: _Optional[bytes] = ...) -> None: ...

class FindOffset(_message.Message):
    __slots__ = ("group", "incarnation", "timestamp_us")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    group: int
    incarnation: str
    timestamp_us: int
    def __init__(self, group: _Optional[int] = ..., incarnation: _Optional[str] = ..., timestamp_us: _Optional[int] = ...) -> None: ...

class OffsetFound(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class TrimCall(_message.Message):
    __slots__ = ("group", "incarnation", "offset")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    group: int
    incarnation: str
    offset: int
    def __init__(self, group: _Optional[int] = ..., incarnation: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class Trimmed(_message.Message):
    __slots__ = ("log_start_offset",)
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    log_start_offset: int
    def __init__(self, log_start_offset: _Optional[int] = ...) -> None: ...

class KvInfo(_message.Message):
    __slots__ = ("group", "voters", "created_us", "rules")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    group: int
    voters: _containers.RepeatedScalarFieldContainer[int]
    created_us: int
    rules: int
    def __init__(self, group: _Optional[int] = ..., voters: _Optional[_Iterable[int]] = ..., created_us: _Optional[int] = ..., rules: _Optional[int] = ...) -> None: ...

class CreateKv(_message.Message):
    __slots__ = ("voters", "timestamp_us")
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    voters: _containers.RepeatedScalarFieldContainer[int]
    timestamp_us: int
    def __init__(self, voters: _Optional[_Iterable[int]] = ..., timestamp_us: _Optional[int] = ...) -> None: ...

class OpenSession(_message.Message):
    __slots__ = ("session", "owner", "ends")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    session: str
    owner: str
    ends: str
    def __init__(self, session: _Optional[str] = ..., owner: _Optional[str] = ..., ends: _Optional[str] = ...) -> None: ...

class PutKey(_message.Message):
    __slots__ = ("session", "sequence", "key", "value", "expected", "owner", "share")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    session: str
    sequence: int
    key: str
    value: bytes
    expected: int
    owner: str
    share: str
    def __init__(self, session: _Optional[str] = ..., sequence: _Optional[int] = ..., key: _Optional[str] = ..., value: _Optional[bytes] = ..., expected: _Optional[int] = ..., owner: _Optional[str] = ..., share: _Optional[str] = ...) -> None: ...

class DeleteKey(_message.Message):
    __slots__ = ("session", "sequence", "key", "expected", "owner")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    session: str
    sequence: int
    key: str
    expected: int
    owner: str
    def __init__(self, session: _Optional[str] = ..., sequence: _Optional[int] = ..., key: _Optional[str] = ..., expected: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...

class KvCreated(_message.Message):
    __slots__ = ("kv", "existed")
    KV_FIELD_NUMBER: _ClassVar[int]
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    kv: KvInfo
    existed: bool
    def __init__(self, kv: _Optional[_Union[KvInfo, _Mapping]] = ..., existed: _Optional[bool] = ...) -> None: ...

class SessionOpened(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    def __init__(self, session: _Optional[str] = ...) -> None: ...

class WriteReply(_message.Message):
    __slots__ = ("version", "previous", "index")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    version: int
    previous: int
    index: int
    def __init__(self, version: _Optional[int] = ..., previous: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class KeyValue(_message.Message):
    __slots__ = ("key", "version", "value", "owner")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    key: str
    version: int
    value: bytes
    owner: str
    def __init__(self, key: _Optional[str] = ..., version: _Optional[int] = ..., value: _Optional[bytes] = ..., owner: _Optional[str] = ...) -> None: ...

class SessionState(_message.Message):
    __slots__ = ("session", "sequence", "result", "version", "previous", "owner", "digest")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    session: str
    sequence: int
    result: int
    version: int
    previous: int
    owner: str
    digest: bytes
    def __init__(self, session: _Optional[str] = ..., sequence: _Optional[int] = ..., result: _Optional[int] = ..., version: _Optional[int] = ..., previous: _Optional[int] = ..., owner: _Optional[str] = ..., digest: _Optional[bytes] = ...) -> None: ...

class KvState(_message.Message):
    __slots__ = ("rules", "last_index", "keys", "sessions")
    RULES_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    rules: int
    last_index: int
    keys: _containers.RepeatedCompositeFieldContainer[KeyValue]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionState]
    def __init__(self, rules: _Optional[int] = ..., last_index: _Optional[int] = ..., keys: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., sessions: _Optional[_Iterable[_Union[SessionState, _Mapping]]] = ...) -> None: ...

class OpenKv(_message.Message):
    __slots__ = ("create", "any_node")
    CREATE_FIELD_NUMBER: _ClassVar[int]
    ANY_NODE_FIELD_NUMBER: _ClassVar[int]
    create: bool
    any_node: bool
    def __init__(self, create: _Optional[bool] = ..., any_node: _Optional[bool] = ...) -> None: ...

class KvReply(_message.Message):
    __slots__ = ("kvs",)
    KVS_FIELD_NUMBER: _ClassVar[int]
    kvs: _containers.RepeatedCompositeFieldContainer[KvInfo]
    def __init__(self, kvs: _Optional[_Iterable[_Union[KvInfo, _Mapping]]] = ...) -> None: ...

class OpenSessionCall(_message.Message):
    __slots__ = ("group", "ends")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    group: int
    ends: str
    def __init__(self, group: _Optional[int] = ..., ends: _Optional[str] = ...) -> None: ...

class PutKeyCall(_message.Message):
    __slots__ = ("group", "session", "sequence", "key", "value", "expected")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    group: int
    session: str
    sequence: int
    key: str
    value: bytes
    expected: int
    def __init__(self, group: _Optional[int] = ..., session: _Optional[str] = ..., sequence: _Optional[int] = ..., key: _Optional[str] = ..., value: _Optional[bytes] = ..., expected: _Optional[int] = ...) -> None: ...

class DeleteKeyCall(_message.Message):
    __slots__ = ("group", "session", "sequence", "key", "expected")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    group: int
    session: str
    sequence: int
    key: str
    expected: int
    def __init__(self, group: _Optional[int] = ..., session: _Optional[str] = ..., sequence: _Optional[int] = ..., key: _Optional[str] = ..., expected: _Optional[int] = ...) -> None: ...

class ReadKeys(_message.Message):
    __slots__ = ("group", "strong", "at_least", "exactly", "prefix", "start", "end", "limit")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STRONG_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    EXACTLY_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    group: int
    strong: bool
    at_least: int
    exactly: int
    prefix: str
    start: str
    end: str
    limit: int
    def __init__(self, group: _Optional[int] = ..., strong: _Optional[bool] = ..., at_least: _Optional[int] = ..., exactly: _Optional[int] = ..., prefix: _Optional[str] = ..., start: _Optional[str] = ..., end: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class KeysReply(_message.Message):
    __slots__ = ("index", "keys", "more")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    index: int
    keys: _containers.RepeatedCompositeFieldContainer[KeyValue]
    more: bool
    def __init__(self, index: _Optional[int] = ..., keys: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class WatchKeys(_message.Message):
    __slots__ = ("group", "prefix", "after", "seconds")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    group: int
    prefix: str
    after: int
    seconds: int
    def __init__(self, group: _Optional[int] = ..., prefix: _Optional[str] = ..., after: _Optional[int] = ..., seconds: _Optional[int] = ...) -> None: ...

class KeyChange(_message.Message):
    __slots__ = ("index", "key", "value", "deleted")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    index: int
    key: str
    value: bytes
    deleted: bool
    def __init__(self, index: _Optional[int] = ..., key: _Optional[str] = ..., value: _Optional[bytes] = ..., deleted: _Optional[bool] = ...) -> None: ...

class KeyChanges(_message.Message):
    __slots__ = ("index", "changes")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    index: int
    changes: _containers.RepeatedCompositeFieldContainer[KeyChange]
    def __init__(self, index: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[KeyChange, _Mapping]]] = ...) -> None: ...

class GetLastApplied(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: int
    def __init__(self, group: _Optional[int] = ...) -> None: ...

class LastApplied(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...

class GetServers(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: int
    def __init__(self, group: _Optional[int] = ...) -> None: ...

class Servers(_message.Message):
    __slots__ = ("voters", "learners", "observers", "leader", "leader_address", "term", "applied_index")
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    LEARNERS_FIELD_NUMBER: _ClassVar[int]
    OBSERVERS_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    voters: _containers.RepeatedCompositeFieldContainer[NodeAddress]
    learners: _containers.RepeatedCompositeFieldContainer[NodeAddress]
    observers: _containers.RepeatedCompositeFieldContainer[NodeAddress]
    leader: int
    leader_address: str
    term: int
    applied_index: int
    def __init__(self, voters: _Optional[_Iterable[_Union[NodeAddress, _Mapping]]] = ..., learners: _Optional[_Iterable[_Union[NodeAddress, _Mapping]]] = ..., observers: _Optional[_Iterable[_Union[NodeAddress, _Mapping]]] = ..., leader: _Optional[int] = ..., leader_address: _Optional[str] = ..., term: _Optional[int] = ..., applied_index: _Optional[int] = ...) -> None: ...

class WatchEvents(_message.Message):
    __slots__ = ("group", "after", "seconds")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    group: int
    after: int
    seconds: int
    def __init__(self, group: _Optional[int] = ..., after: _Optional[int] = ..., seconds: _Optional[int] = ...) -> None: ...

class GroupEvent(_message.Message):
    __slots__ = ("kind", "leader", "leader_address", "term", "index", "voters", "learners")
    KIND_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    LEARNERS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    leader: int
    leader_address: str
    term: int
    index: int
    voters: _containers.RepeatedCompositeFieldContainer[NodeAddress]
    learners: _containers.RepeatedCompositeFieldContainer[NodeAddress]
    def __init__(self, kind: _Optional[str] = ..., leader: _Optional[int] = ..., leader_address: _Optional[str] = ..., term: _Optional[int] = ..., index: _Optional[int] = ..., voters: _Optional[_Iterable[_Union[NodeAddress, _Mapping]]] = ..., learners: _Optional[_Iterable[_Union[NodeAddress, _Mapping]]] = ...) -> None: ...

class GetEntries(_message.Message):
    __slots__ = ("group", "index", "entries_max")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_MAX_FIELD_NUMBER: _ClassVar[int]
    group: int
    index: int
    entries_max: int
    def __init__(self, group: _Optional[int] = ..., index: _Optional[int] = ..., entries_max: _Optional[int] = ...) -> None: ...

class LogEntry(_message.Message):
    __slots__ = ("index", "term", "kind", "command", "body")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    kind: str
    command: bytes
    body: bytes
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ..., kind: _Optional[str] = ..., command: _Optional[bytes] = ..., body: _Optional[bytes] = ...) -> None: ...

class GetState(_message.Message):
    __slots__ = ("group", "index", "offset", "crc")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    group: int
    index: int
    offset: int
    crc: int
    def __init__(self, group: _Optional[int] = ..., index: _Optional[int] = ..., offset: _Optional[int] = ..., crc: _Optional[int] = ...) -> None: ...

class StatePart(_message.Message):
    __slots__ = ("index", "term", "offset", "data", "byte_count", "crc")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    BYTE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    offset: int
    data: bytes
    byte_count: int
    crc: int
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., byte_count: _Optional[int] = ..., crc: _Optional[int] = ...) -> None: ...

class EntriesReply(_message.Message):
    __slots__ = ("first_index", "commit_index", "entries")
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    first_index: int
    commit_index: int
    entries: _containers.RepeatedCompositeFieldContainer[LogEntry]
    def __init__(self, first_index: _Optional[int] = ..., commit_index: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[LogEntry, _Mapping]]] = ...) -> None: ...

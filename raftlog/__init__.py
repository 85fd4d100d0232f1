"""raftlog: a replicated, typed commit log that Spark reads and writes, exactly once.

    import raftlog

    with raftlog.connect() as client:
        client.create_topic("greetings", "id bigint, text string", if_not_exists=True)
        client.append("greetings", [{"id": 1, "text": "hello"}])
        for batch in client.read("greetings"):
            print(batch.to_pylist())

Importing the package loads neither grpc nor pyarrow, because Spark imports it on every start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # at run time `__getattr__` imports a name when it is used
    from raftlog.auth.principals import Caller
    from raftlog.auth.quotas import Limit, Quota
    from raftlog.auth.rights import Grant, Kind, Resource, Right
    from raftlog.client.access import AccessControl
    from raftlog.client.arguments import ReadPreference
    from raftlog.client.attempt import Attempt
    from raftlog.client.cluster_members import ClusterMembers
    from raftlog.client.connect import connect
    from raftlog.client.group_moves import Moved
    from raftlog.client.group_reader import GroupReader, GroupStart
    from raftlog.client.groups import Groups
    from raftlog.client.key_values import Consistency, KeyValueStore
    from raftlog.client.log_client import LogClient, SchemaLike
    from raftlog.client.positions import ReaderLag, ReaderPositions
    from raftlog.client.producer import Producer, Rows
    from raftlog.client.quotas import PrincipalQuotas
    from raftlog.client.record_batches import RecordBatches
    from raftlog.client.watermark import NodeAnswer, ReplicaWatermark, Watermark
    from raftlog.client.writers import TopicWriters
    from raftlog.config import ClientSettings
    from raftlog.core.types import GroupId
    from raftlog.errors import RaftlogError
    from raftlog.founders import Founder
    from raftlog.machines.commands import AttemptReference, EpochKey, TopicInfo
    from raftlog.machines.kv_commands import KeyChange, KeyValue
    from raftlog.machines.outcomes import Appended, EpochCommitted
    from raftlog.machines.schema import Field, FormerField, Schema
    from raftlog.machines.settings import TopicSetting
    from raftlog.placement import Move
    from raftlog.predicates.predicate import (
        And,
        Compare,
        In,
        IsNull,
        Not,
        Or,
        Predicate,
        StartsWith,
    )
    from raftlog.wire.calls import (
        ClusterDescription,
        FollowerView,
        GroupView,
        NodeView,
        QuarantineView,
        RangeSizes,
        ReadableRange,
        SetAsideView,
        WriterView,
    )
    from raftlog.wire.group_calls import GroupEvent, LogEntry, NodeAddress, Servers, StatePart
    from raftlog.wire.placing_calls import GroupPlace, NodePlaces, PlacementsReply
    from raftlog.wire.reader_positions import ReaderPosition

__version__ = "0.1.0"

_HOMES = {
    "LogEntry": "raftlog.wire.group_calls",
    "connect": "raftlog.client.connect",
    "LogClient": "raftlog.client.log_client",
    "Caller": "raftlog.auth.principals",
    "Grant": "raftlog.auth.rights",
    "Kind": "raftlog.auth.rights",
    "Limit": "raftlog.auth.quotas",
    "Quota": "raftlog.auth.quotas",
    "Resource": "raftlog.auth.rights",
    "Right": "raftlog.auth.rights",
    "AccessControl": "raftlog.client.access",
    "PrincipalQuotas": "raftlog.client.quotas",
    "Producer": "raftlog.client.producer",
    "Attempt": "raftlog.client.attempt",
    "Watermark": "raftlog.client.watermark",
    "TopicInfo": "raftlog.machines.commands",
    "EpochKey": "raftlog.machines.commands",
    "AttemptReference": "raftlog.machines.commands",
    "Schema": "raftlog.machines.schema",
    "TopicSetting": "raftlog.machines.settings",
    "WriterView": "raftlog.wire.calls",
    "Appended": "raftlog.machines.outcomes",
    "EpochCommitted": "raftlog.machines.outcomes",
    "ReadableRange": "raftlog.wire.calls",
    "Predicate": "raftlog.predicates.predicate",
    "And": "raftlog.predicates.predicate",
    "Compare": "raftlog.predicates.predicate",
    "In": "raftlog.predicates.predicate",
    "IsNull": "raftlog.predicates.predicate",
    "Not": "raftlog.predicates.predicate",
    "Or": "raftlog.predicates.predicate",
    "StartsWith": "raftlog.predicates.predicate",
    "RangeSizes": "raftlog.wire.calls",
    "ClusterDescription": "raftlog.wire.calls",
    "NodeAddress": "raftlog.wire.group_calls",
    "NodeAnswer": "raftlog.client.watermark",
    "NodeView": "raftlog.wire.calls",
    "GroupView": "raftlog.wire.calls",
    "QuarantineView": "raftlog.wire.calls",
    "SetAsideView": "raftlog.wire.calls",
    "FollowerView": "raftlog.wire.calls",
    "ReplicaWatermark": "raftlog.client.watermark",
    "KeyValueStore": "raftlog.client.key_values",
    "ReaderPositions": "raftlog.client.positions",
    "ReaderPosition": "raftlog.wire.reader_positions",
    "ReaderLag": "raftlog.client.positions",
    "RecordBatches": "raftlog.client.record_batches",
    "GroupReader": "raftlog.client.group_reader",
    "GroupStart": "raftlog.client.group_reader",
    "TopicWriters": "raftlog.client.writers",
    "Groups": "raftlog.client.groups",
    "Servers": "raftlog.wire.group_calls",
    "StatePart": "raftlog.wire.group_calls",
    "KeyValue": "raftlog.machines.kv_commands",
    "KeyChange": "raftlog.machines.kv_commands",
    "Consistency": "raftlog.client.key_values",
    "GroupEvent": "raftlog.wire.group_calls",
    "Field": "raftlog.machines.schema",
    "FormerField": "raftlog.machines.schema",
    "ClientSettings": "raftlog.config",
    "RaftlogError": "raftlog.errors",
    "GroupId": "raftlog.core.types",
    "ReadPreference": "raftlog.client.arguments",
    "Rows": "raftlog.client.producer",
    "SchemaLike": "raftlog.client.log_client",
    "ClusterMembers": "raftlog.client.cluster_members",
    "Moved": "raftlog.client.group_moves",
    "Move": "raftlog.placement",
    "PlacementsReply": "raftlog.wire.placing_calls",
    "NodePlaces": "raftlog.wire.placing_calls",
    "GroupPlace": "raftlog.wire.placing_calls",
    "Founder": "raftlog.founders",
}

__all__ = [
    "__version__",
    "connect",
    "LogClient",
    "Caller",
    "Grant",
    "Kind",
    "Limit",
    "Quota",
    "Resource",
    "Right",
    "AccessControl",
    "PrincipalQuotas",
    "LogEntry",
    "Producer",
    "Attempt",
    "Watermark",
    "TopicInfo",
    "EpochKey",
    "AttemptReference",
    "Schema",
    "TopicSetting",
    "WriterView",
    "Appended",
    "EpochCommitted",
    "ReadableRange",
    "RangeSizes",
    "Predicate",
    "And",
    "Compare",
    "In",
    "IsNull",
    "Not",
    "Or",
    "StartsWith",
    "ClusterDescription",
    "NodeAddress",
    "NodeAnswer",
    "NodeView",
    "GroupView",
    "QuarantineView",
    "SetAsideView",
    "FollowerView",
    "ReplicaWatermark",
    "KeyValueStore",
    "ReaderPositions",
    "ReaderPosition",
    "ReaderLag",
    "RecordBatches",
    "GroupReader",
    "GroupStart",
    "TopicWriters",
    "Groups",
    "Servers",
    "StatePart",
    "KeyValue",
    "KeyChange",
    "Consistency",
    "Founder",
    "GroupEvent",
    "Field",
    "FormerField",
    "ClientSettings",
    "RaftlogError",
    "GroupId",
    "ReadPreference",
    "Rows",
    "SchemaLike",
    "ClusterMembers",
    "Moved",
    "Move",
    "PlacementsReply",
    "NodePlaces",
    "GroupPlace",
]


if not TYPE_CHECKING:  # a checker that saw it would take any name for one of ours

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'raftlog' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)

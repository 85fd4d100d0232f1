"""One good frame of every call of a node, to be broken."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa

from raftlog.core.types import GroupId
from raftlog.machines.commands import (
    AddNode,
    AlterSchema,
    AttemptReference,
    EpochKey,
    RegisterNode,
    ReportPlacement,
    RetireNode,
    SetDuty,
    SetParents,
    TopicInfo,
)
from raftlog.machines.evolution import ColumnChange
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.settings import TopicSetting
from raftlog.predicates.predicate import And, Compare, In, IsNull, Not, Or, StartsWith
from raftlog.records.batch_codec import encode_batch
from raftlog.records.conform import conform
from raftlog.wire.calls import (
    CALLS,
    AbortEpochCall,
    AlterTopicCall,
    AppendCall,
    BodyCall,
    CommitEpochCall,
    CreateTopicCall,
    DeleteTopicCall,
    DescribeCluster,
    DescribeTopic,
    FindOffset,
    ListTopics,
    ListWriters,
    ReadCall,
    ReadHighWaterMark,
    ReadSizes,
    RemoveWriterCall,
    ScrubCall,
    SetWriterOwnerCall,
    StageCall,
    TrimCall,
    WatchGroups,
)
from raftlog.wire.codec import encode_request
from raftlog.wire.group_calls import GetEntries, GetLastApplied, GetServers, GetState, WatchEvents
from raftlog.wire.kv_calls import (
    DeleteKeyCall,
    OpenKv,
    OpenSessionCall,
    PutKeyCall,
    ReadKeys,
    WatchKeys,
)
from raftlog.wire.placing_calls import DescribePlacements, PlaceGroupCall, TransferCall

DDL = "id bigint, text string"
VICTIM = "victim"
"""The topic that the good DeleteTopic names; it is not there."""

_RUN = uuid.uuid4().hex


_WHERE = (
    Or(
        parts=(
            Compare(column=1, operator="<", value=3),
            And(parts=(In(column=1, values=(1, 2)), Not(part=IsNull(column="_epoch")))),
            StartsWith(column=2, prefix="a"),
        )
    ),
)


def registered_boot(log: Path) -> str:
    """The boot_id of the node's process that registered last, by the node's log."""
    last = [line for line in log.read_text().splitlines() if '"event": "registered"' in line][-1]
    return str(json.loads(last)["boot_id"])


def frames(
    topic: TopicInfo,
    trimmed: TopicInfo,
    store_uuid: str,
    address: str,
    boot_id: str = "b",
) -> dict[str, bytes]:
    """By call. `topic` has the columns of `DDL` and some records, which Trim spares: it
    names `trimmed`. The node is number 1, its process `registered_boot`."""
    rows = pa.RecordBatch.from_pylist(
        [{"id": each, "text": f"text {each}"} for each in range(20)],
        schema=pa.schema([("id", pa.int64()), ("text", pa.string())]),
    )
    batch = encode_batch(conform(rows, topic.schema, topic.name), topic.schema, "lz4")
    named = {"group": topic.group, "incarnation": topic.incarnation}
    key = EpochKey(writer="writer", query_id="query", run=_RUN, epoch=0, streaming=True)
    batched = {"batch": batch.header, "crc": batch.crc}
    requests: dict[str, object] = {
        "DescribeCluster": DescribeCluster(),
        "RegisterNode": RegisterNode(
            node=1, store_uuid=store_uuid, address=address, rules=RULES_LATEST, boot_id=boot_id
        ),
        "CreateTopic": CreateTopicCall(
            name="made", incarnation=_RUN, schema=topic.schema, if_not_exists=True
        ),
        "AlterTopic": AlterTopicCall(
            name=VICTIM, incarnation=_RUN, settings=(TopicSetting(name="retention_s", value=7),)
        ),
        "AlterSchema": AlterSchema(
            name=VICTIM,
            incarnation=_RUN,
            version=1,
            changes=(ColumnChange(action="add", name="more", type='"long"', to=""),),
        ),
        "DeleteTopic": DeleteTopicCall(name=VICTIM, incarnation=_RUN),
        "DescribeTopic": DescribeTopic(name=topic.name),
        "ListTopics": ListTopics(),
        "Append": AppendCall(**named, producer=_RUN, sequence=0, **batched),
        **_of_epochs(named, key, batched),
        "ListWriters": ListWriters(**named, after="", writer=""),
        "RemoveWriter": RemoveWriterCall(**named, writer="nobody"),
        "SetWriterOwner": SetWriterOwnerCall(**named, writer="nobody", owner="token:eve"),
        "ReadHighWaterMark": ReadHighWaterMark(**named),
        "Read": ReadCall(**named, start=0, end=1, mark=1, field_ids=(1, 2), all_fields=False),
        "ReadSizes": ReadSizes(
            **named, start=0, end=1, mark=1, pieces_max=4, where=_WHERE, where_version=1
        ),
        "FindOffset": FindOffset(**named, timestamp_us=1),
        "Trim": TrimCall(group=trimmed.group, incarnation=trimmed.incarnation, offset=1),
        "WatchGroups": WatchGroups(groups=(topic.group,)),
        "Scrub": ScrubCall(groups=(topic.group,)),
        **_of_members(topic.group),
        **_of_groups(topic.group),
    }
    assert requests.keys() == CALLS.keys(), "every call has its sample"
    return {
        name: encode_request(call, requests[name], batch.body if type(call) is BodyCall else b"")
        for name, call in CALLS.items()
    }


def _of_epochs(
    named: dict[str, object], key: EpochKey, batched: dict[str, object]
) -> dict[str, object]:
    flags = {"keep_on_mismatch": False, "create_writer": False, "transient_writer": False}
    reference = AttemptReference(attempt=_RUN, entry_count=1, record_count=20, chained_crc=1)
    return {
        "Stage": StageCall(
            **named, key=key, attempt=_RUN, number=0, create_writer=False, **batched
        ),
        "CommitEpoch": CommitEpochCall(
            **named, key=key, attempts=(reference,), schema_version=1, **flags
        ),
        "AbortEpoch": AbortEpochCall(**named, key=key),
    }


def _of_members(group: GroupId) -> dict[str, object]:
    return {
        "AddNode": AddNode(node=9, address="127.0.0.1:9"),
        "SetParents": SetParents(node=9, parents=(1, 2)),
        "SetDuty": SetDuty(node=9, draining=True, leaving=False, keeps_leaving=True),
        "RetireNode": RetireNode(node=9),
        "PlaceGroup": PlaceGroupCall(group=group, voters=(8, 9), generation=0),
        "ReportPlacement": ReportPlacement(group=group, generation=1),
        "DescribePlacements": DescribePlacements(),
        "TransferLeadership": TransferCall(group=group, to=2),
    }


def _of_groups(group: GroupId) -> dict[str, object]:
    """The store's are asked of a group that is none."""
    written: dict[str, Any] = {"session": "1", "sequence": 1, "key": "k", "expected": -1}
    return {
        "OpenKv": OpenKv(create=False),
        "OpenSession": OpenSessionCall(group=group, ends=""),
        "PutKey": PutKeyCall(group=group, **written, value=b"v"),
        "DeleteKey": DeleteKeyCall(group=group, **written),
        "ReadKeys": ReadKeys(
            group=group,
            strong=True,
            at_least=0,
            exactly=0,
            prefix="",
            start="",
            end="",
            limit=10,
        ),
        "WatchKeys": WatchKeys(group=group, prefix="", after=0, seconds=1),
        "GetLastApplied": GetLastApplied(group=group),
        "GetServers": GetServers(group=group),
        "GetEntries": GetEntries(group=group, index=1, entries_max=10),
        "GetState": GetState(group=group, index=0, offset=0, crc=0),
        "WatchEvents": WatchEvents(group=group, after=0, seconds=1),
    }

"""What a simulated node tells: it is noted, counted, or shows that a promise was broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raftlog.errors import AcknowledgedEntriesLost
from raftlog.multiraft.effects import (
    CompactionFailed,
    DamageFound,
    DamageHealed,
    DamageNotHealable,
    DamagePassedOver,
    DiskChanged,
    EntryDamaged,
    GroupDeletedElsewhere,
    GroupKept,
    GroupOpened,
    GroupQuarantined,
    GroupRefilling,
    GroupRemoved,
    HistoryCompared,
    ImageInstalled,
    ImageRefused,
    LeadershipChanged,
    MultiRaftEvent,
    PeerMessagesRefused,
    RebuildsSpent,
    ReplicaRebuilding,
    ReplicaRebuilt,
    ReplicaRecovered,
    ReserveUnusable,
    RetentionFailed,
    StateCompared,
    TornTailTruncated,
)
from tests.simulation.promises import Promise, Violation

if TYPE_CHECKING:
    from tests.simulation.node import SimulatedNode


def hear(node: SimulatedNode, event: MultiRaftEvent) -> None:
    """The node has told this: it is counted, noted in the trace, or a violation."""
    simulator = node.simulator
    match event:
        case LeadershipChanged(group=group, state=state):
            simulator.note("role", node.node, group, state.role.value, state.term, state.leader)
        case GroupOpened(info=info):
            simulator.note("group opened", node.node, info.group)
        case GroupDeletedElsewhere(group=group, peer=peer):
            simulator.note("group deleted elsewhere", node.node, group, peer)
            simulator.counts["replicas told that their group is deleted"] += 1
        case GroupKept(group=group):
            simulator.note("group kept", node.node, group)
            simulator.counts["replicas kept that their group has left"] += 1
        case StateCompared() | HistoryCompared():
            simulator.note(type(event).__name__, node.node, event.group, event.trust.value)
            node.checker.trust_changed(node.node, event)
        case PeerMessagesRefused(latest=violation):
            if not (node.cut and isinstance(violation, AcknowledgedEntriesLost)):
                raise Violation(Promise.PROTOCOL_KEPT, violation.cause)
        case CompactionFailed(cause=cause):
            simulator.note("compaction failed", node.node, cause)
        case ImageInstalled(group=group, index=index):
            simulator.note("image installed", node.node, group, index)
            simulator.counts["images installed"] += 1
            local = node.local(group)
            if local is not None:
                node.checker.image_opened(node, local)
        case (
            GroupRemoved()
            | GroupRefilling()
            | ReplicaRecovered()
            | ReplicaRebuilding()
            | RebuildsSpent()
        ):
            simulator.note(type(event).__name__, node.node, event.group)
        case ReplicaRebuilt():
            node.checker.replica_rebuilt(node, event)
        case ImageRefused(cause=cause):
            simulator.note("image refused", node.node, cause)
            simulator.counts["images refused"] += 1
        case (
            DamageFound()
            | DamageHealed()
            | DamageNotHealable()
            | DamagePassedOver()
            | EntryDamaged()
            | GroupQuarantined()
            | RetentionFailed()
        ) if node.damaged:
            simulator.note("damage", node.node, str(event))
            simulator.counts[type(event).__name__] += 1
            node.damage_told.append(event)
        case (
            DamagePassedOver(cause=cause)
            | RetentionFailed(cause=cause)
            | GroupQuarantined(cause=cause)
            | EntryDamaged(cause=cause)
            | DamageFound(cause=cause)
            | DamageNotHealable(cause=cause)
            | DamageHealed(what=cause)
            | ReserveUnusable(cause=cause)
        ):
            raise Violation(Promise.SYNCED_STAYS, cause)
        case TornTailTruncated():
            simulator.counts["torn tail of a log truncated"] += 1
        case DiskChanged(keeps_up=keeps_up, full=full):
            simulator.note("disk", node.node, keeps_up, full is not None)
            simulator.counts["nodes that let others lead for their disk"] += not keeps_up

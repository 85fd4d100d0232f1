"""What a node shows of its replicas: plain values, taken at one moment, of only this node."""

from __future__ import annotations

from collections.abc import Mapping

from raftlog.core.ready import Role
from raftlog.core.types import CONTROLLER_GROUP, LogIndex, Offset
from raftlog.machines.group_info import label_of
from raftlog.machines.topic import TopicMachine
from raftlog.machines.writer_row import WriterRow
from raftlog.multiraft.groups import Quarantine
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.server.node import Node
from raftlog.wire.calls import FollowerView, GroupView, QuarantineView, SetAsideView, WriterView


def group_view(node: Node, local: LocalReplica) -> GroupView:
    """The replica as it stands. Nothing here is linearizable; it is for people and charts."""
    raft = local.raft
    machine = local.machine
    scrub = node.multiraft.scrubs.progress(local.group)
    damage = node.damage(local.group)
    topic = machine if isinstance(machine, TopicMachine) else None
    held = local.held_back if raft.role is Role.LEADER else None
    return GroupView(
        group=local.group,
        topic="" if local.group == CONTROLLER_GROUP else label_of(local.info),
        incarnation=topic.info.incarnation if topic else "",
        node=node.node,
        role=_role(local),
        leader=raft.leader,
        term=raft.term,
        last_index=raft.log.last_index,
        commit_index=raft.commit_index,
        applied_index=local.replica.applied_index,
        log_start_offset=topic.log_start_offset if topic else Offset(0),
        high_water_mark=topic.high_water_mark if topic else Offset(0),
        open_epochs=topic.open_epoch_count if topic else 0,
        staged_bytes=topic.staged_bytes if topic else 0,
        state_hash=local.replica.state_hash.hex(),
        followers=_followers(node, local),
        dead_bytes=topic.dead_bytes if topic else 0,
        state=local.replica.states.trust.value,
        log_start_index=LogIndex(local.replica.log.base_index + 1),
        log_bytes=local.replica.log.byte_count,
        snapshot_index=local.image.manifest.index,
        history_end=local.image.manifest.history_end,
        history_bytes=local.image.manifest.history_bytes,
        points_behind=len(local.replica.points),
        history=local.replica.histories.trust.value,
        scrub=scrub.state,
        scrub_read_bytes=scrub.read_bytes,
        scrub_total_bytes=scrub.total_bytes,
        scrubbed_us=scrub.ended_us,
        damage_found=damage.found,
        damage_healed=damage.healed,
        damage_not_healable=damage.not_healable,
        damage_latest=damage.latest,
        retention_start=held.kept if held else 0,
        held_for=held.group if held else "",
    )


def quarantine_view(quarantine: Quarantine) -> QuarantineView:
    """A group that has no replica here, because its files are damaged."""
    return QuarantineView(
        group=quarantine.group,
        topic=label_of(quarantine.info) if quarantine.info is not None else "",
        problem=quarantine.damage.cause,
    )


def set_aside_views(folders: Mapping[str, int]) -> tuple[SetAsideView, ...]:
    """Quarantined folders, with their bytes."""
    return tuple(
        SetAsideView(folder=folder, byte_count=byte_count)
        for folder, byte_count in sorted(folders.items())
    )


def writer_view(row: WriterRow) -> WriterView:
    """A writer row for people."""
    return WriterView(
        writer=row.name,
        kind=row.kind,
        owner=row.owner,
        query_id=row.query_id,
        run=row.run,
        last_epoch=row.last_epoch,
        open_epochs=len(row.open_epochs),
        staged_bytes=row.staged_bytes,
        active_us=row.active_us,
        plan=row.plan,
        last_start=row.last_start,
        last_end=row.last_end,
        stream=row.stream,
        stream_batch=row.stream_batch,
    )


def text_bytes(row: WriterRow) -> int:
    """The bytes of the texts in a row's view."""
    texts = (row.name, row.owner, row.query_id, row.run, row.plan, row.stream)
    return sum(len(text.encode()) for text in texts)


def _role(local: LocalReplica) -> str:
    if local.observing:
        return "observer"
    if local.raft.incomplete:
        return "incomplete"
    return "recovering" if local.raft.recovering else local.raft.role.value


def _followers(node: Node, local: LocalReplica) -> tuple[FollowerView, ...]:
    raft = local.raft
    if raft.role is not Role.LEADER:
        return ()
    tick_ms = round(node.settings.raft.tick_interval_s * 1000)
    return tuple(
        FollowerView(
            node=follower.node,
            match_index=follower.match_index,
            contact_ms_ago=follower.contact_ticks * tick_ms,
        )
        for follower in node.multiraft.followers(local)
    )

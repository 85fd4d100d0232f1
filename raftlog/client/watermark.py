"""A topic's marks as its nodes see them: what `raftlog watermark` and dashboards show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from raftlog.core.types import GroupId, LogIndex, NodeId, Offset, Term
from raftlog.errors import RaftlogError
from raftlog.machines.commands import TopicInfo
from raftlog.wire.calls import GroupView, NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaWatermark:
    """One replica. Without an answer, only `node`, `address` and `problem` are valid."""

    node: NodeId
    """The node's number, from 1."""
    address: str
    """`host:port`, as the cluster knows it."""
    role: str = ""
    """`leader`, `follower`, `candidate`, `pre-candidate`, `recovering` or `incomplete`; "" without
    an answer."""
    match_index: LogIndex | None = None
    """The last entry that the leader knows to be durable there; None if it knows of none."""
    lag_entries: int | None = None
    """Entries of the leader's log that are not known to be durable there."""
    applied_index: int = 0
    """The last entry that its state contains."""
    high_water_mark: int = 0
    """The first offset that it does not serve yet."""
    lag_records: int | None = None
    """Readable records that this replica does not serve yet, 0 or more; None if no leader answers,
    or if the states of the two are known to differ or may: then their marks cannot be compared."""
    state: str = ""
    """`trusted`; `diverged`: a majority has another state, so it serves no reads; `disputed`: no
    state has a majority, so no replica serves new records."""
    log_start_index: int = 0
    """The first entry that its log still holds."""
    log_bytes: int = 0
    """Bytes of the log's files."""
    snapshot_index: int = 0
    """The entry of its newest snapshot: a restart replays what comes after it. 0 for none."""
    history_end: int = 0
    """Records below it are in history files, others in the log."""
    history_bytes: int = 0
    """Bytes of the history files."""
    points_behind: int = 0
    """Snapshot points that wait to be compacted. If this keeps growing, compaction cannot follow.
    """
    history: str = ""
    """What is known of the records that it has in history files, in the same words as `state`."""
    scrubbed_us: int = 0
    """When all of it was last read and checked, in microseconds since 1970 UTC; 0: not known."""
    damage_found: int = 0
    """Damaged entries and files of it that were met since its node started."""
    damage_healed: int = 0
    """Those of them that are whole again."""
    damage_not_healable: int = 0
    """Those of them that no other replica could give."""
    problem: str = ""
    """Why there is no answer; "" if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """A topic's marks. Its records [log_start_offset, high_water_mark) are readable.

    Collected from all nodes at about one moment, so it is not linearizable; `read_high_water_mark`
    is. If no node that answers leads, the marks are the highest that any node has, of those that
    are not `diverged` if there are any. Replicas that have lost their logs do not count. `leader`
    is 0 if no node that answers leads, as for a moment after `create_topic`.
    """

    topic: str
    """The topic's name."""
    incarnation: str
    """Its incarnation: lower-case hex."""
    log_start_offset: Offset
    """The first offset that is still kept."""
    high_water_mark: Offset
    """The first offset that is not readable yet."""
    commit_index: LogIndex
    """The last committed entry of the topic's log. Entries count from 1."""
    last_index: LogIndex
    """The last entry of the log, committed or not."""
    leader: NodeId
    """The node that leads; 0 if none that answers does."""
    term: Term
    """The highest term that a node knows."""
    open_epochs: int
    """Epochs that have staged records and are not committed."""
    staged_bytes: int
    """Bytes of the open epochs, which no reader sees yet."""
    dead_bytes: int
    """Body bytes in the log that will never be read: of attempts that were not committed, were
    aborted or expired, and of writes that were refused."""
    records_held: int
    """Records that retention keeps only because a reader group has not read them, by the leader's
    last look."""
    held_for: str
    """The group that has read least of them; "" if there are none, or if the leader could not read
    the groups' positions."""
    replicas: tuple[ReplicaWatermark, ...]
    """One for each voter of the topic, by node."""
    is_known: bool
    """Whether a replica has answered that has the topic's records. If not, the marks are 0."""


class NodeAnswer(NamedTuple):
    """A node's view, or the error that it gave."""

    node: NodeId
    """The node's number, from 1."""
    address: str
    """`host:port`, as the cluster knows it."""
    answer: NodeView | RaftlogError
    """Its view, or the error of asking it."""


def watermark_of(topic: TopicInfo, answers: Sequence[NodeAnswer]) -> Watermark:
    """Put the nodes' views of the topic together."""
    views = {
        node: view
        for node, _, answer in answers
        if isinstance(answer, NodeView)
        for view in answer.groups
        if view.group == topic.group
    }
    leading = [view for view in views.values() if view.role == "leader"]
    leader = max(leading, key=lambda view: view.term, default=None)
    best = leader or max(
        (view for view in views.values() if view.role != "recovering"),
        key=lambda view: (view.state != "diverged", view.commit_index, view.high_water_mark),
        default=None,
    )
    return Watermark(
        topic=topic.name,
        incarnation=topic.incarnation,
        log_start_offset=best.log_start_offset if best else Offset(0),
        high_water_mark=best.high_water_mark if best else Offset(0),
        commit_index=best.commit_index if best else LogIndex(0),
        last_index=best.last_index if best else LogIndex(0),
        leader=leader.node if leader else NodeId(0),
        term=max((view.term for view in views.values()), default=Term(0)),
        open_epochs=best.open_epochs if best else 0,
        staged_bytes=best.staged_bytes if best else 0,
        dead_bytes=best.dead_bytes if best else 0,
        records_held=leader.records_held if leader else 0,
        held_for=leader.held_for if leader else "",
        replicas=tuple(
            _replica(topic.group, node, address, answer, views.get(node), leader)
            for node, address, answer in answers
            if node in topic.voters
        ),
        is_known=best is not None,
    )


def _replica(
    group: GroupId,
    node: NodeId,
    address: str,
    answer: NodeView | RaftlogError,
    view: GroupView | None,
    leader: GroupView | None,
) -> ReplicaWatermark:
    match = None
    if leader is not None:
        match = next((f.match_index for f in leader.followers if f.node == node), None)
    if view is None and match == 0:
        match = None  # a leader that was elected after its death does not know what it holds
    lag = leader.last_index - match if leader is not None and match is not None else None
    if view is None:
        problem = _why_no_view(answer, group)
        return ReplicaWatermark(
            node=node, address=address, match_index=match, lag_entries=lag, problem=problem
        )
    return ReplicaWatermark(
        node=node,
        address=address,
        role=view.role,
        match_index=match,
        lag_entries=lag,
        applied_index=view.applied_index,
        high_water_mark=view.high_water_mark,
        lag_records=_lag_records(view, leader),
        state=view.state,
        log_start_index=view.log_start_index,
        log_bytes=view.log_bytes,
        snapshot_index=view.snapshot_index,
        history_end=view.history_end,
        history_bytes=view.history_bytes,
        points_behind=view.points_behind,
        history=view.history,
        scrubbed_us=view.scrubbed_us,
        damage_found=view.damage_found,
        damage_healed=view.damage_healed,
        damage_not_healable=view.damage_not_healable,
    )


def _why_no_view(answer: NodeView | RaftlogError, group: GroupId) -> str:
    if isinstance(answer, RaftlogError):
        return answer.cause
    quarantined = (each.problem for each in answer.quarantined if each.group == group)
    return next((f"is quarantined: {problem}" for problem in quarantined), "has no replica yet")


def _lag_records(view: GroupView, leader: GroupView | None) -> int | None:
    in_doubt = ("diverged", "disputed")
    if leader is None or view.state in in_doubt or leader.state in in_doubt:
        return None
    # Below 0: the leader gave its view earlier, and records became readable since.
    return max(0, leader.high_water_mark - view.high_water_mark)

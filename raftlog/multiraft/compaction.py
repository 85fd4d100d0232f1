"""From a snapshot point to a shorter log: which groups get one, and what is done at it.

A group's leader puts a `SnapshotPoint` into the log when enough has come since the last one, when
that is long ago, and when a trim left more to free than to keep. Every
replica that applies it compacts: the job makes the files of a new image, the manifest is written,
and only then the machine forgets the extents that are in history and the log drops its beginning.
Points are compacted in order, and none is left out of which anything stays: replicas cut their
history at the same places. Only damage and a state that is too large for a file are passed over.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from raftlog.comparison import Trust
from raftlog.core.ready import Role
from raftlog.core.types import GroupId, LogIndex, Payload
from raftlog.errors import CorruptFile, FileTooLarge, Overloaded, RaftlogError, ResourceShortage
from raftlog.image.job import CompactionJob, Reply
from raftlog.image.manifest import SMALL_FILE_BYTES, Image
from raftlog.machines.commands import SnapshotPoint
from raftlog.machines.group_info import label_of
from raftlog.machines.topic import TopicMachine
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.effects import CompactionFailed, Effects
from raftlog.multiraft.groups import GroupStore
from raftlog.multiraft.image_pins import ImagePins
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.looks import looks_at
from raftlog.replica import PointReached
from raftlog.storage.limits import SEALED_BYTES_MIN
from raftlog.storage.prefix import PrefixRemoval

_POINTS_BEHIND_MAX = 4
"""A leader that is so many points behind with its own compactions proposes no more of them. No
setting: points closer to each other would not be compacted any sooner."""

_DUE_TICKS = 10
"""How often a leader looks which groups are due by their age (`looks_at`). No setting: that is
coarse anyway."""

_FREED_BYTES_MIN = 1024 * 1024
"""A trim of a smaller topic brings no point of its own: what it frees can wait for the next."""

_RETRY_TICKS = 100
"""A compaction that failed is tried again after this: the cause may be gone (a full disk)."""


class _Adoption(NamedTuple):
    """An image whose files came from another node, which is to be published."""

    image: Image
    received: frozenset[str]
    ended: Callable[[bool], None]


@dataclass(slots=True)
class _Drop:
    """What is to be removed after an image was published."""

    removal: PrefixRemoval
    obsolete: frozenset[str]
    last_read: int
    """The last read that may want it: those after it go by the new image."""
    begun: bool = False
    gone: bool = False
    """The replica is gone from this node: its files stay, or go with its folder."""


class _Unpinned(NamedTuple):
    """Files that no pin holds any more."""

    names: frozenset[str]
    last_read: int
    """The last read that may want them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionLimits:
    """When a leader proposes a snapshot point: at whichever is reached first."""

    entries_max: int
    bytes_max: int
    """Of the entries' commands and bodies."""
    behind_bytes_max: int
    """Entries that some follower lacks are kept as long as the log from there on has no more bytes.
    What such a follower lacks beyond that it gets by an image."""
    backlog_max: int
    """So many times `entries_max` or `bytes_max` may come after the last point that a leader can
    ask for while its own compactions are behind. Then it takes no more records."""
    age_ticks: int
    """Since the last one, if a further one would free anything or spare a restart anything."""
    node_entries_max: int
    """Of all groups of the node together: what a restart replays. The groups that this node leads
    get points then, those with the most entries first."""


class Compactions:
    """The compactions of one node, one at a time. For the thread of its `MultiRaft`."""

    def __init__(
        self,
        *,
        effects: Effects,
        disk: NodeDisk,
        store: GroupStore,
        pins: ImagePins,
        groups: Mapping[GroupId, LocalReplica],
        limits: CompactionLimits,
        propose: Callable[[LocalReplica, Payload], None],
        ended: Callable[[LocalReplica], None],
        damaged: Callable[[LocalReplica, CorruptFile], None],
    ) -> None:
        """`ended`: nothing of the replica is being compacted any more; its group may be gone.
        `damaged` is called with what could not be read: it is compacted once that is healed."""
        self._effects = effects
        self._disk = disk
        self._store = store
        self._pins = pins
        self._groups = groups
        self._limits = limits
        self._propose = propose
        self._ended = ended
        self._damaged = damaged
        self._running: LocalReplica | None = None
        self._job_in_flight = False
        """A compaction of it was asked for and is not answered yet."""
        self._waiting: dict[int, LocalReplica] = {}
        """Replicas with points to compact, by group, in the order in which they came."""
        self._failed: dict[int, LocalReplica] = {}
        self._past_damage: set[LocalReplica] = set()
        """Replicas whose next point met damage at the last try, so that a later one is tried."""
        self._too_large: set[LocalReplica] = set()
        """Replicas whose state was larger at the last try than a snapshot may be."""
        self._abandoned = False
        """The group whose compaction is in flight is gone: do nothing of it."""
        self._adoptions: dict[LocalReplica, _Adoption] = {}
        self._drops: dict[LocalReplica, _Drop] = {}
        self._pinned: dict[LocalReplica, frozenset[str]] = {}
        """Files of former images that are still being fetched by other nodes."""
        self._unpinned_files: dict[LocalReplica, _Unpinned] = {}
        """Those of them that are to be removed."""
        self._unpinning: set[LocalReplica] = set()
        """Replicas of which such files are being removed."""
        self._ticks = 0
        self._stopped = False

    def stop(self) -> None:
        """Start nothing from now on; what is in flight is still to be noted."""
        self._stopped = True

    def forget(self, local: LocalReplica) -> None:
        """The group is gone from this node."""
        self._waiting.pop(local.group, None)
        self._failed.pop(local.group, None)
        self._past_damage.discard(local)
        self._too_large.discard(local)
        self._adoptions.pop(local, None)
        self._pinned.pop(local, None)
        self._unpinned_files.pop(local, None)
        if local in self._drops:
            self._drops[local].gone = True
        if local is self._running:
            self._abandoned = True
            if self._job_in_flight:
                self._effects.abandon_compaction()

    def tick(self) -> None:
        """One tick has passed."""
        self._ticks += 1
        if self._ticks % _RETRY_TICKS == 0:
            self._waiting |= self._failed
            self._failed.clear()
        if looks_at(self._ticks, _DUE_TICKS, self._groups) and not self._stopped:
            self._propose_due()
        self._drop_files()
        self._drop_unpinned()
        self._start()

    def overload(self, local: LocalReplica) -> Overloaded | None:
        """Why the group, which leads here, must not be given more records: its compactions are so
        far behind that its log, and with it the replay after a restart, would grow without end."""
        since, limits = local.replica.since_point, self._limits
        is_behind = len(local.replica.points) >= _POINTS_BEHIND_MAX and (
            since.entries >= limits.backlog_max * limits.entries_max
            or since.byte_count >= limits.backlog_max * limits.bytes_max
        )
        if not is_behind and local not in self._too_large:
            return None
        return Overloaded(
            queue="storage.compaction_backlog_max",
            limit=limits.backlog_max,
            holder=f"The compaction of topic {label_of(local.info)!r} is behind: "
            f"{len(local.replica.points)} snapshot points wait for it, and after them "
            f"{since.entries} entries of {since.byte_count} bytes",
        )

    def applied(self, local: LocalReplica) -> None:
        """The replica has applied entries: a point is due, or one was reached."""
        points = local.replica.points
        while points and points[0].index < local.image.manifest.index:
            # Replayed, because the newest snapshots are damaged. History was cut there long ago.
            points.popleft()
        if points:
            if local is not self._running and local.group not in self._failed:
                self._waiting[local.group] = local
            self._start()
        since = local.replica.since_point
        if since.entries >= self._limits.entries_max or since.byte_count >= self._limits.bytes_max:
            self._propose_point(local)

    # ------------------------------------------------------------ proposing

    def _propose_due(self) -> None:
        """Propose points by age, after trims, and for a node that has too much to replay."""
        entries = 0
        for local in self._groups.values():
            since = local.replica.since_point
            entries += since.entries
            if local.point_seen != since.point:
                local.point_seen, local.point_seen_at = since.point, self._ticks
            if local.raft.role is not Role.LEADER:
                continue
            is_old = self._ticks - local.point_seen_at >= self._limits.age_ticks
            gains = since.commands or self._shortens_log(local)
            is_awaited = local in self._too_large
            if gains and (is_old or is_awaited or self._frees_much(local)):
                self._propose_point(local)
        if entries > self._limits.node_entries_max:
            for local in sorted(self._groups.values(), key=_entries_since_point, reverse=True):
                if local.raft.role is Role.LEADER and entries > self._limits.node_entries_max:
                    entries -= _entries_since_point(local)
                    self._propose_point(local)

    def _frees_much(self, local: LocalReplica) -> bool:
        """Whether at least half of the records were trimmed since the point before the last; while
        the disk is full, any. A point frees history files, the next one the log."""
        machine = local.machine
        if not isinstance(machine, TopicMachine):
            return False
        start = local.replica.since_point.log_start_before
        trimmed = machine.log_start_offset - start
        if self._disk.told.full is not None:
            return trimmed > 0
        held_bytes = local.replica.log.byte_count + local.image.manifest.history_bytes
        return held_bytes >= _FREED_BYTES_MIN and 2 * trimmed >= machine.high_water_mark - start > 0

    def _points_max(self, local: LocalReplica) -> int:
        """How many points may wait here before another one. A full disk may wait for a trim, which
        frees nothing without a point; and damage that cannot be healed may have been trimmed
        away."""
        points, machine = local.replica.points, local.machine
        is_trimmed = (
            isinstance(machine, TopicMachine)
            and bool(points)
            and machine.log_start_offset > points[-1].log_start
        )
        is_full = self._disk.told.full is not None
        return 2 * _POINTS_BEHIND_MAX if is_full or is_trimmed else _POINTS_BEHIND_MAX

    def _shortens_log(self, local: LocalReplica) -> bool:
        """Whether another point, even of the same state, would let go of the log that is kept for
        the case that the newest snapshot is damaged, or was kept for followers of this leader."""
        log, points = local.replica.log, local.replica.points
        if points or log.byte_count < SEALED_BYTES_MIN:
            return False
        keep_from = self._keep_from(local)
        freed = min(local.image.manifest.index, keep_from - 1) - log.base_index
        return freed > 1 and keep_from != local.point_keeps_from

    def _keep_from(self, local: LocalReplica) -> LogIndex:
        """The first entry that followers may still need from the log here, which leads."""
        held_by_all = min(follower.match_index for follower in local.raft.followers())
        within = local.replica.log.first_within(self._limits.behind_bytes_max)
        return LogIndex(max(held_by_all + 1, within))

    def _propose_point(self, local: LocalReplica) -> None:
        replica, raft = local.replica, local.raft
        since = replica.since_point
        if (
            raft.role is not Role.LEADER
            or replica.states.trust is not Trust.TRUSTED
            or replica.diverged
            or len(replica.points) >= self._points_max(local)
            or local.point_proposed == (raft.term, since.point)
        ):
            return
        keep_from = self._keep_from(local)
        command = SnapshotPoint(keep_from=keep_from)
        try:
            self._propose(local, local.payload(command))
        except (Overloaded, ResourceShortage):
            return  # writes go first; it is tried again
        local.point_proposed, local.point_keeps_from = (raft.term, since.point), keep_from

    # ------------------------------------------------------------ compacting

    def _start(self) -> None:
        if self._running is not None or self._stopped:
            return
        for local, adoption in self._adoptions.items():
            is_durable = local.replica.term_is_durable(adoption.image.snapshots[-1].term)
            if is_durable and local not in self._drops:
                del self._adoptions[local]
                self._adopt(local, adoption)
                return
        for group, local in self._waiting.items():
            if local in self._too_large:
                # The state may be smaller at a later point, and never is at those before.
                while len(local.replica.points) > 1:
                    local.replica.points.popleft()
            point = _next_point(local, past_damage=local in self._past_damage)
            if self._has_no_room_for(local, point) or local.mending or local in self._drops:
                continue
            is_durable = local.replica.log.durable_index >= point.index
            if is_durable and local.replica.term_is_durable(point.term):
                del self._waiting[group]
                break
        else:
            return
        self._running = local
        local.compacting = True
        job = CompactionJob(
            folder=self._store.folder_of(local.group),
            group=local.group,
            image=local.image.manifest,
            index=point.index,
            term=point.term,
            state_hash=point.state_hash,
            urgent=self._is_behind(),
            kept=self._pinned.get(local, frozenset()),
        )
        self._job_in_flight = True
        self._effects.run_compaction(job, lambda reply: self._compacted(local, reply))

    def _is_behind(self) -> bool:
        """Whether so much is to be compacted on this node that it must not wait for others: before
        a restart would take long, and before a topic takes no more records (`overload`)."""
        limits = self._limits
        half_of_backlog = limits.backlog_max / 2
        node_entries = node_bytes = 0
        for local in self._groups.values():
            points, since = local.replica.points, local.replica.since_point
            if points:
                entries = since.entries + sum(each.entries for each in points)
                if entries > half_of_backlog * limits.entries_max:
                    return True
                node_entries += entries
                node_bytes += since.byte_count + sum(each.byte_count for each in points)
        return (
            self._disk.told.full is not None
            or node_entries > limits.node_entries_max
            or node_bytes > half_of_backlog * limits.bytes_max
        )

    def _has_no_room_for(self, local: LocalReplica, point: PointReached) -> bool:
        """While the disk is full, only a small compaction may use the reserve: one after a trim,
        which frees more than it takes."""
        spare_bytes = self._disk.spare_bytes
        machine = local.machine
        if spare_bytes is None or not isinstance(machine, TopicMachine):
            return False
        image = local.image.manifest
        start = max(image.history_end, point.log_start)
        if start < machine.log_start_offset:
            # Some were trimmed after the point, and their sizes are forgotten.
            needed = local.replica.log.byte_count
        else:
            index = machine.byte_index(start)
            needed = index.positions[-1] - index.positions[index.first]
        last = image.history[-1] if image.history else None
        if last and last.end > point.log_start and last.record_bytes < SMALL_FILE_BYTES:
            needed += last.byte_count  # it may be written again
        return needed + machine.staged_bytes > spare_bytes

    def _compacted(self, local: LocalReplica, reply: Reply) -> None:
        """The files of the new image are durable, or there are none."""
        self._job_in_flight = False
        if self._abandoned or self._stopped:
            self._end(local)
            return
        if isinstance(reply, RaftlogError):
            self._effects.tell(
                CompactionFailed(
                    group=local.group, info=local.info, cause=reply.cause, remedy=reply.remedy
                )
            )
            self._failed[local.group] = local
            if isinstance(reply, FileTooLarge):
                self._too_large.add(local)
            if isinstance(reply, CorruptFile):
                self._past_damage ^= {local}  # it may be healed by the time after the next
            self._end(local)
            if isinstance(reply, CorruptFile):
                self._damaged(local, reply)
            return
        self._publish(local, reply, frozenset(), lambda _: None)

    def adopt(
        self,
        local: LocalReplica,
        image: Image,
        received: frozenset[str],
        ended: Callable[[bool], None],
    ) -> None:
        """Let an image whose files of these names came from another node take the place of the
        replica's, as soon as nothing is compacted here. It is that of the present snapshot point,
        or of a later one that the replica has applied.

        `ended` is told whether it was done. It is not if the replica has another image by then.
        """
        self._adoptions[local] = _Adoption(image, received, ended)
        self._start()

    def _adopt(self, local: LocalReplica, adoption: _Adoption) -> None:
        self._running = local
        local.compacting = True
        if adoption.image.generation == local.image.manifest.generation + 1:
            self._publish(local, *adoption)
        else:
            adoption.ended(False)
            self._end(local)

    def _publish(
        self,
        local: LocalReplica,
        image: Image,
        received: frozenset[str],
        ended: Callable[[bool], None],
    ) -> None:
        log = local.replica.log
        keep_after: int = log.base_index
        point = next((each for each in local.replica.points if each.index == image.index), None)
        if point is not None:
            # The newest snapshot may be found damaged: the one before it and the log stand in.
            before = image.snapshots[-2].index if len(image.snapshots) > 1 else LogIndex(0)
            pinned = self._pins.index(local.group)
            wanted = min(before, point.keep_from - 1, before if pinned is None else pinned)
            keep_after = max(keep_after, wanted)
        agreed_mark = local.replica.histories.agreed_mark
        image = replace(image, base=log.droppable(keep_after), agreed_mark=agreed_mark)

        def published(_: None) -> None:
            done = not self._abandoned
            self._published(local, image, received)
            if done:
                ended(True)

        # Ahead of topics that come and go: a leader takes no more records until it is done.
        work = partial(self._store.publish, local.group, image, received)
        self._disk.queue_job(work, published, ahead=True)

    def _published(self, local: LocalReplica, image: Image, received: frozenset[str]) -> None:
        """The manifest names the new image. From here on it is what readers are given."""
        if self._abandoned:
            self._end(local)
            return
        points = local.replica.points
        while points and points[0].index <= image.index:
            points.popleft()
        self._past_damage.discard(local)
        self._too_large.discard(local)
        if not points:
            self._waiting.pop(local.group, None)
            self._failed.pop(local.group, None)
        obsolete = local.take_image(image, received)
        removal = local.replica.drop_log_to(image.base[0])
        pinned = obsolete & self._pins.names(local.group)
        if pinned:
            self._pinned[local] = self._pinned.get(local, frozenset()) | pinned
        self._drops[local] = _Drop(removal, obsolete - pinned, local.last_read)
        self._running = None
        self._drop_files()
        self._start()

    def _drop_files(self) -> None:
        """Remove the files that the new images do without, once no read is in flight that may want
        them. Other replicas are compacted meanwhile, this one is not."""
        if self._stopped:
            return
        for local, drop in list(self._drops.items()):
            if drop.begun or local.reads_up_to(drop.last_read):
                continue
            drop.begun = True
            if drop.gone:
                self._dropped(local)
                continue
            work = partial(self._store.drop_files, local.group, drop.removal, drop.obsolete)
            self._disk.queue_job(work, partial(self._dropped, local), ahead=True)

    def _dropped(self, local: LocalReplica, _: None = None) -> None:
        drop = self._drops.pop(local)
        self._released(local, gone=drop.gone)

    def _drop_unpinned(self) -> None:
        """Remove files of former images that are not fetched any more."""
        if self._stopped:
            return
        for local, names in list(self._pinned.items()):
            if local in self._unpinning:
                continue
            free = self._unpinned_files.get(local)
            if free is None:
                found = names - self._pins.names(local.group)
                if not found:
                    continue
                free = self._unpinned_files[local] = _Unpinned(found, local.last_read)
            if local.reads_up_to(free.last_read):
                continue
            del self._unpinned_files[local]
            self._unpinning.add(local)
            work = partial(self._store.remove_files, local.group, free.names)
            self._disk.queue_job(work, partial(self._unpinned, local, free.names))

    def _unpinned(self, local: LocalReplica, removed: frozenset[str], _: None) -> None:
        self._unpinning.discard(local)
        left = self._pinned.pop(local, frozenset()) - removed
        if left:
            self._pinned[local] = left

    def _end(self, local: LocalReplica) -> None:
        gone, self._abandoned = self._abandoned, False
        self._running = None
        self._released(local, gone=gone)

    def _released(self, local: LocalReplica, *, gone: bool) -> None:
        """Nothing is done with the replica's files any more."""
        local.compacting = False
        if local.replica.points and local.group not in self._failed and not gone:
            self._waiting[local.group] = local
        self._ended(local)
        self._start()


def _next_point(local: LocalReplica, *, past_damage: bool) -> PointReached:
    """The next point to compact. Those are left out of which all records are trimmed at a later
    point: nothing of what they would write stays there, for which a full disk may have no room.

    `past_damage`: the last one instead, if something was trimmed after the next. There what is
    damaged may not be needed any more.
    """
    points = local.replica.points
    covering = (
        number
        for number, (before, point) in enumerate(itertools.pairwise(points), 1)
        if point.log_start >= before.mark > 0
    )
    for _ in range(max(covering, default=0)):
        points.popleft()
    # Only then: points that are left out although something of them stays move the borders of row
    # groups, and the replica's history has to come from another one.
    if past_damage and points[-1].log_start > points[0].log_start:
        return points[-1]
    return points[0]


def _entries_since_point(local: LocalReplica) -> int:
    return local.replica.since_point.entries

"""What is known of damage in this node's files, and what becomes of it.

The scrub, reads and compactions hand in here what damage they meet. It is logged once and counted
once, however often it is met, until it is healed. Damage of the log is healed by `SegmentRepairs`,
that of snapshots, stages and history files by `ImageRepairs`. What no peer can give stays as it is,
and is tried again now and then. A replica whose files name no place that could be healed is filled
again as a whole (`NodeReplicas.quarantine`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from raftlog.core.messages import EntryMessage, EntryRequest
from raftlog.core.types import CONTROLLER_GROUP, GroupId, LogIndex, NodeId
from raftlog.errors import CorruptFile
from raftlog.image.damage import Damage, DamagedEntry, DamagedFile, DamagedLog
from raftlog.image.manifest import MANIFEST_COPIES
from raftlog.multiraft.catch_up_budget import CatchUpBudget
from raftlog.multiraft.compaction import Compactions
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.effects import (
    DamageFound,
    DamageHealed,
    DamageNotHealable,
    DamagePassedOver,
    Effects,
)
from raftlog.multiraft.image_exchange import ImageExchange
from raftlog.multiraft.image_repair import Fetched, ImageRepairs
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.segment_repair import Mended, SegmentRepairs
from raftlog.storage.contract import FileSystem

_RETRY_TICKS = 100
"""A repair that a peer did not answer is tried again after this. No setting: like a compaction."""

_HOPELESS_TICKS = 600
"""And one that no peer could help with. No setting: one may stand elsewhere by then."""

_ROUNDS = 3
"""An image is asked for so often before it counts as not to be had: a peer that compacts meanwhile
has other files for a while."""

_ADVICE_IF_HOPELESS = (
    "Nothing was changed, and no other node has it whole, as far as this one knows. See "
    '`raftlog docs OPERATIONS`, "no other node could give what is damaged".'
)

_Key: TypeAlias = LogIndex | str
"""An entry, or a file."""


class RepairCounts(NamedTuple):
    """Damage of one replica since the process started."""

    found: int = 0
    """Met by a scrub, a read or a compaction; each once until it is healed."""
    healed: int = 0
    not_healable: int = 0
    """Of those that are not healed: no other replica could give it. It is tried again."""
    latest: str = ""
    """The last one that was found: file, position and problem."""


@dataclass(slots=True)
class _Item:
    damage: Damage
    due: int | None = None
    """The tick at which it is tried again; None: a repair is on its way."""
    rounds: int = 0
    hopeless: bool = False
    needs_image: bool = False
    """An entry that peers have dropped: their images stand in."""
    covered: bool = False
    """So does the image here by now: it is healed, and goes with the log's next segments."""


class Repairs:
    """The damage and the repairs of one node. For the thread of its `MultiRaft` only."""

    def __init__(
        self,
        *,
        node: NodeId,
        fs: FileSystem,
        effects: Effects,
        disk: NodeDisk,
        budget: CatchUpBudget,
        images: ImageExchange,
        compactions: Compactions,
        quarantine: Callable[[LocalReplica, CorruptFile], None],
        released: Callable[[LocalReplica], None],
        healed: Callable[[LocalReplica], None],
    ) -> None:
        """`quarantine` ends the replica and has it filled again; `released`: something that used
        the group's files has ended; `healed`: nothing is damaged there any more that was found."""
        self._effects = effects
        self._all_healed = healed
        self._quarantine = quarantine
        self._segments = SegmentRepairs(
            node=node,
            fs=fs,
            effects=effects,
            disk=disk,
            budget=budget,
            ended=self._mended,
            released=released,
        )
        self._images = ImageRepairs(images=images, compactions=compactions, ended=self._fetched)
        self._found: Counter[GroupId] = Counter()
        self._healed: Counter[GroupId] = Counter()
        self._latest: dict[GroupId, str] = {}
        self._open: dict[LocalReplica, dict[_Key, _Item]] = {}
        """What is not healed yet."""
        self._ticks = 0

    def stop(self) -> None:
        """Begin no repair from now on; what is in flight is still to be noted."""
        self._segments.stop()

    def found(self, local: LocalReplica, damage: Damage) -> None:
        """The damage was met. It may be known."""
        known = self._open.setdefault(local, {})
        key = _key_of(damage)
        if key in known:
            return
        item = known[key] = _Item(damage)
        self._note_files(local)
        self._found[local.group] += 1
        cause = self._latest[local.group] = damage.cause.cause
        self._effects.tell(DamageFound(group=local.group, info=local.info, cause=cause))
        self._heal(local, key, item)

    def met(self, local: LocalReplica, cause: CorruptFile) -> None:
        """A file of the replica could not be read. Does nothing if it is not known what is
        damaged, or the file is no longer in use. The error says so if no other node can help."""
        name = cause.file.rpartition("/")[2]
        log = local.replica.log
        first = log.segment_named(name)
        damage: Damage
        if name in local.image.manifest.names():
            damage = DamagedFile(name, cause)
        elif first is not None:
            damage = DamagedEntry(log.entry_at(first, cause.position), cause)
        else:
            return
        self.found(local, damage)
        item = self._open[local].get(_key_of(damage))
        if item is not None and (item.hopeless or not local.others):
            cause.advice = _ADVICE_IF_HOPELESS

    def copy_mended(self, local: LocalReplica, damage: CorruptFile) -> None:
        """One of two copies of a small file was damaged, and is written again from the other."""
        self.passed_over(local.group, damage.cause)
        self._effects.tell(DamagePassedOver(group=local.group, cause=damage.cause))

    def passed_over(self, group: GroupId, cause: str) -> None:
        """Count a damaged file that another one stands in for. It was told already."""
        self._found[group] += 1
        self._healed[group] += 1
        self._latest[group] = cause

    def forget(self, local: LocalReplica) -> None:
        """The replica is gone from this node, or gets other files: what was damaged goes with those
        that it had, and counts as healed."""
        left = self._open.pop(local, {})
        self._healed[local.group] += sum(not item.covered for item in left.values())
        self._note_files(local)
        self._segments.forget(local)
        self._images.forget(local)

    def counts(self, group: GroupId) -> RepairCounts:
        """What was found in the group's files here."""
        items = (item for local in self._open if local.group == group for item in self._of(local))
        return RepairCounts(
            found=self._found[group],
            healed=self._healed[group],
            not_healable=sum(item.hopeless for item in items),
            latest=self._latest.get(group, ""),
        )

    def tick(self) -> None:
        """One tick of the clock has passed."""
        self._ticks += 1
        self._segments.tick()
        self._images.tick()
        for local, items in list(self._open.items()):
            for key, item in list(items.items()):
                if item.due is not None and item.due <= self._ticks:
                    item.due = None
                    self._heal(local, key, item)

    def go_on(self) -> None:
        """Answer what peers have asked for, as far as there is room now."""
        self._segments.go_on()

    def receive(self, local: LocalReplica, message: EntryMessage) -> None:
        """A peer's message about a damaged entry of a group that is here."""
        if isinstance(message, EntryRequest):
            self._segments.asked(local, message)
        else:
            self._segments.entry_came(local, message)

    # ------------------------------------------------------------ what is tried

    def _of(self, local: LocalReplica) -> list[_Item]:
        return list(self._open.get(local, {}).values())

    def _heal(self, local: LocalReplica, key: _Key, item: _Item) -> None:
        log = local.replica.log
        match item.damage:
            case DamagedFile(name=name):
                if name not in local.image.manifest.names():
                    self._close(local, key)  # a compaction does without it
                else:
                    self._begin_image(local)
            case DamagedEntry(entry_index=index):
                first = log.segment_with(index)
                if first is None:
                    self._close(local, key)
                elif item.needs_image:
                    if not self._is_covered(local, index, item):
                        self._begin_image(local)
                else:
                    self._segments.begin(local, first)
            case DamagedLog(cause=cause):
                first = log.segment_named(cause.file.rpartition("/")[2])
                if first is not None:
                    self._segments.begin(local, first)
                elif cause.file.endswith(MANIFEST_COPIES):
                    self._images.write_manifest(local)
                elif local.group != CONTROLLER_GROUP and local.others:
                    self._quarantine(local, cause)

    def _is_covered(self, local: LocalReplica, index: LogIndex, item: _Item) -> bool:
        """Has the image here all that is left of the entry? Then the log drops it in time."""
        if index > local.image.manifest.index:
            return False
        item.due = self._ticks + _RETRY_TICKS
        if not item.covered:
            item.covered = True
            self._tell_healed(local, item)
        return True

    def _note_files(self, local: LocalReplica) -> None:
        local.damaged_files = frozenset(
            each.damage.name for each in self._of(local) if isinstance(each.damage, DamagedFile)
        )

    def _begin_image(self, local: LocalReplica) -> None:
        """Fetch whatever of the replica only an image can heal."""
        items = self._of(local)
        entries = [
            each.damage.entry_index
            for each in items
            if each.needs_image and not each.covered and isinstance(each.damage, DamagedEntry)
        ]
        wanted = local.damaged_files & local.image.manifest.names()
        self._images.begin(local, wanted, max(entries, default=LogIndex(0)))

    # ------------------------------------------------------------ how it went

    def _mended(self, local: LocalReplica, first: LogIndex, how: Mended) -> None:
        """The repair of a segment has ended."""
        log = local.replica.log
        known = self._open.setdefault(local, {})
        for index in how.missing:
            if index not in known:
                known[index] = self._also(local, index)
        for key, item in list(known.items()):
            damage = item.damage
            if isinstance(damage, DamagedEntry):
                here = log.segment_with(damage.entry_index) in (first, None)
                is_left = damage.entry_index in how.missing
            elif isinstance(damage, DamagedLog):
                here = log.segment_named(damage.cause.file.rpartition("/")[2]) in (first, None)
                is_left = not how.can_open
            else:
                continue
            if not here or item.needs_image:
                continue
            if how.whole or (how.written and not is_left):
                self._close(local, key)
            elif not how.written:
                item.due = self._ticks + _RETRY_TICKS
            elif how.dropped and isinstance(damage, DamagedEntry):
                item.needs_image = True
                self._heal(local, key, item)
            elif how.answered:
                self._give_up(local, item)
            else:
                item.due = self._ticks + _RETRY_TICKS

    def _also(self, local: LocalReplica, index: LogIndex) -> _Item:
        """An entry that was found damaged beside the one that was looked for."""
        self._found[local.group] += 1
        cause = local.replica.log.damage_of(index, "its command or body is damaged")
        return _Item(DamagedEntry(index, cause))

    def _fetched(self, local: LocalReplica, how: Fetched) -> None:
        """The repair of an image has ended."""
        names = local.image.manifest.names()
        for key, item in list(self._open.get(local, {}).items()):
            damage = item.damage
            if isinstance(damage, DamagedFile):
                if (how.done and damage.name in how.damaged) or damage.name not in names:
                    self._close(local, key)
                    continue
            elif isinstance(damage, DamagedEntry):
                if not item.needs_image or self._is_covered(local, damage.entry_index, item):
                    continue
            elif not damage.cause.file.endswith(MANIFEST_COPIES):
                continue
            elif how.done:
                self._close(local, key)
                continue
            item.rounds += how.answered
            if item.rounds >= _ROUNDS:
                self._give_up(local, item)
            else:
                item.due = self._ticks + _RETRY_TICKS

    def _close(self, local: LocalReplica, key: _Key) -> None:
        """It is whole again, or nothing needs it any more."""
        item = self._open[local].pop(key)
        self._note_files(local)
        if not item.covered:
            self._tell_healed(local, item)
        if not self._open[local]:
            self._all_healed(local)

    def _tell_healed(self, local: LocalReplica, item: _Item) -> None:
        self._healed[local.group] += 1
        what = item.damage.cause.cause
        self._effects.tell(DamageHealed(group=local.group, info=local.info, what=what))

    def _give_up(self, local: LocalReplica, item: _Item) -> None:
        """No peer could help. What is damaged stays."""
        item.due = self._ticks + _HOPELESS_TICKS
        if not item.hopeless:
            item.hopeless = True
            cause = item.damage.cause.cause
            self._effects.tell(DamageNotHealable(group=local.group, info=local.info, cause=cause))


def _key_of(damage: Damage) -> _Key:
    match damage:
        case DamagedEntry():
            return damage.entry_index
        case DamagedFile():
            return damage.name
        case DamagedLog():
            return damage.cause.file

"""What is known of damage in this node's files, and what becomes of it.

Whoever meets damage hands it in here: the scrub, a read, a compaction. It is told once and counted
once, however often it is met, until it is healed. A log that is no more than a torn one to its next
opening is filled again as a whole (`NodeReplicas.quarantine`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from raftlog.core.types import GroupId, LogIndex
from raftlog.errors import CorruptFile
from raftlog.image.damage import Damage, DamagedEntry, DamagedFile, DamagedLog
from raftlog.multiraft.effects import DamageFound, Effects
from raftlog.multiraft.local_replica import LocalReplica

_Key: TypeAlias = LogIndex | str
"""An entry, or a file."""


class RepairCounts(NamedTuple):
    """Damage of one replica since the process started."""

    found: int = 0
    """Met by anybody; each once until it is healed."""
    healed: int = 0
    not_healable: int = 0
    """No other replica could give it. Of those found, and tried again now and then."""


@dataclass(slots=True)
class _Counts:
    found: int = 0
    healed: int = 0


class Repairs:
    """The damage and the repairs of one node. For the thread of its `MultiRaft` only."""

    def __init__(
        self, *, effects: Effects, quarantine: Callable[[LocalReplica, CorruptFile], None]
    ) -> None:
        """`quarantine` ends the replica and has it filled again."""
        self._effects = effects
        self._quarantine = quarantine
        self._counts: dict[GroupId, _Counts] = {}
        self._open: dict[GroupId, dict[_Key, Damage]] = {}
        """What is not healed yet."""

    def found(self, local: LocalReplica, damage: Damage) -> None:
        """Somebody has met the damage. It may be known."""
        known = self._open.setdefault(local.group, {})
        key = _key_of(damage)
        if key in known:
            return
        known[key] = damage
        self._counts.setdefault(local.group, _Counts()).found += 1
        cause = damage.cause.cause
        self._effects.tell(DamageFound(group=local.group, topic=local.topic, cause=cause))
        if isinstance(damage, DamagedLog) and local.topic is not None:
            self._quarantine(local, damage.cause)

    def tick(self) -> None:
        """One tick of the clock has passed."""

    def forget(self, local: LocalReplica) -> None:
        """The replica is gone from this node, or has other files now."""
        self._open.pop(local.group, None)

    def counts(self, group: GroupId) -> RepairCounts:
        """What was found in the group's files here."""
        counts = self._counts.get(group, _Counts())
        return RepairCounts(found=counts.found, healed=counts.healed)


def _key_of(damage: Damage) -> _Key:
    match damage:
        case DamagedEntry():
            return damage.entry_index
        case DamagedFile():
            return damage.name
        case DamagedLog():
            return damage.cause.file

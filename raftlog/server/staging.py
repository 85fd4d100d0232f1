"""How much may be staged: each writer's limit, and each caller's quota.

What is staged lies on all disks and no reader sees it. So a Stage is judged before it is
proposed, and counts from then on, not only once it is applied: a caller may send many at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from raftlog.auth.principals import Caller
from raftlog.core.ready import Role
from raftlog.core.types import GroupId
from raftlog.errors import WriterBytesExceeded, WriterEntriesExceeded
from raftlog.machines.commands import Stage
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.server.meters import Meters


class Staging:
    """What the writers of this node's topics stage. For one event loop only."""

    def __init__(
        self,
        replicas: Mapping[GroupId, LocalReplica],
        meters: Meters,
        *,
        bytes_max: int,
        entries_max: int,
    ) -> None:
        """Of one writer (`server.staged_bytes_max`, where 0 is no limit, `staged_entries_max`)."""
        self._replicas = replicas
        self._meters = meters
        self._bytes_max = bytes_max
        self._entries_max = entries_max
        self._in_flight: Counter[tuple[GroupId, str, str]] = Counter()
        """Bytes by topic, writer and sender that have been judged and are not applied yet."""

    def begin(self, local: LocalReplica, stage: Stage, who: Caller | None) -> Callable[[Any], None]:
        """Count what the command stages until the function that this returns is called, with
        anything, once it is applied or cannot be any more.

        Raises `WriterBytesExceeded`, `WriterEntriesExceeded`, or `QuotaExceeded` where a commit of
        another writer of the caller may make room.
        """
        writer = (local.group, stage.key.writer, stage.owner)
        row = local.topic_machine.writer(stage.key.writer)
        held = row.staged_bytes if row is not None else 0
        in_flight = self._in_flight[writer]
        of_run = local.topic_machine.staged_bytes_with(stage)
        staged = in_flight + of_run
        meter = self._meters.of(who)
        if meter is not None:
            before = in_flight + (held if row is not None and row.owner == stage.owner else 0)
            meter.check_staged(
                local.group,
                stage.key.writer,
                staged,
                before,
                lambda group: self._staged_bytes(group, stage.owner),
            )
        if self._bytes_max and staged > self._bytes_max:
            raise WriterBytesExceeded(
                writer=stage.key.writer,
                staged_bytes=staged,
                limit=self._bytes_max,
                option="server.staged_bytes_max",
            )
        # What another run has staged is dropped with the first Stage of this one, once that is
        # applied: until then it makes no room.
        is_open = row is not None and row.run == stage.key.run
        if row is not None and is_open and of_run and row.staged_entries >= self._entries_max:
            raise WriterEntriesExceeded(
                writer=stage.key.writer,
                limit=self._entries_max,
                option="server.staged_entries_max",
            )
        added = max(0, of_run - (held if is_open else 0))
        self._in_flight[writer] += added
        if meter is not None:
            meter.staging_bytes += added

        def ended(_: Any) -> None:
            self._in_flight[writer] -= added
            if not self._in_flight[writer]:
                del self._in_flight[writer]
            if meter is not None:
                meter.staging_bytes -= added

        return ended

    def _staged_bytes(self, group: GroupId, owner: str) -> int:
        """What the owner's writers have staged in a topic that this node leads; 0 in another."""
        local = self._replicas.get(group)
        if local is None or local.raft.role is not Role.LEADER:
            return 0
        return local.topic_machine.staged_bytes_of(owner)

"""Damaged replicas are filled again from their peers, each with a new folder and an empty log.

A replica that has lost its log has forgotten what it acknowledged. So the journal says durably that
its recovery has begun before anything of the new folder counts, and the core lets it vote again
only when it has everything that it may have acknowledged, or in a way that is as good
(`raftlog.core.recovery`). The damaged folder is kept under another name. Only a person removes it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from raftlog.core.types import GroupId, LastEntry
from raftlog.machines.group_info import CreatedInfo
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.groups import GroupFiles, GroupStore


class _Begun(NamedTuple):
    ticket: int
    """Of the journal: durable once it is reached."""
    go_on: Callable[[], None]


class Refills:
    """The replicas of one node whose new folders are on their way. One thread's own."""

    def __init__(
        self,
        *,
        store: GroupStore,
        disk: NodeDisk,
        journal_changed: Callable[[], None],
        made: Callable[[CreatedInfo, GroupFiles], None],
    ) -> None:
        """`made` is called with each new folder, which is durable."""
        self._store = store
        self._disk = disk
        self._journal_changed = journal_changed
        self._made = made
        self._begun: dict[GroupId, _Begun] = {}

    def begin(self, info: CreatedInfo, lost: LastEntry | None = None) -> None:
        """Give the group a new folder; nothing of the former one is open, whose log ended
        with `lost` (None: that cannot be told).

        Where a recovery lasts, another one begins: nothing that was said in that one counts.
        """
        recovery = self._store.begin_recovery(info.group, lost)

        def make() -> None:
            self._disk.queue_job(
                partial(self._store.make_group_again, info, recovery), partial(self._made, info)
            )

        self._when_durable(info.group, make)

    def give_up(self, group: GroupId, lost: LastEntry | None, remove: Callable[[], None]) -> None:
        """`remove` the files of a group that is not this node's any more. It may be given back:
        then it begins with an empty log, and counts for nothing before it is filled again."""
        self._store.begin_recovery(group, lost)
        self._when_durable(group, remove)

    def _when_durable(self, group: GroupId, go_on: Callable[[], None]) -> None:
        self._begun[group] = _Begun(self._store.journal.ticket, go_on)
        self._journal_changed()

    def journal_durable(self) -> None:
        """The journal is durable further than before."""
        reached = self._store.journal.durable_ticket
        for group, begun in list(self._begun.items()):
            if begun.ticket <= reached:
                del self._begun[group]
                begun.go_on()

"""Groups that wait for the node's loop, in their order."""

from __future__ import annotations

from raftlog.core.types import CONTROLLER_GROUP, GroupId


class GroupQueue:
    """Groups that wait, each once: the controller's first, then the one that waits longest."""

    def __init__(self) -> None:
        self._groups: dict[GroupId, None] = {}
        self._before_mark = 0
        self.lags = False
        """Was the loop behind at the last tick, and is it still? See `catches_up`."""

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, group: GroupId) -> None:
        """One that waits already keeps its place."""
        self._groups[group] = None

    def discard(self, group: GroupId) -> None:
        """The group waits no longer, if it did."""
        self._groups.pop(group, None)

    def take(self) -> GroupId:
        """Take out the group whose turn it is; there is one."""
        waits = CONTROLLER_GROUP in self._groups
        group = CONTROLLER_GROUP if waits else next(iter(self._groups))
        del self._groups[group]
        self._before_mark = max(0, self._before_mark - 1)
        self.lags &= self._before_mark > 0
        return group

    def mark(self) -> None:
        """Ask of `catches_up` whether the loop has got through what waits now."""
        self._before_mark = len(self._groups)

    def catches_up(self) -> bool:
        """A tick has come: were as many groups taken since the last mark as waited there?"""
        self.lags = self._before_mark > 0
        return not self.lags

"""Bugs to plant in the comparison of histories and in what follows on it; see `planted`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from raftlog.comparison import Comparison
from raftlog.image import incoming
from raftlog.image.history_digest import HISTORY_DIGEST_BYTES
from raftlog.image.manifest import Image
from raftlog.image.outvoted import NEVER_OUTVOTED, Outvoted
from raftlog.multiraft import groups as opening
from raftlog.multiraft import image_exchange
from raftlog.multiraft.groups import GroupFiles, GroupStore
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.storage import fresh
from tests.simulation.planting import replaced


def history_not_compared() -> Any:
    """A replica compares its state, and says nothing of its history."""
    return replaced(LocalReplica, "_note_history", lambda self: None)


def outvoted_replica_goes_on_serving() -> Any:
    """Reads are served by whoever has the records."""
    return replaced(LocalReplica, "require_agreed", lambda self, start, end: None)


def majority_outvoted() -> Any:
    """Those that have the agreed history take themselves for wrong, and the other for right."""
    original = Comparison._judge

    def judge(self: Comparison) -> None:
        original(self)
        point = self._points.get(self.agreed_index)
        if point is not None and len(point.digest) == HISTORY_DIGEST_BYTES:
            self._diverged = not self._diverged

    return replaced(Comparison, "_judge", judge)


def outvoted_forgotten_at_restart() -> Any:
    """A replica that starts again trusts the history that it has."""
    return replaced(opening, "read_outvoted", lambda fs, folder: NEVER_OUTVOTED)


def outvoted_file_kept() -> Any:
    """An image's history file is not fetched if one of the same range is here."""
    original = incoming.wanted_image

    def wanted_image(theirs: Image, own: Image) -> Image:
        mine = {(each.start, each.end): each for each in own.history}
        wanted = original(theirs, own)
        history = tuple(mine.get((each.start, each.end), each) for each in wanted.history)
        return replace(wanted, history=history)

    return replaced(image_exchange, "wanted_image", wanted_image)


def log_dropped_by_a_rebuild() -> Any:
    """A rebuilt replica begins its log afresh, and forgets what it has acknowledged."""
    original = GroupStore.rebuild

    def rebuild(
        self: GroupStore, info: Any, image: Image, log_base: Any, now_us: int
    ) -> GroupFiles:
        base = (image.index, image.snapshots[-1].term)
        log_id = fresh.make(self.fs, self.folder_of(info.group), info.group, base)
        return original(self, info, replace(image, fresh_log=log_id), base, now_us)

    return replaced(GroupStore, "rebuild", rebuild)


def rebuilt_without_end() -> Any:
    """However often it was rebuilt, it is rebuilt again."""
    return replaced(Outvoted, "may_rebuild", lambda self, now_us: True)


HISTORY_BUGS = (
    history_not_compared,
    outvoted_replica_goes_on_serving,
    majority_outvoted,
    outvoted_forgotten_at_restart,
    outvoted_file_kept,
    log_dropped_by_a_rebuild,
    rebuilt_without_end,
)

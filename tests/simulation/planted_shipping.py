"""Bugs to plant in how images travel and are installed; see `planted`."""

from __future__ import annotations

from typing import Any

from raftlog.image.incoming import Incoming
from raftlog.multiraft import groups, image_fetch
from tests.simulation.planting import both, replaced
from tests.storage.memory import MemoryFile


def image_not_synced() -> Any:
    """An image counts as installed before its files and its manifest are durable."""
    original = MemoryFile.sync

    def sync(self: MemoryFile) -> None:
        if not any(part in self.path for part in ("/incoming-", "/image.", ".fresh")):
            original(self)

    return replaced(MemoryFile, "sync", sync)


def received_files_not_checked() -> Any:
    """What comes of an image is taken as it comes."""
    return both(
        replaced(image_fetch, "is_whole", lambda chunk: True),
        replaced(Incoming, "_check", lambda self, info: None),
    )


def install_not_finished() -> Any:
    """Opening a group does not finish what a published image began."""
    return replaced(groups, "put_in_place", lambda fs, folder, base, log_id: None)


SHIPPING_BUGS = (
    image_not_synced,
    received_files_not_checked,
    install_not_finished,
)

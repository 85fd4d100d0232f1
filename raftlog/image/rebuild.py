"""Another replica's image in place of one that a majority has outvoted; the log stays.

The log of such a replica is as good as any: it holds what the replica has acknowledged. So only the
image is replaced, by one at an entry that the log holds, and opening replays the rest. A crash
leaves the former image or the new one.
"""

from __future__ import annotations

from dataclasses import replace

from raftlog.image.incoming import INCOMING_PREFIX
from raftlog.image.manifest import Image, read_image, write_image
from raftlog.storage.contract import FileSystem
from raftlog.storage.prefix import Base

KEPT_PREFIX = "outvoted-"
"""Before the names of history files that were replaced. Nothing reads them, and nothing removes
them: that a majority has other records is the word of one leader."""


def rebuild(fs: FileSystem, folder: str, image: Image, log_base: Base) -> None:
    """Make `image`, all of whose files were finished, the group's; durable when this returns.

    The group's log begins after `log_base` and holds the entry of the image's snapshot. No file of
    the group may be in use. The history files that it replaces are kept under another name. Raises
    `ResourceShortage` (call it again) and `DiskFailed`.
    """
    assert log_base[0] <= image.index, "the log goes on from the image"
    present = read_image(fs, folder).image
    if present.names() == image.names():
        write_image(fs, folder, present)
        return
    for name in sorted(image.names() - present.names()):
        if fs.exists(f"{folder}/{INCOMING_PREFIX}{name}"):
            fs.rename(f"{folder}/{INCOMING_PREFIX}{name}", f"{folder}/{name}")
    fs.sync_folder(folder)
    generation = present.generation + 1
    write_image(fs, folder, replace(image, generation=generation, base=log_base))
    for info in present.history:
        if info.name not in image.names():
            fs.rename(f"{folder}/{info.name}", f"{folder}/{KEPT_PREFIX}{info.name}")
    for name in fs.list(folder):
        if name.startswith(INCOMING_PREFIX):  # a snapshot that was made here meanwhile
            fs.remove(f"{folder}/{name}")
    fs.sync_folder(folder)

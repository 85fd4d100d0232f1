"""At the end of a seed: a byte that flips anywhere in what a replica has at rest is found."""

from __future__ import annotations

from random import Random

from raftlog.core.types import GroupId, LogIndex
from raftlog.image import scrub
from raftlog.image.damage import Damage
from raftlog.image.manifest import Image, read_image
from raftlog.storage.scan import proven_frames
from tests.simulation.node import SimulatedNode
from tests.simulation.promises import Promise, Violation
from tests.storage.disks import files_of, flipped
from tests.storage.memory import MemoryFileSystem

FLIPS = 3
"""Of each replica."""


def check_scrub(node: SimulatedNode, group: GroupId, random: Random) -> None:
    """Flip bytes of a copy of the node's disk, one at a time, and scrub it."""
    local = node.local(group)
    assert local is not None
    last = LogIndex(min(local.replica.applied_index, local.replica.log.durable_index))
    disk, folder = node.disk.fs.durable_copy(random), node.log_folder(group)
    known = local.image.manifest
    if found := _found(disk, folder, group, last, known):
        raise Violation(Promise.DAMAGE_FOUND, f"node {node.node} has {found[0]} without a flip")
    files = _judged(disk, folder, group, last)
    for _ in range(FLIPS):
        name = random.choice(sorted(files))
        position = random.randrange(len(files[name]))
        whole = files_of(disk, folder)[name]
        _overwrite(disk, f"{folder}/{name}", flipped(whole, position))
        damages = _found(disk, folder, group, last, known)
        told = [each.cause.file.rpartition("/")[2] for each in damages]
        _overwrite(disk, f"{folder}/{name}", whole)
        if told != [name]:
            what = f"byte {position} of {folder}/{name} on node {node.node} was flipped"
            raise Violation(Promise.DAMAGE_FOUND, f"{what}, and the scrub names {told}")


def _found(
    disk: MemoryFileSystem, folder: str, group: GroupId, last: LogIndex, known: Image
) -> list[Damage | scrub.DamagedCopy]:
    pieces = scrub.scrub(disk, folder, group, last, known)
    return [piece.damage for piece in pieces if piece.damage is not None]


def _judged(
    disk: MemoryFileSystem, folder: str, group: GroupId, last: LogIndex
) -> dict[str, bytes]:
    """The bytes that a scrub answers for, by file: of the log those up to the entry `last`."""
    files = files_of(disk, folder)
    image = read_image(disk, folder).image
    wanted = {name: data for name, data in files.items() if name in image.names()}
    wanted |= {
        name: data for name, data in files.items() if name.startswith(("manifest", "image."))
    }
    for frame in proven_frames(disk, folder, group, LogIndex(image.base[0] + 1), last):
        name = frame.place.path.rpartition("/")[2]
        wanted[name] = files[name][: frame.placed.end]
    return wanted


def _overwrite(disk: MemoryFileSystem, path: str, data: bytes) -> None:
    file = disk.open(path, create=False)
    file.truncate(0)
    file.write_at(0, [data])
    file.close()

"""Turn a dead node's data folder into what a power loss may have left of it.

What no sync made durable may be there or not. Each block of a file's unsynced bytes is as before,
zeros, garbage or as written. The file's size varies too. Of each folder's unsynced names any number
of the oldest survives (file systems keep those in order). The generator decides all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import assert_never

from tests.chaos.disk_notes import FileChange, NameChange, Unsynced, read_notes
from tests.chaos.noted_disk import NoteFiles, drop

_BLOCK_BYTES = (512, 4096)


@dataclass(slots=True, kw_only=True)
class PowerLoss:
    """What happened to the unsynced changes: blocks of files by fate, names kept and undone."""

    blocks: dict[str, int] = field(default_factory=dict)
    names_kept: int = 0
    names_undone: int = 0

    @property
    def took_anything(self) -> bool:
        """Whether anything differs from what was written."""
        return self.names_undone > 0 or any(
            count for fate, count in self.blocks.items() if fate != "kept"
        )


def lose_power(data: Path, files: NoteFiles, random: Random) -> PowerLoss:
    """Apply a power loss to the data folder of a dead node. What it leaves is durable."""
    unsynced = read_notes(files.notes)
    report = PowerLoss()
    # The deepest folders first: a folder's own names before the folder's name.
    for folder in sorted(unsynced.folders, key=lambda name: (-name.count("/"), not name, name)):
        _lose_names(data, folder, unsynced.folders[folder], files.aside, random, report)
    _lose_bytes(data, unsynced, random, report)
    files.notes.unlink(missing_ok=True)
    if files.aside.exists():
        drop(files.aside)
    return report


# ---------------------------------------------------------------- names


def _lose_names(
    data: Path,
    folder: str,
    changes: list[NameChange],
    aside: Path,
    random: Random,
    report: PowerLoss,
) -> None:
    kept = random.choice([0, len(changes), random.randint(0, len(changes))])
    report.names_kept += kept
    report.names_undone += len(changes) - kept
    path = data / folder
    if not path.exists():
        return  # removed since, with all its names
    for change in reversed(changes[kept:]):
        _undo_name(path, change, aside)


def _undo_name(path: Path, change: NameChange, aside: Path) -> None:
    """Undo one change, unless the process was killed before it made it."""
    name, target, former = path / change.name, path / change.target, aside / str(change.aside)
    match change.kind:
        case "create":
            drop(name)
        case "rename":
            if target.exists() and not name.exists():
                target.rename(name)
                if change.aside:
                    former.rename(target)
        case "remove":
            if not name.exists():
                former.rename(name)
        case _:
            assert_never(change.kind)


# ---------------------------------------------------------------- bytes


def _lose_bytes(data: Path, unsynced: Unsynced, random: Random, report: PowerLoss) -> None:
    for path in sorted(each for each in data.rglob("*") if each.is_file()):
        changes = unsynced.files.get(path.stat().st_ino)
        if changes:
            path.write_bytes(_survivor(path.read_bytes(), changes, random, report))


def _survivor(
    written: bytes, changes: list[FileChange], random: Random, report: PowerLoss
) -> bytes:
    """What may be left of a file with these bytes, of which `changes` are not durable."""
    durable = _undone(written, changes)
    size = random.choice([len(durable), len(written), _between(len(durable), len(written), random)])
    longest = max(len(durable), len(written))
    before, after = durable.ljust(longest, b"\0"), written.ljust(longest, b"\0")
    result = bytearray(after)
    fate = _fates(random)
    block = random.choice(_BLOCK_BYTES)
    for start, end in _blocks(changes, block, longest):
        chosen = fate()
        report.blocks[chosen] = report.blocks.get(chosen, 0) + 1
        match chosen:
            case "gone":
                result[start:end] = before[start:end]
            case "zeros":
                result[start:end] = bytes(end - start)
            case "garbled":
                result[start:end] = random.randbytes(end - start)
            case "kept":
                pass
    return bytes(result[:size])


def _undone(written: bytes, changes: list[FileChange]) -> bytes:
    image = bytearray(written)
    for change in reversed(changes):
        overwritten = max(0, min(change.length, change.size_before - change.position))
        image.extend(bytes(max(0, change.size_before - len(image))))
        before = change.before.ljust(overwritten, b"\0")
        image[change.position : change.position + overwritten] = before
        del image[change.size_before :]
    return bytes(image)


def _between(one: int, other: int, random: Random) -> int:
    return random.randint(min(one, other), max(one, other))


def _fates(random: Random) -> Callable[[], str]:
    """Draws the fates of a file's blocks: all the same, each its own, or whole up to one."""
    one = random.choice(("gone", "zeros", "garbled", "kept", "each", "torn"))
    rest = random.choice(("gone", "zeros", "garbled"))
    whole = random.randrange(4)

    def draw() -> str:
        nonlocal whole
        if one == "each":
            return random.choice(("gone", "zeros", "garbled", "kept"))
        if one == "torn":
            whole -= 1
            return "kept" if whole >= 0 else rest
        return one

    return draw


def _blocks(changes: list[FileChange], block: int, size: int) -> Iterator[tuple[int, int]]:
    """The changed ranges, merged and split at block boundaries. They contain no durable byte."""
    ranges = sorted((each.position, each.position + each.length) for each in changes if each.length)
    at = 0
    for start, end in ranges:
        start, end = max(start, at), min(end, size)
        while start < end:
            stop = min(end, (start // block + 1) * block)
            yield start, stop
            start = stop
        at = max(at, end)

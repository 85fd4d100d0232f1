"""Small files that are written whole and read whole: identity, manifests, snapshots.

A headline says the kind, the format, the length and the CRC-32C of what follows. A new version of a
file is written under another name, synced and renamed, so a crash leaves the old one or the new.

What nothing else can tell again is kept in two copies, each of which is such a file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from raftlog.checksum import crc32c
from raftlog.errors import CorruptFile, FileTooLarge, FormatUnsupported
from raftlog.storage.contract import File, FileSystem
from raftlog.storage.frames import FORMAT_VERSION
from raftlog.storage.unfinished import finish_file, unfinished_file
from raftlog.storage.write import NEW_FILE_ENDING

TEXT = "text"
"""The kind of identity files, manifests and notes."""

BYTES_MAX = 1024**3
"""A longer file is damaged: no file of any kind comes near it. It bounds what is read; no
setting."""

_HEADLINE_BYTES_MAX = 80
"""No headline is longer: 20, 9, 8 and 10 characters vary. Part of the format; no setting."""

FILE_BYTES_MAX = BYTES_MAX + _HEADLINE_BYTES_MAX
"""Of a whole file, with its headline."""

_HEADLINE = re.compile(rb"raftlog ([a-z]{1,20}) (\d{1,9}) crc ([0-9a-f]{8}) bytes (\d{1,10})\n")


def write_checked(fs: FileSystem, path: str, kind: str, parts: Sequence[bytes]) -> None:
    """Write `parts` as one file under its name atomically; durable when this returns.

    Raises `FileTooLarge` and `DiskFull` (then the file is as it was, and it may be tried again),
    and `DiskFailed`.
    """
    byte_count = sum(map(len, parts))
    if byte_count > BYTES_MAX:
        raise FileTooLarge(file=fs.location(path), size=byte_count, limit=BYTES_MAX)
    crc = 0
    for part in parts:
        crc = crc32c(part, crc)
    if fs.exists(path + NEW_FILE_ENDING):
        fs.remove(path + NEW_FILE_ENDING)
    headline = f"raftlog {kind} {FORMAT_VERSION} crc {crc:08x} bytes {byte_count}\n"
    with unfinished_file(fs, path + NEW_FILE_ENDING) as file:
        file.write_at(0, [headline.encode(), *parts])
    finish_file(fs, path + NEW_FILE_ENDING, path)


def read_checked(fs: FileSystem, path: str, kind: str) -> bytes:
    """What `write_checked` wrote. Raises `CorruptFile` (also if it is missing) and
    `FormatUnsupported`."""
    try:
        file = fs.open(path, create=False)
    except FileNotFoundError as error:
        raise CorruptFile(file=fs.location(path), position=0, problem="it is missing") from error
    name = file.path
    try:
        headline = read_headline(file, kind)
        content = file.read_at(headline.begin, headline.length)
    finally:
        file.close()
    if crc32c(content) != headline.crc:
        raise CorruptFile(file=name, position=headline.begin, problem="its checksum differs")
    if headline.version != FORMAT_VERSION:
        raise FormatUnsupported(
            folder=name, found=str(headline.version), supported=str(FORMAT_VERSION)
        )
    return content


class Headline(NamedTuple):
    """What the first line of a file says."""

    version: int
    """Of the format."""
    crc: int
    """Of the content."""
    begin: int
    """Where the content begins, in bytes of the file."""
    length: int
    """Of the content, in bytes."""


def read_headline(file: File, kind: str) -> Headline:
    """What the file says that it holds. Raises `CorruptFile` if it is no whole file of the kind."""
    size = file.size()
    found = _HEADLINE.match(file.read_at(0, min(size, _HEADLINE_BYTES_MAX)))
    if found is None or found[1] != kind.encode():
        raise CorruptFile(
            file=file.path, position=0, problem=f"it does not begin as a {kind} file of ours"
        )
    headline = Headline(int(found[2]), int(found[3], 16), found.end(), int(found[4]))
    if size != headline.begin + headline.length or headline.length > BYTES_MAX:
        problem = f"it has {size} bytes, and {headline.begin + headline.length} were written"
        raise CorruptFile(file=file.path, position=headline.begin, problem=problem)
    return headline


class Copies(NamedTuple):
    """What `read_copies` found."""

    contents: tuple[bytes, ...]
    """Of the copies that can be read, the one that is written first at the beginning."""
    damaged: CorruptFile | None
    """Why another one cannot be read."""
    incomplete: bool
    """One has to be written again. Without damage: the last was never written."""


def write_copies(fs: FileSystem, paths: Sequence[str], kind: str, parts: Sequence[bytes]) -> None:
    """`write_checked` for each of the paths, one after another."""
    for path in paths:
        write_checked(fs, path, kind, parts)


def read_copies(fs: FileSystem, paths: Sequence[str], kind: str) -> Copies:
    """What `write_copies` wrote.

    A crash between the copies leaves the first. If none can be
    read, raises why the first cannot: `CorruptFile` (also if it is missing), `FormatUnsupported`.
    """
    contents: list[bytes] = []
    problems: list[CorruptFile | FormatUnsupported] = []
    for path in paths:
        if contents and not problems and not fs.exists(path):
            return Copies(tuple(contents), None, incomplete=True)
        try:
            contents.append(read_checked(fs, path, kind))
        except (CorruptFile, FormatUnsupported) as problem:
            problems.append(problem)
    if not contents:
        raise problems[0]
    damaged = damage_of(problems[0]) if problems else None
    return Copies(tuple(contents), damaged, incomplete=bool(problems))


def damage_of(problem: CorruptFile | FormatUnsupported) -> CorruptFile:
    """The problem of a file that had this program's format when it was written."""
    if isinstance(problem, CorruptFile):
        return problem
    found = f"it says that its format is {problem.found}"
    return CorruptFile(file=problem.folder, position=0, problem=found)

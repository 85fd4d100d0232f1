"""A text file in blocks of whole records, and the line of the first record that is refused."""

from __future__ import annotations

import bisect
import codecs
import re
import select
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import BufferedReader
from typing import NamedTuple, TypeVar

from raftlog.errors import SchemaMismatch
from raftlog.machines.limits import ControllerLimits
from raftlog.machines.schema import RESERVED_NAMES

BLOCK_BYTES = 4 * 1024 * 1024
"""Text is read in blocks of this size. A longer line is an error."""

LINGER_S = 1.0
"""For so long records from a pipe or a terminal wait for more of them before they are passed on."""

_COLUMNS_MAX = ControllerLimits().fields_max

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Notation:
    """How records follow one another in a text."""

    record: re.Pattern[bytes]
    """One record, or the last one without its end."""
    quoted: re.Pattern[bytes] | None = None
    """Some of the whole records at the beginning of a text with quotes; None if each line is a
    record."""

    def end(self, text: bytes) -> int:
        """Where the last whole record ends."""
        if self.quoted is not None and b'"' in text:
            end = 0
            while (found := self.quoted.match(text, end)) is not None:
                end = found.end()
            return end
        return text.rfind(b"\n") + 1

    def ends(self, text: bytes) -> list[int]:
        """Where each record of a text of whole records ends."""
        return [found.end() for found in self.record.finditer(text) if found[0]]


_CELL = rb'(?:"(?:[^"]++|"")*+"[^,\r\n]*+|[^",\r\n][^,\r\n]*+|)'
_CELLS = rb"(?:" + _CELL + rb",)*+" + _CELL
CSV = Notation(
    record=re.compile(_CELLS + rb"(?:\r\n|[\r\n]|\Z)"),
    # A thousand at most, because `re` keeps a place to go back to for each. The possessive `*+`
    # keeps none, but around other possessive repeats Python 3.11.2 matches too much with it.
    quoted=re.compile(rb"(?:" + _CELLS + rb"[\r\n]){1,1000}"),
)
"""As Arrow reads it: a quote begins a cell and another ends it, and commas, line breaks and doubled
quotes may be between them."""
JSON_LINES = Notation(record=re.compile(rb"[^\n]*+(?:\n|\Z)"))


class Block(NamedTuple):
    """Whole records, and where they begin in the file: the line, from 1, and the file position."""

    line: int
    text: bytes
    begin: int = 0

    @property
    def end(self) -> int:
        """The file position after them."""
        return self.begin + len(self.text)

    def of_lines(self, most: int) -> Iterator[Block]:
        """The block in blocks of at most `most` lines."""
        rest = self
        if self.text.count(b"\n") > most:
            ends = JSON_LINES.ends(self.text)
            for end in ends[most - 1 : -1 : most]:
                block, rest = rest.split(self.begin + end - rest.begin)
                yield block
        yield rest

    def split(self, end: int) -> tuple[Block, Block]:
        """The records up to `end`, and those from there on."""
        head, rest = self.text[:end], self.text[end:]
        line = self.line + line_count(head)
        return Block(self.line, head, self.begin), Block(line, rest, self.begin + end)


def refuse_wide(what: str, count: int, known: int = len(RESERVED_NAMES)) -> None:
    """Raise `ValueError` for more columns than a topic may have besides `known` ones, which are at
    least those of metadata: Arrow would take minutes. `what` has them."""
    if count > known + _COLUMNS_MAX:
        raise ValueError(f"{what} {count} columns; a topic has at most {_COLUMNS_MAX}")


def pieces(source: BufferedReader) -> Iterator[bytes | None]:
    """The text in pieces of at most `BLOCK_BYTES`. None: what came before it must not wait longer.

    A pipe or terminal may be silent for any time, or be slow. So None comes `LINGER_S` after the
    first byte since the last None, unless the text ends before. A file never gives it.
    """
    if source.seekable():
        while data := source.read(BLOCK_BYTES):
            yield data
        return
    gathered, due_s = bytearray(), None
    while True:
        left_s = None if due_s is None else due_s - time.monotonic()
        if left_s is not None and (left_s <= 0 or not select.select([source], [], [], left_s)[0]):
            yield bytes(gathered)
            yield None
            gathered, due_s = bytearray(), None
        # Past the reader's buffer, which `select` does not see.
        found = source.raw.read(BLOCK_BYTES - len(gathered))
        if found is None:  # the terminal does not block, and has nothing now
            select.select([source], [], [])
            continue
        if not found:
            break
        gathered += found
        due_s = time.monotonic() + LINGER_S if due_s is None else due_s
        if len(gathered) == BLOCK_BYTES:
            yield bytes(gathered)
            gathered = bytearray()
    yield bytes(gathered)


def blocks(
    source: BufferedReader, notation: Notation, *, line: int = 1, begin: int = 0
) -> Iterator[Block | None]:
    """The text from where the source is in blocks of whole records, without blank blocks; None as
    in `pieces`. Raises `ValueError`. `line`, `begin`: as of a `Block` there.

    Arrow could read the source itself, but it reads ahead in a thread. If the process ends with an
    error meanwhile, that thread turns the end into an abort.
    """
    rest = Block(line, b"", begin)
    for data in pieces(source):
        if data is None:
            yield None
            continue
        text, begin = rest.text + data, rest.begin
        if begin == 0 and text.startswith(codecs.BOM_UTF8):
            begin = len(codecs.BOM_UTF8)
            text = text[begin:]
        end = notation.end(text)
        if not end and len(text) > BLOCK_BYTES:
            raise ValueError(
                f"line {rest.line}: a line or quoted cell is longer than {BLOCK_BYTES} bytes"
            )
        whole, rest = Block(rest.line, text, begin).split(end)
        if whole.text.strip():
            yield whole
    if rest.text.strip():
        if notation.end(rest.text + b"\n") <= len(rest.text):
            raise ValueError(f"line {rest.line}: a cell begins with a quote that is never closed")
        yield rest


def read_located(block: Block, notation: Notation, name: str, read: Callable[[bytes], T]) -> T:
    """What `read` makes of the block's text. If it refuses that, the error says in which line.

    `read` raises `ValueError` (as Arrow's errors are) or `SchemaMismatch` for a text if it does so
    for the text's beginning. So the first record that it refuses is found by halving, and read
    again by itself: that may tell more.
    """
    try:
        return read(block.text)
    except (ValueError, SchemaMismatch):
        ends = notation.ends(block.text)
        number = bisect.bisect_left(
            ends, True, key=lambda end: _refusal(read, block.text[:end]) is not None
        )
        if number == len(ends):
            raise
    begin, end = ends[number - 1] if number else 0, ends[number]
    line = block.split(begin)[1].line
    error = _refusal(read, block.text[begin:end]) or _refusal(read, block.text[:end])
    if isinstance(error, SchemaMismatch):
        raise located(error, f"line {line} of {name}")
    raise ValueError(f"line {line}: {error}") from error


def located(error: SchemaMismatch, place: str) -> SchemaMismatch:
    """The error of a row at this place."""
    return replace(error, difference=f"{error.difference}\n  (in {place})")


def _refusal(read: Callable[[bytes], object], text: bytes) -> ValueError | SchemaMismatch | None:
    try:
        if text.strip():
            read(text)
    except (ValueError, SchemaMismatch) as error:
        return error
    return None


def line_count(text: bytes) -> int:
    """How many line ends there are; they may be single carriage returns."""
    return text.count(b"\n") or text.count(b"\r")

"""Rows of JSON lines, CSV, Parquet and Kafka's JSON, with a topic's types, by Arrow's readers."""

from __future__ import annotations

import bisect
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from io import BufferedReader
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, assert_never

from raftlog.cli.output import say
from raftlog.cli.text_blocks import (
    CSV,
    JSON_LINES,
    Block,
    blocks,
    located,
    read_located,
    refuse_wide,
)
from raftlog.errors import InvalidOption, SchemaMismatch

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


class InputFormat(StrEnum):
    """The values of `--format`."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    KAFKA_JSON = "kafka-json"


SUFFIXES = {
    ".json": InputFormat.JSON,
    ".jsonl": InputFormat.JSON,
    ".ndjson": InputFormat.JSON,
    ".csv": InputFormat.CSV,
    ".parquet": InputFormat.PARQUET,
}

PARQUET_ROWS = 65_536
"""The limit of rows in a batch of a Parquet file; with large texts it has fewer."""

Fit = Callable[["pa.RecordBatch"], "pa.RecordBatch"]
"""Brings rows into a topic's types, or raises `SchemaMismatch`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What a text means beyond its format."""

    nulls: tuple[str, ...] = ()
    """CSV cells that mean null, besides the empty cell."""
    base64: bool = False
    """Every binary value is base64."""


class Part(NamedTuple):
    """Some rows of a file, fitted, and where they end in it."""

    batch: pa.RecordBatch
    end: int
    """The file position after them; in Parquet the number of rows up to there."""


class RowFile:
    """A file or standard input whose rows are read once, in order.

    Raises `InvalidOption` or `SchemaMismatch`, which name the file, and the line (in Parquet: the
    row) of the first record that is refused.
    """

    def __init__(
        self, source: BufferedReader, file: str, format_: InputFormat, notes: Notes | None = None
    ) -> None:
        self._source = source
        self._name = "standard input" if file == "-" else file
        self._format = format_
        self._notes = notes or Notes()
        self._notation = CSV if format_ is InputFormat.CSV else JSON_LINES
        self._blocks = blocks(source, self._notation)
        self._whole: BinaryIO | None = None
        """Where a Parquet file is read; a pipe is copied first."""
        self._left_out: set[str] = set()
        """The columns for which it was logged that they are left out."""
        self._skipped = 0
        """The rows of a Parquet file that are left out."""

    def schema(self) -> pa.Schema:
        """The columns that the rows have: Kafka's, those that a Parquet file says, or those that
        the first block of the text looks like. Before `parts`."""
        from raftlog.cli.inferred import csv_beginning, json_beginning, schema_like
        from raftlog.cli.kafka_rows import KAFKA_SCHEMA

        if self._format is InputFormat.KAFKA_JSON:
            return KAFKA_SCHEMA
        advice = "Correct the file, or make the topic by `raftlog topic create`."
        with self._readable(f"{self._format.value} of any topic", advice):
            if self._format is InputFormat.PARQUET:
                return self._parquet().schema_arrow
            found = next((each for each in self._blocks if each is not None), Block(1, b""))
            self._blocks = chain([found], self._blocks)
            read: Callable[[bytes], pa.RecordBatch] = json_beginning
            if self._format is InputFormat.CSV:
                read = partial(csv_beginning, nulls=list(self._notes.nulls))
            return schema_like(read_located(found, self._notation, self._name, read))

    @property
    def is_whole(self) -> bool:
        """Whether the file means something only as a whole, and does not grow."""
        return self._format is InputFormat.PARQUET

    def total(self) -> int | None:
        """The last `Part.end` that is to come, or a little more; None if that is not known."""
        if not self._source.seekable():
            return None
        if self._format is InputFormat.PARQUET:
            return self._parquet().metadata.num_rows
        return os.fstat(self._source.fileno()).st_size

    def skip(self, end: int, lines: int) -> None:
        """Leave out what comes before the end of a `Part`; in a text there are so many lines.
        Before `parts`, and only of a file."""
        if self._format is InputFormat.PARQUET:
            self._skipped = end
        elif end:
            found = next((each for each in self._blocks if each is not None), None)
            header = [_split(found)[0]] if found and self._notation is CSV else []
            self._source.seek(end)
            rest = blocks(self._source, self._notation, line=lines + 1, begin=end)
            self._blocks = chain(header, rest)

    def parts(self, schema: pa.Schema, fit: Fit) -> Iterator[Part | None]:
        """The rows, read with the topic's types if the file itself has none, then fitted. None: the
        rows before it must not wait longer for more (`text_blocks.pieces`).

        `fit` gets the file's columns, so it has to refuse missing and surplus ones.
        """
        advice = "`raftlog topic describe` shows the columns."
        with self._readable(f"{self._format.value} of this topic", advice):
            match self._format:
                case InputFormat.JSON | InputFormat.KAFKA_JSON:
                    yield from self._json_parts(schema, fit)
                case InputFormat.CSV:
                    yield from self._csv_parts(schema, fit)
                case InputFormat.PARQUET:
                    yield from self._parquet_parts(schema, fit)
                case _:
                    assert_never(self._format)

    @contextmanager
    def _readable(self, wanted: str, advice: str) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InvalidOption(
                option="FILE",
                problem=f"names {self._name}, which cannot be read as {wanted}: {error}",
                advice=advice,
            ) from error

    # ------------------------------------------------------------ texts

    def _json_parts(self, schema: pa.Schema, fit: Fit) -> Iterator[Part | None]:
        from raftlog.cli.json_rows import json_rows, lines_max
        from raftlog.cli.kafka_rows import kafka_rows

        rows = kafka_rows if self._format is InputFormat.KAFKA_JSON else json_rows

        def read(text: bytes) -> pa.RecordBatch:
            return fit(self._own(rows(text, schema, base64=self._notes.base64)))

        for block in self._blocks:
            if block is None:
                yield None
                continue
            for piece in block.of_lines(lines_max(schema)):
                yield Part(read_located(piece, JSON_LINES, self._name, read), piece.end)

    def _own(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns without those that have names of metadata: `raftlog tail` writes them. No
        text can say that they are the user's own, so it is logged, once, that they are left out."""
        from raftlog.records.metadata import METADATA_FIELDS

        names = batch.schema.names
        left = [name for name in names if name in METADATA_FIELDS]
        if not left:
            return batch
        for name in left:
            if name not in self._left_out:
                self._left_out.add(name)
                say(f"column {name} is left out: the name is reserved for metadata")
        return batch.select([name for name in names if name not in left])

    def _csv_parts(self, schema: pa.Schema, fit: Fit) -> Iterator[Part | None]:
        from raftlog.cli.csv_rows import csv_header, csv_rows

        def read_header(text: bytes) -> list[str]:
            batch = csv_header(text, schema)
            fit(self._own(batch))  # the topic has these columns
            return list(batch.schema.names)

        def read(header: list[str], text: bytes) -> pa.RecordBatch:
            nulls = list(self._notes.nulls)
            rows = csv_rows(text, header, schema, nulls, base64=self._notes.base64)
            return fit(self._own(rows))

        header: list[str] = []
        for block in self._blocks:
            if block is None:
                yield None
                continue
            rest = block
            if not header:
                first, rest = _split(block)
                header = read_located(first, CSV, self._name, read_header)
            if rest.text.strip():
                rows = read_located(rest, CSV, self._name, partial(read, header))
                yield Part(rows, rest.end)

    # ------------------------------------------------------------ Parquet

    def _parquet_parts(self, schema: pa.Schema, fit: Fit) -> Iterator[Part]:
        from raftlog.cli.parquet_rows import parquet_batches

        file = self._parquet()
        assert self._whole is not None, "it was opened"
        counts = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
        starts = [0, *accumulate(counts)]
        first = bisect.bisect_right(starts, self._skipped) - 1
        rows = starts[first]
        groups = [*range(first, file.num_row_groups)]
        for batch in parquet_batches(self._whole, groups, PARQUET_ROWS):
            begin, rows = max(rows, self._skipped), rows + batch.num_rows
            if rows > begin:
                batch = batch.slice(batch.num_rows - (rows - begin))
                yield Part(_fitted(_in_utc(batch, schema), fit, self._name, begin), rows)

    def _parquet(self) -> pq.ParquetFile:
        import pyarrow.parquet as pq

        if self._whole is None:
            self._whole = self._source
            if not self._source.seekable():  # Parquet's index is at the end of the file
                self._whole = tempfile.TemporaryFile()  # noqa: SIM115  # it goes with this object
                shutil.copyfileobj(self._source, self._whole)
        file = pq.ParquetFile(self._whole)
        refuse_wide("it has", len(file.schema_arrow))
        return file


def _split(block: Block) -> tuple[Block, Block]:
    """The first record that is not blank, with the blanks before it, and what follows."""
    ends = CSV.ends(block.text)
    return block.split(next(end for end in ends if block.text[:end].strip()))


def _fitted(batch: pa.RecordBatch, fit: Fit, name: str, rows_before: int) -> pa.RecordBatch:
    """The fitted rows. An error about one of them names the first such row of the file, from 1."""
    try:
        return fit(batch)
    except SchemaMismatch as error:
        counts = range(batch.num_rows + 1)
        row = bisect.bisect_left(
            counts, True, key=lambda count: not _fits(batch.slice(0, count), fit)
        )
        if row == 0:
            raise  # about the columns
        raise located(error, f"row {rows_before + row} of {name}") from None


def _fits(batch: pa.RecordBatch, fit: Fit) -> bool:
    try:
        fit(batch)
    except SchemaMismatch:
        return False
    return True


def _in_utc(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with UTC as the zone of timestamps that have none, if the topic's have one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for number, field in enumerate(batch.schema):
        known = schema.get_field_index(field.name)
        if known < 0 or not pa.types.is_timestamp(field.type) or field.type.tz is not None:
            continue
        if pa.types.is_timestamp(schema.field(known).type) and schema.field(known).type.tz:
            times: Any = batch.column(number)
            column = pc.assume_timezone(times, "UTC")
            batch = batch.set_column(number, field.name, column)
    return batch

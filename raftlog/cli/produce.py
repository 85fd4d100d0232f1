"""`raftlog produce`: append the rows of a file or of standard input."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from enum import StrEnum
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli.output import Format, FormatOption, say, show_json
from raftlog.cli.session import session_of
from raftlog.errors import InvalidOption

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 4 * 1024 * 1024
"""Text is read in blocks of this; a longer line is an error."""


class InputFormat(StrEnum):
    """What `--format` takes."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


SUFFIXES = {
    ".json": InputFormat.JSON,
    ".jsonl": InputFormat.JSON,
    ".ndjson": InputFormat.JSON,
    ".csv": InputFormat.CSV,
    ".parquet": InputFormat.PARQUET,
}


def produce(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(show_default=False)],
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="- is standard input.")] = "-",
    format_: Annotated[
        InputFormat | None,
        typer.Option(
            "--format",
            help="Default: by the file's suffix; json on standard input.",
            show_default=False,
        ),
    ] = None,
    null: Annotated[
        list[str] | None,
        typer.Option(
            help="A CSV cell that means null, such as NA; may be repeated. An empty cell always "
            "does, unless it is quoted.",
            show_default=False,
        ),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Append rows to a topic: JSON lines, CSV with a header, or Parquet.

    The topic must exist and have the file's columns. Timestamps without a zone are UTC. All rows
    are durable on a majority when this returns; a resend over a failover doubles none, but a
    second run of this command appends the rows again.
    """
    started_s = time.monotonic()
    chosen = _format(file, format_)
    records = 0
    with session_of(context).connect() as client, client.producer(topic) as producer:
        from raftlog.client.arrow import arrow_schema

        schema = arrow_schema(producer.topic.schema)
        with _opened(file) as source:
            for batch in _batches(source, file, chosen, schema, null or []):
                producer.append(batch)
                records += batch.num_rows
        end = producer.flush()
    seconds = time.monotonic() - started_s
    if output is Format.JSON:
        show_json(
            {
                "topic": topic,
                "records": records,
                "end": end if records else None,
                "seconds": round(seconds, 3),
            }
        )
    else:
        where = f"; they end at offset {end}" if records else ""
        say(f"{records} records appended to {topic} in {seconds:.1f} s{where}")


def _format(file: str, given: InputFormat | None) -> InputFormat:
    if given is not None:
        return given
    if file == "-":
        return InputFormat.JSON
    found = SUFFIXES.get(Path(file).suffix.lower())
    if found is None:
        raise InvalidOption(
            option="--format",
            problem=f"is needed: the name {file!r} does not tell",
            advice="Give json, csv or parquet.",
        )
    return found


def _opened(file: str) -> BufferedReader:
    if file == "-":
        assert isinstance(sys.stdin.buffer, BufferedReader)
        return sys.stdin.buffer
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise InvalidOption(
            option="FILE",
            problem=f"names a file that cannot be read: {file} ({error.strerror})",
            advice="Give an existing file, or - for standard input.",
        ) from error


def _batches(
    source: BufferedReader, file: str, format_: InputFormat, schema: pa.Schema, nulls: list[str]
) -> Iterator[pa.RecordBatch]:
    """The file's rows with the topic's types where the file itself has none."""
    import pyarrow as pa

    try:
        match format_:
            case InputFormat.JSON:
                yield from _json_batches(source, schema)
            case InputFormat.CSV:
                yield from _csv_batches(source, schema, nulls)
            case InputFormat.PARQUET:
                yield from _parquet_batches(source)
    except pa.ArrowException as error:
        raise InvalidOption(
            option="FILE",
            problem=f"holds what cannot be read as {format_.value} of this topic: {error}",
            advice="`raftlog topic describe` tells the columns; rows before this point may be "
            "in the topic.",
        ) from error


def _json_batches(source: BufferedReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Arrow reads all of JSON's texts but dates: these are cast."""
    import pyarrow as pa
    import pyarrow.json as pj

    if not source.peek(1):
        return
    dates = [field.name for field in schema if pa.types.is_date(field.type)]
    reader = pj.open_json(
        source,
        read_options=pj.ReadOptions(block_size=BLOCK_BYTES),
        parse_options=pj.ParseOptions(
            explicit_schema=_with_texts(schema, dates), unexpected_field_behavior="infer"
        ),
    )
    for batch in reader:
        yield _from_texts(batch, schema, dates)


def _csv_batches(
    source: BufferedReader, schema: pa.Schema, nulls: list[str]
) -> Iterator[pa.RecordBatch]:
    """Arrow wants a zone in every timestamp of a zoned column: they are read as text and cast."""
    import pyarrow as pa
    import pyarrow.csv as pc

    if not source.peek(1):
        return
    times = [field.name for field in schema if pa.types.is_timestamp(field.type) and field.type.tz]
    reader = pc.open_csv(
        source,
        read_options=pc.ReadOptions(block_size=BLOCK_BYTES),
        convert_options=pc.ConvertOptions(
            column_types=_with_texts(schema, times),
            null_values=["", *nulls],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    for batch in reader:
        yield _from_texts(batch, schema, times)


def _parquet_batches(source: BufferedReader) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    if source.seekable():
        yield from pq.ParquetFile(source).iter_batches()
        return
    with tempfile.TemporaryFile() as copy:  # its index is at its end
        shutil.copyfileobj(source, copy)
        yield from pq.ParquetFile(copy).iter_batches()


def _with_texts(schema: pa.Schema, names: list[str]) -> pa.Schema:
    """The schema with the named columns as strings."""
    import pyarrow as pa

    fields = [pa.field(f.name, pa.string()) if f.name in names else f for f in schema]
    return pa.schema([field.with_nullable(True) for field in fields])


def _from_texts(batch: pa.RecordBatch, schema: pa.Schema, names: list[str]) -> pa.RecordBatch:
    """The batch with the named columns cast from text; a timestamp without a zone is UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in names:
        position = batch.schema.get_field_index(name)
        if position < 0:
            continue  # the producer says what is missing
        column, wanted = batch.column(position), schema.field(name).type
        if pa.types.is_timestamp(wanted):
            zoned = pc.match_substring_regex(column, r"(Z|[+-]\d\d:?(\d\d)?)$")
            column = pc.if_else(zoned, column, pc.binary_join_element_wise(column, "Z", ""))
        batch = batch.set_column(position, name, pc.cast(column, wanted))
    return batch

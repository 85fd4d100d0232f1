"""`raftlog produce`: append the rows of a file or of standard input."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli.output import Format, FormatOption, say, show_json
from raftlog.cli.row_files import SUFFIXES, InputFormat, read_batches
from raftlog.cli.session import ServersOption, session_of
from raftlog.cli.signals import interrupted_by
from raftlog.errors import InvalidOption, InvalidRequest, RaftlogError, TopicRecreated

if TYPE_CHECKING:
    import pyarrow as pa

    from raftlog.client.producer import Producer
    from raftlog.core.types import Offset


def produce(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    file: Annotated[str, typer.Argument(metavar="FILE", help="`-` is standard input.")] = "-",
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
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Append rows to a topic: JSON lines, CSV with a header, or Parquet.

    The topic must exist and have the file's columns. Timestamps without a zone are UTC. Only
    Parquet files can have maps, intervals and variants. All rows are durable on a majority when
    this returns. Lines from a pipe or a terminal are sent at the latest 1 second after they came,
    Parquet at its end. A resend over a failover duplicates none, but running this command again
    appends the rows again.
    """
    started_s = time.monotonic()
    chosen = _format(file, format_)
    with session_of(context, servers).connect() as client, client.producer(topic) as producer:
        from raftlog.records.arrow_types import arrow_schema
        from raftlog.records.conform import conform

        schema = producer.topic.schema
        with _opened(file) as source:
            batches = read_batches(
                source,
                file,
                chosen,
                arrow_schema(schema),
                null or [],
                lambda batch: conform(batch, schema, topic),
            )
            with interrupted_by(signal.SIGTERM, signal.SIGHUP):
                end = _append_all(producer, batches)
        records = producer.acknowledged
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
        where = f"; the last has offset {end - 1}" if records else ""
        say(f"{records} records appended to {topic} in {seconds:.1f} s{where}")


def _append_all(producer: Producer, batches: Iterator[pa.RecordBatch | None]) -> Offset:
    """Append all batches, and flush where None is among them. Returns the end offset; an error
    first prints what is in the topic."""
    topic, read = producer.topic.name, 0
    try:
        for batch in batches:
            if batch is None:
                producer.flush()
                continue
            read += batch.num_rows
            producer.append(batch)
        return producer.flush()
    except TopicRecreated:
        raise  # the topic is gone with all its records
    except (RaftlogError, KeyboardInterrupt) as error:
        end = _flushed(producer) if isinstance(error, InvalidRequest) else None
        count = producer.acknowledged
        if end is None:
            if read:
                say(f"{count} records, the first of {read} read so far, are known to be in {topic}")
                say("  Later ones may be too, now or soon: check with `raftlog tail`.")
                say("  To continue, remove from the file what is in, and run this again.")
        elif count:
            say(f"the first {count} records of the file are in {topic}, up to offset {end - 1}")
            say(
                "  To continue, correct the file, remove these records from it, and run this again."
            )
        else:
            say(f"no record of the file is in {topic}")
        raise


def _flushed(producer: Producer) -> Offset | None:
    """The offset after the rows before a refused one; None if not all are known to be in."""
    try:
        return producer.flush()
    except RaftlogError:
        return None  # report the refused row, not this


def _format(file: str, given: InputFormat | None) -> InputFormat:
    if given is not None:
        return given
    if file == "-":
        return InputFormat.JSON
    found = SUFFIXES.get(Path(file).suffix.lower())
    if found is None:
        raise InvalidOption(
            option="--format",
            problem=f"is needed: the name {file!r} does not tell the format",
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

"""`raftlog produce`: append the rows of a file or of standard input."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, NamedTuple

import typer

from raftlog.auth.rights import Right
from raftlog.cli.output import Format, FormatOption, say, show_json
from raftlog.cli.progress import progress
from raftlog.cli.resume import FileWriter
from raftlog.cli.row_files import SUFFIXES, InputFormat, Notes, Part, RowFile
from raftlog.cli.session import ServersOption, session_of
from raftlog.cli.signals import interrupted_by
from raftlog.cli.topic_settings import (
    ReplicasOption,
    RetentionBytesOption,
    RetentionRecordsOption,
    RetentionSOption,
    RetentionUnreadBytesOption,
    RetentionUnreadSOption,
    given_settings,
    say_if_kept,
)
from raftlog.client.wanting import wanting
from raftlog.core.types import Offset
from raftlog.errors import (
    Forbidden,
    InvalidOption,
    InvalidRequest,
    RaftlogError,
    TopicNotFound,
    TopicRecreated,
)
from raftlog.redaction import shown_location

if TYPE_CHECKING:
    from raftlog import LogClient, TopicInfo
    from raftlog.client.producer import Producer


Show = Callable[[int, int], object]
"""Shows how far the file is: the last `Part.end`, and the records up to there."""

InputFormatOption = Annotated[
    InputFormat | None,
    typer.Option(
        "--format",
        help="Default: by the file's suffix; json on standard input. kafka-json: Kafka's records "
        "as kcat -J or rpk print them.",
        show_default=False,
    ),
]
NullOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A CSV cell that means null, such as NA; may be repeated. An empty cell always does, "
        "unless it is quoted.",
        show_default=False,
    ),
]
Base64Option = Annotated[
    bool,
    typer.Option(
        "--base64",
        help="Each binary value in JSON or CSV is base64, as Spark's to_json writes it. Else only "
        "one that begins with `base64:`; other text stands for its UTF-8.",
    ),
]
CreateOption = Annotated[
    bool,
    typer.Option(
        "--create",
        help="Create the topic if it does not exist, with the columns of the Parquet file, or "
        "those that the first 4 MiB of the text look like.",
    ),
]
ResumeOption = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Append each row of the file once, however often this is run: go on where the last "
        "run with --resume got to. Not for pipes.",
    ),
]


def produce(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    file: Annotated[str, typer.Argument(metavar="FILE", help="`-` is standard input.")] = "-",
    format_: InputFormatOption = None,
    null: NullOption = None,
    base64: Base64Option = False,
    resume: ResumeOption = False,
    create: CreateOption = False,
    retention_s: RetentionSOption = None,
    retention_bytes: RetentionBytesOption = None,
    retention_records: RetentionRecordsOption = None,
    retention_unread_s: RetentionUnreadSOption = None,
    retention_unread_bytes: RetentionUnreadBytesOption = None,
    replicas: ReplicasOption = None,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Append rows to a topic: JSON lines, CSV with a header, Parquet, or Kafka's records as JSON.

    The topic must have the file's columns. One that the file lacks is null in its rows, if it may
    be null. Timestamps without a zone are UTC. In JSON a map is an object; only Parquet files can
    have variants. All rows are durable on a majority when this returns. Lines from a pipe or a
    terminal are sent at the latest 1 second after they came, Parquet at its end. A resend over a
    failover duplicates none, but running this command again appends the rows again, except with
    --resume.

    The options for retention and replicas are those of `raftlog topic create`, and need --create.
    """
    started_s = time.monotonic()
    notes = Notes(nulls=tuple(null or ()), base64=base64)
    settings = given_settings(
        retention_s, retention_bytes, retention_records, retention_unread_s, retention_unread_bytes
    )
    made = _made(settings, replicas, create=create)
    if resume:
        _check_resumable(file)
    chosen = _format(file, format_)
    with session_of(context, servers).connect() as client, _opened(file) as source:
        rows = RowFile(source, file, chosen, notes)
        info = _topic(client, topic, rows, made)
        total = None if file == "-" else rows.total()
        with progress(file, total) as show, interrupted_by(signal.SIGTERM, signal.SIGHUP):
            if resume:
                done = _resume(client, info, Path(file), source, rows, show)
            else:
                done = _append(client, info, rows, show)
    _tell(topic, done, time.monotonic() - started_s, output)


class _Done(NamedTuple):
    """What a run has appended."""

    records: int
    end: Offset | None
    """The offset after the last of them."""
    before: int | None = None
    """How many records earlier runs had appended, if that is known."""


def _tell(topic: str, done: _Done, seconds: float, output: Format) -> None:
    end = done.end if done.records else None
    if output is Format.JSON:
        shown = {"topic": topic, "records": done.records, "end": end, "seconds": round(seconds, 3)}
        show_json(shown | ({} if done.before is None else {"records_before": done.before}))
        return
    where = "" if end is None else f"; the last has offset {end - 1}"
    before = f"; {done.before} were there before" if done.before else ""
    noun = "record" if done.records == 1 else "records"
    say(f"{done.records} {noun} appended to {topic} in {seconds:.1f} s{where}{before}")


class _Made(NamedTuple):
    """How a topic is created."""

    settings: dict[str, int | None]
    replicas: int | None


def _made(settings: dict[str, int | None], replicas: int | None, *, create: bool) -> _Made | None:
    if create:
        return _Made(settings, replicas)
    if settings or replicas is not None:
        raise InvalidOption(
            option="--create",
            problem="is needed by the options for a topic's retention and replicas",
            advice="`raftlog topic config` changes the settings of a topic that exists.",
        )
    return None


def _topic(client: LogClient, name: str, rows: RowFile, made: _Made | None) -> TopicInfo:
    """The topic, which is created if it is missing and `made` says how."""
    try:
        with wanting(Right.WRITE):
            info = client.describe_topic(name)
    except TopicNotFound:
        if made is None:
            raise
        info = client.create_topic(
            name,
            rows.schema(),
            if_not_exists=True,
            settings=made.settings,
            replicas=made.replicas,
        )
        from raftlog.records.schema_text import schema_ddl

        say(f"created {name} with {schema_ddl(info.schema)}")
    if made is not None:
        say_if_kept(info, made.settings)
    return info


def _parts(rows: RowFile, topic: TopicInfo) -> Iterator[Part | None]:
    """The file's rows in the topic's types."""
    from raftlog.records.arrow_types import arrow_schema
    from raftlog.records.conform import conform

    schema = topic.schema
    return rows.parts(arrow_schema(schema), lambda batch: conform(batch, schema, topic.name))


def _append(client: LogClient, topic: TopicInfo, rows: RowFile, show: Show) -> _Done:
    """Append all rows, and flush where more of them may be long in coming."""
    with client.producer(topic) as producer:
        try:
            read = 0
            for part in _parts(rows, topic):
                if part is None:
                    producer.flush()
                    continue
                read += part.batch.num_rows
                producer.append(part.batch)
                show(part.end, read)
            end = producer.flush()
        except TopicRecreated:
            raise  # the topic is gone with all its records
        except (RaftlogError, KeyboardInterrupt) as error:
            _say_what_is_in(producer, read, error)
            _say_if_altered(client, topic, error)
            raise
        return _Done(producer.acknowledged, end)


def _say_what_is_in(producer: Producer, read: int, error: BaseException) -> None:
    topic = producer.topic.name
    end = _flushed(producer) if isinstance(error, InvalidRequest) else None
    count = producer.acknowledged
    if end is not None and count < read:
        say(f"the first {read} records of the file are in {topic}, but {read - count} too large")
        say("  To continue, make those smaller, remove the others of these, and run this again.")
    elif end is None:
        if read:
            say(f"{count} of the {read} records read so far are confirmed to be in {topic}")
        if count or (read and not isinstance(error, Forbidden)):
            say("  Later ones may have been written, too: check with `raftlog tail`.")
            say("  To continue, remove from the file what is in, and run this again.")
    elif count:
        say(f"the first {count} records of the file are in {topic}, up to offset {end - 1}")
        say("  To continue, correct the file, remove these records from it, and run this again.")
    else:
        say(f"no record of the file is in {topic}")


def _say_if_altered(client: LogClient, topic: TopicInfo, error: BaseException) -> None:
    """Rows are judged by the columns that the topic had when this began."""
    if not isinstance(error, InvalidRequest):
        return
    with suppress(RaftlogError):
        if client.describe_topic(topic.name).schema != topic.schema:
            say("  The topic's columns were altered meanwhile: the file may be right as it is.")


def _resume(
    client: LogClient, topic: TopicInfo, file: Path, source: BinaryIO, rows: RowFile, show: Show
) -> _Done:
    """Append the rows that no earlier run has appended."""
    writer = FileWriter(client, topic, file, source, whole=rows.is_whole)
    start = writer.begin()
    rows.skip(start.end, writer.lines)
    show(start.end, start.records)
    end: Offset | None = None
    try:
        for part in _parts(rows, topic):
            assert part is not None, "it is no pipe"
            end = writer.append(part)
            show(part.end, writer.place.records)
    except TopicRecreated:
        raise  # the topic is gone with all its records
    except (RaftlogError, KeyboardInterrupt) as error:
        say(f"the first {writer.place.records} records of the file are in {topic.name}, each once")
        say("  To continue, run this again. What follows in the file may be corrected before.")
        _say_if_altered(client, topic, error)
        raise
    return _Done(writer.place.records - start.records, end, start.records)


def _flushed(producer: Producer) -> Offset | None:
    """The offset after the rows before a refused one; None if not all are known to be in."""
    try:
        return producer.flush()
    except RaftlogError:
        return None  # report the refused row, not this


def _check_resumable(file: str) -> None:
    if not Path(file).is_file():
        raise InvalidOption(
            option="--resume",
            problem=f"needs a file that can be read again, and {shown_location(file)} is none",
            advice="Save what comes to a file, and append that.",
        )


def _format(file: str, given: InputFormat | None) -> InputFormat:
    if given is not None:
        return given
    if file == "-":
        return InputFormat.JSON
    found = SUFFIXES.get(Path(file).suffix.lower())
    if found is None:
        raise InvalidOption(
            option="--format",
            problem=f"is needed: the name {shown_location(file)!r} does not tell the format",
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
            problem=f"names a file that cannot be read: {shown_location(file)} ({error.strerror})",
            advice="Give an existing file, or - for standard input.",
        ) from error

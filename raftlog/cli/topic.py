"""`raftlog topic`: create, list, describe, alter, replicas, config, trim, delete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.auth.rights import Right
from raftlog.cli.cluster import TIMEOUT_S, DryRunOption, TimeoutOption, follow, only_shown
from raftlog.cli.output import (
    Format,
    FormatOption,
    confirm,
    exit_if_unknown,
    held_line,
    say,
    show_json,
    show_problems,
    show_table,
    time_text,
)
from raftlog.cli.session import ServersOption, session_of
from raftlog.cli.times import OFFSET, time_us
from raftlog.cli.topic_settings import (
    ReplicasOption,
    RetentionBytesOption,
    RetentionRecordsOption,
    RetentionSOption,
    RetentionUnreadBytesOption,
    RetentionUnreadSOption,
    given_settings,
    say_if_kept,
    setting_text,
    setting_value,
)
from raftlog.client.wanting import wanting
from raftlog.errors import InvalidOption
from raftlog.machines.settings import (
    SETTINGS,
    value_of,
)

if TYPE_CHECKING:
    from raftlog import LogClient, ReadableRange, ReplicaWatermark, TopicInfo, Watermark

app = typer.Typer(
    help="Create, list, describe, configure, trim and delete topics.", no_args_is_help=True
)

NameArgument = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
DropNotNullOption = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Let a column be null; repeatable.", show_default=False),
]


@app.command()
def create(
    context: typer.Context,
    name: NameArgument,
    schema: Annotated[
        str | None,
        typer.Option(
            help="Columns as Spark DDL, such as 'id bigint not null, at timestamp', or as Spark "
            "JSON.",
            show_default=False,
        ),
    ] = None,
    schema_file: Annotated[
        Path | None, typer.Option(help="A file with the same.", show_default=False)
    ] = None,
    if_not_exists: Annotated[
        bool,
        typer.Option(
            "--if-not-exists", help="No error if it exists, whatever its schema and settings."
        ),
    ] = False,
    retention_s: RetentionSOption = None,
    retention_bytes: RetentionBytesOption = None,
    retention_records: RetentionRecordsOption = None,
    retention_unread_s: RetentionUnreadSOption = None,
    retention_unread_bytes: RetentionUnreadBytesOption = None,
    replicas: ReplicasOption = None,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Create a topic. It is durable on a majority of nodes when this returns.

    Without a retention its records stay until they are trimmed: `raftlog topic config`.
    """
    text = _schema_text(schema, schema_file)
    settings = given_settings(
        retention_s, retention_bytes, retention_records, retention_unread_s, retention_unread_bytes
    )
    with session_of(context, servers).connect() as client:
        topic = client.create_topic(
            name, text, if_not_exists=if_not_exists, settings=settings, replicas=replicas
        )
        _show_topic(topic, output)
        say_if_kept(topic, settings)


@app.command()
def replicas(
    context: typer.Context,
    name: NameArgument,
    count: Annotated[int, typer.Argument(min=1, max=7, metavar="REPLICAS", show_default=False)],
    dry_run: DryRunOption = False,
    timeout_s: TimeoutOption = TIMEOUT_S,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Put a topic on more or fewer nodes. Its records stay readable meanwhile.

    If this command is ended, what has begun is finished by the nodes.
    """
    with session_of(context, servers).connect() as client:
        group = client.describe_topic(name).group
        moves = client.members.plan_replicas(group, count, tell=say)
        if not moves:
            say(f"{name} is on {count} nodes already")
        if not only_shown(moves, output, dry_run=dry_run):
            follow(client.members.carry_out(moves, timeout_s=timeout_s, tell=say), output)


@app.command()
def config(
    context: typer.Context,
    name: NameArgument,
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=VALUE]...",
            help="retention_s=7d, retention_bytes=10GiB, retention_records=1000000, "
            "retention_unread_s=14d, retention_unread_bytes=50GiB; none: the default",
            show_default=False,
        ),
    ] = None,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show or change a topic's settings: how long, and how much of it, records are kept.

    The oldest records are removed, permanently, while the topic has more than a setting keeps, some
    time after (topic.retention_check_s): as soon as they are a whole stored batch, or a 64th of its
    records. Their space comes back with the topic's later snapshots.

    With retention_unread_s or retention_unread_bytes a record that a reader group has not read yet
    stays longer, until it is beyond one of these: `raftlog lag` shows the groups.
    """
    settings = dict(_change(text) for text in changes or ())
    with session_of(context, servers).connect() as client:
        with wanting(Right.ALTER):
            found = client.describe_topic(name)
        topic = client.alter_topic(found, settings)
    if output is Format.JSON:
        show_json({"topic": topic.name, "settings": _settings(topic)})
    else:
        rows = [[name, setting_text(name, value)] for name, value in _settings(topic).items()]
        show_table(["SETTING", "VALUE"], rows)


@app.command()
def alter(
    context: typer.Context,
    name: NameArgument,
    add: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="New columns, such as 'gate string'; null in the present records; repeatable.",
            show_default=False,
        ),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="COLUMNS",
            help="Wider types, such as 'delay bigint', or double for float; repeatable.",
            show_default=False,
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="Rename a column; repeatable.", show_default=False),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Drop a column; repeatable. Its values cannot be read any more.",
            show_default=False,
        ),
    ] = None,
    drop_not_null: DropNotNullOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Change a topic's columns, all of these or none. No record is rewritten.

    What was written before is read with the columns as they are now. Writers that do not know a
    column which was added go on; it is null in their records. Running reads keep the columns that
    they began with.
    """
    renamed = dict(_rename(text) for text in rename or ())
    if not (add or types or renamed or drop or drop_not_null):
        raise InvalidOption(
            option="--add",
            problem="and the options like it are missing",
            advice="Say what to change, for example: --add 'gate string'",
        )
    with session_of(context, servers).connect() as client:
        with wanting(Right.ALTER):
            topic = client.describe_topic(name)
        if drop and not yes:
            confirm(f"Drop {', '.join(drop)} of topic {name!r}? It cannot be read any more then.")
        topic = client.alter_schema(
            topic,
            add=", ".join(add) if add else None,
            types=", ".join(types) if types else None,
            rename=renamed,
            drop=drop or (),
            drop_not_null=drop_not_null or (),
        )
    _show_topic(topic, output)
    if add or any("<" in each for each in types or ()):  # a wider struct has more fields
        say(_ADDED)


_ADDED = (
    "Queries that run now go on with the columns that they began with: what they copy from this "
    "topic has no values in new columns and fields, for good. Restart them before such values are "
    "written."
)


def _rename(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals:
        raise InvalidOption(
            option="--rename", problem=f"is {text!r}", advice="Write OLD=NEW, such as gate=stand."
        )
    return old, new


def _change(text: str) -> tuple[str, int | None]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidOption(
            option=name, problem="has no value", advice="Write NAME=VALUE, such as retention_s=7d."
        )
    return name, setting_value(name, value)


def _settings(topic: TopicInfo) -> dict[str, int | None]:
    """All settings of the topic; None: the default."""
    return {name: value_of(topic.settings, name) or None for name in SETTINGS}


def _schema_text(schema: str | None, file: Path | None) -> str:
    if (schema is None) == (file is None):
        raise InvalidOption(
            option="--schema",
            problem="or --schema-file is needed, and not both",
            advice="For example: --schema 'id bigint not null, text string'",
        )
    if schema is not None:
        return schema
    assert file is not None
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOption(
            option="--schema-file",
            problem=f"names a file that cannot be read: {file} ({error})",
            advice="Give a text file with Spark DDL or JSON.",
        ) from error


@app.command("list")
def list_topics(
    context: typer.Context, servers: ServersOption = None, output: FormatOption = Format.TABLE
) -> None:
    """All topics, by name, with the number of records that can be read ("-": no node tells)."""
    from raftlog.client.watermark import watermark_of

    with session_of(context, servers).connect() as client:
        topics = client.list_topics()
        views = client.views() if topics else []
    records = {topic.name: _records(watermark_of(topic, views)) for topic in topics}
    if output is Format.JSON:
        show_json([_as_object(topic) | {"records": records[topic.name]} for topic in topics])
        return
    show_table(
        ["TOPIC", "RECORDS", "COLUMNS", "CREATED", "GROUP", "INCARNATION"],
        [
            [
                t.name,
                records[t.name],
                len(t.schema.fields),
                time_text(t.created_us),
                t.group,
                t.incarnation,
            ]
            for t in topics
        ],
    )


def _records(mark: Watermark) -> int | None:
    """How many records can be read; None if no node has answered for the topic."""
    return mark.high_water_mark - mark.log_start_offset if mark.is_known else None


@app.command()
def describe(
    context: typer.Context,
    name: NameArgument,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """A topic's columns, identity, offsets and bytes.

    Its records have the offsets from the log start on, below the high-water mark. Staged bytes
    belong to batches that are still open. Dead bytes were written but will never be read: of
    batches that were aborted, lost or expired, and of writes that were refused. Records held are
    kept by retention only because a reader group has not read them yet.

    For each replica: the entries and bytes of its log; the entry of its newest snapshot, after
    which a restart replays; up to which offset records are in history files; and the snapshot
    points that it has not compacted yet. If these keep growing, compaction cannot follow.

    Exits with 3 if no replica answers that has the topic's records: its offsets are unknown.
    """
    with session_of(context, servers).connect() as client:
        topic = client.describe_topic(name)
        mark = client.watermark(topic)
    _show_topic(topic, output, mark)
    exit_if_unknown([mark])


@app.command()
def trim(
    context: typer.Context,
    name: NameArgument,
    before: Annotated[
        str,
        typer.Option(
            metavar="OFFSET|TIME",
            help="The first offset to keep (digits), or a time: ISO 8601, in UTC unless it says "
            "otherwise, such as 2026-01-31 or 2026-01-31T12:00+01:00, or @SECONDS since 1970 UTC.",
            show_default=False,
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Remove a topic's oldest records, permanently: those below an offset, or before a time.

    The other records keep their offsets, and what writes to the topic continues. A streaming query
    that has not read the removed records yet fails with OffsetTrimmed; with failOnDataLoss=false it
    skips them.
    """
    with session_of(context, servers).connect() as client:
        with wanting(Right.DELETE):
            topic = client.describe_topic(name)
        offset = _first_kept(client, topic, before)
        held = client.read_high_water_mark(topic)
        _check_not_above_end(offset, name, held)
        start = held.log_start_offset
        count = max(0, offset - start)
        if count and not yes:
            confirm(trim_question(name, held, offset))
        if count:
            start = client.trim(topic, before=offset)
    if output is Format.JSON:
        show_json({"topic": name, "removed_records": count, "log_start_offset": start})
    else:
        say(trim_outcome(name, held, offset, start))


def trim_question(name: str, held: ReadableRange, offset: int) -> str:
    """What is asked before the records below `offset` are removed from a topic with these."""
    removed = f"[{held.log_start_offset}, {offset})"
    if offset >= held.high_water_mark:
        return (
            f"Remove all records of topic {name!r}, {removed}, permanently? "
            "It holds no others and will be empty."
        )
    return (
        f"Remove the records {removed} of topic {name!r}, permanently? "
        f"[{offset}, {held.high_water_mark}) stays."
    )


def trim_outcome(name: str, held: ReadableRange, offset: int, start: int) -> str:
    """What is said after it; the topic begins at `start` now."""
    removed = f"[{held.log_start_offset}, {offset})"
    if held.log_start_offset == held.high_water_mark:
        what = f"nothing to remove from topic {name}, which is empty"
    elif offset <= held.log_start_offset:
        what = f"nothing to remove from topic {name}"
    elif offset >= held.high_water_mark:
        what = f"removed {removed} of topic {name}, all the records that it had"
    else:
        what = f"removed {removed} of topic {name}"
    return f"{what}; it begins at offset {start}"


def _first_kept(client: LogClient, topic: TopicInfo, before: str) -> int:
    """The offset that `--before` means."""
    if OFFSET.fullmatch(before):
        return int(before)
    return client.find_offset(topic, time_us("--before", before, besides="an offset"))


def _check_not_above_end(offset: int, name: str, held: ReadableRange) -> None:
    """Only a number can be: a time was looked up before the mark was read."""
    if offset > held.high_water_mark:
        raise InvalidOption(
            option="--before",
            problem=f"is {offset}, above the end of topic {name!r}",
            advice=f"It holds [{held.log_start_offset}, {held.high_water_mark}). A number of "
            "seconds since 1970 is written @SECONDS.",
        )


@app.command()
def delete(
    context: typer.Context,
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Delete a topic and all its records, permanently."""
    with session_of(context, servers).connect() as client:
        with wanting(Right.DELETE):
            topic = client.describe_topic(name)
        if not yes:
            confirm(f"Delete topic {name!r} and all its records?")
        deleted = client.delete_topic(topic.name)
    if output is Format.JSON:
        show_json(_as_object(deleted))
    else:
        say(f"deleted topic {deleted.name} (incarnation {deleted.incarnation})")


def _show_topic(topic: TopicInfo, output: Format, mark: Watermark | None = None) -> None:
    names = ("log_start_offset", "high_water_mark", "staged_bytes", "dead_bytes", "records_held")
    sizes = {name: getattr(mark, name) for name in names} if mark and mark.is_known else {}
    if output is Format.JSON:
        replicas = {"replicas": mark.replicas} if mark else {}
        held_for = {"held_for": mark.held_for or None} if sizes and mark else {}
        show_json({**_as_object(topic), **sizes, **held_for, **replicas})
        return
    from raftlog.records.schema_text import schema_ddl

    show_table(
        ["TOPIC", topic.name],
        [
            ["incarnation", topic.incarnation],
            ["created", time_text(topic.created_us)],
            ["group", str(topic.group)],
            ["voters", ", ".join(map(str, topic.voters))],
            ["schema", f"version {topic.schema.version}: {schema_ddl(topic.schema)}"],
            *([name, setting_text(name, value)] for name, value in _settings(topic).items()),
            *([name.replace("_", " "), str(size)] for name, size in sizes.items()),
        ],
    )
    if mark is not None and mark.records_held:
        say(held_line(topic.name, mark.records_held, mark.held_for))
    if mark is not None:
        show_table(_STORED, [_stored(replica) for replica in mark.replicas])
        show_problems(mark)


_STORED = ("NODE", "LOG ENTRIES", "LOG BYTES", "SNAPSHOT AT", "HISTORY UP TO", "HISTORY BYTES",
           "POINTS BEHIND", "SCRUBBED", "DAMAGE", "HEALED")  # fmt: skip


def _stored(replica: ReplicaWatermark) -> list[object]:
    """What one replica has on disk."""
    if replica.problem:
        return [replica.node, *[None] * (len(_STORED) - 1)]
    last = max(replica.applied_index, replica.log_start_index - 1)
    return [
        replica.node,
        f"{replica.log_start_index} to {last}" if last >= replica.log_start_index else "none",
        replica.log_bytes,
        replica.snapshot_index,
        replica.history_end,
        replica.history_bytes,
        replica.points_behind,
        time_text(replica.scrubbed_us),
        replica.damage_found,
        replica.damage_healed,
    ]


def _as_object(topic: TopicInfo) -> dict[str, object]:
    from raftlog.records.schema_text import schema_ddl

    return {
        "topic": topic.name,
        "incarnation": topic.incarnation,
        "created": time_text(topic.created_us),
        "group": topic.group,
        "voters": topic.voters,
        "schema_version": topic.schema.version,
        "schema": schema_ddl(topic.schema),
        "settings": _settings(topic),
    }

"""`raftlog topic`: create, list, describe, delete."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli.output import Format, FormatOption, say, show_json, show_table
from raftlog.cli.session import ServersOption, session_of
from raftlog.errors import InvalidOption

if TYPE_CHECKING:
    from raftlog import TopicInfo, Watermark

app = typer.Typer(help="Create, list, describe and delete topics.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]


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
        bool, typer.Option("--if-not-exists", help="No error if it exists, whatever its schema.")
    ] = False,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Create a topic. It is durable on a majority of nodes when this returns."""
    text = _schema_text(schema, schema_file)
    with session_of(context, servers).connect() as client:
        _show_topic(client.create_topic(name, text, if_not_exists=if_not_exists), output)


def _schema_text(schema: str | None, file: Path | None) -> str:
    if (schema is None) == (file is None):
        raise InvalidOption(
            option="--schema",
            problem="and --schema-file: give exactly one of them",
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
    """All topics, by name."""
    with session_of(context, servers).connect() as client:
        topics = client.list_topics()
    if output is Format.JSON:
        show_json([_as_object(topic) for topic in topics])
        return
    show_table(
        ["TOPIC", "COLUMNS", "CREATED", "GROUP", "INCARNATION"],
        [[t.name, len(t.schema.fields), _created(t), t.group, t.incarnation] for t in topics],
    )


@app.command()
def describe(
    context: typer.Context,
    name: NameArgument,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """A topic's columns, identity and bytes.

    Staged bytes belong to batches that are still open. Dead bytes are on disk but will never be
    read: of batches that were aborted, lost or expired, and of writes that were refused. Deleting
    the topic removes them.
    """
    with session_of(context, servers).connect() as client:
        topic = client.describe_topic(name)
        mark = client.watermark(topic)
    _show_topic(topic, output, mark)


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
        topic = client.describe_topic(name)
        if not yes:
            question = f"Delete topic {name!r} and all its records? (--yes: do not ask)"
            typer.confirm(question, abort=True, err=True)
        deleted = client.delete_topic(topic.name)
    if output is Format.JSON:
        show_json(_as_object(deleted))
    else:
        say(f"deleted topic {deleted.name} (incarnation {deleted.incarnation})")


def _show_topic(topic: TopicInfo, output: Format, mark: Watermark | None = None) -> None:
    sizes = {"staged_bytes": mark.staged_bytes, "dead_bytes": mark.dead_bytes} if mark else {}
    if output is Format.JSON:
        show_json({**_as_object(topic), **sizes})
        return
    from raftlog.records.schema_text import schema_ddl

    show_table(
        ["TOPIC", topic.name],
        [
            ["incarnation", topic.incarnation],
            ["created", _created(topic)],
            ["group", str(topic.group)],
            ["voters", ", ".join(map(str, topic.voters))],
            ["schema", f"version {topic.schema.version}: {schema_ddl(topic.schema)}"],
            *([name.replace("_", " "), str(size)] for name, size in sizes.items()),
        ],
    )


def _as_object(topic: TopicInfo) -> dict[str, object]:
    from raftlog.records.schema_text import schema_ddl

    return {
        "topic": topic.name,
        "incarnation": topic.incarnation,
        "created": _created(topic),
        "group": topic.group,
        "voters": topic.voters,
        "schema_version": topic.schema.version,
        "schema": schema_ddl(topic.schema),
    }


def _created(topic: TopicInfo) -> str:
    moment = datetime.datetime.fromtimestamp(topic.created_us / 1_000_000, tz=datetime.UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")

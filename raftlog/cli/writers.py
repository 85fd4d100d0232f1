"""`raftlog writers`: the writers that a topic remembers, and how to make it forget one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli.output import (
    Format,
    FormatOption,
    confirm,
    say,
    show_json,
    show_table,
    time_text,
)
from raftlog.cli.session import ServersOption, session_of
from raftlog.cli.topic import NameArgument

if TYPE_CHECKING:
    from raftlog import WriterView

app = typer.Typer(
    help="The writers that a topic remembers for exactly-once: list, hand over, remove.",
    no_args_is_help=True,
)

COLUMNS = (
    "WRITER", "KIND", "QUERY ID", "LAST EPOCH", "RUN", "STAGED BYTES", "LAST ACTIVITY",
)  # fmt: skip


@app.command("list")
def list_writers(
    context: typer.Context,
    name: NameArgument,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """The writers that a topic remembers, by name.

    KIND is `stream`, `named batch` (txnAppId) or `transient`: a batch write without txnAppId, or a
    writer that never committed and has nothing open. Only transient ones are removed automatically.
    """
    with session_of(context, servers).connect() as client:
        writers = list(client.writers.scan(name))
    if output is Format.JSON:
        show_json([_as_object(writer) for writer in writers])
        return
    rows = [
        [w.writer, w.kind, w.query_id, _epoch(w), w.run, w.staged_bytes, time_text(w.active_us)]
        for w in writers
    ]
    show_table(COLUMNS, rows)


@app.command()
def remove(
    context: typer.Context,
    name: NameArgument,
    writer: Annotated[str, typer.Argument(metavar="WRITER", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Make a topic forget a writer and drop what it has staged. Its records stay.

    For writers that are gone for good. A streaming query that still runs, or is started again from
    its checkpoint, fails with UnknownWriter (createTopic=always lets it continue). A batch written
    again under a removed txnAppId is not recognised, and its rows are duplicated.
    """
    with session_of(context, servers).connect() as client:
        found = client.writers.describe(name, writer)
        if not yes:
            confirm(_question(name, found))
        removed = client.writers.remove(name, writer)
    if output is Format.JSON:
        show_json(_as_object(removed))
    else:
        say(f"removed {removed.kind} writer {removed.writer} of topic {name}")


@app.command()
def chown(
    context: typer.Context,
    name: NameArgument,
    writer: Annotated[str, typer.Argument(metavar="WRITER", show_default=False)],
    principal: Annotated[
        str,
        typer.Argument(
            metavar="PRINCIPAL",
            help="token:NAME, cert:NAME or oidc:ALIAS:SUBJECT.",
            show_default=False,
        ),
    ],
    servers: ServersOption = None,
) -> None:
    """Give a writer to another principal, for example after a job got a token of another name.

    Only the new owner may continue it from then on. It needs the right admin on the topic.
    """
    with session_of(context, servers).connect() as client:
        former = client.writers.chown(name, writer, principal)
    before = f", and no longer to {former}" if former not in ("", principal) else ""
    say(f"writer {writer} of topic {name} belongs to {principal}{before}")


def _question(topic: str, writer: WriterView) -> str:
    consequence = {
        "stream": "Its query, if it still runs or is started again, fails with UnknownWriter.",
        "named batch": "A batch written again under this txnAppId is not recognised, and its rows "
        "are duplicated.",
    }.get(writer.kind, "")
    if writer.staged_bytes:
        consequence += f" {writer.staged_bytes} staged bytes are dropped."
    return (
        f"Remove {writer.kind} writer {writer.writer!r} of topic {topic!r}? {consequence}".rstrip()
    )


def _as_object(writer: WriterView) -> dict[str, object]:
    return {
        "writer": writer.writer,
        "kind": writer.kind,
        "owner": writer.owner or None,
        "query_id": writer.query_id or None,
        "last_epoch": _epoch(writer),
        "last_start": writer.last_start if writer.last_epoch >= 0 else None,
        "last_end": writer.last_end if writer.last_epoch >= 0 else None,
        "plan": writer.plan or None,
        "stream": writer.stream or None,
        "stream_batch": writer.stream_batch if writer.stream else None,
        "run": writer.run,
        "open_epochs": writer.open_epochs,
        "staged_bytes": writer.staged_bytes,
        "last_activity": time_text(writer.active_us),
    }


def _epoch(writer: WriterView) -> int | None:
    return writer.last_epoch if writer.last_epoch >= 0 else None

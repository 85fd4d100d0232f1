"""`raftlog kv`: get, put, cas, delete, scan and watch keys of the cluster's key-value store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli.output import (
    Format,
    FormatOption,
    confirm,
    plain,
    say,
    show_bytes,
    show_json,
    show_line,
    show_table,
)
from raftlog.cli.session import ServersOption, session_of
from raftlog.errors import ExitCode, VersionConflict
from raftlog.machines.limits import INTEGER_MAX

if TYPE_CHECKING:
    from raftlog import KeyChange, KeyValue, KeyValueStore

app = typer.Typer(
    help="Small values by key: read, written and watched, in a store of the cluster's own.",
    no_args_is_help=True,
)


class Reads(StrEnum):
    """The values of --consistency."""

    STRONG = "strong"
    SEQUENTIAL = "sequential"
    TWO_STEP = "two-step"


VERSION_MAX = INTEGER_MAX - 1
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", show_default=False)]
ValueArgument = Annotated[
    str,
    typer.Argument(
        metavar="VALUE",
        help="Stored as UTF-8. `-`: standard input, byte for byte.",
        show_default=False,
    ),
]
ExpectedOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=VERSION_MAX,
        help="Only if the key has this version; 0: only if it is absent.",
        show_default=False,
    ),
]
ReadsOption = Annotated[
    Reads,
    typer.Option(
        "--consistency",
        help="`strong`: the leader reads. `sequential`: any node, as far as it is. `two-step`: the "
        "leader says how far, any node reads there.",
    ),
]
AtOption = Annotated[
    int | None,
    typer.Option(min=1, help="The state after this entry of the log.", show_default=False),
]


@app.command()
def get(
    context: typer.Context,
    key: KeyArgument,
    consistency: ReadsOption = Reads.STRONG,
    at: AtOption = None,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Print a key's value, byte for byte; on a terminal with control characters escaped. Exits with
    4 if the key is absent.

    With -o json an object with key, version, value and owner: the principal that wrote it, which
    admins see. The store keeps the states of its last
    10,000 changes for --at.
    """
    with session_of(context, servers).connect() as client:
        found = client.kv.get(key, consistency=consistency.value, at=at)
    if found is None:
        say(f"key {key!r} is absent")
        raise typer.Exit(int(ExitCode.NOT_FOUND))
    if output is Format.JSON:
        show_json(_as_object(found))
    else:
        show_bytes(found.value)


@app.command()
def put(
    context: typer.Context,
    key: KeyArgument,
    value: ValueArgument,
    servers: ServersOption = None,
) -> None:
    """Write a value and print the key's new version. The first write makes the store."""
    _write(context, servers, key, value, None)


@app.command()
def cas(
    context: typer.Context,
    key: KeyArgument,
    expected: Annotated[
        int,
        typer.Argument(
            metavar="VERSION",
            min=0,
            max=VERSION_MAX,
            help="0: the key must be absent.",
            show_default=False,
        ),
    ],
    value: ValueArgument,
    servers: ServersOption = None,
) -> None:
    """Write a value if the key has this version (compare and set), and print its new one.

    Exits with 7 if the key has another version.
    """
    _write(context, servers, key, value, expected)


def _write(
    context: typer.Context, servers: str | None, key: str, value: str, expected: int | None
) -> None:
    content = sys.stdin.buffer.read() if value == "-" else os.fsencode(value)
    with session_of(context, servers).connect() as client:
        show_line(str(client.kv.put(key, content, expected=expected)))


@app.command()
def delete(
    context: typer.Context,
    key: KeyArgument,
    expected: ExpectedOption = None,
    prefix: Annotated[
        bool, typer.Option("--prefix", help="Remove all keys that begin with KEY.")
    ] = False,
    owner: Annotated[
        str | None,
        typer.Option(
            metavar="PRINCIPAL",
            help="With --prefix: only keys that this principal wrote last. It takes an admin.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --prefix: do not ask.")] = False,
    servers: ServersOption = None,
) -> None:
    """Remove a key. Exits with 4 if it was absent, with 7 if it has another version.

    With --prefix it asks first. A key that is written meanwhile stays.
    """
    if (owner is not None or yes) and not prefix:
        raise typer.BadParameter("--owner and --yes go with --prefix.")
    if expected is not None and prefix:
        raise typer.BadParameter("--expected is the version of one key; leave out --prefix.")
    with session_of(context, servers).connect() as client:
        if not prefix:
            deleted = int(client.kv.delete(key, expected=expected))
        else:
            found = [each for each in client.kv.scan(key) if owner in (None, each.owner)]
            if found and not yes:
                confirm(f"Remove {len(found)} keys that begin with {key!r}?")
            deleted = sum(_deleted(client.kv, each) for each in found)
    if not deleted:
        say(f"key {key!r} is absent" if not prefix else f"no such key begins with {key!r}")
        raise typer.Exit(int(ExitCode.NOT_FOUND))
    say(f"deleted {key!r}" if not prefix else f"deleted {deleted} keys")


def _deleted(store: KeyValueStore, found: KeyValue) -> bool:
    """Remove the key, unless it was written since. Returns whether it did."""
    try:
        return store.delete(found.key, expected=found.version)
    except VersionConflict:
        return False


@app.command()
def scan(
    context: typer.Context,
    prefix: Annotated[str, typer.Argument(metavar="[PREFIX]", show_default=False)] = "",
    start: Annotated[str, typer.Option(help="The first key.", show_default=False)] = "",
    end: Annotated[str, typer.Option(help="The key to stop before.", show_default=False)] = "",
    limit: Annotated[
        int | None, typer.Option(min=1, help="The most keys to show.", show_default=False)
    ] = None,
    consistency: ReadsOption = Reads.STRONG,
    at: AtOption = None,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show keys in order, with versions and values: those that begin with PREFIX, or all.

    With -o json one object per line.
    """
    with session_of(context, servers).connect() as client:
        found = client.kv.scan(
            prefix, start=start, end=end, limit=limit, consistency=consistency.value, at=at
        )
        if output is Format.JSON:
            for pair in found:
                show_json(_as_object(pair))
        else:
            show_table(("KEY", "VERSION", "VALUE"), [_row(pair) for pair in found])


@app.command()
def watch(
    context: typer.Context,
    prefix: Annotated[str, typer.Argument(metavar="[PREFIX]", show_default=False)] = "",
    after: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Begin with the change after this index. Default: what happens from now on.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("-n", "--count", min=1, help="Stop after so many changes.")
    ] = None,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show the changes of keys as they come, until Ctrl-C: index, `put` or `delete`, key, value.

    `--after` takes the index of the last change that was seen. With -o json one object per line.
    """
    with session_of(context, servers).connect() as client:
        _show(islice(client.kv.watch(prefix, after=after), count), output)


def _show(changes: Iterable[KeyChange], output: Format) -> None:
    for change in changes:
        what = "delete" if change.deleted else "put"
        if output is Format.JSON:
            show_json(
                {
                    "index": change.index,
                    "change": what,
                    "key": change.key,
                    "value": None if change.deleted else change.value,
                }
            )
        else:
            value = () if change.deleted else (plain(change.value),)
            show_line(str(change.index), what, change.key, *value)


def _row(pair: KeyValue) -> list[object]:
    return [pair.key, pair.version, plain(pair.value)]


def _as_object(pair: KeyValue) -> dict[str, object]:
    return {"key": pair.key, "version": pair.version, "value": pair.value, "owner": pair.owner}

"""`raftlog acl`: who may do what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.auth.rights import EVERYTHING, Kind, Resource, Right
from raftlog.cli.output import (
    Format,
    FormatOption,
    say,
    show_json,
    show_table,
)
from raftlog.cli.session import ServersOption, session_of
from raftlog.client.arguments import principal_argument
from raftlog.errors import ExitCode, InvalidOption

if TYPE_CHECKING:
    from raftlog import Grant

app = typer.Typer(
    help="Who may do what: rights on topics, writers, reader groups and keys.",
    no_args_is_help=True,
)

WhoArgument = Annotated[
    str,
    typer.Argument(
        metavar="PRINCIPAL",
        help="token:NAME, cert:NAME, oidc:ALIAS:SUBJECT, group:ALIAS:NAME or group:token:NAME.",
        show_default=False,
    ),
]
RightsArgument = Annotated[
    str,
    typer.Argument(
        metavar="RIGHTS",
        help="Separated by commas: read, write, create, alter, delete, admin (all of these, and to "
        "grant them), cluster (nodes; with --all).",
        show_default=False,
    ),
]
TopicOption = Annotated[str | None, typer.Option(help="On this topic.", show_default=False)]
PrefixOption = Annotated[
    str | None, typer.Option(help="On all topics whose names begin so.", show_default=False)
]
WriterOption = Annotated[
    str | None,
    typer.Option(
        help="On this writer: write continues it, even as another principal; delete removes it.",
        show_default=False,
    ),
]
ReaderGroupOption = Annotated[
    str | None,
    typer.Option(
        help="On this reader group: write publishes its positions, and removes them.",
        show_default=False,
    ),
]
KeysOption = Annotated[
    str | None,
    typer.Option(help="On all keys of `raftlog kv` that begin so.", show_default=False),
]
AllOption = Annotated[bool, typer.Option("--all", help="On everything.")]


@app.command()
def grant(
    context: typer.Context,
    who: WhoArgument,
    rights: RightsArgument,
    topic: TopicOption = None,
    prefix: PrefixOption = None,
    writer: WriterOption = None,
    reader_group: ReaderGroupOption = None,
    keys: KeysOption = None,
    everything: AllOption = False,
    servers: ServersOption = None,
) -> None:
    """Grant rights, besides those that were granted before.

    Callers may do what is granted to them, and nothing else. The nodes' auth.admins may do
    everything.
    """
    resource = _resource(topic, prefix, writer, reader_group, keys, everything)
    with session_of(context, servers).connect() as client:
        now = client.acl.grant(who, _rights(rights), resource)
    say(f"{who} has {_list(now)} on {resource.words}: nodes take it up within seconds")


@app.command()
def revoke(
    context: typer.Context,
    who: WhoArgument,
    rights: RightsArgument,
    topic: TopicOption = None,
    prefix: PrefixOption = None,
    writer: WriterOption = None,
    reader_group: ReaderGroupOption = None,
    keys: KeysOption = None,
    everything: AllOption = False,
    servers: ServersOption = None,
) -> None:
    """Take rights away that were granted on exactly this resource."""
    resource = _resource(topic, prefix, writer, reader_group, keys, everything)
    with session_of(context, servers).connect() as client:
        left = client.acl.revoke(who, _rights(rights), resource)
    has = f"has only {_list(left)}" if left is not None else "has no right of its own"
    say(f"{who} {has} on {resource.words}: nodes take it up within seconds")


@app.command(name="list")
def show(
    context: typer.Context,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """The grants that you may see: your own, and those on what you are an admin of."""
    with session_of(context, servers).connect() as client:
        grants = list(client.acl.scan())
    if output is Format.JSON:
        show_json(
            [
                {
                    "to": each.to,
                    "kind": each.resource.kind,
                    "name": each.resource.name or None,
                    "rights": _in_order(each),
                }
                for each in grants
            ]
        )
        return
    show_table(
        ["PRINCIPAL", "ON", "RIGHTS"],
        [[each.to, each.resource.words, ", ".join(_in_order(each))] for each in grants],
    )


@app.command()
def check(
    context: typer.Context,
    who: WhoArgument,
    right: Annotated[Right, typer.Argument(metavar="RIGHT", show_default=False)],
    topic: TopicOption = None,
    prefix: PrefixOption = None,
    writer: WriterOption = None,
    reader_group: ReaderGroupOption = None,
    keys: KeysOption = None,
    everything: AllOption = False,
    group: Annotated[
        list[str] | None,
        typer.Option(
            help="A group that it belongs to (group:ALIAS:NAME); repeatable.", show_default=False
        ),
    ] = None,
    servers: ServersOption = None,
) -> None:
    """Whether a principal has a right, by the grants that you may see. Exit code 7: no."""
    from raftlog.auth.principals import Caller

    resource = _resource(topic, prefix, writer, reader_group, keys, everything)
    caller = Caller(
        principal=principal_argument("PRINCIPAL", who),
        groups=frozenset(principal_argument("--group", each) for each in group or ()),
    )
    with session_of(context, servers).connect() as client:
        allowed = client.acl.check(caller, right, resource)
    others = "" if allowed or group else " by its own grants; name its groups with --group"
    say(f"{who} {'has' if allowed else 'does not have'} {right} on {resource.words}{others}")
    if not allowed:
        raise typer.Exit(ExitCode.REFUSED)


# ---------------------------------------------------------------- parts


def _resource(
    topic: str | None,
    prefix: str | None,
    writer: str | None,
    reader_group: str | None,
    keys: str | None,
    everything: bool,
) -> Resource:
    """Raises `InvalidOption` unless exactly one is given."""
    named = (
        (Kind.TOPIC, topic),
        (Kind.PREFIX, prefix),
        (Kind.WRITER, writer),
        (Kind.READER_GROUP, reader_group),
        (Kind.KEYS, keys),
    )
    given = [Resource(kind, name) for kind, name in named if name is not None]
    if everything:
        given.append(EVERYTHING)
    if len(given) != 1:
        raise InvalidOption(
            option="--topic",
            problem="is missing" if not given else "does not go together with the others",
            advice="Give one of --topic, --prefix, --writer, --reader-group, --keys and --all.",
        )
    return given[0]


def _rights(text: str) -> list[Right]:
    try:
        return [Right(each.strip()) for each in text.split(",")]
    except ValueError:
        raise InvalidOption(
            option="RIGHTS",
            problem=f"is {text!r}",
            advice=f"Give some of {', '.join(Right)}, separated by commas.",
        ) from None


def _in_order(grant: Grant) -> list[Right]:
    return [right for right in Right if right in grant.rights]


def _list(grant: Grant) -> str:
    return ", ".join(_in_order(grant))

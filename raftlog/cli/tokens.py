"""`raftlog tokens`: bearer tokens that nodes accept, of which a file keeps only the hashes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli.output import Format, FormatOption, say, show_json, show_line, show_table
from raftlog.cli.session import session_of
from raftlog.errors import InvalidOption

if TYPE_CHECKING:
    from raftlog.auth.token_file import KnownToken

app = typer.Typer(
    help="Bearer tokens of callers. Run it where auth.tokens_file is.",
    no_args_is_help=True,
)

DAYS_MAX = 3650

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Its principal is token:NAME.", show_default=False)
]
FileOption = Annotated[
    Path | None,
    typer.Option(
        help="The file, which every node needs a copy of. Default: auth.tokens_file.",
        show_default=False,
    ),
]


@app.command()
def add(
    context: typer.Context,
    name: NameArgument,
    group: Annotated[
        list[str] | None,
        typer.Option(
            help="A group that it belongs to, as group:token:GROUP; repeatable.", show_default=False
        ),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(min=1, max=DAYS_MAX, help="Lifetime. Default: no expiry.", show_default=False),
    ] = None,
    file: FileOption = None,
) -> None:
    """Make a token of the principal token:NAME, and print it. The file keeps only its hash.

    A name may have several: add the new one, hand it out, and remove the old ones when they are
    no longer used (`raftlog tokens list`).
    """
    from raftlog.auth.token_file import add_token

    now = datetime.now(UTC).replace(microsecond=0)
    ends = None if days is None else now + timedelta(days=days)
    where = _file(context, file)
    show_line(add_token(where, name, tuple(group or ()), ends, now))
    say(f"its hash is in {where}: nodes take it up within seconds")


@app.command(name="list")
def show(
    context: typer.Context,
    file: FileOption = None,
    used: Annotated[
        list[Path] | None,
        typer.Option(
            help="A copy of another node's <tokens_file>.used; repeatable.", show_default=False
        ),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """List the tokens, when they expire, and when they were last used.

    Each node writes the uses that it sees beside its copy of the file, to the hour (UTC). Here are
    those of this node, and of the nodes whose files are given with --used.
    """
    from raftlog.auth.token_file import read_tokens
    from raftlog.auth.token_uses import latest, read_uses, uses_file

    where = _file(context, file)
    known = read_tokens(where)
    for each in used or ():
        if not each.is_file():
            raise InvalidOption(
                option="--used", problem=f"names {each}, which is no file", advice="Copy it first."
            )
    uses = latest(map(read_uses, (uses_file(where), *(used or ()))))
    if output is Format.JSON:
        shown = {"identity", "groups", "made", "ends"}
        show_json(
            [
                {
                    "id": each.id,
                    **each.model_dump(mode="json", include=shown),
                    "used": f"{uses[each.id]:%Y-%m-%dT%H:%MZ}" if each.id in uses else None,
                }
                for each in known
            ]
        )
        return
    show_table(
        ["ID", "NAME", "GROUPS", "MADE", "ENDS", "LAST USED"],
        [
            [
                each.id,
                each.identity,
                ", ".join(each.groups),
                f"{each.made:%Y-%m-%d}",
                _end(each),
                f"{uses[each.id]:%Y-%m-%d %H:%M} UTC" if each.id in uses else "-",
            ]
            for each in known
        ],
    )


@app.command()
def remove(
    context: typer.Context,
    name: NameArgument,
    id: Annotated[
        str | None,
        typer.Option(
            "--id", help="Only this one (`raftlog tokens list`). Default: all.", show_default=False
        ),
    ] = None,
    file: FileOption = None,
) -> None:
    """Remove the tokens of a name, or one of them: nodes reject them within seconds."""
    from raftlog.auth.token_file import remove_tokens

    where = _file(context, file)
    count = remove_tokens(where, name, id)
    if count == 0:
        raise InvalidOption(
            option="NAME",
            problem=f"is {name!r}, which has no {'such ' if id else ''}token in {where}",
            advice="`raftlog tokens list` shows who has.",
        )
    say(f"{count} token{'s' if count > 1 else ''} of {name!r} removed from {where}")


def _end(token: KnownToken) -> str:
    return "never" if token.ends is None else f"{token.ends:%Y-%m-%d %H:%M} UTC"


def _file(context: typer.Context, given: Path | None) -> Path:
    configured = session_of(context).settings.auth.tokens_file
    if given is None and not configured:
        raise InvalidOption(
            option="--file",
            problem="is missing, and auth.tokens_file names no file",
            advice="Name the file that the nodes' auth.tokens_file names.",
        )
    return given if given is not None else Path(configured)

"""`raftlog login`, `logout` and `whoami`: the token that the command line shows to a cluster."""

from __future__ import annotations

import sys

import typer

from raftlog.auth.principals import Caller
from raftlog.changing_files import replace_whole
from raftlog.cli.output import Format, FormatOption, say, show_json, show_line
from raftlog.cli.session import ServersOption, session_of, token_file
from raftlog.errors import InvalidOption


def login(context: typer.Context, servers: ServersOption = None) -> None:
    """Keep a token for a cluster, so that later commands for the same servers show it.

    It is asked for, or read from standard input: never give it as an argument, which others on the
    machine see. The file has the mode 0600. client.token goes before it.
    """
    session = session_of(context, servers)
    if sys.stdin.isatty():
        token = typer.prompt("Token", hide_input=True, err=True)
    else:
        token = sys.stdin.readline()
    if not token.strip():
        raise InvalidOption(
            option="login",
            problem="got no token",
            advice="Type it, or pipe it in: `pass show raftlog | raftlog login`.",
        )
    file = token_file(session.settings.client)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    replace_whole(new, token.strip().encode() + b"\n")
    try:
        with session.with_token(new).connect() as client:
            known = client.whoami()
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
    say(f"{_sentence(known)}: the token is kept in {file}")


def logout(context: typer.Context, servers: ServersOption = None) -> None:
    """Forget the token that `raftlog login` kept for a cluster."""
    file = token_file(session_of(context, servers).settings.client)
    if not file.exists():
        say("there is no token for these servers")
        return
    file.unlink()
    say(f"{file} removed")


def whoami(
    context: typer.Context, servers: ServersOption = None, output: FormatOption = Format.TABLE
) -> None:
    """Show the principal and the groups that the cluster knows you by."""
    with session_of(context, servers).connect() as client:
        known = client.whoami()
    if output is Format.JSON:
        show_json(
            {
                "principal": known.principal if known is not None else None,
                "groups": sorted(known.groups) if known is not None else [],
            }
        )
    else:
        show_line(_sentence(known))


def _sentence(known: Caller | None) -> str:
    if known is None:
        return "the cluster does not authenticate its callers"
    groups = f", a member of {', '.join(sorted(known.groups))}" if known.groups else ""
    return f"the cluster knows you as {known.principal}{groups}"

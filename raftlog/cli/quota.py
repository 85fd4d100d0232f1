"""`raftlog quota`: how much a principal may use of each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.auth.quotas import EVERYBODY, Limit
from raftlog.cli.amounts import NONE, UNITS_BYTES, amount, amount_text
from raftlog.cli.output import Format, FormatOption, say, show_json, show_table
from raftlog.cli.session import ServersOption, session_of
from raftlog.errors import InvalidOption

if TYPE_CHECKING:
    from raftlog import Quota

app = typer.Typer(
    help="How much a principal may use of each node: rates, open streams, staged bytes.",
    no_args_is_help=True,
)

_UNITS: dict[Limit, dict[str, int]] = {
    Limit.IN_BYTES: UNITS_BYTES,
    Limit.OUT_BYTES: UNITS_BYTES,
    Limit.STAGED_BYTES: UNITS_BYTES,
}


def _option(help_: str, metavar: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        metavar=metavar, help=f"{help_}; {NONE}: no limit.", show_default=False
    )
    return option


@app.command(name="set")
def set_(
    context: typer.Context,
    who: Annotated[
        str,
        typer.Argument(
            metavar="PRINCIPAL",
            help="token:NAME, cert:NAME, oidc:ALIAS:SUBJECT, group:ALIAS:NAME (each member by "
            "itself), or '*' for each caller without a quota of its own.",
            show_default=False,
        ),
    ],
    requests_per_s: Annotated[str | None, _option("Calls a second", "NUMBER")] = None,
    in_bytes_per_s: Annotated[
        str | None, _option("Bytes of calls a second, such as 10MiB", "SIZE")
    ] = None,
    out_bytes_per_s: Annotated[str | None, _option("Bytes of answers a second", "SIZE")] = None,
    streams: Annotated[
        str | None, _option("Reads and watches that are open at a time", "NUMBER")
    ] = None,
    staged_bytes: Annotated[
        str | None, _option("Bytes of epochs that are not committed", "SIZE")
    ] = None,
    servers: ServersOption = None,
) -> None:
    """Set or lift limits; those that are not given stay as they are.

    Each node counts separately. Calls over a quota are throttled, and rejected only where that
    would take longer than auth.quota_wait_max_s.
    """
    given = {
        Limit.REQUESTS: requests_per_s,
        Limit.IN_BYTES: in_bytes_per_s,
        Limit.OUT_BYTES: out_bytes_per_s,
        Limit.STREAMS: streams,
        Limit.STAGED_BYTES: staged_bytes,
    }
    limits = {
        limit: amount(_name(limit), text, _UNITS.get(limit, {}))
        for limit, text in given.items()
        if text is not None
    }
    if not limits:
        raise InvalidOption(
            option="--requests-per-s",
            problem="and the options like it are missing",
            advice="Say what to limit, for example: --in-bytes-per-s 10MiB",
        )
    with session_of(context, servers).connect() as client:
        now = client.quotas.set(who, limits)
    has = "has no quota of its own" if now is None else f"may use {_words(now)}"
    say(f"{_named(who)} {has}: nodes take it up within seconds")


@app.command(name="list")
def show(
    context: typer.Context,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """The quotas that you may see: your own and that for all callers; all, for an admin."""
    with session_of(context, servers).connect() as client:
        quotas = list(client.quotas.scan())
    if output is Format.JSON:
        show_json(
            [
                {"to": each.to, **{limit: each.limits.get(limit) for limit in Limit}}
                for each in quotas
            ]
        )
        return
    show_table(
        ["PRINCIPAL", *(limit.value.replace("_", " ").upper() for limit in Limit)],
        [[_named(each.to), *(_text(each, limit) for limit in Limit)] for each in quotas],
    )


def _name(limit: Limit) -> str:
    return f"--{limit.value.replace('_', '-')}"


def _named(who: str) -> str:
    return "all callers" if who == EVERYBODY else who


def _text(quota: Quota, limit: Limit) -> str:
    most = quota.limits.get(limit)
    return "" if most is None else amount_text(most, _UNITS.get(limit, {}))


def _words(quota: Quota) -> str:
    return ", ".join(f"{limit} {_text(quota, limit)}" for limit in Limit if limit in quota.limits)

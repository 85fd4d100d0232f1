"""`raftlog chaos`: break a scratch cluster while it is written and read, and judge the result."""

from __future__ import annotations

import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli.output import Format, FormatOption, say, show_json, show_table
from raftlog.cli.server_extra import require_server_extra
from raftlog.cli.session import Session, session_of
from raftlog.cli.signals import on_signals
from raftlog.config import CONFIG_VARIABLE
from raftlog.errors import ExitCode, InvalidOption

if TYPE_CHECKING:
    from raftlog.chaos.run import ChaosResult, Orders
    from raftlog.chaos.schedule import Kind


ClosedOption = Annotated[
    bool,
    typer.Option(
        "--closed",
        help="Close the cluster to strangers (TLS, tokens, rights, quotas, an audit log), and "
        "replace its certificates, keys and tokens every minute.",
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        help="An empty folder for the cluster and the history, always kept. Without it a new "
        "folder is made, and kept only if the test fails.",
        show_default=False,
    ),
]


def chaos(
    context: typer.Context,
    minutes: Annotated[float, typer.Option(min=0, help="How long faults are made.")] = 5.0,
    faults_min: Annotated[
        int, typer.Option("--faults-min", min=0, help="Continue until there were so many faults.")
    ] = 0,
    seed: Annotated[
        int | None,
        typer.Option(help="Decides which faults happen, and when; random if not given."),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(help="Classes of faults, separated by commas; all if not given."),
    ] = None,
    floor: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Acknowledged records/s below which the test counts as stalled (100).",
            show_default=False,
        ),
    ] = None,
    data: DataOption = None,
    closed: ClosedOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Break a scratch cluster while it is written and read, and judge the result.

    Faults, one or two at a time: kill, outage, pause, cut, partition, reset, delay, slow-sync,
    failing-sync, full-disk (needs root), restart. An operator's commands, one at a time: add,
    remove, replace, rebalance, drain, transfer, observe, unobserve. Exits with 1 if an acknowledged
    record was lost, duplicated or moved, if replicas or reads differ, or if too few were written.
    """
    require_server_extra("chaos")
    from raftlog.chaos.run import FLOOR_PER_S, Orders, run

    kinds = _kinds(faults)
    orders = Orders(
        seed=secrets.randbelow(1_000_000) if seed is None else seed,
        seconds=minutes * 60,
        faults_min=faults_min,
        kinds=kinds,
        floor_per_s=FLOOR_PER_S if floor is None else floor,
        settings=_settings(session_of(context)),
        closed=closed,
    )
    replay = _replay(orders, minutes, kinds if faults else ())
    folder = _folder(data)
    say(f"seed {orders.seed}; to repeat: {replay}")
    say(f"cluster, history and logs: {folder}")
    # Its nodes must not outlive this process, however it is told to end.
    ended_by = on_signals(signal.default_int_handler, signal.SIGTERM, signal.SIGHUP)
    with ended_by, _told_if_it_ends_early(folder):
        result = run(orders, folder, say)
    if output is Format.JSON:
        show_json({"orders": result.orders, "folder": str(folder), **_result(result)})
    else:
        _show(result)
    if result.verdict.broken:
        say(f"to repeat: {replay}")
        say(f"everything of this test: {folder}")
        raise typer.Exit(int(ExitCode.FAILED))
    if data is None:
        shutil.rmtree(folder)


def _folder(asked: Path | None) -> Path:
    from raftlog.chaos.run import require_empty

    if asked is None:
        return Path(tempfile.mkdtemp(prefix="raftlog-chaos-"))
    require_empty(asked)
    return asked.absolute()


@contextmanager
def _told_if_it_ends_early(folder: Path) -> Iterator[None]:
    came_to_its_end = False
    try:
        yield
        came_to_its_end = True
    finally:
        if not came_to_its_end and folder.exists():
            say(f"ended early; what this test wrote so far is kept: {folder}")


def _kinds(text: str | None) -> tuple[Kind, ...]:
    from raftlog.chaos.schedule import Kind

    if text is None:
        return tuple(Kind)
    known = [kind.value for kind in Kind]
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise InvalidOption(
                option="--faults",
                problem=f"names {name!r}, which is not a class of faults",
                advice=f"The classes are {', '.join(known)}.",
            )
    return tuple(dict.fromkeys(map(Kind, names)))


def _settings(session: Session) -> tuple[str, ...]:
    """The settings of --set, for the nodes of the scratch cluster."""
    if any(flag.startswith("--config=") for flag in session.passed_on):
        raise InvalidOption(
            option="--config",
            problem="does not reach the nodes of a scratch cluster",
            advice=f"Name the file in {CONFIG_VARIABLE}, or give --set section.key=value.",
        )
    return tuple(flag.removeprefix("--set=") for flag in session.passed_on)


def _replay(orders: Orders, minutes: float, kinds: Sequence[Kind]) -> str:
    words = ["raftlog chaos", f"--seed {orders.seed}", f"--minutes {minutes:g}"]
    if orders.faults_min:
        words.append(f"--faults-min {orders.faults_min}")
    if orders.closed:
        words.append("--closed")
    if kinds:
        words.append(f"--faults {','.join(kinds)}")
    return " ".join(words)


def _result(result: ChaosResult) -> dict[str, object]:
    return {"verdict": result.verdict, "not_made": result.not_made}


def _show(result: ChaosResult) -> None:
    verdict = result.verdict
    show_table(
        ["FAULT", "TIMES", "LONGEST WRITE GAP", "MOST ELECTIONS"],
        [
            [each.name, each.count, _seconds(each.longest_gap_s), each.elections_max]
            for each in verdict.faults
        ],
    )
    for each in result.not_made:
        say(f"not made here: {each}")
    show_table(
        ["", ""],
        [
            ["seconds", f"{verdict.seconds:.0f}"],
            ["episodes of faults", f"{verdict.episodes:,}"],
            ["acknowledged records", f"{verdict.acknowledged_records:,}"],
            ["  per second", f"{verdict.acknowledged_per_s:,.0f} (floor {verdict.floor_per_s:g})"],
            ["records of unknown fate", f"{verdict.unknown_records:,}"],
            ["records read meanwhile", f"{verdict.read_records:,}"],
            ["linearizable mark reads", f"{verdict.mark_reads:,}"],
            ["lost", verdict.lost],
            ["duplicated", verdict.duplicated],
            ["reordered", verdict.reordered],
            ["replicas", "equal" if verdict.replicas_equal else "DIFFER"],
            ["longest write gap", _seconds(verdict.longest_gap_s)],
            ["verdict", "BROKEN" if verdict.broken else "every promise kept"],
        ],
    )
    for sentence in verdict.broken:
        say(f"broken: {sentence}")


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f} s"

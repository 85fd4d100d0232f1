"""`raftlog bench`: how fast a running cluster is, as its clients see it."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raftlog import __version__
from raftlog.cli.output import Format, FormatOption, plain, say, show_json, show_table
from raftlog.cli.session import ServersOption, Session, session_of
from raftlog.config_tracing import check_tracing
from raftlog.errors import InvalidOption, RaftlogError

if TYPE_CHECKING:
    from raftlog.bench.measure import Measured
    from raftlog.bench.workloads import Plan
    from raftlog.client.log_client import LogClient

_MIB = 1024 * 1024
_NAMES = "append, records, batches, read"

_COLUMNS = (
    "WORKLOAD", "OPERATIONS", "RECORDS/S", "MB/S", "P50 MS", "P90 MS", "P99 MS", "P99.9 MS",
    "MAX MS", "CLIENT CPU S/GB",
)  # fmt: skip


def bench(
    context: typer.Context,
    only: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {_NAMES}; may be repeated. Default: all.", show_default=False),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Length of each measurement.", min=0.1)] = 10.0,
    warm_up: Annotated[
        float, typer.Option(help="Seconds before each measurement that do not count.", min=0)
    ] = 2.0,
    record_bytes: Annotated[
        int, typer.Option(help="Size of a record of append and records.", min=1, max=_MIB)
    ] = 100,
    rows_per_append: Annotated[
        int, typer.Option(help="Records of one Arrow batch given to the producer.", min=1)
    ] = 1000,
    batch_mib: Annotated[
        float, typer.Option(help="MiB of a batch of batches and read.", min=0.0625, max=64)
    ] = 1.0,
    in_flight: Annotated[int, typer.Option(help="Batches in flight at once.", min=1, max=64)] = 8,
    read_mib: Annotated[int, typer.Option(help="MiB that are written to be read.", min=1)] = 256,
    compression: Annotated[
        str, typer.Option(help="Of batches and read; records uses the client's setting.")
    ] = "none",
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Instead show where a single append spends its time, by stage. The nodes must "
            "send their spans here: start them with --set tracing.endpoint=http://127.0.0.1:4317.",
        ),
    ] = False,
    spans_at: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="With --profile: where the nodes send their spans."),
    ] = "127.0.0.1:4317",
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Measure a cluster: single appends, small records, large batches, reads.

    Writes random bytes into scratch topics bench-..., which are deleted in the end; an interrupted
    measurement may leave one. What is measured is one client on this machine, so every figure
    includes that client's own limits.
    """
    from raftlog.bench.workloads import WORKLOADS, Plan

    chosen = only or list(WORKLOADS)
    for name in chosen:
        if name not in WORKLOADS:
            raise InvalidOption(option="--only", problem=f"is {name!r}", advice=f"Use {_NAMES}.")
    sizes = Plan(
        seconds=seconds,
        warm_up_s=warm_up,
        record_bytes=record_bytes,
        rows_per_append=rows_per_append,
        batch_bytes=round(batch_mib * _MIB),
        max_in_flight=in_flight,
        read_bytes=read_mib * _MIB,
        compression=compression,
    )
    session = session_of(context, servers)
    if profile:
        _profile(session, sizes, spans_at, output)
    else:
        _measure(session, chosen, sizes, output)


def _measure(session: Session, chosen: list[str], sizes: Plan, output: Format) -> None:
    from raftlog.bench.workloads import WORKLOADS

    with session.connect() as client:
        about = _about(client)
        found = []
        for name in WORKLOADS:
            if name in chosen:
                say(f"{name}: {sizes.warm_up_s:g} s of warm-up, {sizes.seconds:g} s measured")
                found.append(WORKLOADS[name](client, sizes))
    if output is Format.JSON:
        show_json({"about": about, "results": [_as_object(each) for each in found]})
    else:
        _show(about, found)


def _profile(session: Session, sizes: Plan, spans_at: str, output: Format) -> None:
    check_tracing(f"http://{spans_at}", "--profile")
    from raftlog.bench.profile import profile

    say(f"append: {sizes.warm_up_s:g} s of warm-up, {sizes.seconds:g} s measured")
    stages = profile(session.client_settings(), sizes, spans_at)
    if output is Format.JSON:
        show_json({"stages": [plain(each) for each in stages]})
        return
    rows = [(each.name, f"{each.p50_us:,.0f}", f"{each.p99_us:,.0f}", each.what) for each in stages]
    show_table(("STAGE", "P50 US", "P99 US", "WHAT"), rows)


def _about(client: LogClient) -> dict[str, Any]:
    """What was measured, and from which machine."""
    answers = dict(client.describe_cluster())
    nodes = {
        address: "no answer" if isinstance(answer, RaftlogError) else f"raftlog {answer.version}"
        for address, answer in answers.items()
    }
    return {
        "nodes": nodes,
        "client": {
            "host": platform.node(),
            "cores": os.cpu_count(),
            "raftlog": __version__,
            "python": platform.python_version(),
            "grpcio": version("grpcio"),
            "pyarrow": version("pyarrow"),
        },
    }


def _as_object(measured: Measured) -> dict[str, Any]:
    return {
        **plain(measured),
        "records_per_s": measured.records_per_s,
        "mb_per_s": measured.mb_per_s,
        "client_cpu_s_per_gb": measured.client_cpu_s_per_gb,
    }


def _show(about: dict[str, Any], found: list[Measured]) -> None:
    nodes, client = about["nodes"], about["client"]
    listed = ", ".join(f"{address} ({state})" for address, state in nodes.items())
    say(f"{len(nodes)} nodes: {listed}")
    say(
        f"client on {client['host']}: {client['cores']} cores, raftlog {client['raftlog']}, Python "
        f"{client['python']}, grpcio {client['grpcio']}, pyarrow {client['pyarrow']}"
    )
    for each in found:
        say(f"{each.name}: {each.what}")
    show_table(_COLUMNS, [_row(each) for each in found])


def _row(measured: Measured) -> list[object]:
    latency = measured.latency
    times: list[object] = [None] * 5
    if latency is not None:
        times = [
            f"{each:.2f}"
            for each in (
                latency.p50_ms,
                latency.p90_ms,
                latency.p99_ms,
                latency.p999_ms,
                latency.max_ms,
            )
        ]
    return [
        measured.name,
        measured.operations,
        f"{measured.records_per_s:,.0f}",
        f"{measured.mb_per_s:,.1f}",
        *times,
        None if latency is not None else f"{measured.client_cpu_s_per_gb:,.2f}",
    ]

"""`raftlog doctor`: what becomes of a Spark query that is started from a checkpoint."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli.output import Format, FormatOption, show_json, show_line
from raftlog.cli.session import ServersOption, session_of

if TYPE_CHECKING:
    from raftlog.spark.doctor import Diagnosis
    from raftlog.spark.findings import Finding


def doctor(
    context: typer.Context,
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT",
            help="The query's checkpointLocation: a local path, or a URI (file:, s3:, gs:, hdfs:).",
            show_default=False,
        ),
    ],
    topic: Annotated[
        str, typer.Option(help="The topic that the query writes. Default: look in all topics.")
    ] = "",
    writer: Annotated[
        str, typer.Option(help="The query's txnAppId. Default: what its id has written as.")
    ] = "",
    stopped: Annotated[
        bool, typer.Option("--stopped", help="The query is known to be stopped.")
    ] = False,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Compare the checkpoint of a Spark query with the log: can the query be started from it?

    For everything that keeps it from that it says why, what is lost or repeated, and the command or
    option for the way out. It changes nothing.

    Exits with 0 if it can, 1 if nothing in the checkpoint is raftlog's, 4 if there is no
    checkpoint, 6 if records are lost or files damaged, 7 if the log would refuse the query, or
    another run may be active.
    """
    from raftlog.spark.doctor import examine

    with session_of(context, servers).connect() as client:
        found = examine(
            checkpoint,
            client,
            sink=topic,
            writer=writer,
            now_us=0 if stopped else time.time_ns() // 1000,
        )
    if output is Format.JSON:
        show_json(_as_object(found))
    else:
        for line in _lines(found):
            show_line(line)
    if found.exit_code:
        raise typer.Exit(int(found.exit_code))


def _as_object(found: Diagnosis) -> dict[str, object]:
    checkpoint = found.checkpoint
    return {
        "checkpoint": checkpoint.location,
        "query_id": checkpoint.query_id or None,
        "next_batch": checkpoint.next_batch if checkpoint.exists else None,
        "replays": checkpoint.replays,
        "exit_code": int(found.exit_code),
        "findings": [
            {
                "kind": each.kind.value,
                "about": each.about,
                "error": each.error or None,
                "cause": each.cause,
                "remedy": each.remedy or None,
                "commands": each.commands,
            }
            for each in found.findings
        ],
    }


def _lines(found: Diagnosis) -> list[str]:
    checkpoint = found.checkpoint
    lines = [f"checkpoint {checkpoint.location}"]
    if checkpoint.query_id and not checkpoint.damages:
        what = "repeats" if checkpoint.replays else "plans"
        lines = [
            f"{lines[0]}: query {checkpoint.query_id}, a start {what} batch {checkpoint.next_batch}"
        ]
    for each in found.findings:
        lines += _lines_of(each)
    return lines


def _lines_of(finding: Finding) -> list[str]:
    error = f" ({finding.error})" if finding.error else ""
    lines = [f"{finding.kind.value}{error}: {finding.about}"]
    lines += [f"  {text}" for text in (finding.cause, finding.remedy) if text]
    return lines + [f"    {command}" for command in finding.commands]

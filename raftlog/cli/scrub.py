"""`raftlog scrub`: every node reads and checks all that it has on disk, now."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live
from rich.text import Text

from raftlog.cli.output import (
    Format,
    FormatOption,
    console,
    one_line,
    say,
    show_json,
    show_table,
)
from raftlog.cli.session import ServersOption, session_of
from raftlog.errors import ExitCode, RaftlogError

if TYPE_CHECKING:
    from raftlog.client.watermark import NodeAnswer

_LOOK_S = 0.5
"""Seconds between two looks at how far the nodes are. No setting: it is for a person's eyes."""

_HEALING_S = 10.0
"""How long the end waits for repairs that are under way. They go on after it."""


def scrub(
    context: typer.Context,
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="Default: all.", show_default=False)
    ] = None,
    wait: Annotated[
        bool, typer.Option(help="Wait until all is read. --no-wait: only begin it.")
    ] = True,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Let every node read and check all that it has on disk of a topic, or of all topics and of its
    own files. What is damaged is healed from the other nodes.

    The nodes read at most `storage.scrub_bytes_per_s_max` each, and go on after Ctrl-C. FOUND,
    HEALED and NOT HEALABLE count from the start of each node.

    Exits with 3 if a node does not answer, or something damaged is not healed.
    """
    with session_of(context, servers).connect() as client:
        groups = [client.describe_topic(topic).group] if topic is not None else []
        answers = client.scrub(groups)
        if wait:
            answers = _watched(lambda: client.views(groups), answers, live=output is Format.TABLE)
    rows = _rows(answers)
    problems = _problems(answers)
    if output is Format.JSON:
        show_json({"replicas": rows, "nodes_without_answer": problems})
    else:
        _show(rows, problems)
    if problems or any(row["found"] > row["healed"] for row in rows):
        raise typer.Exit(int(ExitCode.UNAVAILABLE))


def _watched(look: Any, answers: list[NodeAnswer], *, live: bool) -> list[NodeAnswer]:
    """Look until nothing is read any more, and what is being healed had some time."""
    pause = threading.Event()
    shown = console() if live and console().is_terminal else None
    if live and shown is None:
        say("reading; only a terminal is shown how far the nodes are")
    with Live(console=shown, auto_refresh=False, transient=True) as progress:
        ended_s: float | None = None
        while True:
            rows = _rows(answers)
            if all(row["scrub"] == "" for row in rows):
                ended_s = ended_s or time.monotonic()
                healing = any(row["found"] > row["healed"] + row["not_healable"] for row in rows)
                if not healing or time.monotonic() - ended_s > _HEALING_S:
                    return answers
            if shown is not None:
                progress.update(Text(_progress(rows)), refresh=True)
            pause.wait(_LOOK_S)
            answers = look()


def _progress(rows: list[dict[str, Any]]) -> str:
    """One line for each node that reads."""
    lines = []
    for node in sorted({row["node"] for row in rows}):
        own = [row for row in rows if row["node"] == node]
        running = next((row for row in own if row["scrub"] == "running"), None)
        waiting = sum(row["scrub"] == "waiting" for row in own)
        if running is not None:
            share = f"{running['read_bytes']:,} of {running['total_bytes']:,} bytes"
            lines.append(f"node {node}: {one_line(running['topic'])}, {share}; {waiting} more wait")
    return "\n".join(lines)


def _rows(answers: list[NodeAnswer]) -> list[dict[str, Any]]:
    """One row for each replica, by topic and node."""
    rows = [
        {
            "node": view.node,
            "topic": view.topic or "(controller)",
            "scrub": view.scrub,
            "read_bytes": view.scrub_read_bytes,
            "total_bytes": view.scrub_total_bytes,
            "scrubbed_us": view.scrubbed_us,
            "found": view.damage_found,
            "healed": view.damage_healed,
            "not_healable": view.damage_not_healable,
            "latest": view.damage_latest,
        }
        for _, _, reply in answers
        if not isinstance(reply, RaftlogError)
        for view in reply.groups
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["node"]))


def _problems(answers: list[NodeAnswer]) -> dict[str, str]:
    """Why nodes or replicas could not be scrubbed."""
    found = {}
    for node, _, reply in answers:
        if isinstance(reply, RaftlogError):
            found[f"node {node}"] = f"{reply.cause} {reply.remedy}"
        else:
            for each in reply.quarantined:
                name = each.topic or f"group {each.group}"
                found[f"node {node}, {name}"] = f"it is quarantined: {each.problem}"
    return found


def _show(rows: list[dict[str, Any]], problems: dict[str, str]) -> None:
    columns = ["NODE", "TOPIC", "READ", "FOUND", "HEALED", "NOT HEALABLE"]
    names = ("node", "topic", "read_bytes", "found", "healed", "not_healable")
    show_table(columns, [[row[name] for name in names] for row in rows])
    for row in rows:
        if row["latest"]:
            say(f"{row['topic']}, node {row['node']}: {row['latest']}")
    for where, problem in problems.items():
        say(f"{where}: {problem}")

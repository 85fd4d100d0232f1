"""`raftlog top`: what the cluster does now, busiest topics first."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.table import Table

from raftlog.cli import watching
from raftlog.cli.output import Format, FormatOption, make_table
from raftlog.cli.session import ServersOption, session_of
from raftlog.cli.watching import IntervalOption

if TYPE_CHECKING:
    from raftlog import GroupView, LogClient

COLUMNS = (
    "TOPIC", "LEADER", "TERM", "RECORDS/S", "RECORDS", "STAGED BYTES", "LOG BYTES",
    "HISTORY BYTES", "REPLICAS", "BEHIND",
)  # fmt: skip


class TopicNow(NamedTuple):
    """A topic as its leader sees it; without one, as the node does that has most of it."""

    topic: str
    leader: int
    """0: no node that answers knows one."""
    term: int
    records_per_s: float
    """New readable records a second since the look before; 0 at the first."""
    records: int
    """Readable ones that are kept."""
    staged_bytes: int
    log_bytes: int
    history_bytes: int
    replicas: int
    """Those that answer."""
    behind_entries: int | None
    """What the furthest follower lacks of the leader's log; None: there is no leader to say so."""


class Look(NamedTuple):
    """What was seen at a time."""

    at_s: float
    marks: Mapping[tuple[str, str], int]
    """The end of each topic's incarnation."""
    topics: list[TopicNow]
    """Busiest first."""


def top(
    context: typer.Context,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, max=10_000, help="Topics to show.")
    ] = 20,
    interval: IntervalOption = 1.0,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show the busiest topics, again and again until Ctrl-C; with -o json, one line each time.

    RECORDS/S counts records that became readable since the line before. REPLICAS counts those that
    answer. BEHIND is how many entries the furthest follower lacks.
    """
    with session_of(context, servers).connect() as client:
        before = _look(client, None)

        def look() -> list[TopicNow]:
            nonlocal before
            before = _look(client, before)
            return before.topics[:lines]

        watching.watch(
            look,
            as_json=lambda topics: [each._asdict() for each in topics],
            as_table=_table,
            output=output,
            interval_s=interval,
        )


def _look(client: LogClient, before: Look | None) -> Look:
    from raftlog import NodeView

    answers = [answer for _, _, answer in client.views()]
    groups = [
        group
        for answer in answers
        if isinstance(answer, NodeView)
        for group in answer.groups
        if group.incarnation
    ]
    return seen(groups, time.monotonic(), before)


def seen(groups: Iterable[GroupView], at_s: float, before: Look | None) -> Look:
    """What nodes' views of topics' replicas at the time `at_s` say, compared with a look before."""
    replicas: dict[tuple[str, str], list[GroupView]] = {}
    for group in groups:
        replicas.setdefault((group.topic, group.incarnation), []).append(group)
    marks = {key: max(each.high_water_mark for each in its) for key, its in replicas.items()}
    topics = []
    for key, its in replicas.items():
        best = max(its, key=lambda each: (each.role == "leader", each.term, each.applied_index))
        rate = 0.0
        if before is not None and key in before.marks and at_s > before.at_s:
            rate = max(0, marks[key] - before.marks[key]) / (at_s - before.at_s)
        topics.append(
            TopicNow(
                topic=best.topic,
                leader=best.leader,
                term=best.term,
                records_per_s=round(rate, 1),
                records=marks[key] - best.log_start_offset,
                staged_bytes=best.staged_bytes,
                log_bytes=best.log_bytes,
                history_bytes=best.history_bytes,
                replicas=len(its),
                behind_entries=_furthest(best),
            )
        )
    topics.sort(key=lambda each: (-each.records_per_s, each.topic))
    return Look(at_s, marks, topics)


def _furthest(leader: GroupView) -> int | None:
    if leader.role != "leader":
        return None
    return max(
        (max(0, leader.last_index - each.match_index) for each in leader.followers), default=0
    )


def _table(topics: list[TopicNow]) -> Table:
    return make_table(COLUMNS, [[each.topic, each.leader or "none", *each[2:]] for each in topics])

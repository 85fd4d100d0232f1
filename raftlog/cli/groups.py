"""`raftlog groups`: move the positions of a reader group, or remove them."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from raftlog.cli.output import Format, FormatOption, confirm, say, show_json, show_table
from raftlog.cli.session import ServersOption, session_of
from raftlog.cli.times import OFFSET, since_us
from raftlog.errors import InvalidOption, ReaderGroupNotFound

if TYPE_CHECKING:
    from raftlog import LogClient, ReaderPosition, TopicInfo

app = typer.Typer(
    help="Reader groups: move their positions, remove them. `raftlog lag` lists them.",
    no_args_is_help=True,
)

PUBLISHER = "raftlog groups reset"
"""What `raftlog lag` and a reader's PositionMoved name as the publisher of the new position."""

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]


@app.command()
def reset(
    context: typer.Context,
    group: GroupArgument,
    to: Annotated[
        str,
        typer.Option(
            metavar="earliest|latest|OFFSET|AGE|TIME",
            help="Where the group continues. OFFSET: digits, with --topic. AGE (30s, 10m, 2h, 1d) "
            "or TIME (ISO 8601, UTC unless it says otherwise, or @SECONDS): the first record since "
            "then.",
            show_default=False,
        ),
    ],
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC", help="Default: every topic of the group.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the positions.")] = False,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Move a reader group's position in a topic, or in each of its topics.

    Stop the group's readers first: one that runs fails with PositionMoved at its next commit.
    With --topic, the group may be new, and the topic may have been created again.
    """
    if topic is None and OFFSET.fullmatch(to):
        raise InvalidOption(
            option="--to",
            problem=f"is the offset {to}, which means another record in each topic",
            advice="Name the topic with --topic, or give earliest, latest or a time.",
        )
    with session_of(context, servers).connect() as client:
        held = {each.topic: each for each in client.positions.scan(group)}
        if topic is not None:
            infos = [client.describe_topic(topic)]
        elif held:
            infos = [each for each in client.list_topics() if each.name in held]
        else:
            raise ReaderGroupNotFound(group=group)
        moves = [_Move(held.get(info.name), info, _offset(client, info, to)) for info in infos]
        for move in moves:
            _check_not_of_spark(move.former)
        if not dry_run:
            for move in moves:
                client.positions.publish(group, move.topic, move.offset, publisher=PUBLISHER)
    for name in held.keys() - {info.name for info in infos} if topic is None else ():
        say(f"topic {name} is gone: the group's position in it stays")
    rows = [(group, move.topic.name, move.former_offset, move.offset) for move in moves]
    if output is Format.JSON:
        names = ("group", "topic", "former_position", "position")
        show_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        show_table(("GROUP", "TOPIC", "FORMER POSITION", "POSITION"), rows)


@app.command()
def forget(
    context: typer.Context,
    group: GroupArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Remove all positions of a reader group. Its next reader begins as a new group's does.

    Records that topics kept only for the group may be removed then. A group that still publishes
    comes back.
    """
    with session_of(context, servers).connect() as client:
        if not yes:
            confirm(f"Remove all positions of group {group!r}? Its readers cannot continue there.")
        count = client.positions.forget(group)
    if not count:
        raise ReaderGroupNotFound(group=group)
    noun = "position" if count == 1 else "positions"
    if output is Format.JSON:
        show_json({"group": group, "removed_positions": count})
    else:
        say(f"removed {count} {noun} of group {group!r}")


class _Move(NamedTuple):
    former: ReaderPosition | None
    topic: TopicInfo
    offset: int

    @property
    def former_offset(self) -> int | None:
        """None: the group had no position in this incarnation of the topic."""
        same = self.former is not None and self.former.incarnation == self.topic.incarnation
        return self.former.offset if self.former is not None and same else None


def _check_not_of_spark(position: ReaderPosition | None) -> None:
    """A query only publishes its position: moving it would change nothing that the query reads."""
    from raftlog.client.positions import SPARK_PUBLISHER

    if position is not None and position.publisher.startswith(SPARK_PUBLISHER):
        raise InvalidOption(
            option="GROUP",
            problem=f"is {position.group!r}, whose position in topic {position.topic!r} was "
            f"published by a query ({position.publisher}). The query's checkpoint decides where it "
            "continues. Nothing was changed",
            advice="To read from elsewhere, start the query with a new checkpointLocation and "
            "startingOffsets. To give the group to other readers, stop the query and run "
            f"`raftlog groups forget {shlex.quote(position.group)}` first.",
        )


def _offset(client: LogClient, topic: TopicInfo, to: str) -> int:
    """The offset that `--to` means in this topic."""
    held = client.read_high_water_mark(topic)
    if to == "earliest":
        return held.log_start_offset
    if to == "latest":
        return held.high_water_mark
    if not OFFSET.fullmatch(to):
        besides = "earliest, latest, an offset, an age"
        since = since_us("--to", to, time.time_ns() // 1000, besides=besides)
        return client.find_offset(topic, since)
    if not held.log_start_offset <= int(to) <= held.high_water_mark:
        raise InvalidOption(
            option="--to",
            problem=f"is {to}, and topic {topic.name!r} holds "
            f"[{held.log_start_offset}, {held.high_water_mark})",
            advice="Give an offset from its start to its end, earliest or latest. A number of "
            "seconds since 1970 is written @SECONDS.",
        )
    return int(to)

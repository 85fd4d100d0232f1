"""`raftlog events`: what happens to a group, as it happens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli.group_names import CONTROLLER_NAME, group_named
from raftlog.cli.output import Format, FormatOption, show_json, show_line
from raftlog.cli.session import ServersOption, session_of
from raftlog.core.types import CONTROLLER_GROUP
from raftlog.machines.group_info import KV_LABEL

if TYPE_CHECKING:
    from raftlog import GroupEvent, NodeAddress

_COUNT_MAX = 1_000_000_000


def events(
    context: typer.Context,
    topic: Annotated[
        str,
        typer.Argument(
            metavar="[TOPIC]",
            help=f"Default: the controller's group. {KV_LABEL!r}: the key-value store's.",
            show_default=False,
        ),
    ] = CONTROLLER_NAME,
    count: Annotated[
        int | None,
        typer.Option("-n", "--count", min=1, max=_COUNT_MAX, help="Stop after so many events."),
    ] = None,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show who leads a group, who votes in it, and how far it is applied: now, and as it changes.

    Until Ctrl-C. With -o json one object per line.
    """
    with session_of(context, servers).connect() as client:
        group = CONTROLLER_GROUP  # found without a leader
        if topic != CONTROLLER_NAME:
            group = group_named(client, topic, client.members.placements())
        for event in islice(client.groups.events(group), count):
            if output is Format.JSON:
                show_json(_as_object(event))
            else:
                show_line(_line(event))


def _line(event: GroupEvent) -> str:
    match event.kind:
        case "leader_changed":
            return (
                f"leader_changed: node {event.leader} ({event.leader_address}), term {event.term}"
            )
        case "state_changed":
            return f"state_changed: applied up to index {event.index}"
        case _:
            learners = f"; learners {_names(event.learners)}" if event.learners else ""
            return f"{event.kind}: voters {_names(event.voters)}{learners}"


def _names(nodes: Sequence[NodeAddress]) -> str:
    return ", ".join(f"{node.node} ({node.address})" for node in nodes)


def _as_object(event: GroupEvent) -> dict[str, object]:
    match event.kind:
        case "leader_changed":
            values: dict[str, object] = {
                "leader": event.leader,
                "address": event.leader_address,
                "term": event.term,
            }
        case "state_changed":
            values = {"index": event.index}
        case _:
            values = {
                "voters": [node._asdict() for node in event.voters],
                "learners": [node._asdict() for node in event.learners],
            }
    return {"event": event.kind, **values}

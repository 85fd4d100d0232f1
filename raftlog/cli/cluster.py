"""`raftlog cluster`: status, add, remove, replace, drain, transfer, rebalance."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raftlog.cli.group_names import CONTROLLER_NAME, group_named
from raftlog.cli.output import (
    Format,
    FormatOption,
    confirm,
    say,
    show_json,
    show_table,
)
from raftlog.cli.session import ServersOption, session_of
from raftlog.client.arguments import address_argument
from raftlog.errors import ChangeUnfinished, InvalidOption, TransferRefused
from raftlog.redaction import shown_address

if TYPE_CHECKING:
    from raftlog import Move, Moved, NodePlaces, PlacementsReply
    from raftlog.core.types import NodeId

app = typer.Typer(help="Nodes that come and go, and where groups are.", no_args_is_help=True)

NodeArgument = Annotated[int, typer.Argument(min=1, metavar="NODE", show_default=False)]
AddressOption = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Where the new node listens, for nodes and clients.",
        show_default=False,
        callback=address_argument,
    ),
]
AtOnceOption = Annotated[
    int, typer.Option(min=1, max=100, help="How many groups move at the same time.")
]
TimeoutOption = Annotated[
    float, typer.Option(min=1, help="Seconds that one group's move may take.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only show which groups would move where.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
ParentsOption = Annotated[
    str,
    typer.Option(
        metavar="NODES",
        help='Of an observer: the nodes that it pulls from, such as "1,2". '
        "They may be observers. By default any nodes that are none.",
    ),
]
UndoOption = Annotated[bool, typer.Option("--undo", help="Take it back.")]

_AT_ONCE = 2
TIMEOUT_S = 3600.0
_DRAIN_S = 30.0
_TRANSFER_S = 10.0


@app.command()
def status(
    context: typer.Context, servers: ServersOption = None, output: FormatOption = Format.TABLE
) -> None:
    """Show the cluster's nodes, whether each of them answers, and on which of them every group is
    and should be. VOTES IN: in how many groups the node has a vote, or is to have one; `raftlog
    status` counts all replicas that a node hosts."""
    with session_of(context, servers).connect() as client:
        reply = client.members.placements()
        answering = client.members.answering()
        lags = client.members.lags() if any(each.observer for each in reply.nodes) else {}
    nodes, groups = _node_rows(reply, answering), _group_rows(reply)
    levels = _level_rows(reply, lags)
    if output is Format.JSON:
        show_json({"nodes": nodes, "groups": groups, "levels": levels})
        return
    show_table(
        ["NODE", "ADDRESS", "RACK", "STATE", "VOTES IN"],
        [list(row.values())[:5] for row in nodes],
    )
    say("")
    if levels:
        show_table(
            ["LEVEL", "OBSERVER", "PULLS FROM", "LAG (ENTRIES)"],
            [[row["level"], row["node"], row["pulls_from"], row["lag"]] for row in levels],
        )
        say("")
    show_table(
        ["GROUP", "TOPIC", "NODES", "STATE"],
        [[row["group"], row["topic"], _list(row["voters"]), row["state"]] for row in groups],
    )


@app.command()
def add(
    context: typer.Context,
    node: NodeArgument,
    address: AddressOption,
    observer: Annotated[
        bool,
        typer.Option("--observer", help="It never votes: it holds every topic and serves reads."),
    ] = False,
    parents: ParentsOption = "",
    servers: ServersOption = None,
) -> None:
    """Let a node join the cluster. Then start it, with a folder of its own:
    `raftlog --servers ... serve --node NODE --data DIR --join`.

    It holds nothing until groups are put on it: new topics are, and `raftlog cluster rebalance`
    moves others. NODE is an id that no node ever had.

    An observer is never given a vote. It pulls what is committed from other nodes, so readers can
    be served by as many as you like, and no write waits for one.
    """
    with session_of(context, servers).connect() as client:
        new = client.members.add(node, address, observer=observer, parents=_nodes(parents))
        reply = client.members.placements()
        there = not new and node in client.members.answering()
    if there and any(each.node == node and each.registered for each in reply.nodes):
        say(f"node {node} is in the cluster already, and runs at {address}")
        return
    say(f"node {node} may join from {address}" if new else f"node {node} was added before")
    say(f"  start it: {_start_of(node, reply)}")


@app.command()
def parents(
    context: typer.Context,
    node: NodeArgument,
    parents: Annotated[
        str,
        typer.Argument(metavar="NODES", help='Their ids, such as "1,2"; "" for any.'),
    ],
    servers: ServersOption = None,
) -> None:
    """Say which nodes an observer pulls from. They may be observers: so a tree of them can be as
    deep as you like."""
    with session_of(context, servers).connect() as client:
        client.members.set_parents(node, _nodes(parents))
    say(f"node {node} pulls from {parents or 'any node that is no observer'}")


@app.command()
def remove(
    context: typer.Context,
    node: NodeArgument,
    undo: UndoOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    at_once: AtOnceOption = _AT_ONCE,
    timeout_s: TimeoutOption = TIMEOUT_S,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Move everything off a node, which may be dead, then remove it from the cluster.

    Its process ends by itself. Its id is never used again. If this command is ended, give it again:
    it goes on. --undo takes it back, as long as the node has not been removed; then it may lead
    again, also if it was drained before.
    """
    with session_of(context, servers).connect() as client:
        if undo:
            follow(client.members.keep(node, timeout_s=timeout_s), output)
            drained = any(e.node == node and e.draining for e in client.members.placements().nodes)
            say(f"node {node} stays, {'and is drained' if drained else 'and may lead again'}")
            say(f"  change that: raftlog cluster drain {node}{' --undo' if drained else ''}")
            return
        if client.members.was_removed(node):
            say(f"node {node} is removed")
            return
        moves = client.members.plan_removal(node, tell=say)
        if only_shown(moves, output, dry_run=dry_run):
            return
        if not yes:
            confirm(f"Remove node {node} for good, after moving {len(moves)} groups?")
        say(f"moving {len(moves)} groups off node {node}, {at_once} at a time")
        moved = client.members.remove(node, at_once=at_once, timeout_s=timeout_s, tell=say)
        follow(moved, output)
    say(f"node {node} is removed")


@app.command()
def replace(
    context: typer.Context,
    node: NodeArgument,
    with_: Annotated[
        int, typer.Option("--with", min=1, metavar="NODE", help="An id that no node ever had.")
    ],
    address: AddressOption,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    at_once: AtOnceOption = _AT_ONCE,
    timeout_s: TimeoutOption = TIMEOUT_S,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Give every place of a node, which may be lost or wiped, to a new one.

    Adds the new node, waits until it is started (`raftlog serve --join`), moves each group that the
    former one holds, and removes that. If this command is ended, give it again: it goes on.

    The new node of an observer is an observer too, which pulls from the same nodes; the former one
    is removed once it is filled. What pulled from the former node pulls from the new one.
    """
    with session_of(context, servers).connect() as client:
        moves = client.members.plan_replacement(node, with_, tell=say)
        if only_shown(moves, output, dry_run=dry_run):
            return
        if not yes:
            confirm(f"Give the {len(moves)} groups of node {node} to node {with_} for good?")
        client.members.add_replacement(node, with_, address)
        start = _start_of(with_, client.members.placements())
        say(f"waiting for node {with_}; start it, if it does not run: {start}")
        client.members.wait_for(with_, timeout_s)
        say(f"node {with_} has joined; moving {len(moves)} groups, {at_once} at a time")
        moved = client.members.replace(node, with_, at_once=at_once, timeout_s=timeout_s, tell=say)
        follow(moved, output)
    say(f"node {with_} has taken node {node}'s place")


@app.command()
def drain(
    context: typer.Context,
    node: NodeArgument,
    undo: UndoOption = False,
    timeout_s: Annotated[
        float, typer.Option(min=1, help="How long to wait until it leads nothing.")
    ] = _DRAIN_S,
    servers: ServersOption = None,
) -> None:
    """Move leadership away from a node and wait until others lead, so that stopping it disturbs no
    client.

    It stays drained over restarts. --undo: it may lead again. A group that no other node can lead
    stays with it.
    """
    with session_of(context, servers).connect() as client:
        if undo:
            client.members.end_drain(node)
            say(f"node {node} may lead again")
        else:
            try:
                client.members.drain(node, timeout_s=timeout_s, tell=say)
            except (ChangeUnfinished, KeyboardInterrupt):
                say(f"node {node} stays drained: it hands on what it leads as soon as others can")
                say(f"  take it back: raftlog cluster drain {node} --undo")
                raise
            say(f"node {node} leads nothing")


@app.command()
def transfer(
    context: typer.Context,
    topic: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC",
            help=f"{CONTROLLER_NAME!r}: the controller's group.",
            show_default=False,
        ),
    ],
    to: Annotated[int, typer.Option(min=1, metavar="NODE", help="A node that holds the topic.")],
    timeout_s: Annotated[
        float, typer.Option(min=1, help="How long to try until it leads.")
    ] = _TRANSFER_S,
    servers: ServersOption = None,
) -> None:
    """Let another node lead a topic, and see to it that it does.

    Writes wait a few milliseconds meanwhile, and at most an election timeout. The node leads until
    the next election; then the leaders are spread over the nodes again (raft.preferred_leaders).
    """
    with session_of(context, servers).connect() as client:
        known = client.members.placements()
        group = group_named(client, topic, known)
        if any(each.node == to and each.draining for each in known.nodes):
            undo = f"`raftlog cluster drain {to} --undo` lets it lead"
            problem = f"it is drained and would hand the role on at once ({undo})"
            raise TransferRefused(group=group, node=to, problem=problem)
        client.members.transfer(group, to, timeout_s=timeout_s)
    say(f"node {to} leads {topic}")


@app.command()
def rebalance(
    context: typer.Context,
    dry_run: DryRunOption = False,
    at_once: AtOnceOption = _AT_ONCE,
    timeout_s: TimeoutOption = TIMEOUT_S,
    servers: ServersOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Spread groups over racks and nodes, so that no node holds much more than another.

    If this command is ended, what has begun is finished by the nodes; give it again for the rest.
    """
    with session_of(context, servers).connect() as client:
        moves = client.members.plan_rebalance(tell=say)
        if only_shown(moves, output, dry_run=dry_run):
            return
        moved = client.members.carry_out(moves, at_once=at_once, timeout_s=timeout_s, tell=say)
        follow(moved, output)
    say(f"balanced; {len(moves)} groups moved")


def only_shown(moves: list[Move], output: Format, *, dry_run: bool) -> bool:
    """Show the plan, if that is all that was asked for."""
    if not dry_run:
        return False
    rows = [_move_row(move) for move in moves]
    if output is Format.JSON:
        show_json({"moves": rows})
    elif not rows:
        say("nothing is to be moved")
    else:
        columns = ["GROUP", "TOPIC", "FROM", "TO"]
        shown = [[r["group"], r["topic"], _list(r["from"]), _list(r["to"])] for r in rows]
        show_table(columns, shown)
    return True


def follow(moved: Iterator[Moved], output: Format) -> None:
    """Tell of each move that is done."""
    for each in moved:
        row = _move_row(each.move) | {"done": each.done, "total": each.total}
        if output is Format.JSON:
            show_json(row)
        else:
            places = f"{_list(row['from'])} -> {_list(row['to'])}"
            say(f"[{each.done}/{each.total}] {row['topic']}: {places}")


def _move_row(move: Move) -> dict[str, Any]:
    topic = move.name or CONTROLLER_NAME
    return {"group": move.group, "topic": topic, "from": move.before, "to": move.after}


def _node_rows(reply: PlacementsReply, answering: Collection[NodeId]) -> list[dict[str, Any]]:
    return [
        {
            "node": each.node,
            "address": each.address,
            "rack": each.rack,
            "state": _state_of(each, answers=each.node in answering),
            "votes_in": sum(each.node in group.voters for group in reply.groups),
            "observer": each.observer,
            "answers": each.node in answering,
        }
        for each in reply.nodes
    ]


def _state_of(node: NodePlaces, *, answers: bool) -> str:
    if not node.registered:
        return "added, not started"
    duty = "leaving" if node.leaving else "draining" if node.draining else ""
    if answers:
        return duty or "in service"
    return f"{duty}, no answer" if duty else "no answer"


def _start_of(node: int, reply: PlacementsReply) -> str:
    """How to start a node that was added: it asks those that may run."""
    running = [each.address for each in reply.nodes if each.registered and each.node != node]
    servers = ",".join(running)
    return f"raftlog --servers {shlex.quote(servers)} serve --node {node} --data DIR --join"


def _level_rows(reply: PlacementsReply, lags: Mapping[NodeId, int | None]) -> list[dict[str, Any]]:
    """The observers by level, and how far each is behind."""
    observers = sorted((each.level, each.node, each) for each in reply.nodes if each.observer)
    return [
        {
            "level": level,
            "node": node,
            "pulls_from": _pulls_from(each),
            "lag": "no answer" if lags.get(node) is None else lags[node],
        }
        for level, node, each in observers
    ]


def _pulls_from(node: NodePlaces) -> str:
    return (_list(node.parents) or "any") if node.observer else ""


def _nodes(text: str) -> list[int]:
    """The ids in a list such as "1,2"."""
    try:
        found = [int(each) for each in text.split(",")] if text else []
    except ValueError:
        found = [0]
    if any(each < 1 for each in found):
        raise InvalidOption(
            option="parents",
            problem=f"is {shown_address(text)!r}, which is no list of node ids",
            advice='Give the ids with commas between them, such as "1,2".',
        )
    return found


def _group_rows(reply: PlacementsReply) -> list[dict[str, Any]]:
    return [
        {
            "group": each.group,
            "topic": each.topic or CONTROLLER_NAME,
            "voters": each.voters,
            "former": each.former,
            "state": "there" if each.reached else f"on its way from {_list(each.former)}",
        }
        for each in reply.groups
    ]


def _list(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes))

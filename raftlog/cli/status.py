"""`raftlog status`: which nodes answer, who leads, what each hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from raftlog.cli.output import Format, FormatOption, say, show_json, show_table
from raftlog.cli.session import ServersOption, session_of
from raftlog.errors import ExitCode, RaftlogError

if TYPE_CHECKING:
    from raftlog.client.log_client import ClusterDescription


def status(
    context: typer.Context, servers: ServersOption = None, output: FormatOption = Format.TABLE
) -> None:
    """Which nodes answer, who leads the controller, how many groups each hosts and leads.

    Exits with 3 while fewer than a majority answer or no controller leader is known.
    """
    with session_of(context, servers).connect() as client:
        described = client.describe_cluster()
        views = client.views()
    nodes = _nodes(described)
    for node, _, reply in views:
        if not isinstance(reply, RaftlogError):
            row = nodes.setdefault(node, {"node": node})
            row["groups"] = len(reply.groups)
            row["leads"] = sum(view.role == "leader" for view in reply.groups)
    rows = [nodes[node] for node in sorted(nodes)]
    answering = [row for row in rows if not row.get("problem")]
    leader = _leader(answering)
    if output is Format.JSON:
        first = next(a for _, a in described if not isinstance(a, RaftlogError))
        show_json({"cluster_id": first.cluster_id, "controller_leader": leader, "nodes": rows})
    else:
        _show(rows, leader)
    if leader == 0 or 2 * len(answering) <= len(rows):
        raise typer.Exit(int(ExitCode.UNAVAILABLE))


def _nodes(
    described: list[tuple[str, ClusterDescription | RaftlogError]],
) -> dict[int, dict[str, Any]]:
    """A row for each node that any answer names; those that gave none have a `problem`."""
    known: dict[str, int] = {}
    for _, answer in described:
        if not isinstance(answer, RaftlogError):
            known.update({address: node for node, address in answer.nodes})
    rows: dict[int, dict[str, Any]] = {}
    for address, answer in described:
        if isinstance(answer, RaftlogError):
            node = known.get(address, 0)
            rows[node] = {"node": node, "address": address, "problem": answer.cause}
        else:
            rows[answer.node] = {
                "node": answer.node,
                "address": address,
                "problem": "",
                "leader": answer.leader,
                "term": answer.term,
                "version": answer.version,
                "store_uuid": answer.store_uuid,
            }
    return rows


def _leader(answering: list[dict[str, Any]]) -> int:
    """The controller's leader as the node with the latest term has it; 0: none is known."""
    newest = max(answering, key=lambda row: (row["term"], row["leader"]), default=None)
    return newest["leader"] if newest else 0


def _show(rows: list[dict[str, Any]], leader: int) -> None:
    shown = []
    for row in rows:
        state = "leads the controller" if row["node"] == leader else "follows"
        if row["problem"]:
            state = "no answer"
        shown.append(
            [row["node"], row["address"], state]
            + [row.get(name) for name in ("term", "groups", "leads", "version")]
        )
    show_table(["NODE", "ADDRESS", "STATE", "TERM", "GROUPS", "LEADS", "VERSION"], shown)
    for row in rows:
        if row["problem"]:
            say(f"node {row['node']}: {row['problem']}")

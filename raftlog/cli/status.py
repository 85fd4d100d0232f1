"""`raftlog status`: which nodes answer, who leads, what each node hosts, what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from raftlog.cli.output import (
    INCOMPLETE,
    Format,
    FormatOption,
    doubt,
    doubts,
    held_line,
    say,
    show_json,
    show_table,
)
from raftlog.cli.session import ServersOption, session_of
from raftlog.core.types import NO_NODE
from raftlog.errors import DiskFull, ExitCode, RaftlogError

if TYPE_CHECKING:
    from raftlog import GroupView, NodeView
    from raftlog.client.log_client import ClusterDescription
    from raftlog.client.watermark import NodeAnswer

NAMES_SHOWN_MAX = 10

_SUMS = ("log_bytes", "history_bytes", "points_behind")
"""Of a node's replicas, which `GroupView` describes."""

_COLUMNS = ("NODE", "ADDRESS", "STATE", "TERM", "GROUPS", "LEADS", "DISK", "LOG BYTES",
            "HISTORY BYTES", "POINTS BEHIND", "VERSION")  # fmt: skip

_DAMAGE = (
    "{topic}, replica {node}: {found} damaged entries or files found, {healed} healed, "
    "{not_healable} not healable. {latest}"
)
_SET_ASIDE = (
    "node {node} keeps the damaged folder {folder} ({bytes:,} bytes). Keep it until no replica "
    "recovers any more and every record is there; then remove it"
)
_QUARANTINED = "{topic}, replica {node} is quarantined: {problem}"
_COPYING = "it counts for no write until then"
_NO_LEADER = (
    'no leader can give it. Start the nodes that are down; if all run, see "is damaged at '
    'byte" in `raftlog docs OPERATIONS`'
)


def _recovering_line(*, topic: str, node: int, led: bool) -> str:
    remedy = _COPYING if led else _NO_LEADER
    return f"{topic}, replica {node} lost its log and is copying it from its peers: {remedy}"


_LINES: dict[str, Callable[..., str]] = {
    "replicas_in_doubt": doubt,
    "quarantined_replicas": _QUARANTINED.format,
    "recovering_replicas": _recovering_line,
    "incomplete_replicas": INCOMPLETE.format,
    "damaged_replicas": _DAMAGE.format,
    "folders_set_aside": _SET_ASIDE.format,
    "topics_held_back": held_line,
}
"""What is said of each problem."""


def status(
    context: typer.Context, servers: ServersOption = None, output: FormatOption = Format.TABLE
) -> None:
    """Show which nodes answer and whether their disks keep up, who leads the controller, how many
    groups each node hosts and leads, which topics have no leader, which replicas have damaged
    files, which damaged folders may be removed, and which topics keep records longer for a reader
    group.

    For each node: the bytes of its logs and of its history files, and how many snapshot points its
    compaction has still to do, in all topics together; `raftlog topic describe` tells of one topic.

    Exits with 3 while fewer than a majority answer and have room on their disks, the controller or
    a topic has no leader, or something damaged is not healable, as `raftlog scrub` does. Nodes that
    have never started do not count.
    """
    with session_of(context, servers).connect() as client:
        described = client.describe_cluster()
        views = own_views(client.views())
    nodes = _nodes(described)
    for node, _, reply in views:
        if node in nodes and not isinstance(reply, RaftlogError):
            nodes[node].update(sums_of(reply))
    rows = [nodes[node] for node in sorted(nodes)]
    answering = [row for row in rows if not row.get("problem")]
    leader = _leader(answering)
    latest = latest_of([answer for _, answer in described])
    started = _of_majority(rows, latest.observers)
    rules = rules_of([answer for _, answer in described], nodes=len(started))
    waiting = topics_without_leader(views)
    problems = {
        "replicas_in_doubt": replicas_in_doubt(views),
        "quarantined_replicas": quarantined_replicas(views),
        "recovering_replicas": recovering_replicas(views),
        "incomplete_replicas": incomplete_replicas(views),
        "damaged_replicas": damaged_replicas(views),
        "folders_set_aside": folders_set_aside(views),
        "topics_held_back": topics_held_back(views),
    }
    if output is Format.JSON:
        found = {
            "cluster_id": latest.cluster_id,
            "controller_leader": leader,
            "topics_without_leader": waiting,
            **problems,
        }
        show_json({**found, **rules, "nodes": rows})
    else:
        _show(rows, leader, waiting)
        for what, line in _LINES.items():
            for row in problems[what]:
                say(line(**row))
        if leader:
            _show_rules(**rules)
        say(lease_line(answering))
    writable = [row for row in started if not row.get("problem") and not row["disk_full"]]
    stays_damaged = any(row["not_healable"] for row in problems["damaged_replicas"])
    if leader == 0 or waiting or 2 * len(writable) <= len(started) or stays_damaged:
        raise typer.Exit(int(ExitCode.UNAVAILABLE))


def _of_majority(
    rows: Iterable[dict[str, Any]], observers: Collection[int]
) -> list[dict[str, Any]]:
    """Those of which a majority must answer: the nodes that have started and are no observers."""
    return [row for row in rows if row["node"] not in observers and not row.get("never_started")]


def own_views(answers: Sequence[NodeAnswer]) -> list[NodeAnswer]:
    """Without those that another node gave, which listens at the node's address."""
    return [
        each
        for each in answers
        if isinstance(each.answer, RaftlogError) or each.answer.node == each.node
    ]


def sums_of(node: NodeView) -> dict[str, int]:
    """What the node hosts, and what its replicas have on disk, in all topics together."""
    return {
        "groups": len(node.groups),
        "leads": sum(view.role == "leader" for view in node.groups),
        **{name: sum(getattr(view, name) for view in node.groups) for name in _SUMS},
    }


def topics_without_leader(answers: Sequence[NodeAnswer]) -> list[str]:
    """The topics for which no answering node knows a leader, by name; also those of which it has
    no replica but a quarantined one."""
    nodes = [reply for _, _, reply in answers if not isinstance(reply, RaftlogError)]
    views = [view for node in nodes for view in node.groups if view.topic]
    known = [(view.topic, view.group) for view in views]
    known += [(each.topic, each.group) for node in nodes for each in node.quarantined if each.topic]
    # A node that lags may still host the group of a topic that was deleted and created again.
    newest: dict[str, int] = {}
    for topic, group in known:
        newest[topic] = max(group, newest.get(topic, 0))
    # An observer does not notice that the leader it learned of is gone.
    voting = [view for view in views if view.role != "observer"]
    led = {view.topic for view in voting if view.leader and view.group == newest[view.topic]}
    return sorted(newest.keys() - led)


def replicas_in_doubt(answers: Sequence[NodeAnswer]) -> list[dict[str, Any]]:
    """The replicas whose state or history is not known to be what a majority has, by topic and
    node."""
    rows = [
        {"topic": view.topic, "node": view.node, "state": each}
        for _, _, reply in answers
        if not isinstance(reply, RaftlogError)
        for view in reply.groups
        for each in doubts(view.state, view.history)
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["node"]))


def quarantined_replicas(answers: Sequence[NodeAnswer]) -> list[dict[str, Any]]:
    """The replicas whose files are damaged, by topic and node."""
    rows = [
        {
            "topic": each.topic or f"group {each.group}",
            "node": reply.node,
            "problem": each.problem,
        }
        for _, _, reply in answers
        if not isinstance(reply, RaftlogError)
        for each in reply.quarantined
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["node"]))


def recovering_replicas(answers: Sequence[NodeAnswer]) -> list[dict[str, Any]]:
    """The replicas that have lost their logs and get them again, by topic and node, and whether
    they know a leader."""
    rows = [
        {"topic": view.topic or "the controller", "node": view.node, "led": view.leader != NO_NODE}
        for _, _, reply in answers
        if not isinstance(reply, RaftlogError)
        for view in reply.groups
        if view.role == "recovering"
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["node"]))


def incomplete_replicas(answers: Sequence[NodeAnswer]) -> list[dict[str, Any]]:
    """The replicas whose logs lack what their leaders say that they acknowledged, by topic and
    node."""
    rows = [
        {"topic": view.topic or "the controller", "node": view.node}
        for _, _, reply in answers
        if not isinstance(reply, RaftlogError)
        for view in reply.groups
        if view.role == "incomplete"
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["node"]))


def damaged_replicas(answers: Sequence[NodeAnswer]) -> list[dict[str, Any]]:
    """The replicas in whose files anything met damage since their nodes started, by topic and
    node."""
    rows = [
        {
            "topic": view.topic or "the controller",
            "node": view.node,
            "found": view.damage_found,
            "healed": view.damage_healed,
            "not_healable": view.damage_not_healable,
            "latest": view.damage_latest,
        }
        for _, _, reply in answers
        if not isinstance(reply, RaftlogError)
        for view in reply.groups
        if view.damage_found
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["node"]))


def folders_set_aside(answers: Sequence[NodeAnswer]) -> list[dict[str, Any]]:
    """The damaged folders that nodes keep, by node."""
    return [
        {"node": reply.node, "folder": each.folder, "bytes": each.byte_count}
        for _, _, reply in answers
        if not isinstance(reply, RaftlogError)
        for each in reply.set_aside
    ]


def topics_held_back(answers: Sequence[NodeAnswer]) -> list[dict[str, Any]]:
    """The topics whose retention waits for a reader group, by name, as their leaders see it; a
    group of "": the leader cannot read how far the groups are."""
    latest: dict[str, GroupView] = {}
    for _, _, reply in answers:
        for view in () if isinstance(reply, RaftlogError) else reply.groups:
            known = latest.get(view.topic)
            later = known is None or (view.group, view.term) > (known.group, known.term)
            if view.role == "leader" and later:
                latest[view.topic] = view
    return [
        {"topic": topic, "records": records, "held_for": view.held_for}
        for topic, view in sorted(latest.items())
        if (records := view.records_held)
    ]


def _nodes(
    described: list[tuple[str, ClusterDescription | RaftlogError]],
) -> dict[int, dict[str, Any]]:
    """A row for each node that any answer names. Those that did not answer have a `problem`, and
    may have never started; likewise one at whose address another node answers."""
    latest = latest_of([answer for _, answer in described])
    # A node that hears no leader may have lost its log: it knows no node then.
    unregistered = latest.unregistered if latest.leader else ()
    known: dict[str, int] = {}
    for _, answer in described:
        if not isinstance(answer, RaftlogError):
            known.update({address: node for node, address in answer.nodes})
    known.update({address: node for node, address in latest.nodes})
    rows: dict[int, dict[str, Any]] = {}
    for address, answer in described:
        problem, answered_by, node = "", NO_NODE, known.get(address, NO_NODE)
        if isinstance(answer, RaftlogError):
            problem = answer.cause
        elif node not in (NO_NODE, answer.node):
            answered_by = answer.node
            problem = f"node {answer.node} answers at its address, {address}"
        if problem:
            rows[node] = {
                "node": node,
                "address": address,
                "problem": problem,
                "answered_by": answered_by,
                "never_started": node in unregistered,
            }
        elif not isinstance(answer, RaftlogError):
            rows[answer.node] = {
                "node": answer.node,
                "address": address,
                "problem": "",
                "answered_by": answer.node,
                "disk": _disk(answer),
                "disk_full": answer.disk_full,
                "leader": answer.leader,
                "term": answer.term,
                "version": answer.version,
                "rules_known": answer.rules_known,
                "never_started": False,
                "lease_s": answer.lease_us / 1_000_000,
                "store_uuid": answer.store_uuid,
            }
    return rows


def rules_of(answers: Sequence[ClusterDescription | RaftlogError], nodes: int) -> dict[str, Any]:
    """The version of the rules that the cluster writes, and the nodes that hold the next one back:
    their programs are older, or do not answer. From the most recent answer. None and none if fewer
    than a majority of the nodes answer: a single one may know an old version only.
    """
    found = [answer for answer in answers if not isinstance(answer, RaftlogError)]
    observers = {each for answer in found for each in answer.observers}
    if 2 * sum(answer.node not in observers for answer in found) <= nodes:
        return {"rules": None, "behind_rules": []}
    newest = max(found, key=lambda a: (a.rules, a.rules_known, a.node == a.leader, a.term))
    # Such a program is only about to say what it knows, as while a cluster starts.
    knowing = {each.node for each in found if each.rules_known >= newest.rules_known}
    behind = [node for node in newest.behind_rules if node not in knowing]
    return {"rules": newest.rules, "behind_rules": behind}


def latest_of(answers: Sequence[ClusterDescription | RaftlogError]) -> ClusterDescription:
    """The answer that knows most of the nodes: the controller's leader's in the latest term, if it
    is among them."""
    found = [answer for answer in answers if not isinstance(answer, RaftlogError)]
    return max(found, key=lambda a: (a.term, a.node == a.leader, len(a.nodes)))


def lease_line(answering: Sequence[dict[str, Any]]) -> str:
    """Whether leaders have leases, by the settings of the nodes that answer."""
    lengths = {row["node"]: row["lease_s"] for row in answering if "lease_s" in row}
    lasting = sorted(set(lengths.values()))
    if lasting == [0]:
        return "leader leases off (raft.leader_lease)"
    if len(lasting) == 1:
        return f"leader leases on: each lasts {lasting[0]:.3g} s"
    each = ", ".join(
        f"node {node} {s:.3g} s" if s else f"node {node} off" for node, s in lengths.items()
    )
    return f"leader leases differ, so reads may take a round (raft.leader_lease): {each}"


def _show_rules(rules: int | None, behind_rules: list[int]) -> None:
    if rules is None:
        say("rules version unknown: fewer than a majority of the nodes answer")
    else:
        say(f"rules version {rules}")
    if behind_rules:
        waits_for = _names(behind_rules)
        say(f"  the next version waits for {waits_for}: start this program's version there")


def _names(nodes: list[int]) -> str:
    shown = ", ".join(f"node {node}" for node in nodes[:NAMES_SHOWN_MAX])
    more = len(nodes) - NAMES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def _disk(answer: ClusterDescription) -> str:
    if answer.disk_full:
        return "full"
    return "ok" if answer.disk_keeps_up else "slow"


def _leader(answering: list[dict[str, Any]]) -> int:
    """The controller's leader according to the node with the latest term; 0 if none is known."""
    newest = max(answering, key=lambda row: (row["term"], row["leader"]), default=None)
    return newest["leader"] if newest else 0


def _show(rows: list[dict[str, Any]], leader: int, waiting: list[str]) -> None:
    shown = []
    for row in rows:
        state = "leads the controller" if row["node"] == leader else "follows"
        if row["problem"]:
            state = "never started" if row.get("never_started") else "no answer"
            if row["answered_by"]:
                state = f"node {row['answered_by']} answers there"
        shown.append(
            [row["node"], row["address"], state]
            + [row.get(name) for name in ("term", "groups", "leads", "disk", *_SUMS, "version")]
        )
    show_table(_COLUMNS, shown)
    never_started = [row["node"] for row in rows if row.get("never_started")]
    if never_started:
        say(
            f"never started: {_names(never_started)}. Start them, or take them out with `raftlog "
            "cluster remove`"
        )
    for row in rows:
        if row["problem"] and (row["answered_by"] or not row["never_started"]):
            say(f"node {row['node']}: {row['problem']}")
        if row.get("disk_full"):
            say(str(DiskFull(file=row["disk_full"], node=f"node {row['node']}")))
    if not leader:
        say("the controller has no leader: no topic is created, deleted or configured")
    if waiting:
        names = ", ".join(waiting[:NAMES_SHOWN_MAX])
        more = f" and {len(waiting) - NAMES_SHOWN_MAX} more" if waiting[NAMES_SHOWN_MAX:] else ""
        say(f"topics without a leader, which take no writes: {names}{more}")

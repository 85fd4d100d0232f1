"""docs/METRICS.md, out of the metrics themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from prometheus_client.core import Metric

from raftlog.core.types import NO_INDEX, NodeId, Offset
from raftlog.metrics.counts import OK, Counts
from raftlog.metrics.state import NodeState, PeerState, PositionState, StateCollector
from raftlog.wire.calls import FollowerView, GroupView

_HEAD = """\
# Metrics

<!-- Made by `python -m raftlog.metrics`; a test compares. -->

What a node tells Prometheus at `metrics.listen`, path `/metrics`.
[Operations](OPERATIONS.md#metrics-and-alerts) says how to set it up, and what to do when an alert
of `conf/prometheus-rules.yml` fires. Names and labels are stable.

- Each node tells what it sees itself, so a topic has a series from every node that holds it. What
  only a leader knows, only the leader tells.
- `topic` is a topic's name, `(controller)` or `(kv)`. The first `metrics.topics_max` topics have
  series; `raftlog_node_...` sums count all of them.
- Besides these there are `process_...` and `python_...` of prometheus-client. All counters begin at
  0 when the process starts.

| metric | type | labels | what it is |
|---|---|---|---|
"""


_OF_NOBODY: dict[str, Any] = {
    each.name: "" if each.type == "str" else 0 for each in fields(GroupView)
}
_GROUP = GroupView(
    **_OF_NOBODY
    | {"followers": (FollowerView(node=NodeId(2), match_index=NO_INDEX, contact_ms_ago=0),)}
)
"""With all labels."""


def page() -> str:
    """The page."""
    return _HEAD + "".join(f"{row}\n" for row in _rows())


def _rows() -> Iterator[str]:
    for metric in families():
        suffix = "_total" if metric.type == "counter" else ""
        labels = sorted(
            {label for sample in metric.samples for label in sample.labels} - {"le"}
        ) or [""]
        named = ", ".join(f"`{label}`" for label in labels if label)
        yield f"| `{metric.name}{suffix}` | {metric.type} | {named} | {metric.documentation} |"


def families() -> list[Metric]:
    """Every metric of a node, each with a sample if it has labels."""
    counts = Counts()
    with counts.call("Append", 0) as count:
        count.outcome = OK
    counts.stranger("")
    counts.epoch("")
    counts.quotas.held_back("", "", 0)
    counts.quotas.refused("", "")
    state = NodeState(
        node=NodeId(1),
        cluster_id="",
        version="",
        groups=(_GROUP,),
        quarantined=0,
        peers=(PeerState(NodeId(2), True, 0, 0),),
        disk_keeps_up=True,
        disk_full=False,
        disk_free_bytes=0,
        disk_bytes=0,
        calls_in_flight=0,
        campaigns_waiting=0,
        loop_behind=False,
        budgets={"server.requests_max": 0},
        positions=(PositionState("", "", Offset(0), 0),),
        rules=1,
        certificate_ends_s=0,
    )
    counts.registry.register(StateCollector(lambda: state, 1))
    return list(counts.registry.collect())

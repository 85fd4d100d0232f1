"""What `make.py` records of observers (rules 6); like that, it runs with older checkouts."""

from __future__ import annotations

from typing import Any

from raftlog.core.types import CONTROLLER_GROUP, NodeId
from raftlog.machines import commands as c

_STORE = "5" * 32


def record(script: Any) -> None:
    """Observers are added and told what to pull from; cycles and strangers are refused."""
    register = c.RegisterNode(node=NodeId(1), store_uuid=_STORE, address="127.0.0.1:1", rules=6)
    for command in (
        _observe(11, 1), register, c.Rules(version=6), _observe(11, 1), _observe(11, 1),
        _observe(11), _observe(12, 11), _observe(13, 1, 12), _observe(14, 99), _observe(15, 2, 1),
        _pull(11, 13), _pull(11, 11), _pull(1, 11), _pull(99, 1), _pull(13), _pull(13, 0),
        _pull(13, 12), c.SetDuty(node=NodeId(12), draining=True, leaving=True),
        c.RetireNode(node=NodeId(12)), _pull(11, 13), _pull(13, 11), c.SnapshotPoint(keep_from=1),
    ):  # fmt: skip
        script.node.write(CONTROLLER_GROUP, command)


def _observe(node: int, *parents: int) -> c.AddNode:
    its = tuple(map(NodeId, parents))
    return c.AddNode(node=NodeId(node), address=f"o{node}:1", observer=True, parents=its)


def _pull(node: int, *parents: int) -> c.SetParents:
    return c.SetParents(node=NodeId(node), parents=tuple(map(NodeId, parents)))

"""What must hold in every situation of a cluster, whatever led to it (Raft figure 3)."""

from __future__ import annotations

from typing import NamedTuple

from raftlog.core.types import Entry
from tests.explorer.local import Local


class Past(NamedTuple):
    """What was once seen and must stay so: it belongs to the situation."""

    leaders: tuple[tuple[int, int], ...] = ()
    """(term, node) of everyone who led, rising."""
    applied: tuple[Entry, ...] = ()
    """The longest log that a member applied."""


def remembered(past: Past, local: Local) -> Past:
    """The past with what this member does now. Election Safety, State Machine Safety."""
    leaders, applied = past.leaders, past.applied
    if local.term_led:
        known = dict(leaders)
        node = known.setdefault(local.term_led, local.raft.node)
        assert node == local.raft.node, f"Election Safety: two leaders in term {local.term_led}"
        leaders = tuple(sorted(known.items()))
    count = min(len(local.applied), len(applied))
    assert local.applied[:count] == applied[:count], "State Machine Safety: two entries at an index"
    if len(local.applied) > count:
        applied = local.applied
    return Past(leaders, applied)


def check_complete(past: Past, local: Local) -> None:
    """Leader Completeness: the latest leader holds all that was ever applied."""
    if local.term_led and local.term_led == past.leaders[-1][0]:
        held = local.log[: len(past.applied)]
        assert held == past.applied, "Leader Completeness: a committed entry is missing"


def check_match(one: Local, other: Local) -> None:
    """Log Matching: where two logs have an entry of the same term, all before it is the same."""
    for at in range(min(len(one.log), len(other.log)) - 1, -1, -1):
        if one.log[at].term == other.log[at].term:
            assert one.log[: at + 1] == other.log[: at + 1], "Log Matching: two logs differ"
            return

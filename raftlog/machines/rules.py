"""The versions of the machines' rules: what one log must come to on every node and at every replay.

A node replays a log with the rules its entries were applied under, never with today's. So every
change of a rule, of a bound in `raftlog.machines.limits`, or of what an outcome holds has a
version, and the old behaviour stays for old logs. A machine starts under the rules that its topic
was created with (the controller: `RULES_FIRST`); only an applied `Rules(version)` raises them, at
one place of the log and so on all replicas alike.

1. What the first release applied.
2. Table rows by kind, ages in the log's own time, what a replayed batch is known by.
"""

from __future__ import annotations

from raftlog.core.types import GroupId, LogIndex
from raftlog.errors import LogFromNewerVersion

RULES_FIRST = 1
"""What a log without a `Rules` entry is applied under."""

RULES_LATEST = 2
"""The highest version that this program knows."""


def known_rules(version: int, *, group: GroupId, index: LogIndex) -> int:
    """`version`, which entry `index` of the group begins (0: it was created with it).

    Raises `LogFromNewerVersion` where this program cannot apply by it: it must not guess.
    """
    if version > RULES_LATEST:
        found = f"rules version {version}, where this program knows {RULES_LATEST} at most"
        raise LogFromNewerVersion(group=group, index=index, found=found)
    return version


def next_rules(current: int, proposed: int, *, group: GroupId, index: LogIndex) -> int:
    """The version after an applied `Rules(proposed)`: it never falls, so a repeat is harmless.

    Raises `LogFromNewerVersion`.
    """
    assert RULES_FIRST <= current <= RULES_LATEST
    return max(current, known_rules(proposed, group=group, index=index))

"""The versions of the machines' rules. One log must give the same result everywhere and always.

A node replays a log with the rules under which its entries were applied, never with today's. So
every change of a rule, of a bound in `raftlog.machines.limits`, or of what an outcome holds has a
version, and old logs keep the old behavior. A machine starts under the rules that its topic was
created with (the controller: `RULES_FIRST`). Only an applied `Rules(version)` raises them: it is
at one index of the log, so all replicas switch at the same entry.

There is one version so far, 1. Until the first release, a change of it replaces it, and changes
`raftlog.core.types.FORMAT_STAMP` with it (CONTRIBUTING.md).
"""

from __future__ import annotations

from raftlog.core.types import GroupId, LogIndex
from raftlog.errors import LogFromNewerVersion

RULES_FIRST = 1
"""The rules of a log without a `Rules` entry."""

RULES_LATEST = 1
"""The highest version that this program knows."""

BROUGHT_BY: dict[type, int] = {}
"""Kinds of commands that version 1 lacks, with the version that brought each."""


def rules_needed(command: object) -> int:
    """The first version that knows the command. Under an earlier one no leader may propose it: a
    replica whose program does not know the command would stop at it."""
    return BROUGHT_BY.get(type(command), RULES_FIRST)


def known_rules(version: int, *, group: GroupId, index: LogIndex) -> int:
    """`version`, which entry `index` of the group begins (0: the group was created with it).

    Raises `LogFromNewerVersion` if this program does not know the version: it must not guess.
    """
    if version > RULES_LATEST:
        found = f"rules version {version}, where this program knows {RULES_LATEST} at most"
        raise LogFromNewerVersion(group=group, index=index, found=found)
    return version


def next_rules(current: int, proposed: int, *, group: GroupId, index: LogIndex) -> int:
    """The version after an applied `Rules(proposed)`. It never falls, so a repeat is harmless.

    Raises `LogFromNewerVersion` as `known_rules` does.
    """
    assert RULES_FIRST <= current <= RULES_LATEST
    return max(current, known_rules(proposed, group=group, index=index))

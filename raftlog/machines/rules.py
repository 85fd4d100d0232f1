"""The versions of the machines' rules. One log must give the same result everywhere and always.

A node replays a log with the rules under which its entries were applied, never with today's. So
every change of a rule, of a bound in `raftlog.machines.limits`, or of what an outcome holds has a
version, and old logs keep the old behaviour. A machine starts under the rules that its topic was
created with (the controller: `RULES_FIRST`). Only an applied `Rules(version)` raises them: it is
at one index of the log, so all replicas switch at the same entry.

1. What the first release applied.
2. Writer rows by kind, ages in log time, and the plan by which a replayed batch is recognised.
3. Snapshot points, trims and settings of topics. What the state holds of the extents no longer
   depends on which of them a replica still has.
4. Nodes that come and go, and groups that are placed elsewhere.
5. The key-value store.
6. Observers, and the nodes that they pull from.
7. A group that is placed elsewhere may keep a voter that leaves, which goes by a change of its own.
8. A node leaves only if the others have room for the topics of all that leave, and is removed only
   while no group is on its way back from anywhere. No group is made on a node that was removed. A
   drain changes nothing of whether a node leaves.
9. Schemas of topics that evolve.
10. Epochs that overwrite a topic.
11. Retention that waits for reader groups.
12. Columns of types that earlier programs do not know, and changes within nested types.
13. Topics whose column chunks may hold byte planes: those that are created under it.
14. Writers that belong to the identity that began them.
"""

from __future__ import annotations

from raftlog.core.types import GroupId, LogIndex
from raftlog.errors import LogFromNewerVersion

RULES_FIRST = 1
"""The rules of a log without a `Rules` entry."""

RULES_WITH_POINTS = 3
"""The first rules under which topics have snapshots; extents are no part of their state then."""

RULES_WITH_MEMBERS = 4
"""The first rules under which nodes come and go."""

RULES_WITH_KV = 5
"""The first rules that know the key-value store."""

RULES_WITH_OBSERVERS = 6
"""The first rules that know observers."""

RULES_KEEPING_VOTERS = 7
"""The first rules under which a group that is placed elsewhere may keep a voter that leaves."""

RULES_LEAVING_ROOM = 8
"""The first rules under which a node leaves only if the others have room for topics, and no group
is made on one that was removed."""

RULES_WITH_EVOLUTION = 9
"""The first rules under which the schema of a topic changes."""

RULES_WITH_OVERWRITE = 10
"""The first rules under which an epoch may take the place of all records."""

RULES_WAITING_FOR_READERS = 11
"""The first rules that know the settings by which retention waits for reader groups."""

RULES_WITH_PLANES = 13
"""The first rules under which a new topic's column chunks may hold byte planes."""

RULES_WITH_OWNERS = 14
"""The first rules under which a writer belongs to the identity that began it."""

RULES_LATEST = 14
"""The highest version that this program knows."""


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

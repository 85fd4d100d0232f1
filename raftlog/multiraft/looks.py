"""How often a node looks through all its groups for what is due.

A look costs a microsecond or two for each group. So there are fewer of them where there are many
groups, and an idle node costs the same however many it has.
"""

from __future__ import annotations

from collections.abc import Sized

_GROUPS_MAX = 128
"""So many are looked through as often as the caller says. No setting: what is looked for is due
after minutes or days."""


def looks_at(ticks: int, every_ticks: int, groups: Sized) -> bool:
    """Is tick number `ticks` one for a look through these groups? With few of them there is one
    every `every_ticks`."""
    return ticks % (every_ticks * -(-max(len(groups), 1) // _GROUPS_MAX)) == 0

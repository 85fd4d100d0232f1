"""What the nodes' own logs say: which node began to lead which group, in which term, and when."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """A node began to lead a group."""

    group: int
    term: int
    wall_s: float
    """By the node's wall clock, in seconds since 1970 UTC."""


def leaderships(files: Iterable[Path]) -> list[Leadership]:
    """All leaderships that the nodes' logs show, oldest first."""
    found = [each for file in files for each in _told(file.read_text("utf-8", "replace"))]
    return sorted(found, key=lambda each: each.wall_s)


def _told(text: str) -> Iterator[Leadership]:
    for line in text.splitlines():
        if '"leadership"' not in line or not line.startswith("{") or not line.endswith("}"):
            continue  # another event, or a line truncated by a kill
        row = json.loads(line)
        if row["event"] == "leadership" and row["role"] == "leader":
            yield Leadership(
                group=row["group"],
                term=row["term"],
                wall_s=datetime.fromisoformat(row["timestamp"]).timestamp(),
            )


def elections(found: Iterable[Leadership], begin_wall_s: float, end_wall_s: float) -> int:
    """The most terms in which any one group got a leader within [begin, end)."""
    terms: dict[int, set[int]] = defaultdict(set)
    for each in found:
        if begin_wall_s <= each.wall_s < end_wall_s:
            terms[each.group].add(each.term)
    return max(map(len, terms.values()), default=0)

"""Elections as the nodes' logs report them."""

from __future__ import annotations

import json
from pathlib import Path

from raftlog.chaos.node_logs import elections, leaderships


def line(group: int, term: int, second: int, role: str = "leader") -> str:
    row = {"event": "leadership", "group": group, "role": role, "term": term}
    return json.dumps(row | {"timestamp": f"2026-01-01T00:00:{second:02d}.500000Z"})


def test_terms_with_a_leader_are_counted_in_the_group_that_had_most(tmp_path: Path) -> None:
    one, other = tmp_path / "1.log", tmp_path / "2.log"
    one.write_text(
        "\n".join(
            [
                line(1, 5, 10),
                line(1, 6, 20),
                line(1, 6, 21, role="follower"),
                line(2, 9, 22),
                "Traceback: no JSON of ours",
                line(1, 8, 59)[:-9],
            ]
        )
    )
    other.write_text(line(1, 7, 30) + "\n")
    found = leaderships([one, other])
    assert [each.term for each in found] == [5, 6, 9, 7]
    begin_s = found[0].wall_s
    assert elections(found, begin_s, begin_s + 15) == 2
    assert elections(found, begin_s, begin_s + 60) == 3
    assert elections(found, begin_s + 1, begin_s + 13) == 1
    assert elections(found, begin_s + 30, begin_s + 60) == 0

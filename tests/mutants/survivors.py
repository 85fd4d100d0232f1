"""Why a mutant that nothing notices is no missing test.

Each key is what a mutant is made of: its file, its function, its line before and after. So it holds
for every seed that draws it. `tests/mutants/test_mutants.py` sees that each can still be made.
"""

from __future__ import annotations

from typing import NamedTuple


class Change(NamedTuple):
    """What a mutant changes."""

    file: str
    function: str
    before: str
    after: str


EQUIVALENT: dict[Change, str] = {
    Change(
        file="raftlog/storage/hard_state.py",
        function="HardStateJournal._encode",
        before="records.append(_RECORD.pack(_FORGET, group, 0, 0))",
        after="records.append(_RECORD.pack(_FORGET, group, 0, 1))",
    ): "whoever reads a record that a group is forgotten looks at nothing but the group",
}
"""No caller, peer or file can see the difference; the reason. They do not count as bugs."""

UNNOTICED: dict[Change, str] = {
    Change(
        file="raftlog/multiraft/duties.py",
        function="LeaderDuties._report",
        before="self._reported = {each: at for each, at in self._reported.items() if each in due}",
        after="pass",
    ): (
        "a few bytes stay for each move, and a report that is due a second time waits some"
        " heartbeats longer: it costs time only"
    ),
}
"""Bugs that neither the tests nor the seeds notice, and why that is accepted. They do count."""

"""Why a mutant that nothing notices is no missing test.

Each key is what a drawn mutant is made of: its file, its function, its line before and after.
`tests/mutants/test_mutants.py` sees that each is still drawn.
"""

from __future__ import annotations

from typing import NamedTuple


class Change(NamedTuple):
    """What a mutant changes."""

    file: str
    function: str
    before: str
    after: str


EQUIVALENT: dict[Change, str] = {}
"""No caller, peer or file can see the difference; the reason. They do not count as bugs."""

UNNOTICED: dict[Change, str] = {}
"""Bugs that neither the tests nor the seeds notice, and why that is accepted. They do count."""

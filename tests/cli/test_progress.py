"""The bar that shows how far a file is."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from raftlog.cli.progress import progress


def shown(*, terminal: bool, total: int | None) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    with progress("[rows].csv", total, console) as show:
        show(50, 1_234)
    return out.getvalue()


def test_a_terminal_shows_how_far_a_file_is() -> None:
    text = shown(terminal=True, total=200)
    assert all(part in text for part in ("[rows].csv", "25%", "1,234 records")), text


@pytest.mark.parametrize(("terminal", "total"), [(False, 200), (True, None)])
def test_without_a_terminal_or_a_known_end_nothing_is_shown(
    terminal: bool, total: int | None
) -> None:
    assert shown(terminal=terminal, total=total) == ""

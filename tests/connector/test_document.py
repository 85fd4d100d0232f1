"""docs/SPARK.md names every option, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from raftlog.spark.declarations import OPTIONS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "SPARK.md"


def test_the_document_has_exactly_the_options_that_are_declared() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(option.name for option in OPTIONS)

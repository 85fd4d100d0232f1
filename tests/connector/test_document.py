"""docs/SPARK.md names every option and every view's columns, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from raftlog.spark.declarations import OPTIONS
from raftlog.spark.views import COLUMNS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "SPARK.md"


VIEWS = re.compile(r"^## Views\n.*?(?=^## )", re.MULTILINE | re.DOTALL)


def test_the_document_has_exactly_the_options_that_are_declared() -> None:
    text = VIEWS.sub("", DOCUMENT.read_text(encoding="utf-8"))
    rows = re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE)
    assert sorted(rows) == sorted(option.name for option in OPTIONS)


def test_the_document_has_exactly_the_columns_of_the_views_with_their_types() -> None:
    section = VIEWS.search(DOCUMENT.read_text(encoding="utf-8"))
    assert section is not None
    parts = re.split(r"^\*\*`(\w+)`\*\*", section[0], flags=re.MULTILINE)[1:]
    documented = {
        view: re.findall(r"^\| `(\w+)` \| (\S+) \|", part, re.MULTILINE)
        for view, part in zip(parts[::2], parts[1::2], strict=True)
    }
    assert documented == {
        view: [(field.name, field.dataType.simpleString()) for field in columns]
        for view, columns in COLUMNS.items()
    }

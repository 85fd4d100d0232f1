"""docs/ERRORS.md is what the tree of errors says, and says it of every error."""

from __future__ import annotations

import re

from raftlog import errors
from raftlog.errors import RaftlogError
from raftlog.errors.document import anchor, kinds, meaning_of, page
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "ERRORS.md"


def test_the_page_is_as_generated() -> None:
    """Else: `.venv/bin/python -m raftlog.errors > docs/ERRORS.md`."""
    assert PAGE.read_text(encoding="utf-8").splitlines() == page().splitlines()


def test_the_page_has_every_public_error_once() -> None:
    public = {
        name
        for name in errors.__all__
        if isinstance(kind := getattr(errors, name), type) and issubclass(kind, RaftlogError)
    }
    sections = re.findall(r"^## (\w+)$", page(), re.MULTILINE)
    assert len(sections) == len(set(sections))
    assert public <= set(sections)


def test_every_error_says_what_it_means_and_its_anchor_is_a_heading() -> None:
    headings = re.findall(r"^## (\w+)$", page().lower(), re.MULTILINE)
    for kind in kinds():
        assert meaning_of(kind), f"give {kind.__name__} a docstring, or words in the tree"
        name_of_page, _, name = anchor(kind).partition("#")
        assert (name_of_page, name in headings) == (PAGE.stem, True), kind

"""Every relative link of a document leads to a file of the repository, and to a heading in it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.docs.pages import PAGES, ROOT

_LINK = re.compile(r"\]\((?!\w+:)([^()#\s]*)(?:#([^()\s]*))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The names of the page's headings, as GitHub and mkdocs make them."""
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_relative_link_exists_in_a_clone() -> None:
    """A page that `make docs` generates does not."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    files = {ROOT / line for line in listed.stdout.splitlines()}
    broken = []
    for page in PAGES:
        for path, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
            target = (page.parent / path).resolve() if path else page
            known = target in files or (not files and target.is_file()) or target.is_dir()
            if not known or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {path}#{anchor}")
    assert broken == []

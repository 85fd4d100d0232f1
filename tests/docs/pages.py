"""What tests need of the documents: their code blocks, and the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")],
)

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"(^|\s)#\s.*$")
_ASSIGNMENT = re.compile(r"[A-Z_]+=.*")


class Command(NamedTuple):
    """One command of a page, without comment and without variables set before it."""

    page: str
    line: str
    words: list[str]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language ("": of none), in order."""
    text = page.read_text(encoding="utf-8")
    return [block for found, block in _FENCE.findall(text) if found.strip() == language]


def commands() -> Iterator[Command]:
    """Every command of every `sh` block."""
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.splitlines():
                words = shlex.split(_COMMENT.sub("", line))
                while words and _ASSIGNMENT.fullmatch(words[0]):
                    del words[0]
                if words:
                    yield Command(str(page.relative_to(ROOT)), line, words)

"""How often the product's prose uses words that have a plainer one."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator

from tests.docs.pages import PAGES
from tests.test_layering import KNOWN

WORDS = (
    "nobody", "somebody", "anybody", "whoever", "whom", "anew", "once more", "for ever", "mend",
    "unsaid", "told of", "held back", "set aside", "outvoted", "disputed", "carried stages",
)  # fmt: skip
PLACES = ("pages", "docstrings", "comments", "texts")
"""Pages are docs/ and the root's; texts are what a program prints: its strings with a space."""


def counted() -> dict[str, Counter[str]]:
    """For each word, how often it occurs in each place."""
    found = {word: Counter(dict.fromkeys(PLACES, 0)) for word in WORDS}
    for place, text in _everything():
        for word, count in occurrences(text).items():
            found[word][place] += count
    return found


def occurrences(text: str) -> Counter[str]:
    """How often the text has each of the words: whole words in any case, also across lines."""
    plain = " ".join(text.lower().split())
    return Counter({word: len(re.findall(rf"\b{word}\b", plain)) for word in WORDS})


def _everything() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        yield "pages", page.read_text(encoding="utf-8")
    for path in KNOWN.values():
        yield from prose_of(path.read_text(encoding="utf-8"))


def prose_of(source: str) -> Iterator[tuple[str, str]]:
    """The prose of a module with its place. Comments on lines that follow each other are one."""
    tree = ast.parse(source)
    expressions = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in expressions:
                yield "docstrings", node.value
            elif " " in node.value:
                yield "texts", node.value
    comments: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            before = comments.pop(line - 1, "")
            comments[line] = f"{before} {token.string.lstrip('#')}"
    for text in comments.values():
        yield "comments", text

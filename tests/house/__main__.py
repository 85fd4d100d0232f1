"""Prints figures of the code base; it sets no limits.

    .venv/bin/python -m tests.house [--names]

Size of the product, the packages at its first level and what they import from each other, the
constructor that takes most callables, the files that one append passes through, and how often the
words occur that prose should not use. Starts two real nodes, for about ten seconds.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.house import prose, structure, traced_append


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description="Print figures of the code base.")
    parser.add_argument("--names", action="store_true", help="also names where a number stands")
    names = parser.parse_args().names
    files, lines = structure.size()
    print(f"product: {lines:,} lines in {files} files, without generated code")
    show("first level", "packages and modules", structure.first_level(), names)
    edges = structure.first_level_edges()
    show("imports between them", "edges", [f"{a} -> {b}" for a, b in sorted(edges)], names)
    levels = (("them", edges), ("modules", structure.module_edges()))
    for level, each in levels:
        found = structure.cycles(each)
        print(f"cycles between {level}: {'; '.join(map(', '.join, found)) or 'none'}")
    most = max(structure.constructors(structure.product()), key=lambda each: len(each.callables))
    print(f"most callables: {most.name} takes {len(most.callables)}: {', '.join(most.callables)}")
    with tempfile.TemporaryDirectory() as folder:
        passed = traced_append.passed_files(Path(folder) / "data")
    for process, files_passed in passed.items():
        show(f"an append, {process}", "files", sorted(files_passed), names)
    show("an append, all", "files", sorted(frozenset().union(*passed.values())), names)
    print(f"\n{'words in prose':16}" + "".join(f"{place:>12}" for place in prose.PLACES))
    for word, counts in prose.counted().items():
        print(f"{word:16}" + "".join(f"{counts[place]:12,}" for place in prose.PLACES))


def show(what: str, unit: str, found: Iterable[str], names: bool) -> None:
    """A line with their number, and if asked for one with each name."""
    found = list(found)
    print(f"{what}: {len(found)} {unit}")
    for each in found if names else ():
        print(f"    {each}")


if __name__ == "__main__":
    main()

"""The figures of `python -m tests.house` count what they say."""

from __future__ import annotations

import ast
import sys
import threading
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.errors import NoQuorum, TopicNotFound
from tests.house import prose, structure, tracing
from tests.house.structure import callable_aliases, cycles, is_callable, top_of
from tests.test_layering import KNOWN

MODULE = '''\
"""Told of
by nobody."""

# It is held
# back, and mended.
x = "once  more"  # Nobody.
"""Anew."""
y = "anew"
# Set aside.

# Not a sentence.


def f():
    """For Ever."""
    return f"{x} for ever"
'''


def test_words_are_counted_whole_in_any_case_and_across_lines() -> None:
    found = prose.occurrences("Nobody, NOBODY's and nobody.\nonce\n    more. Amend, mended, whom-")
    assert +found == {"nobody": 3, "once more": 1, "whom": 1}


def test_prose_is_docstrings_comments_and_texts() -> None:
    found = {
        place: [
            word
            for each, text in prose.prose_of(MODULE)
            if each == place
            for word in +prose.occurrences(text)
        ]
        for place in ("docstrings", "comments", "texts")
    }
    assert sorted(found["docstrings"]) == ["anew", "for ever", "nobody", "told of"]
    assert sorted(found["comments"]) == ["held back", "nobody", "set aside"]
    assert sorted(found["texts"]) == ["for ever", "once more"], "a text has a space"


@pytest.mark.slow
def test_every_word_has_a_count_for_each_place() -> None:
    found = prose.counted()
    assert list(found) == list(prose.WORDS)
    assert all(list(counts) == list(prose.PLACES) for counts in found.values())


def test_the_product_is_what_is_installed_without_generated_code() -> None:
    files, lines = structure.size()
    assert files == len(KNOWN) > 400
    assert lines == sum(len(path.read_bytes().splitlines()) for path in KNOWN.values())
    assert not [name for name in KNOWN if name.endswith("_pb2")]


def test_the_first_level_is_packages_loose_modules_and_the_module_at_the_root() -> None:
    modules = ("raftlog", "raftlog.core.raft", "raftlog.spark.reader", "raftlog.tls")
    assert [top_of(name) for name in modules] == ["raftlog", "core", "spark", "tls"]
    assert top_of("pyspark_raftlog") == "pyspark_raftlog"
    assert {"raftlog", "pyspark_raftlog", "core", "tls", "spark"} <= {*structure.first_level()}


@pytest.mark.slow
def test_imports_are_edges_between_modules_that_exist() -> None:
    modules = structure.module_edges()
    assert ("raftlog.core.raft", "raftlog.core.messages") in modules
    assert ("client", "wire") in structure.first_level_edges()
    assert not [edge for edge in structure.first_level_edges() if edge[0] == edge[1]]


def test_a_cycle_is_a_group_in_which_each_leads_to_every_other() -> None:
    edges = {("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "e"), ("d", "f")}
    assert cycles(edges) == [["a", "b", "c"], ["e"]]
    assert cycles({("a", "b"), ("b", "c"), ("a", "c")}) == []


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("Callable[[int], None]", True),
        ("Callable[[], int] | None", True),
        ("Optional[Done]", True),
        ("Done", True),
        ("int", False),
        ("list[Callable[[], None]]", False),
    ],
)
def test_a_callable_is_found_by_its_type_or_the_name_of_that(
    annotation: str, expected: bool
) -> None:
    assert is_callable(ast.parse(annotation, mode="eval").body, {"Done"}) is expected


def test_names_of_callables_are_collected() -> None:
    tree = ast.parse("Done = Callable[[], None]\nCount = int\nDone2 = Done\n")
    assert list(callable_aliases(tree)) == ["Done"]


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def __init__(self, a: Callable[[], None], b: int, *, c: Callable): ...\n",
        "@dataclass(slots=True)\nclass A:\n    a: Callable[[], None]\n    b: int\n    c: Callable\n"
        "    d: Callable[[], None] = field(init=False)\n",
        "class A(NamedTuple):\n    a: Callable[[], None]\n    b: int\n    c: Callable | None\n",
    ],
)
def test_a_constructor_is_an_init_or_a_dataclass(source: str) -> None:
    found = list(structure.constructors({"raftlog.x": ast.parse(source)}))
    assert found == [("raftlog.x.A", ["a", "c"])]


def test_the_files_that_run_are_noted_in_every_thread_and_no_longer_than_asked(
    tmp_path: Path,
) -> None:
    with tracing.traced() as times:
        thread = threading.Thread(target=lambda: str(NoQuorum(what="a read").cause))
        thread.start()
        thread.join(PATIENCE_S)
        ast.parse("x = 'not of the product'")
    assert sys.getprofile() is None
    assert times
    assert {name.partition("/")[0] for name in times} == {"errors"}
    before = {name: list(at) for name, at in times.items()}
    assert TopicNotFound(topic="t", nearest="").cause
    assert {name: list(at) for name, at in times.items()} == before
    tracing.write(times, tmp_path / "trace")
    assert tracing.read(tmp_path / "trace") == before


def test_a_file_counts_that_ran_in_most_windows() -> None:
    windows = [(0, 9), (10, 19), (20, 29)]
    times = {"always": [0, 19, 25], "twice": [5, 12], "once": [5, 6, 7], "between": [30]}
    assert tracing.in_most(times, windows) == {"always", "twice"}

"""No help, error, page or sample file names a file that an installed raftlog lacks.

A sentence may name one if it says that it is "in the source". Help and errors name no path of a
page at all: they say `raftlog docs PAGE`, which prints it wherever it is installed.
"""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.cli.main import command_line
from raftlog.errors.document import page as page_of_errors
from tests.test_layering import KNOWN
from tests.wheel_environment import ROOT, build_tree

pytestmark = pytest.mark.slow

INSTALLED_AS = {"connector/": "raftlog/spark/", "spark_jobs/": "raftlog/spark_jobs/"} | {
    folder: f"raftlog/{folder}" for folder in ("docs/", "conf/")
}
"""Folders of the source, and where a wheel has them."""

_PATH = re.compile(
    r"(?<![\w/.])(?:(?:scripts|tests|conf|docs|connector|spark_jobs|build)/[\w./-]*\w"
    r"|raftlog/[\w./-]+\.(?:py|proto|toml|md)\b)"  # without an ending: keys of raftlog
)
_LINK = re.compile(r"\]\((?!\w+:)([^()#\s]+)(?:#[^()\s]*)?\)")
_PAGE = re.compile(r"\b[A-Z_]{4,}\.md\b")
_TARGETS = re.search(r"^TARGETS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
assert _TARGETS is not None
_MAKE = re.compile(rf"\bmake (?:{'|'.join(_TARGETS[1].split())})\b")
_PIP = re.compile(r"pip install [^`\n]*")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n(?=- |\|)|(?<= )\|")
SAYS_SO = "in the source"


def missing(text: str, files: frozenset[str], folder: str = "") -> Iterator[str]:
    """What the text names and `files`, all of a wheel, lack. Links are relative to `folder`."""
    for sentence in _SENTENCES.split(text):
        if SAYS_SO in " ".join(sentence.lower().split()):
            continue
        for found in _MAKE.findall(sentence):
            yield found
        for found in _PIP.findall(sentence):
            if re.search(r"raftlog\[[\w,]+\](?! @ )|\.\[", found):
                yield found
        for link in _LINK.findall(sentence):
            if not _has(files, str(Path("/", folder, link).resolve())[1:]):
                yield link
        for path in _PATH.findall(_LINK.sub("", sentence)):
            if not _has(files, path):
                yield path
        for name in _PAGE.findall(_LINK.sub("", sentence)):
            if not _has(files, f"docs/{name}"):
                yield name


def _has(files: frozenset[str], path: str) -> bool:
    for folder, installed in INSTALLED_AS.items():
        if path.startswith(folder):
            path = installed + path.removeprefix(folder)
    return path in files or any(each.startswith(f"{path}/") for each in files)


def strings(tree: ast.Module) -> Iterator[str]:
    """The texts of a module that a user may meet: all but its docstrings."""
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in documents:
            yield node.value


def helps(command: Any) -> Iterator[str]:
    """The help of a command, of its parameters, and of the commands below it."""
    yield f"{command.help or ''} {command.epilog or ''}"
    for parameter in command.params:
        yield getattr(parameter, "help", None) or ""
    for each in getattr(command, "commands", {}).values():
        yield from helps(each)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(build_tree(tmp_path_factory.mktemp("dist"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def files(wheel: zipfile.ZipFile) -> frozenset[str]:
    return frozenset(wheel.namelist())


def test_pages_and_sample_files_name_what_is_installed(
    wheel: zipfile.ZipFile, files: frozenset[str]
) -> None:
    shipped = [name for name in files if name.startswith(("raftlog/docs/", "raftlog/conf/"))]
    assert len(shipped) > 20
    found = [
        (name, each)
        for name in sorted(shipped)
        for each in missing(wheel.read(name).decode(), files, str(Path(name).parent))
    ]
    assert found == []


def test_help_names_what_is_installed(files: frozenset[str]) -> None:
    texts = list(helps(command_line()))
    assert len(texts) > 200
    assert [each for text in texts for each in missing(text, files)] == []
    assert [text for text in texts if "docs/" in text] == []


def test_errors_name_what_is_installed(files: frozenset[str]) -> None:
    assert list(missing(page_of_errors(), files, "raftlog/docs")) == []


@pytest.mark.parametrize("name", [name for name in KNOWN if name != "raftlog.wire.generate"])
def test_the_strings_of_a_module_name_what_is_installed(name: str, files: frozenset[str]) -> None:
    texts = list(strings(ast.parse(KNOWN[name].read_text(encoding="utf-8"))))
    assert [each for text in texts for each in missing(text, files, "raftlog/docs")] == []
    if name != "raftlog.errors.document":
        assert [text for text in texts if re.search(r"docs/[A-Z]", text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "See scripts/delta.sh.",
        "As `tests/spark/test_examples.py` does.",
        "[Testing](TESTING.md#figures) says more.",
        "docs/TESTING.md says more.",
        "CONTRIBUTING.md says more.",
        "conf/nothing.toml has it.",
        "Run `make matrix`.",
        'pip install "raftlog[spark]"',
        'pip install ".[spark]"',
    ],
)
def test_a_file_that_is_not_installed_is_noticed(text: str, files: frozenset[str]) -> None:
    assert list(missing(text, files, "raftlog/docs")) != []
    assert list(missing(f"{text[:-1]} in the source.", files, "raftlog/docs")) == []


@pytest.mark.parametrize(
    "text",
    [
        "See [Data loss](OPERATIONS.md#data-loss), docs/SPARK.md, conf/raftlog.toml.",
        "See connector/offsets.py, raftlog/wire/raftlog.proto, docs/examples/spark/pipeline.",
        'pip install "raftlog[spark] @ file:///path/to/raftlog-0.1.0-py3-none-any.whl"',
    ],
)
def test_a_file_that_is_installed_is_found(text: str, files: frozenset[str]) -> None:
    assert list(missing(text, files, "raftlog/docs")) == []

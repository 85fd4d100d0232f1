"""`raftlog docs` lists what is installed, prints a page or a section, and names the nearest."""

from __future__ import annotations

import json

import pytest

from raftlog.cli.docs import anchor, sections_of
from raftlog.errors import ExitCode
from raftlog.errors.document import anchor as anchor_of_error
from raftlog.errors.document import kinds
from tests.cli.command import Finished, run
from tests.docs.pages import ROOT

PAGE = """\
# Title

Begin.

## First part: `a-b` & c

```sh
# Not a heading
```

### Below it

Text.

## Second part

End.
"""

Capture = pytest.CaptureFixture[str]


def docs(monkeypatch: pytest.MonkeyPatch, capsys: Capture, *words: str) -> Finished:
    return run(monkeypatch, capsys, "docs", *words)


def test_without_a_page_all_are_listed_with_their_titles(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    lines = docs(monkeypatch, capsys).out.splitlines()
    rows = dict(line.rstrip().split(maxsplit=1) for line in lines)
    assert rows["PAGE"] == "TITLE"
    assert rows["EXACTLY_ONCE"] == "Exactly once"
    assert rows["conf/grafana-dashboard.json"] == "Grafana dashboard raftlog"
    assert rows["conf/raftlog.toml"] == "The configuration of raftlog: every key, with its default"
    assert rows["examples/consumer.py"].startswith("A small consumer: ")
    found = json.loads(docs(monkeypatch, capsys, "-o", "json").out)
    assert [each["page"] for each in found] == list(rows)[1:]
    pages = [name for name in rows if (ROOT / "docs" / f"{name}.md").exists()]
    assert pages == list(rows)[1 : len(pages) + 1], "pages come first"


@pytest.mark.parametrize("name", ["KAFKA", "KAFKA.md", "docs/KAFKA.md"])
def test_a_page_is_printed_as_it_is(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    text = (ROOT / "docs" / "KAFKA.md").read_text(encoding="utf-8")
    assert docs(monkeypatch, capsys, name).out == text
    found = json.loads(docs(monkeypatch, capsys, name, "-o", "json").out)
    assert found == {"page": name, "title": "From Kafka", "text": text}


def test_a_section_ends_before_the_next_heading_of_its_level() -> None:
    sections = dict(sections_of(PAGE))
    assert list(sections) == ["title", "first-part-a-b--c", "below-it", "second-part"]
    assert sections["title"] == PAGE
    assert sections["below-it"] == "### Below it\n\nText.\n\n"
    assert sections["first-part-a-b--c"].startswith("## First part")
    assert sections["first-part-a-b--c"].endswith("Text.\n\n")
    assert sections["second-part"] == "## Second part\n\nEnd.\n"


def test_an_error_s_page_is_its_section(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    for kind in list(kinds())[:3]:
        text = docs(monkeypatch, capsys, anchor_of_error(kind)).out
        assert text.startswith(f"## {kind.__name__}\n")
        assert text.count("\n## ") == 0


@pytest.mark.parametrize(
    ("name", "cause", "nearest"),
    [
        ("operation", "the page 'operation'", "OPERATIONS"),
        ("raftlog.tom", "the page 'raftlog.tom'", "conf/raftlog.toml"),
        ("OPERATIONS#data-los", "the section 'data-los'", "data-loss"),
    ],
)
def test_an_unknown_page_is_an_error_with_the_nearest_names(
    name: str, cause: str, nearest: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    ended = docs(monkeypatch, capsys, name)
    assert ended.code == ExitCode.USAGE
    assert f"names {cause}, which does not exist." in ended.err
    assert nearest in ended.err.partition("Did you mean ")[2].partition("?")[0].split(", ")


def test_a_page_that_resembles_none_is_an_error_too(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert "`raftlog docs` lists all pages." in docs(monkeypatch, capsys, "zzz").err
    assert "Did you mean" not in docs(monkeypatch, capsys, "zzz").err


def test_an_anchor_is_what_links_of_pages_have() -> None:
    assert anchor('A log that "is damaged at byte"') == "a-log-that-is-damaged-at-byte"

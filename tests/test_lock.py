"""What requirements.lock names installs with every Python that is promised, the oldest first.

Debian 12 has Python 3.11.2; a lock made with a later 3.11 may name what that refuses.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]

OLDEST = "3.11.0"

LOCK = (ROOT / "requirements.lock").read_text()
NAMES = re.findall(r"^([\w.-]+)==", LOCK, re.MULTILINE)


def test_the_oldest_python_is_the_promised_one() -> None:
    assert metadata.metadata("raftlog")["Requires-Python"] == ">=" + OLDEST.removesuffix(".0")


def test_each_locked_package_serves_the_oldest_python() -> None:
    wanted = {name: metadata.metadata(name).get("Requires-Python", "") for name in NAMES}
    assert len(wanted) > 50
    assert [each for each in wanted.items() if OLDEST not in SpecifierSet(each[1])] == []


def test_each_locked_package_has_the_hashes_of_its_files() -> None:
    """With one of them pip checks all: what a registry serves later is what was tested."""
    packages = re.split(r"^(?=[\w.-]+==)", LOCK, flags=re.MULTILINE)[1:]
    assert len(packages) == len(NAMES)
    assert [each for each in packages if "--hash=sha256:" not in each] == []


def test_actions_of_the_workflow_are_named_by_commit() -> None:
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    used = re.findall(r"uses: (\S+)", workflow)
    assert used
    assert [each for each in used if re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", each) is None] == []

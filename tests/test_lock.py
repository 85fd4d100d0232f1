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

NAMES = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)


def test_the_oldest_python_is_the_promised_one() -> None:
    assert metadata.metadata("raftlog")["Requires-Python"] == ">=" + OLDEST.removesuffix(".0")


def test_each_locked_package_serves_the_oldest_python() -> None:
    wanted = {name: metadata.metadata(name).get("Requires-Python", "") for name in NAMES}
    assert len(wanted) > 50
    assert [each for each in wanted.items() if OLDEST not in SpecifierSet(each[1])] == []

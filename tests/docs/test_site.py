"""The documentation builds without a warning: no broken link, no page left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT


@pytest.mark.docs
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    site = tmp_path / "site"
    assert (site / "EXACTLY_ONCE.html").exists()
    assert 'id="raftlog.connect"' in (site / "reference" / "python.html").read_text()
    assert "There is no topic" in (site / "ERRORS.html").read_text()

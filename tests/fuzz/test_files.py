"""A file that `raftlog produce` cannot read is an error that names it, whatever is in the file."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", [500, pytest.param(20_000, marks=pytest.mark.soak)])
def test_a_broken_file_is_read_as_rows_or_refused_and_nothing_else(count: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.file_inputs", str(count)],
        capture_output=True,
        text=True,
        check=False,
    )
    print(ended.stdout)
    # The last input's number is at the end, or before the traceback if Python ended with one.
    assert ended.returncode == 0, ended.stderr[-6000:]

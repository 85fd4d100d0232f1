"""Prints docs/ERRORS.md: `python -m raftlog.errors > docs/ERRORS.md`. A test compares them."""

from __future__ import annotations

import sys

from raftlog.errors.document import page

if __name__ == "__main__":
    sys.stdout.write(page())

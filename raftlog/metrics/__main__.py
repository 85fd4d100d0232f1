"""Prints docs/METRICS.md: `python -m raftlog.metrics > docs/METRICS.md`. A test compares them."""

from __future__ import annotations

import sys

from raftlog.metrics.document import page

if __name__ == "__main__":
    sys.stdout.write(page())

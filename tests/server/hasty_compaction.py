"""A compaction process that ends as soon as it has nothing to do."""

from __future__ import annotations

import sys
from pathlib import Path

from raftlog.compaction.worker import work
from raftlog.storage.posix import PosixFileSystem

if __name__ == "__main__":
    work(Path(sys.argv[1]), PosixFileSystem(Path(sys.argv[1])), float(sys.argv[2]), idle_max_s=0.01)

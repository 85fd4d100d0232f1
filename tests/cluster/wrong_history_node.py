"""`python -m tests.cluster.wrong_history_node serve ...`: a node whose compactions go wrong."""

from __future__ import annotations

import sys

from raftlog.chaos.faulty_node import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], compaction="tests.cluster.wrong_compaction"))

"""`raftlog produce` that ends itself as kill -9 does, at one point of its work.

killed_produce.py POINT NUMBER WORDS... runs `raftlog WORDS`, up to the NUMBER-th (from 1) time that
an epoch is `staged`, or `before`, `during` or `after` its commit. A file is read in small parts.
"""

import os
import signal
import sys
import threading

from raftlog.cli import row_files, text_blocks
from raftlog.cli.main import main
from raftlog.client.attempt import Attempt
from raftlog.client.log_client import LogClient

BLOCK_BYTES = 2_048
PARQUET_ROWS = 70

point, left = sys.argv[1], int(sys.argv[2])
finish, commit = Attempt.finish, LogClient.commit_epoch


def die() -> None:
    """End now."""
    os.kill(os.getpid(), signal.SIGKILL)


def staged(self: Attempt) -> object:
    """Finish an attempt, perhaps as the last act."""
    global left
    found = finish(self)
    left -= point == "staged"
    if not left:
        die()
    return found


def committed(self: LogClient, *words: object, **named: object) -> object:
    """Commit an epoch, perhaps as the last act, or die before."""
    global left
    left -= point != "staged"
    if left:
        return commit(self, *words, **named)  # type: ignore[arg-type]
    if point == "before":
        die()
    if point == "during":
        threading.Thread(target=commit, args=(self, *words), kwargs=named).start()
        die()
    commit(self, *words, **named)  # type: ignore[arg-type]
    die()
    raise AssertionError


if __name__ == "__main__":
    text_blocks.BLOCK_BYTES = BLOCK_BYTES
    row_files.PARQUET_ROWS = PARQUET_ROWS
    Attempt.finish = staged  # type: ignore[method-assign,assignment]
    LogClient.commit_epoch = committed  # type: ignore[method-assign,assignment]
    sys.argv = ["raftlog", *sys.argv[3:]]
    main()

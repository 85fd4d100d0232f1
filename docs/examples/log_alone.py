"""A log without a state machine: append entries durably, close, open again, read, truncate.

    python docs/examples/log_alone.py FOLDER

Nothing else of raftlog runs. `take_write` says what to write and `written` that it is durable, so
the writing may be done on any thread.
"""

from __future__ import annotations

import sys
from pathlib import Path

from raftlog.core.types import Entry, EntryKind, GroupId, LogIndex, Payload, Term
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.storage.posix import PosixFileSystem

GROUP, FOLDER, LIMITS = GroupId(1), "log", LogLimits()


def entry(index: int, text: str) -> Entry:
    """An entry of term 1. The log does not look into its payload."""
    return Entry(LogIndex(index), Term(1), EntryKind.COMMAND, Payload(text.encode(), b""))


def write(log: GroupLog) -> None:
    """Make all that was appended or truncated durable, here and now."""
    while (work := log.take_write()) is not None:
        work.run()
        log.written(work)


def main() -> None:
    fs = PosixFileSystem(Path(sys.argv[1]))
    fs.make_folder(FOLDER)
    log = GroupLog.create(fs, FOLDER, GROUP, LIMITS)
    log.append([entry(1, "first"), entry(2, "second"), entry(3, "third")])
    write(log)
    print("durable up to entry", log.durable_index)
    log.truncate_from(3)
    log.append([entry(3, "another third")])
    write(log)
    log.close()

    log = GroupLog.open(fs, FOLDER, GROUP, LIMITS)
    for index in range(1, log.last_index + 1):
        term, kind, command = log.command(index)
        print(index, term, kind.name, command.decode())
    log.close()


if __name__ == "__main__":
    main()

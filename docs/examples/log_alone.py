"""A log without a state machine: append entries durably, close, open again, read, truncate.

    .venv/bin/python docs/examples/log_alone.py [FOLDER]

FOLDER is empty or does not exist; the log stays there. Without it a temporary one is used.

Nothing else of raftlog runs. `take_write` says what to write and `written` that it is durable, so
the writing may be done on any thread.
"""

from __future__ import annotations

import argparse
import tempfile
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
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="default: a temporary one")
    with tempfile.TemporaryDirectory() as temporary:
        folder = parser.parse_args().folder or temporary
        fs = PosixFileSystem(folder)
        fs.make_folder("")
        fs.make_folder(FOLDER)
        if GroupLog.exists(fs, FOLDER):
            parser.error(f"{folder} holds a log already: name another folder")
        use_a_log(fs)


def use_a_log(fs: PosixFileSystem) -> None:
    """Append, truncate, and open the log again."""
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

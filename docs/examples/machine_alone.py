"""A state machine without a disk: apply commands, ask it, take its state, make another of it.

    .venv/bin/python docs/examples/machine_alone.py

Nothing else of raftlog runs: no log, no Raft, no file. The index of a command is whatever rises.
"""

from __future__ import annotations

from raftlog.core.types import GroupId, LogIndex, NodeId
from raftlog.machines.group_info import KvInfo
from raftlog.machines.kv import KvMachine
from raftlog.machines.kv_commands import ANY_VERSION, SESSION_CHARACTERS, OpenSession, PutKey
from raftlog.machines.rules import RULES_LATEST

INFO = KvInfo(group=GroupId(1), voters=(NodeId(1),), created_us=0, rules=RULES_LATEST)


SESSION = "0" * SESSION_CHARACTERS


def put(sequence: int, value: bytes, expected: int) -> PutKey:
    """A write of the session that entry 1 opens."""
    return PutKey(
        session=SESSION, owner="", sequence=sequence, key="job", value=value, expected=expected
    )


def main() -> None:
    machine = KvMachine(INFO)
    commands = [
        OpenSession(session=SESSION, owner="", ends=""),
        put(1, b"waiting", ANY_VERSION),
        put(2, b"running", 2),
        put(2, b"running", 2),  # sent again: it gets the first outcome
        put(3, b"done", 2),  # its version is 3 by now
    ]
    for index, command in enumerate(commands, 1):
        print(index, machine.apply(LogIndex(index), command))
    print("now", list(machine.pairs("", "", "", at=LogIndex(5))))
    print("then", list(machine.pairs("", "", "", at=LogIndex(2))))
    again = KvMachine.restore(INFO, machine.state())
    print("the same state:", again.fingerprint() == machine.fingerprint())


if __name__ == "__main__":
    main()

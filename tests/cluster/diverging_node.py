"""`python -m tests.cluster.diverging_node`: `raftlog` with a topic machine that applies one entry
wrong, as a bit that flips in memory would make it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from raftlog.cli import main as raftlog
from raftlog.core.types import LogIndex
from raftlog.machines.commands import Append
from raftlog.machines.topic import TopicMachine

WRONG_INDEX = 50


def main() -> None:
    """Do what the arguments say, with entry `WRONG_INDEX` of every topic one record too long."""
    sound = TopicMachine.apply

    def apply(self: TopicMachine, index: LogIndex, command: Any) -> Any:
        if index == WRONG_INDEX and isinstance(command, Append):
            batch = replace(command.batch, record_count=command.batch.record_count + 1)
            command = replace(command, batch=batch)
        return sound(self, index, command)

    TopicMachine.apply = apply
    raftlog.main()


if __name__ == "__main__":
    main()

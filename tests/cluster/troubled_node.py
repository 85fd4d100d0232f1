"""`python -m tests.cluster.troubled_node serve ...`: a node over a disk that takes commands, as
`raftlog.chaos.faulty_node` is, whose loop hangs and whose memory errs on command as well."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from raftlog.chaos import faulty_node
from raftlog.core.types import LogIndex
from raftlog.machines.commands import Append
from raftlog.machines.topic import TopicMachine
from raftlog.server.node import Node
from raftlog.storage.contract import FileSystem


def hang_file(cluster: Path, node: int) -> Path:
    """As long as it is there, the node's loop hangs again and again: for as many seconds as its
    first number says, and begins to after as many as its second one says."""
    return cluster / f"node-{node}.hang"


def wrong_entry_file(cluster: Path, node: int) -> Path:
    """If it is there, the node removes it, and applies the next append one record too long."""
    return cluster / f"node-{node}.wrong-entry"


def _hanging(order: Path) -> None:
    sound, pause = Node._tick, threading.Event()
    next_s = 0.0

    def tick(self: Node) -> None:
        nonlocal next_s
        now_s = time.monotonic()
        if now_s >= next_s and order.exists():
            hangs_s, every_s = map(float, order.read_text().split())
            next_s = now_s + every_s
            while order.exists() and time.monotonic() < now_s + hangs_s:
                pause.wait(0.02)  # nobody ever sets it; other threads go on
        sound(self)

    Node._tick = tick  # type: ignore[method-assign]


def _erring(order: Path) -> None:
    sound = TopicMachine.apply

    def apply(self: TopicMachine, index: LogIndex, command: Any) -> Any:
        if isinstance(command, Append) and order.exists():
            order.unlink()
            batch = replace(command.batch, record_count=command.batch.record_count + 1)
            command = replace(command, batch=batch)
        return sound(self, index, command)

    TopicMachine.apply = apply  # type: ignore[method-assign]


def _troubled(disk: FileSystem, cluster: Path, node: int) -> FileSystem:
    _hanging(hang_file(cluster, node))
    _erring(wrong_entry_file(cluster, node))
    return disk


if __name__ == "__main__":
    sys.exit(faulty_node.main(sys.argv[1:], below=_troubled))

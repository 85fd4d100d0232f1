"""`python -m tests.cluster.stalling_node`: `raftlog` in which one duty of one group stalls for as
long as a file says so: `node-N` in the folder that STALLED_DUTIES names, with `duty group`."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from raftlog.cli import main as raftlog
from raftlog.core.messages import AppendRequest, Heartbeat, VoteRequest
from raftlog.multiraft.multiraft import MultiRaft
from raftlog.replica import Replica
from raftlog.server.loop_effects import LoopEffects

FOLDER = "STALLED_DUTIES"


def _stalls(duty: str, group: int) -> bool:
    node = sys.argv[sys.argv.index("--node") + 1] if "--node" in sys.argv else "none"
    try:
        return Path(os.environ[FOLDER], f"node-{node}").read_text() == f"{duty} {group}"
    except FileNotFoundError:
        return False


def main() -> None:
    """Do what the arguments say."""
    has_to_apply, send = Replica.has_to_apply, LoopEffects.send
    receive, take_write = MultiRaft.receive, Replica.take_write

    def applying(self: Replica) -> bool:
        return has_to_apply.fget(self) and not _stalls("apply", self.group)

    def sending(self: LoopEffects, peer: Any, messages: Any) -> None:
        send(self, peer, [each for each in messages if not _is_kept(each)])

    def _is_kept(message: Any) -> bool:
        return (isinstance(message, AppendRequest) and _stalls("send", message.group)) or (
            isinstance(message, Heartbeat) and _stalls("heartbeat", message.group)
        )

    def receiving(self: MultiRaft, peer: Any, messages: Any) -> None:
        receive(self, peer, [each for each in messages if not _is_ignored(each)])

    def _is_ignored(message: Any) -> bool:
        return (isinstance(message, AppendRequest) and _stalls("receive", message.group)) or (
            isinstance(message, VoteRequest) and _stalls("vote", message.group)
        )

    def taking_write(self: Replica) -> Any:
        write = take_write(self)
        if write is not None and _stalls("disk", self.group):
            run, pause = write.run, threading.Event()

            def slow() -> Any:
                while _stalls("disk", self.group):
                    pause.wait(0.05)
                return run()

            write = _Slow(write, slow)
        return write

    class _Slow:
        """The write, which runs later."""

        def __init__(self, write: Any, run: Any) -> None:
            self.write, self.run = write, run

        def __getattr__(self, name: str) -> Any:
            return getattr(self.write, name)

    def written(self: Replica, write: Any) -> None:
        noted(self, write.write if isinstance(write, _Slow) else write)

    noted = Replica.written
    Replica.has_to_apply, LoopEffects.send = property(applying), sending
    MultiRaft.receive, Replica.take_write, Replica.written = receiving, taking_write, written
    raftlog.main()


if __name__ == "__main__":
    main()

"""`python -m tests.cluster.fast_clock_node`: `raftlog` on a machine whose clock is a year ahead."""

from __future__ import annotations

from raftlog.cli import main as raftlog
from raftlog.server.loop_effects import LoopEffects

AHEAD_US = 365 * 86_400 * 1_000_000


def main() -> None:
    """Do what the arguments say."""
    sound = LoopEffects.clock_us
    LoopEffects.clock_us = lambda self: sound(self) + AHEAD_US
    raftlog.main()


if __name__ == "__main__":
    main()

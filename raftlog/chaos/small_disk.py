"""A disk for one node that can be filled: a tmpfs that shrinks to what is used. Needs root.

CLUSTER/small-disk-N/data     the tmpfs, with the node's data folder in it
CLUSTER/node-N               a link to that
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from raftlog.chaos.cluster import wait_for
from raftlog.errors import InvalidOption

_UNMOUNT_S = 30.0
"""Longer than a compaction process rests."""

_SLACK_BYTES = 16 * 1024
"""The kernel refuses a size below what is used, and a running node uses more all the time."""
_TRIES = 50


class SmallDisk:
    """Holds one node's data of a cluster. Use as a context manager around the cluster."""

    def __init__(self, cluster: Path, node: int, bytes_max: int) -> None:
        self.node = node
        self._bytes_max = bytes_max
        self._mount = cluster / f"small-disk-{node}"
        self._data = cluster / f"node-{node}"

    def move_in(self) -> None:
        """Mount the disk and move the node's data there. The node must not be running.

        Raises `InvalidOption` if mounting is not possible.
        """
        self._mount.mkdir()
        option = f"size={self._bytes_max},mode=0700"
        problem = _command("mount", "-t", "tmpfs", "-o", option, "tmpfs", str(self._mount))
        if problem:
            self._mount.rmdir()
            raise InvalidOption(
                option="--faults",
                problem=f"names full-disk, which needs to mount a tmpfs: {problem}",
                advice="Run it as root, or leave that fault out.",
            )
        inside = self._mount / "data"
        shutil.move(self._data, inside)
        self._data.symlink_to(inside)

    def fill(self) -> None:
        """Leave next to no free space from now on."""
        for _ in range(_TRIES):
            if not self._resize(self._used_bytes() + _SLACK_BYTES):
                return
        raise InvalidOption(
            option="--faults",
            problem="names full-disk, and the tmpfs did not become smaller",
            advice="Leave that fault out.",
        )

    def is_full(self) -> bool:
        """Whether there is no space for another page. A node whose next write needs more than what
        is left writes nothing, so that is taken away; this fails while the node still writes."""
        self._resize(self._used_bytes())
        return os.statvfs(self._mount).f_bavail == 0

    def make_room(self) -> None:
        """Make space free again."""
        problem = self._resize(self._bytes_max)
        assert not problem, problem

    @property
    def mounted(self) -> bool:
        """Whether there is something to `move_out`, even after an interrupted `move_in`."""
        return os.path.ismount(self._mount)

    def move_out(self) -> None:
        """Move the data of the node, which must not be running, back to the cluster's folder."""
        if self._data.is_symlink():
            inside = self._data.resolve()
            self._data.unlink()
            shutil.copytree(inside, self._data)
        # The compaction process of a killed node ends a moment later.
        wait_for(lambda: not _command("umount", str(self._mount)), "the unmounting", _UNMOUNT_S)
        self._mount.rmdir()

    def _used_bytes(self) -> int:
        state = os.statvfs(self._mount)
        return (state.f_blocks - state.f_bfree) * state.f_frsize

    def _resize(self, size: int) -> str:
        return _command("mount", "-o", f"remount,size={size}", str(self._mount))


def _command(*words: str) -> str:
    """Run a system command. Returns its error message if it failed, else an empty text."""
    try:
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return f"{words[0]} is not installed"
    if ended.returncode == 0:
        return ""
    return ended.stderr.strip() or f"{words[0]} ended with {ended.returncode}"

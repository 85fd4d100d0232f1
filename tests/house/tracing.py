"""When which file of the product ran in this process: `sys.setprofile` for every thread."""

from __future__ import annotations

import json
import sys
import threading
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import raftlog

PRODUCT = str(Path(raftlog.__file__).parent) + "/"

Times = dict[str, Sequence[int]]
"""For each file, by its path below `raftlog`, when one of its functions began or went on, in ns of
the clock CLOCK_MONOTONIC, which all processes of a machine share."""


@contextmanager
def traced() -> Iterator[Times]:
    """Note all calls of this thread, and of those that start meanwhile."""
    times: dict[str, array[int]] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PRODUCT) and not file.endswith("_pb2.py"):
            name = file.removeprefix(PRODUCT)
            times.setdefault(name, array("q")).append(time.monotonic_ns())

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield times
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def write(times: Times, path: Path) -> None:
    """Keep what was noted in a file, for another process."""
    path.write_text(json.dumps({name: list(at) for name, at in times.items()}))


def read(path: Path) -> Times:
    """What another process noted."""
    found: Times = json.loads(path.read_text())
    return found


def in_most(times: Mapping[str, Sequence[int]], windows: Sequence[tuple[int, int]]) -> set[str]:
    """The files that ran in more than half of the windows, which are given by their first and last
    ns. What a process does from time to time is in few of them, if they are short."""
    return {
        name
        for name, at in times.items()
        if 2 * sum(any(first <= ns <= last for ns in at) for first, last in windows) > len(windows)
    }

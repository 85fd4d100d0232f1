"""What the kernel says of processes: processor time and memory, from /proc."""

from __future__ import annotations

import os
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KIB = 1024


def cpu_s(pid: int) -> float:
    """User and system time of the process, all its threads. The kernel gives it in steps of 10 ms:
    for less than some seconds use `thread_times_ns`."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def tree_cpu_s(*pids: int) -> float:
    """User and system time of the processes, of all that they started, and of those that have
    ended."""
    ticks: dict[int, int] = {}
    started: defaultdict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        pid = int(stat.parent.name)
        started[int(fields[1])].append(pid)
        ticks[pid] = sum(map(int, fields[11:15]))  # its own, and that of children it has waited for
    total, waiting = 0, list(pids)
    while waiting:
        each = waiting.pop()
        total += ticks.get(each, 0)
        waiting += started[each]
    return total / _TICKS_PER_S


def thread_times_ns(pid: int) -> dict[int, int]:
    """The processor time of each thread that the process has now, in nanoseconds."""
    found = {}
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            found[int(file.parent.name)] = int(file.read_text().split()[0])
        except OSError:
            continue  # it has just ended
    return found


def spent_s(before: Mapping[int, int], after: Mapping[int, int]) -> float:
    """The processor time between two looks at `thread_times_ns`. That of threads which ended in
    between is not known: look often."""
    return sum(now - before.get(thread, 0) for thread, now in after.items()) / 1e9


def memory_bytes(pid: int) -> dict[str, int]:
    """Resident bytes: `RssAnon` is the process's own, `RssFile` mapped files; no page cache."""
    found = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "RssAnon", "RssFile"):
            found[name] = int(value.split()[0]) * _KIB
    return found


def children(pids: Iterable[int]) -> dict[int, list[int]]:
    """The running processes that each of these has started."""
    found: dict[int, list[int]] = {pid: [] for pid in pids}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
        if parent in found:
            found[parent].append(int(stat.parent.name))
    return found


class MemoryWatch:
    """The highest memory of each process while this context lasts, looked at ten times a second."""

    def __init__(self, pids: Iterable[int], *, with_children: bool = False) -> None:
        """`with_children`: what a process started counts as the process's own."""
        self.highest: dict[int, dict[str, int]] = {pid: {} for pid in pids}
        self._with_children = with_children
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-watch", daemon=True)

    def __enter__(self) -> MemoryWatch:
        self.look()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self.look()

    def most(self, name: str) -> int:
        """The highest value of `name` over all processes."""
        return max(each[name] for each in self.highest.values())

    def _run(self) -> None:
        while not self._over.wait(0.1):
            self.look()

    def look(self) -> None:
        """Look now as well."""
        started = children(self.highest) if self._with_children else {}
        for pid, highest in self.highest.items():
            now = Counter(memory_bytes(pid))
            for child in started.get(pid, ()):
                try:
                    now.update(memory_bytes(child))
                except OSError:
                    continue  # it has just ended
            for name, value in now.items():
                highest[name] = max(value, highest.get(name, 0))

"""What the kernel says of processes: processor time and memory, from /proc."""

from __future__ import annotations

import json
import os
import threading
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from raftlog.chaos.cluster import ProcessCluster

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KIB = 1024


def cpu_s(pid: int, *, with_ended: bool = False) -> float:
    """User and system time of the process, all its threads, and `with_ended` also of those that it
    started and that have ended. The kernel gives it in steps of 10 ms: for less than some seconds
    use `thread_times_ns`."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / _TICKS_PER_S


def tree_cpu_s(*pids: int) -> float:
    """User and system time of the processes, of all that they started, and of those that have
    ended."""
    ticks: dict[int, int] = {}
    started: defaultdict[int, list[int]] = defaultdict(list)
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                fields = stat.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has just ended
        pid = int(name)
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


class _Watch(ABC):
    """Looks ten times a second while this context lasts, and once more at its end."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Self:
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

    def _run(self) -> None:
        while not self._over.wait(0.1):
            self.look()

    @abstractmethod
    def look(self) -> None:
        """Look now as well."""


class MemoryWatch(_Watch):
    """The highest memory of each process."""

    def __init__(self, pids: Iterable[int], *, with_children: bool = False) -> None:
        """`with_children`: what a process started counts as the process's own."""
        super().__init__()
        self.highest: dict[int, dict[str, int]] = {pid: {} for pid in pids}
        self._with_children = with_children

    def most(self, name: str) -> int:
        """The highest value of `name` over all processes."""
        return max(each[name] for each in self.highest.values())

    def look(self) -> None:
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


class RolesWatch(_Watch):
    """The processor time of clusters' nodes: of those that lead a topic at that moment, by their
    own logs, and of the others. Compactions count when they have ended."""

    def __init__(self, clusters: Sequence[ProcessCluster]) -> None:
        """`clusters` may grow meanwhile."""
        super().__init__()
        self.leaders_s = 0.0
        self.followers_s = 0.0
        self._clusters = clusters
        self._nodes: dict[int, _NodeLog] = {}

    def look(self) -> None:
        for cluster in tuple(self._clusters):
            for node, pid in tuple(cluster.pids.items()):
                if pid not in self._nodes:
                    self._nodes[pid] = _NodeLog(cluster.logs[node])
                self._look_at(pid, self._nodes[pid])

    def _look_at(self, pid: int, node: _NodeLog) -> None:
        try:
            spent_s = cpu_s(pid, with_ended=True) - node.spent_s
        except OSError:
            return  # it has ended
        node.spent_s += spent_s
        if node.leads():
            self.leaders_s += spent_s
        else:
            self.followers_s += spent_s


class _NodeLog:
    """What one process of a node has logged so far of what it leads."""

    def __init__(self, log: Path) -> None:
        self.spent_s = 0.0
        self._log = log
        self._read_bytes = 0
        self._led: set[int] = set()

    def leads(self) -> bool:
        """Whether it leads a topic. The controller and the key-value store are none."""
        with self._log.open("rb") as file:
            file.seek(self._read_bytes)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # the rest comes later
                self._read_bytes += len(line)
                # Libraries write lines of their own to a node's standard error.
                if line.startswith(b"{") and (
                    b'"leadership"' in line or b'"group removed"' in line
                ):
                    self._take(json.loads(line))
        return bool(self._led)

    def _take(self, row: Mapping[str, Any]) -> None:
        if row.get("role") == "leader" and not row["topic"].startswith("("):
            self._led.add(row["group"])
        else:
            self._led.discard(row["group"])

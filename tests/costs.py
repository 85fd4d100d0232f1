"""What a run of the tests costs: processor time by test, and what it started.

The clock says little on a shared machine; processor time and counts do. Each process that runs
tests counts for itself. The one that started them adds up, prints, and judges the run by `LIMITS`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from raftlog.chaos.cluster import ProcessCluster
from tests import fork_server
from tests.bench.processes import tree_cpu_s

LIMITS = {"cluster starts": 130, "pythons": 150, "JVMs": 8, "seeds": 250}
"""How much of each a whole run may start. `pythons` are started from nothing, not forked."""

UNLISTED_S = 10.0
"""Processor seconds that any test may take; one that takes more is listed in costly.txt."""
COSTLY = {
    test: float(cost_s)
    for cost_s, test in (
        line.split() for line in Path(__file__).with_name("costly.txt").read_text().splitlines()
    )
}
"""Processor seconds of costly tests, by file and name without parameters."""
TOO_MUCH = 2.0
"""More than so many times its cost is a warning, or an error with --strict-costs."""
SHOWN = 20
SHOWN_MIN_S = 1.0

STARTING = ("cluster", "spark", "slow", "simulation")
"""The markers of tests that may start processes; the others are timed at less expense."""

ROOT = Path(__file__).resolve().parents[1]

_counts: Counter[str] = Counter()


def count(what: str, number: int = 1) -> None:
    """Add to one of the counters of `LIMITS`."""
    _counts[what] += number


def seed_of_the_day(variable: str) -> int:
    """By which a test that would take long draws what it tries today: the environment variable's,
    or the number of days since 1970 UTC."""
    return int(os.environ.get(variable, time.time() // 86_400))


class Costs:
    """The plugin: counts in a process that runs tests, and adds up in the one that reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_worker = hasattr(config, "workeroutput")
        # Long versions have no limits.
        self._is_judged = config.getoption("markexpr") != "soak"
        self._own: Counter[str] = Counter()
        self._of_tests: Counter[str] = Counter()
        self._own_starts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._starts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._counts: Counter[str] = Counter()
        self._processor_s = 0.0
        self._jvms = Path(tempfile.mkdtemp(prefix="raftlog-jvms-"))
        # The second compiler does not pay off in a short life. Each JVM leaves an empty file.
        log = f"-Xlog:disable -Xlog:gc+init=off:file={self._jvms}/%p"
        # Without the archive, which scripts/environment.sh makes, they only start more slowly.
        archive = f'"-XX:SharedArchiveFile={sys.prefix}/spark-classes.jsa"'
        usual = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        os.environ["SPARK_SUBMIT_OPTS"] = f"{usual} {archive} {log}"
        _count_starts()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Time a test together with what is set up for it and taken down after it."""
        starts = any(item.get_closest_marker(each) for each in STARTING)
        spent_s = _everything_s if starts else time.process_time
        before_s, before = spent_s(), self._counted()
        try:
            return (yield)
        finally:
            test = function_of(item.nodeid)
            self._own[test] += spent_s() - before_s
            if more := self._counted() - before:
                self._own_starts[test] += more

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand over what this process counted, or judge the whole."""
        own = {
            "counts": dict(self._counted()),
            "tests": dict(self._own),
            "starts": {test: dict(more) for test, more in self._own_starts.items()},
            # What this one started, such as its workers, reports for itself if it runs tests.
            "processor_s": _everything_s() if self._own else time.process_time(),
        }
        shutil.rmtree(self._jvms)
        if self._is_worker:
            self._config.workeroutput["costs"] = own  # type: ignore[attr-defined]
            return
        self._add(own)
        if file := self._config.getoption("costs_file"):
            Path(file).write_text("".join(map(self._line, self._of_tests)))
        strict = self._config.getoption("strict_costs")
        if self._is_judged and (
            over_limits(self._counts) or (strict and too_costly(self._of_tests))
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)  # some run without xdist
    def pytest_testnodedown(self, node: Any) -> None:
        """A process that ran tests has ended."""
        if "costs" in getattr(node, "workeroutput", {}):
            self._add(node.workeroutput["costs"])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the counters and the most expensive tests."""
        if self._is_worker:
            return
        counters = [f"{what} {self._counts[what]}/{most}" for what, most in LIMITS.items()]
        terminalreporter.section("costs")
        for test, spent_s in self._of_tests.most_common(SHOWN):
            if spent_s >= SHOWN_MIN_S:
                terminalreporter.line(f"{spent_s:8.1f} s  {test}")
        if self._is_judged:
            for line in (*unlisted(self._of_tests), *too_costly(self._of_tests)):
                terminalreporter.line(line, yellow=True)
            for line in over_limits(self._counts):
                terminalreporter.line(line, red=True)
        terminalreporter.line(", ".join([*counters, f"processor s {self._processor_s:,.0f}"]))

    def _counted(self) -> Counter[str]:
        """What this process has started so far."""
        jvms = len(list(self._jvms.iterdir()))
        return _counts + Counter(pythons=fork_server.started().executed, JVMs=jvms)

    def _line(self, test: str) -> str:
        """A test's processor seconds, and what it started."""
        started = "".join(f", {count} {what}" for what, count in self._starts[test].items())
        return f"{self._of_tests[test]:.2f} {test}{started}\n"

    def _add(self, costs: dict[str, Any]) -> None:
        self._counts.update(costs["counts"])
        self._of_tests.update(costs["tests"])
        for test, more in costs["starts"].items():
            self._starts[test].update(more)
        self._processor_s += costs["processor_s"]


def over_limits(counts: Mapping[str, int]) -> list[str]:
    """What a run started too much of."""
    return [
        f"{counts[what]} {what}: tests/costs.py allows {most}"
        for what, most in LIMITS.items()
        if counts[what] > most
    ]


def unlisted(of_tests: Mapping[str, float]) -> list[str]:
    """The tests that should be in costly.txt."""
    return [
        f"{test} took {spent_s:.0f} processor seconds, and is not listed in tests/costly.txt"
        for test, spent_s in of_tests.items()
        if spent_s > UNLISTED_S and test not in COSTLY
    ]


def too_costly(of_tests: Mapping[str, float]) -> list[str]:
    """The tests that took `TOO_MUCH` times the processor seconds that are listed."""
    return [
        f"{test} took {spent_s:.0f} processor seconds; tests/costly.txt expects {expected_s:g}"
        for test, spent_s in of_tests.items()
        if spent_s > TOO_MUCH * (expected_s := COSTLY.get(test, UNLISTED_S))
    ]


@cache
def file_cost_s(path: Path) -> float:
    """About what the tests of a file take: the longest files start first."""
    file = path.relative_to(ROOT).as_posix()
    listed_s = sum(cost_s for test, cost_s in COSTLY.items() if test.startswith(f"{file}::"))
    folder = file.split("/")[1]
    return listed_s + {"spark": 1e6, "cluster": UNLISTED_S}.get(folder, 0.0)


def function_of(nodeid: str) -> str:
    """The test's file and name without its parameters."""
    return nodeid.partition("[")[0]


def _everything_s() -> float:
    """Processor time of this process, and of all that it and its fork servers ever started."""
    servers = fork_server.server_pids()
    if not servers and not _has_children():  # then it need not look at all processes
        times = os.times()
        return time.process_time() + times.children_user + times.children_system
    return tree_cpu_s(os.getpid(), *servers)


def _has_children() -> bool:
    """Is there a child that runs, or that ended and was not waited for?"""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _count_starts() -> None:
    usual = ProcessCluster.start.__func__  # type: ignore[attr-defined]

    def start(cls: type[ProcessCluster], *arguments: Any, **named: Any) -> ProcessCluster:
        count("cluster starts")
        started: ProcessCluster = usual(cls, *arguments, **named)
        return started

    ProcessCluster.start = classmethod(start)  # type: ignore[method-assign, assignment]

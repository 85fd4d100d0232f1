"""What all tests share: no settings from outside, and property tests that do not depend on speed.

Tests in tests/cluster and tests/spark carry their folder's marker. Without xdist they run last;
with it, the longest files start first, and the pure tests fill the gaps (`running_order`).
"""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from tests import fork_server
from tests.cluster.kept import Kept
from tests.costs import UNLISTED_S, Costs, file_cost_s

SLOW_FOLDERS = ("cluster", "spark")
EXAMPLES_MIN = 5
"""Property tests try so many at least, whatever --fewer-examples divides."""
GARBAGE_OBJECTS = 5_000
"""So many new objects before the garbage collector looks for garbage; 700 are usual."""

# Machines are shared, so an example's time says nothing; a failing one prints how to repeat it.
# CI tries the same examples every time, so that its result depends on the change and not on luck.
hypothesis.settings.register_profile(
    "raftlog",
    deadline=None,
    print_blob=True,
    database=None,
    derandomize=os.environ.get("CI") == "true",
)
hypothesis.settings.load_profile("raftlog")

for name in [name for name in os.environ if name.startswith("RAFTLOG_")]:
    del os.environ[name]

fork_server.install()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--strict-costs", action="store_true", help="fail if a test costs too much")
    parser.addoption("--costs-file", help="write the processor seconds of each test to this file")
    parser.addoption(
        "--fewer-examples", type=int, default=1, help="divide property tests' examples by this"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(config))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay until the end, so the garbage collector need not visit them: not while
    they come to be, which is a third of that time, nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GARBAGE_OBJECTS)
        gc.enable()


HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _around_each_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests of how processes start have theirs started as users do, and each test leaves the
    handlers of signals as they were: with another one left behind, neither pytest nor the processes
    that it forks could be ended."""
    starts = request.node.get_closest_marker("from_nothing") is not None
    before = [signal.getsignal(number) for number in HEARD]
    with fork_server.from_nothing() if starts else nullcontext():
        yield
    assert [signal.getsignal(number) for number in HEARD] == before


@pytest.fixture(scope="session")
def _kept_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    with Kept(tmp_path_factory.mktemp("three")) as kept:
        yield kept


@pytest.fixture(scope="session")
def _kept_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    with Kept(tmp_path_factory.mktemp("one"), nodes=1) as kept:
        yield kept


@pytest.fixture
def signals_heard() -> Iterator[None]:
    """For tests that send signals: this process and its children hear them, also where nohup or a
    shell's background made pytest ignore them."""
    ignored = [number for number in HEARD if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, usual)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the slow folders' tests, shorten property tests if told to, and order all (see the
    module)."""
    for item in items:
        folder = _folder(item.path)
        if folder in SLOW_FOLDERS:
            item.add_marker(getattr(pytest.mark, folder))
    if (fewer := config.getoption("fewer_examples")) > 1:
        give_fewer_examples(items, fewer)
    if hasattr(config, "workerinput"):
        places = running_order(Counter(item.path for item in items))
        items.sort(key=lambda item: places[item.path])
    else:
        items.sort(key=lambda item: ("", *SLOW_FOLDERS).index(_folder(item.path)))


def give_fewer_examples(items: Collection[Any], fewer: int) -> None:
    """Divide the examples of property tests. Hypothesis has no public way to change a number that
    the test itself gives."""
    functions = {getattr(item, "obj", None) for item in items}
    for test in filter(hypothesis.is_hypothesis_test, functions):
        own = test._hypothesis_internal_use_settings
        examples = max(min(EXAMPLES_MIN, own.max_examples), own.max_examples // fewer)
        settings = hypothesis.settings(own, max_examples=examples)
        test._hypothesis_internal_use_settings = settings


def running_order(files: Mapping[Path, int]) -> dict[Path, float]:
    """The place of each file; `files` has the number of its tests. The longest come first, then
    those of real processes, which mostly wait, evenly among the others, which only compute. Within
    a kind, files with more tests come first."""
    by_cost = sorted(files, key=lambda file: (-file_cost_s(file), -files[file], file))
    longest = [file for file in by_cost if file_cost_s(file) > UNLISTED_S]
    places = {file: float(number - len(longest)) for number, file in enumerate(longest)}
    waiting = [file for file in by_cost if file_cost_s(file) == UNLISTED_S]
    computing = [file for file in by_cost if file_cost_s(file) < UNLISTED_S]
    for kind in (waiting, computing):
        places |= {file: (number + 0.5) / len(kind) for number, file in enumerate(kind)}
    return places


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Tests of one file share its fixtures. All tests with Spark share one session, and those that
    start drivers of their own run beside it."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/spark/"):
            return "drivers" if nodeid.startswith("tests/spark/drivers/") else "spark"
        return super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)  # some run without xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile | None:
    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


@cache
def _folder(file: Path) -> str:
    parts = file.relative_to(Path(__file__).parent).parts
    return parts[0] if parts[0] in SLOW_FOLDERS else ""

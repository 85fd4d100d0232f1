"""What all tests share: no settings from outside, and property tests that do not depend on speed.

Tests in tests/cluster and tests/spark carry their folder's marker by themselves, and run last.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import fork_server

SLOW_FOLDERS = ("cluster", "spark")

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

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    """With a handler left behind, neither pytest nor the processes that it forks could be ended."""
    before = [signal.getsignal(number) for number in HEARD]
    yield
    assert [signal.getsignal(number) for number in HEARD] == before


@pytest.fixture(autouse=True)
def _started_from_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests of how processes start have theirs started as users do."""
    if request.node.get_closest_marker("from_nothing") is None:
        yield
        return
    with fork_server.from_nothing():
        yield


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow folders' tests; fast tests first, real Spark last."""
    for item in items:
        folder = _folder(item)
        if folder in SLOW_FOLDERS:
            item.add_marker(getattr(pytest.mark, folder))
    items.sort(key=lambda item: ("", *SLOW_FOLDERS).index(_folder(item)))


def _folder(item: pytest.Item) -> str:
    parts = Path(item.path).relative_to(Path(__file__).parent).parts
    return parts[0] if parts[0] in SLOW_FOLDERS else ""

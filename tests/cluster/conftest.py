"""Clusters that many tests share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from raftlog.chaos.cluster import ProcessCluster
from raftlog.client.log_client import LogClient
from tests.cluster.kept import Kept


@pytest.fixture(scope="module")
def _three(_kept_three: Kept) -> Iterator[Kept]:
    yield _kept_three
    _kept_three.rest()


@pytest.fixture(scope="module")
def _one(_kept_one: Kept) -> Iterator[Kept]:
    yield _kept_one
    _kept_one.rest()


@pytest.fixture(scope="module")
def shared(_three: Kept) -> ProcessCluster:
    """Three nodes, for a file of tests that break nothing."""
    return _three.whole()


@pytest.fixture(scope="module")
def lone(_one: Kept) -> ProcessCluster:
    """One node, for a file of tests that break nothing."""
    return _one.whole()


@pytest.fixture
def cluster(_three: Kept) -> Iterator[ProcessCluster]:
    """Three nodes without topics, for a test that breaks what `Kept` mends."""
    yield _three.whole()
    _three.whole()  # for tests of `shared` in the same file


@pytest.fixture
def single(_one: Kept) -> Iterator[ProcessCluster]:
    """One node without topics, for a test that breaks what `Kept` mends."""
    yield _one.whole()
    _one.whole()


@pytest.fixture
def client(shared: ProcessCluster) -> Iterator[LogClient]:
    with shared.client() as connected:
        yield connected


@pytest.fixture
def name() -> str:
    """A topic name of the test's own."""
    return f"topic-{uuid.uuid4().hex[:8]}"

"""One running cluster for the tests that break nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from raftlog.chaos.cluster import ProcessCluster
from raftlog.client.log_client import LogClient


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Three nodes that stay alive for a whole file of tests."""
    with ProcessCluster.start(tmp_path_factory.mktemp("cluster") / "data") as running:
        yield running


@pytest.fixture
def client(shared: ProcessCluster) -> Iterator[LogClient]:
    with shared.client() as connected:
        yield connected


@pytest.fixture
def name() -> str:
    """A topic name of the test's own."""
    return f"topic-{uuid.uuid4().hex[:8]}"

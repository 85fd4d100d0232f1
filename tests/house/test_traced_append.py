"""An append's files are found in the client, the leader and the follower."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.traced_append import passed_files


@pytest.mark.cluster
@pytest.mark.slow
def test_each_process_passes_through_the_files_of_its_part(tmp_path: Path) -> None:
    passed = passed_files(tmp_path / "data")
    assert list(passed) == ["client", "leader", "follower"]
    assert {"client/producer.py", "client/connection.py"} <= passed["client"]
    assert {"core/raft.py", "storage/log.py", "machines/topic.py"} <= passed["leader"]
    assert {"core/raft.py", "storage/log.py", "machines/topic.py"} <= passed["follower"]
    assert "server/services.py" in passed["leader"] - passed["follower"]
    assert not [name for name in passed["client"] if name.startswith(("core/raft", "storage"))]
    assert not [name for name in passed["leader"] if name.startswith("client")]

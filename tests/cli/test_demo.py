"""The demo where its ports are taken: it says so and what to do, and leaves nothing behind."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S


@pytest.mark.slow
def test_a_demo_whose_ports_are_taken_can_be_started_again_at_once(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        ended = subprocess.run(
            [sys.executable, "-m", "raftlog.spark_jobs.demo", "--port", str(port)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    assert ended.returncode == 1
    told = " ".join(ended.stdout.split())
    assert f"The address 127.0.0.1:{port} is in use." in told
    assert 'make demo ARGS="--port' in told
    assert list(tmp_path.iterdir()) == [], "or the next demo would refuse its folder"

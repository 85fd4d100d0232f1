"""The lines that a node logs: a JSON object each, without the secrets that callers name."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from raftlog.chaos.cluster import PATIENCE_S
from tests.server.test_key_reads import ANYWHERE, HERE, LIAR, a_node

TOKEN = "raftlog_" + "planted-" * 6
KEY = "-----BEGIN PRIVATE KEY-----\nplanted\n-----END PRIVATE KEY-----\n"
PROGRAM = """
import json, sys
import structlog
from raftlog.server.main import log_to_stderr
log_to_stderr("info")
structlog.get_logger("node").warning("group opened", group=7, **json.loads(sys.stdin.read()))
"""


@pytest.mark.slow
def test_a_secret_in_a_value_is_not_logged_and_the_rest_is() -> None:
    given = {"topic": TOKEN, "cause": f"{TOKEN}: {KEY}", "half": KEY[:40], "peer": "ipv4:1"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    line = json.loads(ran.stderr)
    assert "planted" not in ran.stderr
    assert (line["event"], line["group"], line["topic"], line["peer"]) == (
        "group opened",
        7,
        "***",
        "ipv4:1",
    )


def test_a_peer_that_moves_again_and_again_is_logged_once_a_minute(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_node(tmp_path, {LIAR: ANYWHERE}, [HERE]) as (node, _):
            for port in range(2, 20):
                node.links.follow({HERE: ANYWHERE, LIAR: f"127.0.0.1:{port}"})

    with capture_logs() as lines:
        asyncio.run(run())
    assert [each["event"] for each in lines].count("peer gone") == 1

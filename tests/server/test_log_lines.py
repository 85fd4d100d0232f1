"""The lines that a node logs: a JSON object each, without the secrets that callers name."""

from __future__ import annotations

import json
import subprocess
import sys

from raftlog.chaos.cluster import PATIENCE_S

TOKEN = "raftlog_" + "planted-" * 6
KEY = "-----BEGIN PRIVATE KEY-----\nplanted\n-----END PRIVATE KEY-----\n"
PROGRAM = """
import json, sys
import structlog
from raftlog.server.main import log_to_stderr
log_to_stderr("info")
structlog.get_logger("node").warning("group opened", group=7, **json.loads(sys.stdin.read()))
"""


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

"""Real nodes killed, paused, cut off, slowed, failed and filled while they are written and read."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from raftlog.chaos.schedule import Kind
from raftlog.cli.main import app

SEED = 20_261_120
FAULTS_MIN = 2 * len(Kind)
FLOOR_PER_S = 50
"""For machines that do ten other things as well."""


@pytest.mark.timeout(600)
def test_every_promise_is_kept_over_at_least_twenty_faults_of_all_classes() -> None:
    folder = Path(tempfile.mkdtemp(prefix="raftlog-chaos-"))
    order = ["chaos", "--minutes=0", f"--faults-min={FAULTS_MIN}", f"--seed={SEED}"]
    order += [f"--floor={FLOOR_PER_S}", f"--data={folder}", "-o", "json"]
    ended = CliRunner().invoke(app, order)
    print(ended.stderr)
    assert ended.exit_code == 0, ended.output
    report = json.loads(ended.stdout)
    verdict, not_made = report["verdict"], report["not_made"]
    made = {each["name"]: each["count"] for each in verdict["faults"]}
    assert set(made) == {kind.value for kind in Kind} - {each.split(":")[0] for each in not_made}
    assert min(made.values()) >= 2
    assert (verdict["lost"], verdict["duplicated"], verdict["reordered"]) == (0, 0, 0)
    assert verdict["replicas_equal"]
    assert verdict["read_records"] > verdict["acknowledged_records"] > 0
    shutil.rmtree(folder)  # kept if this fails

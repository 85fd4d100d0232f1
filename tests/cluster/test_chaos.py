"""Real nodes killed, paused, cut off, slowed, failed and filled while they are written and read."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from raftlog.chaos.cluster import PATIENCE_S, wait_for
from raftlog.chaos.schedule import Kind
from raftlog.cli.main import app
from tests.costs import seed_of_the_day

SEED = 20_261_120
CLASSES = 6
FAULTS_MIN = max(20, len(Kind))


def test_every_promise_is_kept_over_faults_of_some_classes() -> None:
    """Others each day, and every other day on a cluster that is closed to strangers.
    Replay: CHAOS_SEED=<seed>."""
    seed = seed_of_the_day("CHAOS_SEED")
    kinds = Random(seed).sample(list(Kind), CLASSES)
    closed = seed % 2 == 1
    print(f"seed {seed}, {'closed' if closed else 'open'}: {', '.join(kinds)}")
    every_promise_is_kept(seed, kinds, faults_min=CLASSES, closed=closed)


@pytest.mark.soak
def test_every_promise_is_kept_over_at_least_twenty_faults_of_all_classes() -> None:
    every_promise_is_kept(SEED, list(Kind), FAULTS_MIN, closed=False)


def every_promise_is_kept(
    seed: int, kinds: Sequence[Kind], faults_min: int, *, closed: bool
) -> None:
    """Run at least `faults_min` faults of these classes, and check every promise."""
    folder = Path(tempfile.mkdtemp(prefix="raftlog-chaos-"))
    order = ["chaos", "--minutes=0", f"--faults-min={faults_min}", f"--seed={seed}"]
    order += [f"--faults={','.join(kinds)}"]
    order += ["--floor=0", f"--data={folder}", "-o", "json"]
    order += ["--closed"] if closed else []
    ended = CliRunner().invoke(app, order)
    print(ended.stderr)
    assert ended.exit_code == 0, ended.output
    report = json.loads(ended.stdout)
    verdict, not_made = report["verdict"], report["not_made"]
    made = {each["name"]: each["count"] for each in verdict["faults"]}
    assert set(made) == {kind.value for kind in kinds} - {each.split(":")[0] for each in not_made}
    assert sum(made.values()) >= faults_min
    assert (verdict["lost"], verdict["duplicated"], verdict["reordered"]) == (0, 0, 0)
    assert verdict["replicas_equal"]
    assert verdict["read_records"] > verdict["acknowledged_records"] > 0
    shutil.rmtree(folder)  # kept if this fails


@pytest.mark.soak
def test_observers_are_read_killed_and_compared_like_other_nodes(tmp_path: Path) -> None:
    """The second one may pull from the first."""
    folder = tmp_path / "run"
    order = ["chaos", "--minutes=0", "--faults-min=4", "--faults=observe,kill", f"--seed={SEED}"]
    order += ["--floor=1", f"--data={folder}", "-o", "json"]
    ended = CliRunner().invoke(app, order)
    assert ended.exit_code == 0, ended.output
    nodes: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for line in (folder / "history.jsonl").read_text().splitlines():
        row = json.loads(line)
        if "node" in row:
            nodes[row["kind"]][row["topic"]].add(row["node"])
    assert len(nodes["log"]) == 3, "topics"
    for kind in ("read", "log", "replica"):
        for topic, those in nodes[kind].items():
            assert those == {1, 2, 3, 4, 5}, (kind, topic)


@pytest.mark.soak
def test_a_closed_cluster_is_broken_like_an_open_one(tmp_path: Path) -> None:
    """`make soak` does it for half an hour, and replaces its certificates and tokens meanwhile."""
    folder = tmp_path / "run"
    order = ["chaos", "--closed", "--minutes=0", "--faults-min=2", "--faults=add,kill"]
    order += [f"--seed={SEED}", "--floor=1", f"--data={folder}", "-o", "json"]
    ended = CliRunner().invoke(app, order)
    assert ended.exit_code == 0, ended.output
    assert f"--seed {SEED} --minutes 0 --faults-min 2 --closed --faults add,kill" in ended.stderr
    acts = [
        json.loads(line)
        for file in (folder / "closed").glob("audit-*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert {(act["who"], act["outcome"]) for act in acts if act["call"] == "AddNode"} >= {
        ("chaos", "begun"),
        ("chaos", "ok"),
    }
    assert "encryption" not in "".join(
        log.read_text() for log in (folder / "cluster" / "log").glob("*.log")
    )


@pytest.mark.from_nothing
@pytest.mark.usefixtures("signals_heard")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_a_chaos_test_that_is_ended_while_its_cluster_starts_leaves_no_process(
    tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-m", "raftlog", "chaos", "--minutes", "1", "--data", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as chaos:
        wait_for(lambda: len(processes_of(folder)) > 1, "the cluster to be started", PATIENCE_S)
        chaos.send_signal(number)
        _, said = chaos.communicate(timeout=PATIENCE_S)
    assert "ended early" in said
    wait_for(lambda: processes_of(folder) == [], "all to be gone", PATIENCE_S)


def processes_of(folder: Path) -> list[int]:
    """The processes that have the folder in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it has ended, or is no process
            if entry.name.isdigit() and os.fsencode(folder) in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found

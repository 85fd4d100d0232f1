"""The state hash: equal for the same entries everywhere, different for any difference.

CHECKLIST row 70: same index, same state.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from tests.machines.scenes import TOPIC, Scene, batch, key, reference

_ROOT = Path(__file__).resolve().parents[2]

Play = Callable[[Scene], object]


def _staged(scene: Scene, **change: object) -> None:
    scene.commit_epoch(dataclasses.replace(key(0), **change))
    scene.stage(dataclasses.replace(key(1), **change), "a", 0, batch(1))


def _fenced(scene: Scene, **change: object) -> None:
    fence = {"stream": "stream", "stream_run": "start", "stream_batch": 4} | change
    scene.commit_epoch(dataclasses.replace(key(0, streaming=False), **fence))


def _epochs_of_two_runs(scene: Scene, first: str) -> None:
    scene.commit_epoch(key(0, run=first))
    scene.commit_epoch(key(1, run="second"))


DIFFERENCES: list[tuple[str, Play, Play]] = [
    ("records", lambda s: s.append(0, batch(1, 5)), lambda s: s.append(0, batch(1, 6))),
    ("bytes", lambda s: s.append(0, batch(1, 5, 5)), lambda s: s.append(0, batch(1, 5, 6))),
    ("time", lambda s: s.append(0, batch(1), now_us=1), lambda s: s.append(0, batch(1), now_us=2)),
    ("producer", lambda s: s.append(0, batch(1)), lambda s: s.append(0, batch(1), producer="q")),
    ("append's CRC", lambda s: s.append(0, batch(1)), lambda s: s.append(0, batch(2))),
    ("writer", lambda s: _staged(s), lambda s: _staged(s, writer="x")),
    ("query", lambda s: _staged(s), lambda s: _staged(s, query_id="other")),
    ("run", lambda s: _staged(s), lambda s: _staged(s, run="other")),
    ("plan", lambda s: s.commit_epoch(key(0)), lambda s: s.commit_epoch(key(0), plan="p")),
    ("stream", lambda s: _fenced(s), lambda s: _fenced(s, stream="other")),
    ("stream's run", lambda s: _fenced(s), lambda s: _fenced(s, stream_run="other")),
    ("stream's batch", lambda s: _fenced(s), lambda s: _fenced(s, stream_batch=5)),
    (
        "fenced run",
        lambda s: _epochs_of_two_runs(s, "one"),
        lambda s: _epochs_of_two_runs(s, "other"),
    ),
    (
        "attempt",
        lambda s: s.stage(key(0), "a", 0, batch(1)),
        lambda s: s.stage(key(0), "b", 0, batch(1)),
    ),
    (
        "stage's CRC",
        lambda s: s.stage(key(0), "a", 0, batch(1)),
        lambda s: s.stage(key(0), "a", 0, batch(2)),
    ),
    (
        "open epoch",
        lambda s: s.stage(key(0, streaming=False), "a", 0, batch(1)),
        lambda s: s.stage(key(1, streaming=False), "a", 0, batch(1)),
    ),
    (
        "epoch",
        lambda s: s.commit_epoch(key(0, streaming=False)),
        lambda s: s.commit_epoch(key(1, streaming=False)),
    ),
    (
        "transient",
        lambda s: s.commit_epoch(key(0, streaming=False)),
        lambda s: s.commit_epoch(key(0, streaming=False), transient=True),
    ),
    (
        "admitted late",
        lambda s: s.stage(key(1, streaming=False), "a", 0, batch(1)),
        lambda s: s.stage(key(1), "a", 0, batch(1), create_writer=True),
    ),
]


@pytest.mark.parametrize(
    ("one", "other"), [pair[1:] for pair in DIFFERENCES], ids=[pair[0] for pair in DIFFERENCES]
)
def test_state_hash_sees_every_difference(one: Play, other: Play) -> None:
    prints = []
    for play in (one, one, other):
        scene = Scene()
        play(scene)
        prints.append(scene.machine.fingerprint())
    assert prints[0] == prints[1]
    assert prints[0] != prints[2]


def test_state_hash_sees_which_attempts_the_last_epoch_named() -> None:
    prints = []
    for named in ("a", "b"):
        scene = Scene()
        scene.stage(key(0), named, 0, batch(7, 5))
        scene.commit_epoch(key(0), reference(named, [batch(7, 5)]))
        prints.append(scene.machine.fingerprint())
    assert prints[0] != prints[1]


def test_state_hash_sees_which_lease_was_renewed() -> None:
    prints = []
    for renewed in (0, 1):
        scene = Scene()
        for epoch in (0, 1, renewed, 1):
            scene.stage(key(epoch, streaming=False), "a", 0, batch(1))
        prints.append(scene.machine.fingerprint())
    assert prints[0] != prints[1]


def test_state_hash_sees_the_incarnation() -> None:
    other = Scene(topic=dataclasses.replace(TOPIC, incarnation="0b" * 16))
    assert other.machine.fingerprint() != Scene().machine.fingerprint()


@pytest.mark.slow
def test_state_hash_does_not_depend_on_the_process() -> None:
    """No part of the state depends on the order of a set or the hash of a text."""
    program = (
        "from random import Random\n"
        "from tests.machines.scenes import Scene\n"
        "from tests.machines.test_histories import COMMANDS, History\n"
        "for seed in range(5):\n"
        "    history, scene = History(Random(seed)), Scene()\n"
        "    for _ in range(COMMANDS):\n"
        "        print(scene.apply(history.next_command()))\n"
        "    print(scene.machine.fingerprint().hex())\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=_ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(_ROOT)},
            check=True,
            capture_output=True,
            timeout=PATIENCE_S,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs.pop().count(b"\n") > 500

"""What a run of the tests costs is added up and judged."""

from __future__ import annotations

import subprocess
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import costs
from tests.bench.processes import cpu_s
from tests.conftest import give_fewer_examples

ROOT = Path(__file__).resolve().parents[1]


def test_a_run_that_starts_too_much_is_named_with_its_limit() -> None:
    most = costs.LIMITS["JVMs"]
    fine = dict.fromkeys(costs.LIMITS, 0) | {"JVMs": most}
    assert costs.over_limits(fine) == []
    [line] = costs.over_limits(fine | {"JVMs": most + 1})
    assert f"{most + 1} JVMs" in line
    assert str(most) in line


def test_a_test_that_takes_twice_its_cost_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "COSTLY", {"tests/a.py::listed": 30.0})
    fine = {"tests/a.py::listed": 59.0, "tests/a.py::other": 19.0}
    assert costs.too_costly(fine) == []
    [line] = costs.too_costly(fine | {"tests/a.py::listed": 61.0})
    assert line.startswith("tests/a.py::listed took 61 processor seconds")
    [line] = costs.too_costly(fine | {"tests/a.py::other": 21.0})
    assert line.startswith("tests/a.py::other took 21 processor seconds")


def test_a_costly_test_that_is_not_listed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "COSTLY", {"tests/a.py::listed": 30.0})
    fine = {"tests/a.py::listed": 59.0, "tests/a.py::other": costs.UNLISTED_S}
    assert costs.unlisted(fine) == []
    [line] = costs.unlisted(fine | {"tests/a.py::other": costs.UNLISTED_S + 1})
    assert line.startswith("tests/a.py::other took 11 processor seconds")


def test_every_listed_test_exists() -> None:
    missing = []
    for test in costs.COSTLY:
        file, _, function = test.partition("::")
        path = ROOT / file
        if not path.exists() or f"def {function}(" not in path.read_text():
            missing.append(test)
    assert missing == []


@pytest.mark.parametrize(
    ("nodeid", "function"),
    [
        ("tests/a.py::test_b", "tests/a.py::test_b"),
        ("tests/a.py::test_b[c::d-[e]]", "tests/a.py::test_b"),
    ],
)
def test_the_parameters_of_a_test_are_counted_together(nodeid: str, function: str) -> None:
    assert costs.function_of(nodeid) == function


def test_what_a_child_takes_counts_while_it_runs_and_after_it_has_ended() -> None:
    before_s = costs._everything_s()
    busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; read line"
    with subprocess.Popen(["sh", "-c", busy], stdin=PIPE, stdout=PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child_s = cpu_s(child.pid)
        running_s = costs._everything_s()
    assert child_s > 0.02
    assert running_s - before_s > child_s / 2, "the kernel counts in steps of 10 ms"
    assert costs._everything_s() - before_s > child_s / 2


def test_fewer_examples_are_a_part_of_those_that_a_test_names() -> None:
    tried: list[float] = []

    @settings(max_examples=80)
    @given(st.floats())
    def check(value: float) -> None:
        tried.append(value)

    same = SimpleNamespace(obj=check)  # as two sets of parameters of one test
    give_fewer_examples([same, same, SimpleNamespace(obj=None)], 4)
    check()
    assert len(tried) == 20

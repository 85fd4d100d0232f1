"""How the harness starts processes: none may be left that nobody can name."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from raftlog.chaos.cluster import free_ports, signals_deferred


@pytest.mark.usefixtures("signals_heard")
def test_a_signal_that_comes_while_a_process_is_started_ends_us_only_when_it_is_known() -> None:
    known = []

    def start() -> None:
        with signals_deferred():
            signal.raise_signal(signal.SIGINT)
            known.append("process")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert known
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_signal_that_is_ignored_stays_ignored_while_a_process_is_started() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_deferred():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_ports_that_another_process_was_given_are_given_to_none_besides_while_it_runs() -> None:
    program = (
        "from raftlog.chaos.cluster import free_ports;"
        "print(free_ports(3, offsets=(0, 100)), flush=True); input()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as another:
        assert another.stdout is not None
        first = int(another.stdout.readline())
        its = {first + each + offset for each in range(3) for offset in (0, 100)}
        # As many as lie side by side, so that the search passes over its ports.
        for count in (1, 3, 50):
            ours = free_ports(count)
            assert its.isdisjoint(range(ours, ours + count))
        another.communicate("\n")
    assert not another.returncode

"""Which signals a verb handles while it runs, and what it restores afterwards."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys

import pytest
import typer

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.cli.signals import interrupted_by, on_signals

WAITS = """
import signal
from raftlog.cli.signals import Stop, on_signals
stop = Stop()
with on_signals(stop.tell, signal.SIGINT, signal.SIGTERM):
    print("waits", flush=True)
    while not stop.is_told():
        stop.wait(0.001)
    stop.wait(20)
    print("told", flush=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
"""

pytestmark = pytest.mark.usefixtures("signals_heard")


def test_a_handler_gets_its_signals_for_as_long_as_asked() -> None:
    before = signal.getsignal(signal.SIGTERM)
    heard: list[int] = []
    with on_signals(lambda number, _: heard.append(number), signal.SIGTERM, signal.SIGHUP):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
    assert heard == [signal.SIGTERM, signal.SIGHUP]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_hang_up_that_nohup_had_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        heard: list[int] = []
        with on_signals(lambda number, _: heard.append(number), signal.SIGHUP):
            os.kill(os.getpid(), signal.SIGHUP)
        assert heard == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_interrupts_like_ctrl_c_and_decides_the_exit_code() -> None:
    tidied = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            tidied.append(True)
            raise

    with pytest.raises(typer.Exit) as ended, interrupted_by(signal.SIGTERM, signal.SIGHUP):
        work()
    assert (ended.value.exit_code, tidied) == (143, [True])


def test_ctrl_c_stays_what_it_is() -> None:
    with pytest.raises(KeyboardInterrupt), interrupted_by(signal.SIGTERM):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.slow
def test_many_signals_at_once_end_every_wait() -> None:
    """Each comes within the wait that the one before ends, within its handler, or between them."""
    program = [sys.executable, "-c", WAITS]
    for _ in range(5):
        process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "waits\n"
            for number in itertools.islice(itertools.cycle((signal.SIGINT, signal.SIGTERM)), 200):
                process.send_signal(number)
            output, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
        assert (process.returncode, output) == (0, "told\n")

"""Which signals a verb handles while it runs, and what it restores afterwards."""

from __future__ import annotations

import os
import signal

import pytest

from raftlog.cli.signals import on_signals

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

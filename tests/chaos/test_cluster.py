"""How the harness starts processes: none may be left that nobody can name."""

from __future__ import annotations

import signal

import pytest

from raftlog.chaos.cluster import signals_deferred


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

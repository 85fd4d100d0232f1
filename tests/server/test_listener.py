"""What a node logs when strangers end grpc's loop."""

from __future__ import annotations

import grpc.aio
import pytest
from structlog.testing import capture_logs

from raftlog.server.listener import Listener


def test_ends_of_grpcs_loop_are_logged_once_a_minute_with_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = Listener(grpc.aio.server, [])
    with capture_logs() as lines:
        for _ in range(100):
            ended.note_end(ValueError("a stranger's path"))
        assert [line["times"] for line in lines] == [1]
        monkeypatch.setattr(ended, "_logs_again_s", 0.0)
        ended.note_end(None)
    assert [line["times"] for line in lines] == [1, 100]

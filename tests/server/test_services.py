"""What a node refuses before it reaches the log."""

from __future__ import annotations

import pytest

from raftlog.errors import OffsetTrimmed
from raftlog.machines.commands import Trim
from raftlog.server.services import _check_not_trimmed
from tests.machines.scenes import Scene


def test_a_read_below_the_log_start_names_the_range_that_exists() -> None:
    scene = Scene()
    scene.append(0, scene.new_batch(10))
    scene.apply(Trim(offset=4))
    _check_not_trimmed(scene.machine, 4)
    with pytest.raises(OffsetTrimmed) as caught:
        _check_not_trimmed(scene.machine, 3)
    error = caught.value
    assert (error.topic, error.requested, error.earliest, error.end) == ("flights", 3, 4, 10)

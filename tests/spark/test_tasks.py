"""Tasks that fail, die or lose: only the attempts that the driver named become visible."""

from __future__ import annotations

import pytest

from tests.spark.conftest import finish
from tests.spark.faults import Deed, Moment


@pytest.mark.parametrize(
    ("moment", "deed", "staged"),
    [
        (Moment.STAGING, Deed.KILL_WORKER, [1]),
        (Moment.STAGED, Deed.KILL_WORKER, [0, 1]),
        (Moment.STAGED, Deed.FAIL, [0, 1]),
    ],
)
def test_a_task_that_dies_or_fails_is_retried_and_its_rows_are_written_once(
    lab, moment, deed, staged
):
    """What its first attempt staged is in the log and never visible."""
    lab.faults.arm(moment, deed)
    lab.rows_file("a", 1, 2)
    lab.rows_file("b", 3)
    finish(lab.faulty_sink(lab.file_stream()).start())
    assert lab.faults.happened(moment)
    assert lab.ids() == [1, 2, 3]
    attempts = [line["attempt"] for line in lab.faults.events() if line.get("epoch") == 0]
    assert sorted(attempts) == staged

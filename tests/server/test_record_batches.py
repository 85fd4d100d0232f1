"""Record batches as a server handles them."""

from __future__ import annotations

from array import array

import pytest

from raftlog.errors import MalformedRequest
from raftlog.server.record_batches import batch_reply
from raftlog.wire.batch import BatchHeader
from raftlog.wire.calls import ReadCall
from raftlog.wire.runs import Runs

HEADER = BatchHeader(record_count=3, schema_version=1, columns=())
ONE = Runs.of_one(count=3, timestamp_us=5, term=1, epoch=-1, writer="")
TWO = Runs(
    counts=array("q", (1, 2)),
    timestamps_us=array("q", (5, 6)),
    terms=array("q", (1, 1)),
    epochs=array("q", (-1, -1)),
    writers=array("q", (0, 0)),
    names=("",),
)


def call(*, takes_runs: bool) -> ReadCall:
    return ReadCall(
        group=1,
        incarnation="1f",
        start=0,
        end=3,
        mark=3,
        field_ids=(),
        all_fields=True,
        takes_runs=takes_runs,
    )


@pytest.mark.parametrize(("takes_runs", "runs"), [(True, ONE), (True, TWO), (False, ONE)])
def test_a_client_gets_the_batches_that_it_can_read(takes_runs: bool, runs: Runs):
    reply = batch_reply(call(takes_runs=takes_runs), 40, HEADER, runs)
    assert (reply.start, reply.batch, reply.runs) == (40, HEADER, runs)


def test_a_client_that_knows_one_run_is_refused_a_batch_of_several():
    with pytest.raises(MalformedRequest, match=r"\[40, 43\) has records of 2 writes") as refused:
        batch_reply(call(takes_runs=False), 40, HEADER, TWO)
    assert "same major version" in refused.value.remedy

"""Runs of a batch's records: what they say of each record, and how they travel."""

from __future__ import annotations

from array import array
from dataclasses import replace
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.errors import MalformedRequest
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.batch import BatchHeader, ColumnChunk
from raftlog.wire.calls import READ, BatchReply
from raftlog.wire.codec import decode_reply, encode_reply
from raftlog.wire.codec_runs import decode_runs, encode_runs
from raftlog.wire.framing import Unreadable, join
from raftlog.wire.runs import Runs
from tests.wire.strategies import runs

CHUNK = ColumnChunk(field_id=1, position=0, length=4, crc=7, null_count=1, minimum=-2, maximum=5)
HEADER = BatchHeader(record_count=3, schema_version=2, columns=(CHUNK,))
TIMESTAMP_US = 1_700_000_000_000_001


def records(found: Runs) -> list[tuple[int, int, int, str]]:
    """Timestamp, term, epoch and writer of each record."""
    rows = zip(
        found.counts, found.timestamps_us, found.terms, found.epochs, found.writers, strict=True
    )
    return [
        row
        for count, timestamp_us, term, epoch, writer in rows
        for row in repeat((timestamp_us, term, epoch, found.names[writer]), count)
    ]


# ---------------------------------------------------------------- what they say


@pytest.mark.slow
@given(runs(count_max=4), st.data())
def test_a_slice_says_the_same_of_its_records(found: Runs, data: st.DataObject):
    said = records(found)
    skip = data.draw(st.integers(0, len(said) - 1))
    count = data.draw(st.integers(1, len(said) - skip))
    part = found.slice(skip, count)
    assert part.problem(count) is None
    assert records(part) == said[skip : skip + count]
    known = found.known_within(skip, count)
    assert known.problem(len(said)) is None
    assert records(known)[skip : skip + count] == said[skip : skip + count]
    assert records(found) == said, "slicing changes nothing"


def test_what_is_known_of_one_record_has_one_run_and_one_name():
    """However many the batch has: a reply is no larger than what was asked for."""
    count = 1000
    whole = Runs(
        counts=array("q", [2] * count),
        timestamps_us=array("q", range(count)),
        terms=array("q", [1] * count),
        epochs=array("q", [0] * count),
        writers=array("q", range(count)),
        names=tuple(f"{number:01024}" for number in range(count)),
    )
    known = whole.known_within(7, 1)
    assert (len(known), list(known.names)) == (1, [whole.names[3]])
    header = replace(HEADER, record_count=2 * count)
    reply = encode_reply(READ, BatchReply(start=0, batch=header, runs=known), b"")
    assert len(reply) < 2 * len(whole.names[3])


@pytest.mark.parametrize(("skip", "count"), [(-1, 1), (0, 0), (0, 4), (3, 1), (2, 2)])
def test_a_slice_beyond_the_records_is_a_defect(skip: int, count: int):
    with pytest.raises(AssertionError):
        Runs.of_one(count=3, timestamp_us=0, term=1, epoch=-1, writer="").slice(skip, count)


def test_a_reply_whose_runs_do_not_fit_its_batch_cannot_be_made():
    with pytest.raises(AssertionError, match="4 records in a batch of 3"):
        BatchReply(start=0, batch=HEADER, runs=one_run(count=4))


def one_run(*, count: int = 3, writer: str = "orders", epoch: int = 12) -> Runs:
    return Runs.of_one(count=count, timestamp_us=TIMESTAMP_US, term=9, epoch=epoch, writer=writer)


# ---------------------------------------------------------------- how they travel


@pytest.mark.slow
@given(runs(runs_max=40))
def test_runs_survive_the_wire(found: Runs):
    message = pb.Runs.FromString(encode_runs(found).SerializeToString())
    assert decode_runs(message, sum(found.counts)) == found


@pytest.mark.parametrize(
    ("writer", "epoch", "frame"),
    [
        (
            "orders",
            12,
            "010000003200000008281219080310021a130801180425070000002801320210033a02100a188180f9c0c1"
            "c4820320092a066f7264657273300c000000000000626f6479",
        ),
        (
            "",
            -1,
            "010000003300000008281219080310021a130801180425070000002801320210033a02100a188180f9c0c1"
            "c48203200930ffffffffffffffffff010000000000626f6479",
        ),
    ],
)
def test_a_batch_of_one_run_is_the_frame_of_versions_without_runs(
    writer: str, epoch: int, frame: str
):
    """These bytes were recorded with such a version, so each side reads the other's."""
    reply = BatchReply(start=40, batch=HEADER, runs=one_run(writer=writer, epoch=epoch))
    assert encode_reply(READ, reply, b"body") == bytes.fromhex(frame)
    assert decode_reply(READ, bytes.fromhex(frame)) == (reply, b"body")


def test_thousands_of_runs_stay_small():
    size = 10_000
    appends = Runs(
        counts=array("q", repeat(6, size)),
        timestamps_us=array("q", range(TIMESTAMP_US, TIMESTAMP_US + 5_000 * size, 5_000)),
        terms=array("q", repeat(4, size)),
        epochs=array("q", repeat(-1, size)),
        writers=array("q", repeat(0, size)),
        names=("",),
    )
    assert encode_runs(appends).ByteSize() < 4 * size
    epochs = Runs(
        counts=appends.counts,
        timestamps_us=appends.timestamps_us,
        terms=appends.terms,
        epochs=array("q", (each // 2 for each in range(size))),
        writers=array("q", (each % 2 for each in range(size))),
        names=("one", "two"),
    )
    assert encode_runs(epochs).ByteSize() < 6 * size


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (pb.Runs(), "none of 0 runs"),
        (pb.Runs(counts=[3], names=[]), "table of 0 names"),
        (pb.Runs(counts=[2], names=["a"]), "runs of 2 records in a batch of 3"),
        (pb.Runs(counts=[3, 0], names=["a"]), "a run of 0 records"),
        (pb.Runs(counts=[2, 1], writers=[0, 1], names=["a"]), "writer 1 in a table of 1"),
        (pb.Runs(counts=[2, 1], writers=[0, 0, 0], names=["a"]), "3 writers of 2 runs"),
        (pb.Runs(counts=[2, 1], timestamp_steps=[1, 1, 1], names=["a"]), "differ in length"),
        (pb.Runs(counts=[2, 1], term_steps=[1, 1, 1], names=["a"]), "differ in length"),
        (pb.Runs(counts=[2, 1], epoch_steps=[1, 1, 1], names=["a"]), "differ in length"),
        (pb.Runs(counts=[2**64 - 1], names=["a"]), "64 bits"),
        (pb.Runs(counts=[2, 1], epoch_steps=[2**63 - 1, 1], names=["a"]), "64 bits"),
    ],
)
def test_runs_that_do_not_fit_their_batch_are_refused(message: pb.Runs, problem: str):
    with pytest.raises(Unreadable, match=problem):
        decode_runs(message, 3)
    with pytest.raises(MalformedRequest, match=problem):
        decode_reply(READ, join(pb.BatchReply(batch=_header(3), runs=message).SerializeToString()))


@pytest.mark.parametrize(
    "message",
    [
        pb.BatchReply(start=1),
        pb.BatchReply(batch=pb.BatchHeader(record_count=0)),
        pb.BatchReply(batch=pb.BatchHeader(record_count=2**63)),
        pb.BatchReply(batch=pb.BatchHeader(record_count=1), term=2**63),
    ],
)
def test_a_reply_without_a_sound_batch_is_refused(message: pb.BatchReply):
    with pytest.raises(MalformedRequest, match="batch"):
        decode_reply(READ, join(message.SerializeToString()))


def _header(record_count: int) -> pb.BatchHeader:
    return pb.BatchHeader(record_count=record_count, schema_version=1)

"""Private to `raftlog.wire`: the runs of a batch's records as a protobuf message.

Neighbouring runs differ little. So timestamps, terms and epochs travel as their differences, which
are varints of a byte or two, and the zeros at the end of a column are left out: a column that never
changes is one value.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from operator import sub

from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.framing import Unreadable
from raftlog.wire.runs import Runs


def encode_runs(runs: Runs) -> pb.Runs:
    """The runs as a message: 4 to 8 bytes for each of many, beside the writers' names."""
    return pb.Runs(
        counts=runs.counts,
        timestamp_steps=_steps(runs.timestamps_us),
        term_steps=_steps(runs.terms),
        epoch_steps=_steps(runs.epochs),
        writers=_without_last_zeros(runs.writers),
        names=runs.names,
    )


def decode_runs(message: pb.Runs, record_count: int) -> Runs:
    """The runs of a batch of so many records. Raises `Unreadable` if they do not fit it."""
    length = len(message.counts)
    try:
        runs = Runs(
            counts=array("q", message.counts),
            timestamps_us=_sums(message.timestamp_steps, length),
            terms=_sums(message.term_steps, length),
            epochs=_sums(message.epoch_steps, length),
            writers=_with_last_zeros(message.writers, length),
            names=tuple(message.names),
        )
    except OverflowError as error:
        raise Unreadable(f"runs with a number beyond 64 bits: {error}") from error
    problem = runs.problem(record_count)
    if problem is not None:
        raise Unreadable(problem)
    return runs


def _steps(column: array[int]) -> Sequence[int]:
    """The first value, then how much each value is more than the one before it."""
    return _without_last_zeros(array("q", map(sub, column, chain((0,), column))))


def _sums(steps: Sequence[int], length: int) -> array[int]:
    """The column of `length` values that `_steps` gave these for."""
    return array("q", accumulate(_with_last_zeros(steps, length)))


def _without_last_zeros(column: array[int]) -> array[int]:
    nonzero_bytes = len(column.tobytes().rstrip(b"\0"))
    return column[: -(-nonzero_bytes // column.itemsize)]


def _with_last_zeros(values: Sequence[int], length: int) -> array[int]:
    column = array("q", values)
    column.frombytes(bytes(column.itemsize * max(0, length - len(column))))
    return column

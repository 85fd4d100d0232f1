"""What a reader gives for a range does not depend on how its records lie in batches and runs."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, pairwise
from typing import NamedTuple

import grpc
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.client import reader as reader_module
from raftlog.client.connection import Connection
from raftlog.client.reader import TopicReader
from raftlog.config import ClientSettings
from raftlog.core.types import Offset
from raftlog.machines.commands import TopicInfo
from raftlog.machines.evolution import ADD, ColumnChange, evolved
from raftlog.machines.limits import TEXT_CHARACTERS_MAX
from raftlog.machines.schema import RESERVED_NAMES, Schema
from raftlog.records.arrow_types import arrow_schema, schema_of
from raftlog.records.batch_codec import encode_batch
from raftlog.records.conform import conform
from raftlog.wire.arrow_message import BATCH_DECODED_BYTES_MAX, BATCH_ROWS_MAX
from raftlog.wire.calls import (
    DESCRIBE_CLUSTER,
    READ,
    BatchReply,
)
from raftlog.wire.codec import decode_request, encode_reply
from raftlog.wire.runs import Runs
from tests.client.answering import described, serving, unary
from tests.wire.bombs import arrow_memory

TOPIC = TopicInfo(
    name="flights",
    incarnation="1f",
    group=1,
    schema=schema_of("id BIGINT, text STRING"),
    voters=(1,),
    created_us=0,
    rules=1,
)


class Record(NamedTuple):
    """A record, and what a reader can ask of it."""

    offset: int
    text: str | None
    timestamp_us: int
    term: int
    epoch: int
    writer: str

    def row(self) -> dict[str, object]:
        return {
            "id": self.offset * 3,
            "text": self.text,
            "_topic": TOPIC.name,
            "_offset": self.offset,
            "_timestamp": self.timestamp_us,
            "_epoch": self.epoch if self.writer else None,
            "_writer": self.writer or None,
            "_term": self.term,
        }


class Frame(NamedTuple):
    start: int
    end: int
    data: bytes


class Replica:
    """A node that serves one topic's batches; each stream ends after `stream_max` of them."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.stream_max = 1

    def read(self, data: bytes, _: grpc.ServicerContext) -> Iterator[bytes]:
        call, _body = decode_request(READ, data)
        met = [each for each in self.frames if each.start < call.end and call.start < each.end]
        return iter([each.data for each in met[: self.stream_max]])


@pytest.fixture(scope="module")
def replica() -> Iterator[tuple[Replica, Connection]]:
    served = Replica()
    addresses: list[str] = []
    handlers = {
        READ.name: grpc.unary_stream_rpc_method_handler(served.read),
        DESCRIBE_CLUSTER.name: unary(
            lambda _: encode_reply(DESCRIBE_CLUSTER, described(addresses))
        ),
    }
    with serving(handlers) as address:
        addresses.append(address)
        connection = Connection(ClientSettings(bootstrap_servers=address))
        yield served, connection
        connection.close()


@st.composite
def written(draw: st.DrawFn) -> list[Record]:
    """Records as several writes made them."""
    writes = st.tuples(
        st.integers(1, 5),
        st.sampled_from((5, 6, 2**61)),
        st.integers(1, 3),
        st.sampled_from((("", -1), ("w", 0), ("w", 1), ("ü", 0))),
    )
    found: list[Record] = []
    for count, timestamp_us, term, (writer, epoch) in draw(st.lists(writes, min_size=1)):
        for _ in range(count):
            text = None if len(found) % 3 == 0 else f"text {len(found)}"
            found.append(Record(len(found), text, timestamp_us, term, epoch, writer))
    return found


def reply_frame(records: list[Record]) -> Frame:
    """One batch of consecutive records."""
    rows = pa.RecordBatch.from_pylist(
        [{name: each.row()[name] for name in ("id", "text")} for each in records],
        schema=pa.schema([("id", pa.int64()), ("text", pa.string())]),
    )
    encoded = encode_batch(conform(rows, TOPIC.schema, TOPIC.name), TOPIC.schema, "none")
    runs = [
        (key, len(list(same)))
        for key, same in groupby(records, lambda each: each[2:])  # all but offset and text
    ]
    names = sorted({writer for (*_, writer), _ in runs})
    reply = BatchReply(
        start=Offset(records[0].offset),
        batch=encoded.header,
        runs=Runs(
            counts=array("q", [count for _, count in runs]),
            timestamps_us=array("q", [key[0] for key, _ in runs]),
            terms=array("q", [key[1] for key, _ in runs]),
            epochs=array("q", [key[2] for key, _ in runs]),
            writers=array("q", [names.index(key[3]) for key, _ in runs]),
            names=names,
        ),
    )
    return Frame(records[0].offset, records[-1].offset + 1, encode_reply(READ, reply, encoded.body))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(written(), st.data())
def test_a_read_gives_each_record_as_it_was_written(
    replica: tuple[Replica, Connection], records: list[Record], data: st.DataObject
) -> None:
    served, connection = replica
    inside = st.integers(0, len(records))
    cuts = sorted({0, len(records), *data.draw(st.lists(inside, max_size=6))})
    served.frames = [reply_frame(records[first:last]) for first, last in pairwise(cuts)]
    served.stream_max = data.draw(st.integers(1, 4))
    start, end = sorted((data.draw(inside), data.draw(inside)))
    columns = data.draw(
        st.lists(st.sampled_from(("id", "text", *RESERVED_NAMES)), min_size=1, unique=True)
    )
    reader = TopicReader(connection, TOPIC, columns=columns)
    found = []
    for batch in reader.batches(Offset(start), Offset(end), mark=Offset(len(records))):
        batch.validate(full=True)
        assert batch.schema.names == columns
        if "_timestamp" in columns:
            at = columns.index("_timestamp")
            batch = batch.set_column(at, "_timestamp", batch.column(at).cast(pa.int64()))
        found += batch.to_pylist()
    assert found == [{name: each.row()[name] for name in columns} for each in records[start:end]]


@pytest.mark.parametrize("part", [16, pytest.param(1, marks=pytest.mark.soak)])
def test_a_batch_that_the_name_of_its_writer_makes_large_comes_in_pieces(
    replica: tuple[Replica, Connection], monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """One long name and records of nulls are few bytes in the log, and gigabytes as a column."""
    monkeypatch.setattr(reader_module, "_PIECE_BYTES", reader_module._PIECE_BYTES // part)
    count = BATCH_ROWS_MAX // part
    served, connection = replica
    schema = schema_of("ok BOOLEAN")
    rows = pa.RecordBatch.from_arrays([pa.nulls(count, pa.bool_())], schema=arrow_schema(schema))
    encoded = encode_batch(rows, schema, "zstd")
    writer = TEXT_CHARACTERS_MAX * "\N{GRINNING FACE}"
    counts = array("q", [count // 2] * 2)
    several = Runs(
        counts=counts,
        timestamps_us=array("q", [0, 1]),
        terms=array("q", [1, 1]),
        epochs=array("q", [0, 1]),
        writers=array("q", [0, 1]),
        names=(writer, "short"),
    )
    one = Runs.of_one(count=count, timestamp_us=0, term=1, epoch=0, writer=writer)
    for runs in (one, several):
        reply = BatchReply(start=Offset(0), batch=encoded.header, runs=runs)
        served.frames = [Frame(0, count, encode_reply(READ, reply, encoded.body))]
        reader = TopicReader(
            connection, replace(TOPIC, schema=schema), columns=["_offset", "_writer"]
        )
        end = 0
        with arrow_memory() as pool:
            mark = Offset(count)
            for piece in reader.batches(Offset(0), mark, mark=mark):
                piece.validate(full=True)
                offsets, writers = piece.columns
                assert offsets[0].as_py() == end
                end += piece.num_rows
                assert writers[0].as_py() == writer or runs is several
                del piece, offsets, writers
            assert pool.max_memory() <= 2 * BATCH_DECODED_BYTES_MAX // part
        assert end == count


def test_a_batch_that_later_columns_make_large_comes_in_pieces(
    replica: tuple[Replica, Connection],
) -> None:
    """What takes these pieces may copy them."""
    served, connection = replica
    before = schema_of("ok BOOLEAN")
    added = [ColumnChange(action=ADD, name=f"c{each}", type='"long"') for each in range(80)]
    now = evolved(before, added)
    assert isinstance(now, Schema), now
    rows = pa.RecordBatch.from_arrays(
        [pa.array([True]).take(pa.array([0] * BATCH_ROWS_MAX))], schema=arrow_schema(before)
    )
    encoded = encode_batch(rows, before, "none")
    reply = BatchReply(
        start=Offset(0),
        batch=encoded.header,
        runs=Runs.of_one(count=BATCH_ROWS_MAX, timestamp_us=0, term=1, epoch=-1, writer=""),
    )
    served.frames = [Frame(0, BATCH_ROWS_MAX, encode_reply(READ, reply, encoded.body))]
    reader = TopicReader(connection, replace(TOPIC, schema=now), columns=["_offset", "c0", "c79"])
    (whole,) = reader.batches(Offset(0), Offset(BATCH_ROWS_MAX), mark=Offset(BATCH_ROWS_MAX))
    assert whole.num_rows == BATCH_ROWS_MAX
    reader = TopicReader(connection, replace(TOPIC, schema=now))
    pieces = list(reader.batches(Offset(0), Offset(BATCH_ROWS_MAX), mark=Offset(BATCH_ROWS_MAX)))
    assert sum(each.num_rows for each in pieces) == BATCH_ROWS_MAX
    assert max(each.nbytes for each in pieces) <= BATCH_DECODED_BYTES_MAX < whole.nbytes * 40

"""Records of simulated clients: labels that are encoded into batches, and read out of them again.

Some batches are Arrow's, so that compaction merges them; the others cannot be decoded, so that it
copies them.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from raftlog.checksum import chain, crc32c
from raftlog.machines.commands import BatchSummary
from raftlog.machines.extents import Extent
from raftlog.machines.schema import Field, Schema
from raftlog.records.arrow_types import arrow_schema
from raftlog.records.batch_codec import decode_batch, encode_batch
from raftlog.wire.batch import BatchHeader, ColumnChunk
from raftlog.wire.runs import Runs

SCHEMA = Schema(
    version=1,
    fields=(
        Field(id=1, name="label", type='"string"', nullable=False),
        Field(id=2, name="padding", type='"binary"', nullable=True),
    ),
)
_PLAIN_TEXT = (b"append/", b"epoch/")
"""How a body begins that is not Arrow's."""


class Label(NamedTuple):
    """`source` and `number`: producer and sequence, or writer and epoch."""

    kind: str
    source: str
    number: int
    place: int
    attempt: str

    def text(self) -> str:
        return "/".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Label:
        kind, source, number, place, attempt = text.split("/")
        return cls(kind, source, int(number), int(place), attempt)


class Batch(NamedTuple):
    """Records as a client has encoded them."""

    labels: list[Label]
    header: BatchHeader
    summary: BatchSummary
    body: bytes


class Facts(NamedTuple):
    """A record's metadata columns, besides its offset."""

    timestamp_us: int
    term: int
    epoch: int
    writer: str


class Row(NamedTuple):
    """A record as a reader sees it."""

    offset: int
    text: str
    facts: Facts


def batch_of(labels: list[Label], padding: int, *, arrow: bool = False) -> Batch:
    """The labels as one column, and so many bytes as another; `arrow`: as Arrow's column chunks."""
    texts = [label.text() for label in labels]
    if arrow:
        filler: list[bytes | None] = [None] * (len(labels) - 1) + [b"." * padding]
        columns = [pa.array(texts, pa.string()), pa.array(filler, pa.binary())]
        rows = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(SCHEMA))
        encoded = encode_batch(rows, SCHEMA, "none")
        header, body, crc = encoded.header, encoded.body, encoded.crc
    else:
        body = "\n".join(texts).encode() + b"\n" + b"." * padding
        chunks = (
            ColumnChunk(field_id=1, position=0, length=len(body), crc=crc32c(body), null_count=0),
            ColumnChunk(field_id=2, position=len(body), length=0, crc=crc32c(b""), null_count=0),
        )
        header = BatchHeader(record_count=len(labels), schema_version=1, columns=chunks)
        crc = chain(chain(0, chunks[0].crc), chunks[1].crc)
    summary = BatchSummary(
        record_count=len(labels), schema_version=1, body_bytes=len(body), crc=crc
    )
    return Batch(labels, header, summary, body)


def texts_of(header: BatchHeader, body: bytes) -> list[str]:
    """The labels of a batch, as text. Raises `DataLoss` for bytes that no client wrote."""
    if body.startswith(_PLAIN_TEXT):
        return [line.decode() for line in body.split(b"\n")[: header.record_count]]
    found: list[str] = decode_batch(header, body, SCHEMA, ["label"]).column(0).to_pylist()
    return found


def facts_of(runs: Runs) -> list[Facts]:
    """The metadata of each record of a batch."""
    return [
        Facts(timestamp_us, term, epoch, runs.names[writer])
        for count, timestamp_us, term, epoch, writer in zip(
            runs.counts, runs.timestamps_us, runs.terms, runs.epochs, runs.writers, strict=True
        )
        for _ in range(count)
    ]


def facts_of_extent(extent: Extent, term: int) -> Facts:
    """The metadata of every record of an extent, whose entry has this term."""
    return Facts(extent.timestamp_us, term, extent.epoch, extent.writer)

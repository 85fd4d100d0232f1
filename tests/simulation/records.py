"""Records of simulated clients: labels that are encoded into batches, and read out of them again.

Some batches are Arrow's, so that compaction merges them; the others cannot be decoded, so that it
copies them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from raftlog.checksum import chain, crc32c
from raftlog.machines.commands import BatchSummary
from raftlog.machines.extents import Extent
from raftlog.machines.schema import Field, Schema
from raftlog.records.arrow_types import arrow_schema
from raftlog.records.batch_codec import decode_batch, encode_batch
from raftlog.wire.batch import BatchHeader, ColumnChunk
from raftlog.wire.runs import Runs
from tests.simulation.promises import Promise, Violation

if TYPE_CHECKING:
    from tests.simulation.schemas import Columns

LABEL_ID, PADDING_ID = 1, 2

SCHEMA = Schema(
    version=1,
    fields=(
        Field(id=LABEL_ID, name="label", type='"string"', nullable=False),
        Field(id=PADDING_ID, name="padding", type='"binary"', nullable=True),
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


def batch_of(
    labels: list[Label],
    padding: int,
    *,
    arrow: bool = False,
    schema: Schema = SCHEMA,
    columns: Columns | None = None,
) -> Batch:
    """The labels as one column, and so many bytes as another; `arrow`: as Arrow's column chunks.

    A later version of the schema has what `columns` says in its other columns.
    """
    texts = [label.text() for label in labels]
    if arrow:
        filler: list[bytes | None] = [None] * (len(labels) - 1) + [b"." * padding]
        given: dict[int, list[Any]] = {LABEL_ID: texts, PADDING_ID: filler}
        if columns is not None:
            given |= columns.values(labels, schema.version, schema)
        types = arrow_schema(schema)
        arrays = [
            pa.array(given[field.id], kind.type)
            for field, kind in zip(schema.fields, types, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=types)
        encoded = encode_batch(rows, schema, "none")
        header, body, crc = encoded.header, encoded.body, encoded.crc
    else:
        body = "\n".join(texts).encode() + b"\n" + b"." * padding
        lengths = [len(body) if field.id == LABEL_ID else 0 for field in schema.fields]
        chunks = tuple(
            ColumnChunk(
                field_id=field.id,
                position=0 if length else len(body),
                length=length,
                crc=crc32c(body if length else b""),
                null_count=0,
            )
            for field, length in zip(schema.fields, lengths, strict=True)
        )
        header = BatchHeader(
            record_count=len(labels), schema_version=schema.version, columns=chunks
        )
        crc = 0
        for chunk in chunks:
            crc = chain(crc, chunk.crc)
    summary = BatchSummary(
        record_count=len(labels), schema_version=schema.version, body_bytes=len(body), crc=crc
    )
    return Batch(labels, header, summary, body)


def texts_of(
    header: BatchHeader, body: bytes, columns: Columns | None = None, version: int = 0
) -> list[str]:
    """The labels of a batch, as text. Raises `DataLoss` for bytes that no client wrote.

    If the topic's `columns` are known, the batch is read under this `version` of its schema, 0: the
    latest; each column must hold what the record's client wrote, or null if it knew no such column.
    """
    if body.startswith(_PLAIN_TEXT):
        return [line.decode() for line in body.split(b"\n")[: header.record_count]]
    latest = columns.latest if columns is not None else SCHEMA
    schema = latest.at(version or latest.version)
    ids = [field.id for field in schema.fields if field.id != PADDING_ID]
    names = [field.name for field in schema.fields if field.id != PADDING_ID]
    read = decode_batch(header, body, schema, names, latest=latest)
    found = {number: column.to_pylist() for number, column in zip(ids, read.columns, strict=True)}
    texts: list[str] = found.pop(LABEL_ID)
    if None in texts:
        raise Violation(Promise.ALTERATIONS, f"records without labels: {header}")
    if columns is not None and found:
        due = columns.values([Label.parse(text) for text in texts], header.schema_version, schema)
        if found != due:
            raise Violation(
                Promise.ALTERATIONS,
                f"records of version {header.schema_version} read as {found} under version "
                f"{schema.version}, which are {due}",
            )
    return texts


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

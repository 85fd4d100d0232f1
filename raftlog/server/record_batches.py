"""Record batches as a server handles them: their bytes checked and cut, never decoded."""

from __future__ import annotations

from raftlog.checksum import chain, crc32c
from raftlog.errors import MalformedRequest, SchemaMismatch, UnknownSchemaVersion
from raftlog.machines.commands import BatchSummary, TopicInfo
from raftlog.machines.schema import Field, Schema
from raftlog.machines.widening import widens_floats
from raftlog.wire.arrow_message import BATCH_DECODED_BYTES_MAX, BATCH_ROWS_MAX, claims_of
from raftlog.wire.batch import BOUND_BYTES_MAX, BatchHeader, Bound, ColumnChunk
from raftlog.wire.framing import Unreadable


def checked_summary(
    topic: TopicInfo, batch: BatchHeader, crc: int, body: bytes, *, latest: Schema
) -> BatchSummary:
    """What the topic's machine will know of the batch, once its bytes are as described.

    `latest` is the topic's schema, or a later one that its log is about to get. Raises
    `MalformedRequest`, `UnknownSchemaVersion`, `SchemaMismatch` for a batch that readers could not
    read, or would read as what was not meant: it would stay in the log.
    """
    if not 1 <= batch.record_count <= BATCH_ROWS_MAX:
        raise _invalid_batch(f"{batch.record_count} records; 1 to {BATCH_ROWS_MAX} are allowed")
    schema = _checked_schema(topic, batch, latest)
    position = chained = decoded_bytes = 0
    view = memoryview(body)
    for column, field in zip(batch.columns, schema.fields, strict=True):
        if column.position != position or column.length < 0:
            raise _invalid_batch(f"column {column.field_id} at byte {column.position}")
        if max(map(_length, (column.minimum, column.maximum))) > BOUND_BYTES_MAX:
            raise _invalid_batch(f"column {column.field_id} with a bound that is too long")
        position += column.length
        if crc32c(bytes(view[column.position : position])) != column.crc:
            raise _invalid_batch(f"column {column.field_id} whose CRC-32C does not fit")
        chained = chain(chained, column.crc)
        decoded_bytes += _decoded_bytes(batch, column, field, view[column.position : position])
    if decoded_bytes > BATCH_DECODED_BYTES_MAX:
        raise _invalid_batch(
            f"{decoded_bytes} bytes decompressed (an element of a list or map counts as 4 or "
            f"more); {BATCH_DECODED_BYTES_MAX} are allowed"
        )
    if position != len(body):
        raise _invalid_batch(f"{len(body)} body bytes where the columns have {position}")
    if chained != crc:
        raise _invalid_batch("a CRC that does not fit its columns")
    return BatchSummary(
        record_count=batch.record_count,
        schema_version=batch.schema_version,
        body_bytes=len(body),
        crc=crc,
    )


def _length(bound: Bound) -> int:
    """The bytes of a text or binary bound; 0 for others."""
    match bound:
        case str():
            return len(bound.encode())
        case bytes():
            return len(bound)
    return 0


def _decoded_bytes(batch: BatchHeader, column: ColumnChunk, field: Field, chunk: memoryview) -> int:
    """The column's decompressed size in bytes, as its message claims it."""
    try:
        claims = claims_of(chunk, field.type)
    except Unreadable as error:
        raise _invalid_batch(f"column {column.field_id} as {error}") from None
    if claims.record_count != batch.record_count:
        raise _invalid_batch(f"column {column.field_id} of {claims.record_count} values")
    return claims.decoded_bytes


def _checked_schema(topic: TopicInfo, batch: BatchHeader, latest: Schema) -> Schema:
    """The batch's version of the schema, which has the batch's columns.

    None of them was dropped or renamed since: readers would miss its values, or find them in
    another column than the writer meant. Nor did a float become double: its values may be rounded.
    """
    if batch.schema_version < 1:
        raise _invalid_batch(f"schema version {batch.schema_version}")
    if batch.schema_version > topic.schema.version:
        raise UnknownSchemaVersion(version=batch.schema_version, latest=topic.schema.version)
    schema = latest.at(batch.schema_version)
    given = [column.field_id for column in batch.columns]
    fields = [field.id for field in schema.fields]
    if given != fields:
        raise SchemaMismatch(
            topic=topic.name, difference=f"columns have field ids {given}, the topic {fields}"
        )
    if schema is latest:
        return schema
    if lines := [line for field in schema.fields if (line := _changed(field, latest))]:
        raise SchemaMismatch(
            topic=topic.name,
            difference="\n".join(lines),
            advice="Write the columns that the topic has now: describe it again, or restart the "
            "query.",
        )
    return schema


def _changed(field: Field, latest: Schema) -> str | None:
    """What became of a writer's column that it has to know of; None: nothing."""
    now = latest.field(field.id)
    if now is None:
        return f"  dropped: {field.name}"
    if now.name != field.name:
        return f"  renamed: {field.name} is {now.name} now"
    if now.type != field.type and widens_floats(field.type, now.type):
        return f"  wider:   {field.name} has a double where it had a float"
    return None


def _invalid_batch(what: str) -> MalformedRequest:
    return MalformedRequest(call="Append or Stage", what=f"a record batch with {what}")


def column_slices(
    header: BatchHeader, wanted: frozenset[int] | None
) -> tuple[BatchHeader, list[tuple[int, int]]]:
    """The header of only the wanted columns (None: all), with positions from 0, and where in the
    body they lie: position and length, adjacent columns as one."""
    kept = []
    ranges: list[tuple[int, int]] = []
    position = 0
    for column in header.columns:
        if wanted is not None and column.field_id not in wanted:
            continue
        begin = column.position
        if ranges and sum(ranges[-1]) == begin:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + column.length)
        else:
            ranges.append((begin, column.length))
        kept.append(column._replace(position=position))
        position += column.length
    sliced = BatchHeader(
        record_count=header.record_count,
        schema_version=header.schema_version,
        columns=tuple(kept),
    )
    return sliced, ranges

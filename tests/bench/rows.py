"""The rows of all Spark measurements: five typed columns, about 40 bytes in Arrow."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

SCHEMA_DDL = "id bigint, at timestamp, name string, amount double, count int"

WIDE_DDL = SCHEMA_DDL + ", " + ", ".join(f"b_{field}" for field in SCHEMA_DDL.split(", "))
"""Ten columns: these and their copies."""

COLUMNS = [field.split(" ")[0] for field in SCHEMA_DDL.split(", ")]
WIDE_COLUMNS = [*COLUMNS, *(f"b_{name}" for name in COLUMNS)]

_NAMES = 1000


def rows(start: int, count: int) -> pa.RecordBatch:
    """Rows with ids [start, start + count)."""
    ids = pa.arange(start, start + count)
    names = pa.array([f"customer-{number}" for number in range(_NAMES)])
    residue = pc.subtract(ids, pc.multiply(pc.divide(ids, _NAMES), _NAMES))
    at = pc.add(pc.multiply(ids, 1000), 1_790_000_000_000_000)
    columns = [
        ids,
        at.cast(pa.timestamp("us", tz="UTC")),
        names.take(residue),
        pc.multiply(ids.cast(pa.float64()), 0.25),
        residue.cast(pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=COLUMNS)


def wide(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with all ten columns."""
    return pa.RecordBatch.from_arrays([*batch.columns, *batch.columns], names=WIDE_COLUMNS)

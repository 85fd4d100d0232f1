"""What it saves to read fewer columns and fewer rows: batch reads with `raftlog.spark.read` into
Spark's noop sink, all in one JVM, in turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from raftlog.spark.session import SETTINGS
from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.bench.rows import WIDE_COLUMNS, WIDE_DDL, rows, wide
from tests.bench.spark import bare_scan, median_rate, run_queries

_ROWS = 32_000_000
_PIECE_ROWS = 250_000
_SHARE = 100
"""The filter is for one row of so many, next to each other."""

_OF_TEN = ["id", "amount"]


def pruning(place: Place) -> Iterator[Figure]:
    """A topic of ten columns: all of it, two columns of it, and a hundredth of its rows."""
    with place.cluster("pruning") as cluster:
        with cluster.client() as client:
            client.create_topic("wide", WIDE_DDL)
            with client.producer("wide") as producer:
                for start in range(0, _ROWS, _PIECE_ROWS):
                    producer.append(wide(rows(start, _PIECE_ROWS)))
        first = _ROWS // 2
        where = f"id >= {first} AND id < {first + _ROWS // _SHARE}"
        rates = run_queries(
            place.folder / "reads",
            {each.key: each.value for each in SETTINGS},
            {
                "ten": _read(place.spark_options(cluster)),
                "two": _read(place.spark_options(cluster), columns=_OF_TEN),
                "filtered": _read(place.spark_options(cluster), where=where),
                "bare_ten": bare_scan(_ROWS, WIDE_COLUMNS),
                "bare_two": bare_scan(_ROWS, _OF_TEN),
            },
        )
    medians = {name: median_rate(found) for name, found in rates.items()}
    about = f"of {_ROWS:,} rows of ten columns into Spark's noop, local[2], configured"
    detail = {f"{name}_rows_per_s": rate for name, rate in medians.items()}
    detail |= {f"{name}_ms": 1000 * _ROWS / rate for name, rate in medians.items()}
    yield Figure(
        name="two_of_ten_columns_ratio",
        value=medians["two"] / medians["ten"],
        unit="times",
        about=f"rate of a read of two columns, over that of all: {about}",
        detail=detail,
    )
    yield Figure(
        name="filtered_read_ratio",
        value=medians["filtered"] / medians["ten"],
        unit="times",
        about=f"time of a read of all, over that of a range of 1 % by its bounds: {about}",
        detail=detail,
    )


def _read(log: Mapping[str, str], **given: Any) -> dict[str, Any]:
    """A batch read, as `tests.bench.spark_driver` takes it. All rows count, read or not."""
    return {"read": {"topic": "wide", "options": dict(log), **given}, "rows": _ROWS}

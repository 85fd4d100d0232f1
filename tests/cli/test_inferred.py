"""The columns of a topic that is made for a file."""

from __future__ import annotations

import io
import json
import shlex

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raftlog.cli.row_files import InputFormat, Notes, RowFile
from raftlog.cli.text_blocks import BLOCK_BYTES
from raftlog.errors import InvalidOption
from raftlog.records.arrow_types import arrow_schema, schema_of
from raftlog.records.conform import conform
from raftlog.records.schema_text import schema_ddl


def opened(data: bytes, format_: InputFormat, *nulls: str) -> RowFile:
    return RowFile(io.BufferedReader(io.BytesIO(data)), "rows", format_, Notes(nulls=nulls))


def ddl(data: bytes, format_: InputFormat, *nulls: str) -> str:
    """The columns; and the file's rows fit a topic that has them."""
    file = opened(data, format_, *nulls)
    schema = schema_of(file.schema())
    parts = [*file.parts(arrow_schema(schema), lambda batch: conform(batch, schema, "t"))]
    assert sum(part.batch.num_rows for part in parts if part is not None) == 2
    return schema_ddl(schema)


def test_json_lines_tell_their_columns() -> None:
    row = {
        "_offset": 7, "id": 1, "share": 0.5, "yes": True, "text": "2026-11-20 or so",
        "day": "2026-11-20", "at": "2026-11-20T08:30:00.000005+00:00", "near": "2026-11-20 08:30",
        "part": {"day": "2026-11-20", "list": [{"at": "2026-11-20T08:30:00Z"}]},
    }  # fmt: skip
    data = json.dumps(row) + "\n" + json.dumps({"id": 2, "day": "2026-11-21", "text": "2026-1"})
    assert ddl(data.encode(), InputFormat.JSON) == (
        "id BIGINT, share DOUBLE, yes BOOLEAN, text STRING, day DATE, at TIMESTAMP, "
        "near TIMESTAMP, part STRUCT<day: DATE, list: ARRAY<STRUCT<at: TIMESTAMP>>>"
    )


def test_csv_tells_its_columns() -> None:
    data = (
        b"id,share,yes,text,day,at,clock\n"
        b"1,0.5,true,hi,2026-11-20,2026-11-20 08:30:00,08:30\n"
        b"NA,1,false,,2026-11-20,2026-11-20T08:30:00.5Z,09:15\n"
    )
    assert ddl(data, InputFormat.CSV, "NA") == (
        "id BIGINT, share DOUBLE, yes BOOLEAN, text STRING, day DATE, at TIMESTAMP, clock STRING"
    )


def test_an_advised_command_runs_no_code_of_a_files_header() -> None:
    with pytest.raises(InvalidOption) as caught:
        opened(b"k'; echo PWNED >&2; ',v\n1,\n", InputFormat.CSV).schema()
    command = caught.value.remedy.partition("want: ")[2]
    *_, option, ddl = shlex.split(command)
    assert (option, ddl) == ("--schema", "`k'; echo PWNED >&2; '` BIGINT, v STRING")


def test_parquet_says_its_columns() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False),
            pa.field("m", pa.map_(pa.string(), pa.date32())),
            pa.field("at", pa.timestamp("us", "UTC")),
        ]
    )
    sink = io.BytesIO()
    rows = [{"id": 1, "m": [], "at": None}] * 2
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    assert ddl(sink.getvalue(), InputFormat.PARQUET) == (
        "id INT NOT NULL, m MAP<STRING, DATE>, at TIMESTAMP"
    )


def test_the_block_that_tells_the_columns_is_read_as_rows_too() -> None:
    line = b'{"id": 1, "text": "%s"}\n' % (b"x" * 1_000)
    count = 2 * BLOCK_BYTES // len(line)
    file = opened(line * count, InputFormat.JSON)
    schema = schema_of(file.schema())
    parts = [*file.parts(arrow_schema(schema), lambda batch: batch)]
    assert sum(part.batch.num_rows for part in parts if part is not None) == count
    assert [part.end for part in parts if part is not None][-1] == count * len(line)


@pytest.mark.parametrize(
    ("data", "format_", "told"),
    [
        (b"", InputFormat.JSON, "rows"),
        (b"", InputFormat.CSV, "rows"),
        (b'{"id": 1}\n{"id": "x"}\n', InputFormat.JSON, "line 2"),
        (b'{"id": 1, "note": null}\n', InputFormat.JSON, "id BIGINT, note STRING"),
        (b'{"id": 1, "notes": []}\n', InputFormat.JSON, "notes"),
        (b"id,note\n1,\n", InputFormat.CSV, "id BIGINT, note STRING"),
        (b"null\n", InputFormat.JSON, "line 1"),
    ],
)
def test_a_file_that_does_not_tell_its_columns_is_refused(
    data: bytes, format_: InputFormat, told: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        opened(data, format_).schema()
    said = f"{caught.value.cause} {caught.value.remedy}"
    assert told in said
    assert "raftlog topic create" in said

"""Kafka's records as its tools print them, as rows of Kafka's columns."""

from __future__ import annotations

import datetime
import io
import json

import pyarrow as pa
import pytest

from raftlog.cli.row_files import InputFormat, Notes, RowFile
from raftlog.errors import InvalidOption
from raftlog.records.arrow_types import arrow_schema, schema_of
from raftlog.records.conform import conform

AT = datetime.datetime(2026, 11, 20, 8, 30, 0, 250_000, tzinfo=datetime.UTC)
MS = int(AT.timestamp() * 1000)
PLACE = {"topic": "orders", "partition": 3}
KCAT = [
    {**PLACE, "offset": 7, "tstype": "create", "ts": MS, "broker": 1, "key": "k", "payload": "hä",
     "headers": ["a", "1", "b", None, "a", "2"]},
    {**PLACE, "offset": 8, "tstype": "create", "ts": MS, "broker": 1, "key": None, "payload": None},
    {**PLACE, "offset": 9, "tstype": "create", "ts": MS, "broker": 1, "key": "", "payload": "",
     "headers": []},
]  # fmt: skip
RPK = [
    {**PLACE, "offset": 7, "timestamp": MS, "key": "k", "value": "hä",
     "headers": [{"key": "a", "value": "1"}, {"key": "b"}, {"key": "a", "value": "2"}]},
    {**PLACE, "offset": 8, "timestamp": MS},
    {**PLACE, "offset": 9, "timestamp": MS, "key": "", "value": "", "headers": []},
]  # fmt: skip
ROWS = [
    {"key": b"k", "value": "hä".encode(), **PLACE, "offset": 7, "timestamp": AT, "headers": [
        {"key": "a", "value": b"1"}, {"key": "b", "value": None}, {"key": "a", "value": b"2"}]},
    {"key": None, "value": None, **PLACE, "offset": 8, "timestamp": AT, "headers": None},
    {"key": b"", "value": b"", **PLACE, "offset": 9, "timestamp": AT, "headers": []},
]  # fmt: skip


def read(lines: list[dict[str, object]], ddl: str = "", notes: Notes | None = None) -> list[object]:
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    file = RowFile(io.BufferedReader(io.BytesIO(data)), "k", InputFormat.KAFKA_JSON, notes)
    schema = schema_of(ddl or file.schema())
    parts = file.parts(arrow_schema(schema), lambda batch: conform(batch, schema, "t"))
    batches = [part.batch for part in parts if part is not None]
    return pa.Table.from_batches(batches).to_pylist()


@pytest.mark.parametrize("lines", [KCAT, RPK], ids=["kcat", "rpk"])
def test_records_as_a_tool_prints_them_keep_key_value_headers_and_place(
    lines: list[dict[str, object]],
) -> None:
    assert read(lines) == ROWS
    assert read(lines[:1]) + read(lines[1:2]) + read(lines[2:]) == ROWS


def test_a_topic_may_have_some_of_the_columns_and_texts() -> None:
    assert read(KCAT, "value string, offset bigint") == [
        {"value": "hä", "offset": 7},
        {"value": None, "offset": 8},
        {"value": "", "offset": 9},
    ]


def test_keys_values_and_headers_may_be_base64() -> None:
    line = {"key": "aGk=", "value": "aGk=", "headers": [{"key": "h", "value": "aGk="}]}
    ddl = "key binary, value binary, headers array<struct<key: string, value: binary>>"
    headers = [{"key": "h", "value": b"hi"}]
    assert read([line], ddl, Notes(base64=True)) == [
        {"key": b"hi", "value": b"hi", "headers": headers}
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"headers": ["a"]}, "a value is missing"),
        ({"headers": {"a": "b"}}, "no list"),
        ({"headers": [{"a": "b"}]}, "`key` and `value`"),
        ({"payload": {"id": 1}}, "payload"),
        ({"offset": "x"}, "offset"),
    ],
)
def test_a_record_of_another_shape_is_refused_with_its_line(
    line: dict[str, object], told: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        read([KCAT[0], line, KCAT[1]])
    assert "line 2" in caught.value.cause
    assert told in caught.value.cause


def test_a_topic_with_another_column_is_refused() -> None:
    with pytest.raises(InvalidOption, match="'id' is none of Kafka's"):
        read(KCAT, "id bigint, value string")

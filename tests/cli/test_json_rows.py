"""JSON lines with maps, nested values, dates and bytes: what is read, and what is refused."""

from __future__ import annotations

import datetime
import decimal
import io
import json

import pyarrow as pa
import pytest

from raftlog.cli.csv_rows import csv_rows
from raftlog.cli.json_rows import DEPTH_MAX, json_rows
from raftlog.cli.output import plain
from raftlog.cli.row_files import InputFormat, Notes, RowFile
from raftlog.cli.text_blocks import BLOCK_BYTES
from raftlog.errors import InvalidOption, SchemaMismatch
from raftlog.machines.schema import Schema
from raftlog.records.arrow_types import arrow_schema, schema_of
from raftlog.records.conform import conform

UTC = datetime.UTC
DAY = datetime.date(2026, 11, 20)
AT = datetime.datetime(2026, 11, 20, 8, 30, 0, 5, tzinfo=UTC)
WAIT = datetime.timedelta(days=106_751_991, hours=4, seconds=54, microseconds=775_807)
"""The longest interval but for four hours."""
NESTED = schema_of(
    "id bigint not null, "
    "part struct<day: date, at: timestamp, price: decimal(20,2), raw: binary, "
    "counts: map<string, bigint>>, "
    "days array<date>, "
    "parts array<struct<day: date, tags: map<string, string>>>, "
    "by_day map<date, struct<at: timestamp, inner: map<int, array<binary>>>>, "
    "flags map<boolean, double>, "
    "waits map<interval day to second, struct<each: array<interval hour to second>>>"
)
ROW = {
    "id": 1,
    "part": {
        "day": DAY,
        "at": AT,
        "price": decimal.Decimal("123456789012345678.25"),
        "raw": b"\xff\x00",
        "counts": {"a": 1, "b, \"}'": None},
    },
    "days": [DAY, None, DAY],
    "parts": [{"day": DAY, "tags": {"x": "{1", "y": "\\"}}, None, {"day": None, "tags": None}],
    "by_day": {DAY: {"at": AT, "inner": {7: [b"hi", b"base64:no", None], -1: None}}},
    "flags": {True: 0.5, False: None},
    "waits": {WAIT: {"each": [-WAIT, None, datetime.timedelta(0), -datetime.timedelta.resolution]}},
}
EMPTY = {
    "id": 2,
    "part": {"day": None, "at": None, "price": None, "raw": None, "counts": {}},
    "days": [],
    "parts": [],
    "by_day": {},
    "flags": None,
    "waits": {},
}
NULLS = dict.fromkeys(ROW) | {"id": 3}


def read(data: bytes, schema: Schema, notes: Notes | None = None) -> list[dict[str, object]]:
    file = RowFile(io.BufferedReader(io.BytesIO(data)), "rows.json", InputFormat.JSON, notes)
    parts = file.parts(arrow_schema(schema), lambda batch: conform(batch, schema, "t"))
    batches = [part.batch for part in parts if part is not None]
    return pa.Table.from_batches(batches).to_pylist(maps_as_pydicts="strict")


@pytest.mark.parametrize("signs", ["[]", "{}"])
def test_json_that_is_nested_too_deep_is_refused_with_its_line(signs: str) -> None:
    begin, end = ('{"a":', "}") if signs == "{}" else ("[", "]")

    def file(depth: int, notes: str = "") -> RowFile:
        deep = '{"id": 1, "x": ' + begin * depth + "1" + end * depth + "}"
        lines = ['{"id": 0, "x": null}', notes, deep, ""]
        source = io.BufferedReader(io.BytesIO("\n".join(lines).encode()))
        return RowFile(source, "rows.json", InputFormat.JSON)

    texts = json.dumps({"id": 1, "t": '\\"' + 300 * "[{" + "\\"})
    assert file(DEPTH_MAX - 1, texts).schema().names == ["id", "x", "t"]
    for depth in (DEPTH_MAX, 20_000):
        deep = file(depth, texts)
        for read_all in (deep.schema, lambda deep=deep: list(deep.parts(pa.schema([]), conformed))):
            with pytest.raises(
                InvalidOption, match="line 3: the JSON is nested more than 200 deep"
            ):
                read_all()


def conformed(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def refusal(line: str, schema: Schema) -> str:
    """What a user is told of a line between two good ones."""
    with pytest.raises((InvalidOption, SchemaMismatch)) as caught:
        read(f'{{"id": 1}}\n{line}\n{{"id": 2}}\n'.encode(), schema)
    return caught.value.cause


def test_nested_values_are_read_as_tail_writes_them() -> None:
    rows = [ROW, EMPTY, NULLS, ROW, {"id": 4}]
    data = "".join(json.dumps(plain(row)) + "\n" for row in rows).encode()
    assert read(data, NESTED) == [ROW, EMPTY, NULLS, ROW, NULLS | {"id": 4}]


@pytest.mark.slow
def test_maps_are_read_across_blocks() -> None:
    schema = schema_of("id bigint, counts map<string, bigint>")
    count = BLOCK_BYTES // 20
    data = b"".join(b'{"counts": {"k%d": %d}, "id": %d}\n' % (n, n, n) for n in range(count))
    assert len(data) > 2 * BLOCK_BYTES
    rows = read(data, schema)
    assert rows == [{"id": n, "counts": {f"k{n}": n}} for n in range(count)]


def test_numbers_in_maps_keep_their_digits() -> None:
    schema = schema_of("id bigint, prices map<string, decimal(38,20)>")
    number = "123456789012345678.12345678901234567890"
    (row,) = read(f'{{"id": 1, "prices": {{"a": {number}}}}}'.encode(), schema)
    assert row["prices"] == {"a": decimal.Decimal(number)}


@pytest.mark.parametrize(
    ("given", "base64", "found"),
    [
        ("aGk=", False, b"aGk="),
        ("base64:aGk=", False, b"hi"),
        ("aGk=", True, b"hi"),
        ("base64:aGk=", True, b"hi"),
        ("", True, b""),
    ],
)
def test_a_binary_value_is_its_text_or_base64(given: str, base64: bool, found: bytes) -> None:
    schema = schema_of("raw binary, raws map<binary, array<binary>>")
    line = json.dumps({"raw": given, "raws": {given: [given, None]}})
    rows = read(line.encode() + b"\n{}\n", schema, Notes(base64=base64))
    assert rows == [{"raw": found, "raws": {found: [found, None]}}, {"raw": None, "raws": None}]


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ('{"id": 1, "part": {"at": 1704067200000}}', ("column 'part.at' (TIMESTAMP)", "ISO text")),
        ('{"id": 1, "part": {"day": "soon"}}', ("column 'part.day' (DATE): given \"soon\"",)),
        ('{"id": 1, "part": {"raw": "base64:a"}}', ("column 'part.raw' (BINARY)", '"base64:a"')),
        ('{"id": 1, "part": {"dya": 1}}', ("the topic has no column 'part.dya'",)),
        ('{"id": 1, "part": {"price": "1.255"}}', ("column 'part.price' (DECIMAL(20,2))",)),
        ('{"id": 1, "part": [1]}', ("column 'part' (STRUCT<", "given [1]")),
        ('{"id": 1, "days": ["2026-11-20", "x"]}', ("column 'days[1]' (DATE): given \"x\"",)),
        (
            '{"id": 1, "parts": [null, {"tags": {"a": 5}}]}',
            ("column 'parts[1].tags[\"a\"]' (STRING): given 5",),
        ),
        ('{"id": 1, "part": {"counts": {"a": "x"}}}', ("'part.counts[\"a\"]' (BIGINT)", '"x"')),
        ('{"id": 1, "flags": {"true": 1, "2": 1}}', ("column 'flags, its key' (", '{"2": null}')),
        ('{"id": 1, "flags": {"maybe": 1}}', ("column 'flags' (MAP<", '{"maybe": 1}')),
        ('{"id": 1, "flags": [1]}', ("column 'flags' (MAP<BOOLEAN, DOUBLE>): given [1]",)),
        ('{"id": 1, "part": {"counts": {"a": 1, "a": 2}}}', ('a map has the key "a" twice',)),
        ('{"id": 1, "part": {"counts": {"a": 1}', ("the line is no JSON: ", "character 38")),
        ('{"id": 1, "flags": {"true" 1}}', ("':'",)),
        ('{"id": 1, "by_day": {"null": null}}', ("by_day",)),
        ('{"id": 1, "waits": {"0 24:00:00": null}}', ("column 'waits' (MAP<INTERVAL DAY", "24:00")),
        (
            '{"id": 1, "waits": {"0 00:00:00": {"each": ["106751991 04:00:54.775808"]}}}',
            ("each[0]' (INTERVAL DAY TO SECOND): given \"106751991",),
        ),
    ],
)
def test_a_nested_value_that_is_refused_is_named_by_line_and_path(
    line: str, parts: tuple[str, ...]
) -> None:
    told = refusal(line, NESTED)
    assert "line 2" in told
    assert all(part in told for part in parts), told


@pytest.mark.parametrize("given", ['{"a": 1}', "5", '"x"', "[1]"])
def test_a_variant_is_refused_with_its_column(given: str) -> None:
    told = refusal(f'{{"id": 1, "v": {given}}}', schema_of("id bigint, v variant"))
    assert "line 2" in told
    assert f"column 'v' (VARIANT): given {given}" in told


def test_json_that_is_nested_too_deep_is_an_error_and_not_a_crash() -> None:
    schema = schema_of("id bigint, m map<string, string>")
    assert "line 2" in refusal('{"m": ' + "[" * 100_000 + "]" * 100_000 + "}", schema)


# ---------------------------------------------------------------- integers in DOUBLE and FLOAT


@pytest.mark.parametrize(
    ("ddl", "line", "path"),
    [
        ("x double", '{"x": 9007199254740993}', "x"),
        ("x double", '{"x": -9007199254740993}', "x"),
        ("x float", '{"x":16777217}', "x"),
        ("x float", '{"x": 1%s}' % ("0" * 60), "x"),
        ("x double", '{"x": 1%s}' % ("0" * 400), "x"),
        ("x struct<y: array<double>>", '{"x": {"y": [-1%s]}}' % ("0" * 400), "x.y[0]"),
        ("x double, id bigint", '{"id": 1}\n{"id": 2, "x": 18446744073709551615}', "x"),
        ("x array<double>", '{"x": [0.5, 9007199254740993]}', "x[1]"),
        ("x struct<y: float>", '{"x": {"y": 16777217}}', "x.y"),
        ("x map<string, double>", '{"x": {"a": 9007199254740993}}', 'x["a"]'),
    ],
)
def test_an_integer_that_would_be_rounded_is_refused(ddl: str, line: str, path: str) -> None:
    with pytest.raises(ValueError, match="cannot hold the integer") as caught:
        json_rows(line.encode(), arrow_schema(schema_of(ddl)), base64=False)
    assert f"column {path!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("ddl", "text", "given"),
    [
        ("x double", "9007199254740993", "9007199254740993"),
        ("x double", "1.5\n-9007199254740993", "-9007199254740993"),
        ("x float", " 16777217", "16777217"),
        ("x float", "+16777217", "+16777217"),
    ],
)
def test_an_integer_in_a_csv_that_would_be_rounded_is_refused(
    ddl: str, text: str, given: str
) -> None:
    with pytest.raises(ValueError, match="cannot hold the integer") as caught:
        csv_rows(text.encode(), ["x"], arrow_schema(schema_of(ddl)), [], base64=False)
    assert str(caught.value).endswith(f" {given}")
    assert "column 'x' (" in str(caught.value)


def test_numbers_in_a_csv_are_rounded_only_if_they_are_written_as_doubles() -> None:
    schema = arrow_schema(schema_of("t string, x double, y float"))
    text = b'"9007199254740993",9007199254740993.0,16777216\n"",NA,-1e30\n'
    rows = csv_rows(text, ["t", "x", "y"], schema, ["NA"], base64=False).to_pylist()
    assert [row["t"] for row in rows] == ["9007199254740993", ""]
    assert [row["x"] for row in rows] == [9007199254740992.0, None]
    assert rows[0]["y"] == 16777216.0


@pytest.mark.parametrize("ddl", ["x struct<y: int>", "x array<int>", "x map<string, int>"])
def test_a_csv_for_a_nested_column_is_refused_by_its_name(ddl: str) -> None:
    with pytest.raises(ValueError, match=r"column 'x' \(.*JSON lines and Parquet"):
        csv_rows(b"1", ["x"], arrow_schema(schema_of(ddl)), [], base64=False)


WRONG_DDL = "x double, y array<bigint>, m map<string, bigint>, d decimal(5,2), at timestamp"


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ('{"x": 1e400}', ("column 'x' (DOUBLE)", "1e400")),
        ('{"y": [1, -1e400]}', ("column 'y[1]' (BIGINT)", "-1e400")),
        ('{"x": %s}' % ("9" * 5_000), ("column 'x' (DOUBLE)", "99999...")),
        ('{"y": [%s]}' % ("9" * 5_000), ("column 'y[0]' (BIGINT)", "99999...")),
        ('{"m": {"a": %s}}' % ("9" * 5_000), ("column 'm[\"a\"]' (BIGINT)", "99999...")),
        ('{"d": 1.234}', ("column 'd' (DECIMAL(5,2)): given 1.234, more than 2 decimals",)),
        ('{"at": "2020-01-01 00:00:00.0000001"}', ("TIMESTAMP", "more than 6 decimals")),
        ('{"x": 1}}', ("no JSON", "character 9")),
        ('{"x": 1} more', ("no JSON", "character 10")),
    ],
)
def test_a_line_that_nobody_can_read_is_told_by_what_is_wrong(
    line: str, parts: tuple[str, ...]
) -> None:
    schema = arrow_schema(schema_of(WRONG_DDL))
    with pytest.raises(ValueError, match=r"column|no JSON") as caught:
        json_rows(line.encode(), schema, base64=False)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


@pytest.mark.parametrize(
    ("ddl", "line"),
    [
        ("x double", '{"x": 9007199254740992}'),
        ("x double", '{"x": 9007199254740993.0}'),  # written as a double, so it is one
        ("x double", '{"x": 1.2345678901234567890}'),
        ("x double, id bigint", '{"x": 1, "id": 9007199254740993}'),
        ("x double, s string", '{"x": 1, "s": "9007199254740993"}'),
        ("x float", '{"x": 16777216}'),
        ("x bigint", '{"x": 9007199254740993}'),
    ],
)
def test_other_numbers_are_taken(ddl: str, line: str) -> None:
    assert json_rows(line.encode(), arrow_schema(schema_of(ddl)), base64=False).num_rows == 1


def test_a_number_beyond_a_types_range_is_not_read_as_infinite() -> None:
    schema = pa.schema([("f", pa.float32()), ("a", pa.list_(pa.float32()))])
    for text in (b'{"f": 1e300}\n', b'{"f": 1.5, "a": [1, -1e39]}\n'):
        with pytest.raises(ValueError, match="beyond its range"):
            json_rows(text, schema, base64=False)
    schema = pa.schema([("f", pa.float32()), ("d", pa.float64())])
    for line in (b"1e300,1\n", b"1,1e400\n", b"1,-1e400\n"):
        with pytest.raises(ValueError, match="beyond its range"):
            csv_rows(line, ["f", "d"], schema, [], base64=False)
    said = csv_rows(b"inf,-inf\n1e38,1e308\n", ["f", "d"], schema, [], base64=False)
    assert said.to_pylist()[0] == {"f": float("inf"), "d": float("-inf")}


# ---------------------------------------------------------------- times without a zone


LOCAL = schema_of(
    "at timestamp_ntz, part struct<at: timestamp_ntz>, ats array<timestamp_ntz>, "
    "by_at map<timestamp_ntz, timestamp_ntz>"
)


def test_a_local_time_is_read_as_it_is_written() -> None:
    text = "2020-01-01 00:30:00.25"
    line = {"at": "2020-01-01T00:30", "part": {"at": text}, "ats": [text, None]}
    rows = read(json.dumps(line | {"by_at": {text: "2020-01-01"}}).encode() + b"\n{}\n", LOCAL)
    at = datetime.datetime(2020, 1, 1, 0, 30)
    exact = at + datetime.timedelta(milliseconds=250)
    assert rows[0] == {
        "at": at,
        "part": {"at": exact},
        "ats": [exact, None],
        "by_at": {exact: datetime.datetime(2020, 1, 1)},
    }
    assert set(rows[1].values()) == {None}


@pytest.mark.parametrize("zone", ["Z", "+02:00", "-0230", "+14"])
@pytest.mark.parametrize(
    ("value", "path"),
    [
        ('"at": "%s"', "at"),
        ('"part": {"at": "%s"}', "part.at"),
        ('"ats": ["2020-01-01", "%s"]', "ats[1]"),
        ('"by_at": {"2020-01-01": "%s"}', 'by_at["2020-01-01"]'),
        ('"by_at": {"%s": null, "2020-01-01": null}', "by_at, its key"),
    ],
)
def test_a_local_time_with_a_zone_is_refused(value: str, path: str, zone: str) -> None:
    time = f"2020-01-01T00:00:00{zone}"
    with pytest.raises(ValueError, match="column") as caught:
        json_rows(f"{{{value % time}}}".encode(), arrow_schema(LOCAL), base64=False)
    assert f"column {path!r}" in str(caught.value)
    assert time in str(caught.value)
    assert "time zone" in str(caught.value) or "its key" in path

"""Rows from files: with the topic's types, nulls and times as written, or an error."""

from __future__ import annotations

import codecs
import csv
import datetime
import decimal
import io
import json
import os
import random
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.cli import parquet_rows
from raftlog.cli.csv_rows import csv_header
from raftlog.cli.output import plain
from raftlog.cli.row_files import Fit, InputFormat, Notes, Part, RowFile
from raftlog.cli.text_blocks import BLOCK_BYTES, pieces
from raftlog.errors import InvalidOption, SchemaMismatch
from raftlog.records.arrow_types import arrow_schema, schema_of
from raftlog.records.conform import conform

UTC = datetime.UTC
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("raw", pa.binary()),
        pa.field("share", pa.float64()),
        pa.field("yes", pa.bool_()),
        pa.field("clock", pa.time64("ns")),
        pa.field("delay", pa.duration("us")),
    ]
)
ROW = {
    "id": 1,
    "text": 'hä, "so"',
    "day": datetime.date(2013, 1, 2),
    "at": datetime.datetime(2013, 1, 1, 5, 0, 0, 123456, tzinfo=UTC),
    "local": datetime.datetime(2013, 1, 1, 5, 0),
    "price": decimal.Decimal("1.25"),
    "raw": b"hi",
    "share": 0.5,
    "yes": True,
    "clock": datetime.time(23, 59, 59, 123456),
    "delay": -datetime.timedelta(days=1, hours=2, minutes=3, seconds=4, microseconds=500_000),
}
NULLS = dict.fromkeys(ROW) | {"id": 2}


def as_they_are(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def batches_of(
    source: io.BufferedReader,
    file: str,
    format_: InputFormat,
    schema: pa.Schema,
    notes: Notes | None = None,
    fit: Fit = as_they_are,
) -> Iterator[pa.RecordBatch | None]:
    for part in RowFile(source, file, format_, notes).parts(schema, fit):
        yield None if part is None else part.batch


def rows(
    data: bytes, format_: InputFormat, schema: pa.Schema = SCHEMA, nulls: tuple[str, ...] = ()
) -> list[dict[str, object]]:
    source = io.BufferedReader(io.BytesIO(data))
    batches = batches_of(source, "the file", format_, schema, Notes(nulls=nulls))
    return [row for batch in batches if batch is not None for row in batch.to_pylist()]


def test_json_lines_of_tail_are_read_back_as_they_were() -> None:
    data = "".join(json.dumps(plain(row)) + "\n" for row in (ROW, NULLS)).encode()
    assert rows(data, InputFormat.JSON) == [ROW, NULLS]


def test_a_key_that_a_json_line_lacks_is_null() -> None:
    assert rows(b'{"id": 2}\n', InputFormat.JSON) == [NULLS]


def test_a_key_that_the_topic_lacks_is_kept_for_the_producer_to_refuse() -> None:
    assert "idd" in rows(b'{"id": 2, "idd": 3}\n', InputFormat.JSON)[0]


@pytest.mark.parametrize(
    ("format_", "data"),
    [
        (InputFormat.JSON, b'{"_offset": 7, "id": 2}\n{"id": 2, "_term": 1}\n{"id": 2}\n'),
        (InputFormat.CSV, b"_offset,id,_term\n7,2,1\n8,2,1\n9,2,\n"),
    ],
)
def test_columns_under_names_of_metadata_are_left_out_of_texts_and_it_is_told_once(
    format_: InputFormat, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = pa.schema([SCHEMA.field("id")])
    assert rows(data, format_, schema) == [{"id": 2}] * 3
    assert capsys.readouterr().err.splitlines() == [
        f"column {name} is left out: the name is reserved for metadata"
        for name in ("_offset", "_term")
    ]


def test_csv_cells_are_read_with_the_topics_types() -> None:
    data = (
        b"id,text,day,at,local,price,raw,share,yes,clock,delay\n"
        b'1,"h\xc3\xa4, ""so""",2013-01-02,2013-01-01T05:00:00.123456Z,2013-01-01 05:00:00,'
        b"1.25,hi,0.5,true,23:59:59.123456,-1 02:03:04.5\n"
        b"2,NA,,NA,,,NA,,,,\n"
    )
    assert rows(data, InputFormat.CSV, nulls=("NA",)) == [ROW, NULLS]


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2013-01-01 05:00:00", 5),
        ("2013-01-01T05:00:00Z", 5),
        ("2013-01-01T05:00:00+02:00", 3),
        ("2013-01-01 05:00:00-0130", 6),
        ("2013-01-01", 0),
    ],
)
def test_a_csv_time_without_a_zone_is_utc_and_one_with_a_zone_keeps_it(
    text: str, hour: int
) -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    (row,) = rows(f"at\n{text}\n".encode(), InputFormat.CSV, schema)
    assert isinstance(row["at"], datetime.datetime)
    assert row["at"].hour == hour


def test_a_quoted_empty_csv_cell_is_an_empty_text_and_a_bare_one_null() -> None:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    got = rows(b'id,text\n1,""\n2,\n', InputFormat.CSV, schema)
    assert [row["text"] for row in got] == ["", None]


@pytest.mark.parametrize("blank", [b"", b"\n", b" \r\n\t", b"\n\n\n "])
def test_blanks_between_and_around_json_lines_are_ignored(blank: bytes) -> None:
    lines = [b'{"id": %d}' % each for each in range(3)]
    data = codecs.BOM_UTF8 + blank + (b"\n" + blank).join(lines) + blank
    assert [row["id"] for row in rows(data, InputFormat.JSON)] == [0, 1, 2]


@pytest.mark.slow
def test_json_lines_are_checked_across_blocks() -> None:
    lines = b'{"id": 1, "text": "%s"}\n' % (b"x" * 1000) * (BLOCK_BYTES // 500)
    assert len(rows(lines, InputFormat.JSON)) == BLOCK_BYTES // 500
    with pytest.raises(InvalidOption, match="begins with 'null'"):
        rows(lines + b"null\n", InputFormat.JSON)


def test_csv_lines_are_read_across_blocks_under_the_one_header() -> None:
    count = BLOCK_BYTES // 500
    lines = b"".join(b"%d,%s\r\n" % (each, b"x" * 1000) for each in range(count))
    found = rows(codecs.BOM_UTF8 + b"\nid,text\r\n" + lines, InputFormat.CSV)
    assert [row["id"] for row in found] == list(range(count))
    assert {row["text"] for row in found} == {"x" * 1000}


@pytest.mark.slow
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_line_breaks_and_quotes_in_csv_cells_are_read_across_blocks(line_end: str) -> None:
    """As Python's own module writes them; a quote within a bare cell is an ordinary character."""
    chance = random.Random(7)
    signs = ["a", ",", '"', "\n", "\r\n", " " * 100]
    texts = ["".join(chance.choices(signs, k=chance.randrange(1, 20))) for _ in range(40_000)]
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator=line_end)
    writer.writerow(["id", "text"])
    writer.writerows(enumerate(texts))
    bare = "".join(f'{number},a "5"" pipe" of {number}{line_end}' for number in range(100_000))
    data = (out.getvalue() + bare).encode()
    assert len(data) > 2 * BLOCK_BYTES
    found = rows(data, InputFormat.CSV)
    assert [row["text"] for row in found[: len(texts)]] == texts
    assert [row["id"] for row in found] == [*range(len(texts)), *range(100_000)]
    assert found[-1]["text"] == 'a "5"" pipe" of 99999'


@pytest.mark.parametrize("rest", [b'1,"', b'1,"a\n2,b\n', b'1,""",\n'])
def test_a_csv_quote_that_is_never_closed_is_an_error(rest: bytes) -> None:
    with pytest.raises(InvalidOption, match="never closed"):
        rows(b"id,text\n0,x\n" + rest, InputFormat.CSV)


@pytest.mark.parametrize("format_", [InputFormat.JSON, InputFormat.CSV])
def test_a_line_longer_than_a_block_is_an_error(format_: InputFormat) -> None:
    with pytest.raises(InvalidOption, match=r"a line .*is longer"):
        rows(b'{"text": "' + b"x" * 2 * BLOCK_BYTES, format_)


class Pipe(io.RawIOBase):
    """Bytes that can be read once, in order, as standard input gives them."""

    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        return self._inner.readinto(buffer)


@pytest.mark.parametrize("seekable", [True, False])
def test_parquet_is_read_from_a_file_and_from_a_pipe(seekable: bool) -> None:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([ROW, NULLS], schema=SCHEMA), out)
    raw: io.RawIOBase | io.BytesIO = Pipe(out.getvalue())
    if seekable:
        raw = io.BytesIO(out.getvalue())
    source = io.BufferedReader(raw)  # type: ignore[arg-type]
    batches = batches_of(source, "-", InputFormat.PARQUET, SCHEMA)
    assert [row for batch in batches if batch for row in batch.to_pylist()] == [ROW, NULLS]


@contextmanager
def pipe() -> Iterator[tuple[io.BufferedReader, io.FileIO]]:
    """Both ends of a pipe: what is written to the second can be read from the first."""
    out, into = os.pipe()
    with open(out, "rb") as reader, io.FileIO(into, "w") as writer:
        yield reader, writer


@pytest.mark.parametrize(("format_", "head"), [(InputFormat.JSON, b""), (InputFormat.CSV, b"id\n")])
def test_lines_from_a_pipe_that_stays_open_are_passed_on_and_not_kept_for_more(
    format_: InputFormat, head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftlog.cli.text_blocks.LINGER_S", 0.02)
    schema = pa.schema([("id", pa.int64())])
    line = b'{"id": 7}\n' if format_ is InputFormat.JSON else b"7\n"
    with ThreadPoolExecutor(1) as thread, pipe() as (reader, writer):
        batches = batches_of(reader, "-", format_, schema)

        def given() -> object:
            batch = thread.submit(next, batches, "the end").result(PATIENCE_S)
            return batch.to_pylist() if isinstance(batch, pa.RecordBatch) else batch

        writer.write(head + line + line[:1])  # the begin of a second line, too
        assert given() == [{"id": 7}]
        assert given() is None
        writer.write(line[1:])
        assert given() == [{"id": 7}]
        writer.close()
        assert given() in (None, "the end")


def test_lines_that_never_pause_are_passed_on_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftlog.cli.text_blocks.LINGER_S", 0.0)
    line = b'{"id": 7}\n'
    count = 100_000  # many times what a pipe holds

    def write(writer: io.FileIO) -> None:
        with writer, io.BufferedWriter(writer) as buffered:
            buffered.write(line * count)

    with ThreadPoolExecutor(1) as thread, pipe() as (reader, writer):
        written = thread.submit(write, writer)
        found = [*pieces(reader)]
        written.result(PATIENCE_S)
    assert b"".join(each or b"" for each in found) == line * count
    assert found.count(None) > 2


def test_a_file_is_read_in_whole_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftlog.cli.text_blocks.LINGER_S", 0.0)
    file = tmp_path / "rows"
    file.write_bytes(b"x" * (BLOCK_BYTES + 1))
    with file.open("rb") as source:
        assert [len(each or b"") for each in pieces(source)] == [BLOCK_BYTES, 1]


@pytest.mark.parametrize("format_", [InputFormat.JSON, InputFormat.CSV])
def test_an_empty_text_has_no_rows(format_: InputFormat) -> None:
    assert rows(b"", format_) == []


@pytest.mark.parametrize(
    ("data", "format_"),
    [
        (b'{"id": "x"}\n', InputFormat.JSON),
        (b'{"id": 5.5}\n', InputFormat.JSON),
        (b'{"id": 1\n', InputFormat.JSON),
        (b'{"day": "13 May"}\n', InputFormat.JSON),
        (b"null\n", InputFormat.JSON),
        (b'{"id": 1}\n \t null\n', InputFormat.JSON),
        (b"[1]\n", InputFormat.JSON),
        (b'\xef\xbb\xbf{"id": 1}\n' * 2, InputFormat.JSON),
        (b"\xf3\xf3,id\n1,2\n", InputFormat.CSV),
        (b"id\nx\n", InputFormat.CSV),
        (b"id,at\n1,yesterday\n", InputFormat.CSV),
        (b"id,text\n1\n", InputFormat.CSV),
        (b"", InputFormat.PARQUET),
        (b"PAR1 and then nothing", InputFormat.PARQUET),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_the_file(
    data: bytes, format_: InputFormat
) -> None:
    with pytest.raises(InvalidOption, match="the file"):
        rows(data, format_)


@pytest.mark.parametrize("format_", [InputFormat.JSON, InputFormat.CSV, InputFormat.PARQUET])
def test_what_is_skipped_is_left_out_and_lines_are_still_counted_from_the_first(
    format_: InputFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftlog.cli.text_blocks.BLOCK_BYTES", 32)
    monkeypatch.setattr("raftlog.cli.row_files.PARQUET_ROWS", 7)
    schema = pa.schema([("id", pa.int64())])
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(40)}), sink, row_group_size=10)
    lines = [b'{"id": %d}\n' if format_ is InputFormat.JSON else b"%d\n"] * 40
    text = b"".join(line % number for number, line in enumerate(lines))
    data = {InputFormat.JSON: text, InputFormat.CSV: b"\n\nid\n" + text}.get(format_)
    data = codecs.BOM_UTF8 + data if data else sink.getvalue()

    def opened(data: bytes) -> RowFile:
        return RowFile(io.BufferedReader(io.BytesIO(data)), "rows.txt", format_)

    def ids(parts: Iterable[Part | None]) -> list[object]:
        return [each for part in parts if part for each in part.batch.column("id").to_pylist()]

    last = data.count(b"\n") + 1
    parts = [part for part in opened(data).parts(schema, as_they_are) if part is not None]
    assert len(parts) > 3
    for at, part in enumerate(parts):
        rest = opened(data)
        rest.skip(part.end, data[: part.end].count(b"\n"))
        assert ids(rest.parts(schema, as_they_are)) == ids(parts[at + 1 :])
        if format_ is not InputFormat.PARQUET:
            rest = opened(data + b"x\n")
            rest.skip(part.end, data[: part.end].count(b"\n"))
            with pytest.raises(InvalidOption, match=f"line {last}:"):
                [*rest.parts(schema, as_they_are)]


def test_a_parquet_time_without_a_zone_is_utc() -> None:
    naive = datetime.datetime(2026, 11, 20, 8, 30)
    table = pa.table({"at": pa.array([naive, None], pa.timestamp("us"))})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    source = io.BufferedReader(io.BytesIO(sink.getvalue()))
    schema = pa.schema([("at", pa.timestamp("us", tz="UTC"))])
    (batch,) = batches_of(source, "x.parquet", InputFormat.PARQUET, schema)
    assert batch.column("at").to_pylist() == [naive.replace(tzinfo=UTC), None]


NUMBERS = schema_of("id bigint not null, text string, day date, at timestamp, price decimal(10,2)")
HEADER = b"id,text,day,at,price\n"


def refusal(data: bytes, format_: InputFormat) -> str:
    """What a user is told whose file is appended to a topic of `NUMBERS`."""
    source = io.BufferedReader(io.BytesIO(data))
    schema = arrow_schema(NUMBERS)
    fit = lambda batch: conform(batch, NUMBERS, "t")  # noqa: E731
    batches = batches_of(source, "rows.txt", format_, schema, fit=fit)
    with pytest.raises((InvalidOption, SchemaMismatch)) as caught:
        list(batches)
    return caught.value.cause


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (b"1,a,,,\nx,b,,,\ny,,,,\n", ("line 3: column 'id' (BIGINT): invalid value 'x'",)),
        (b"1,a,2020-13-01,,\n", ("line 2: column 'day' (DATE)", "2020-13-01")),
        (b"1,a,,yesterday,\n", ("line 2: column 'at' (TIMESTAMP): given \"yesterday\"",)),
        (b"1,a,,,1.555\n", ("line 2: column 'price' (DECIMAL(", "more than 2 decimal places")),
        (b"1,a,,,1e9\n", ("line 2: column 'price' (DECIMAL(", "digits before the point")),
        (b"1,a,,,x\n", ("line 2: column 'price' (DECIMAL(", "'x' is not a valid")),
        (b"1,a\n", ("line 2: the line has 2 cells", "header has 5 columns: id, text, day, at")),
        (b"1,a,,,,x\n", ("line 2: the line has 6 cells", "header has 5 columns")),
        (b'\n\n1,"two\nlines",,,\n,b,,,\n', ("id: a null", "(in line 6 of rows.txt)")),
        (b'1,a,,,\n2,"b', ("line 3: a cell begins with a quote",)),
    ],
)
def test_a_csv_row_that_is_refused_is_named_by_its_line_and_column(
    data: bytes, parts: tuple[str, ...]
) -> None:
    for line_end in (b"\n", b"\r\n"):
        told = refusal((HEADER + data).replace(b"\n", line_end), InputFormat.CSV)
        assert all(part in told for part in parts), told


def test_a_row_that_is_refused_is_found_in_a_later_block() -> None:
    rows = b"7,%s,,,\n" % (b"x" * 1000) * (BLOCK_BYTES // 500)
    lines = rows.count(b"\n")
    told = refusal(HEADER + rows + b"x,,,,\n" + rows, InputFormat.CSV)
    assert f"line {lines + 2}: column 'id'" in told


def test_a_csv_header_that_names_a_column_twice_is_refused() -> None:
    told = refusal(b"id,text,day,at,price,price\n1,a,,,1,2\n", InputFormat.CSV)
    assert "twice:   price" in told
    assert "(in line 1 of rows.txt)" in told


def test_a_csv_header_of_more_columns_than_a_topic_may_have_is_refused_unread() -> None:
    quoted = ",".join(f'"c,{number}"' for number in range(1_000)).encode()
    assert csv_header(quoted + b"\n", pa.schema([])).num_columns == 1_000
    wide = b"\n" + b",".join(b"c%d" % number for number in range(200_000)) + b"\n"
    with pytest.raises(InvalidOption, match="header has 200000 columns; a topic has at most 1000"):
        rows(wide, InputFormat.CSV)


def test_columns_that_a_csv_file_lacks_are_missed_in_its_header() -> None:
    told = refusal(b"id,text,day,at,cost\n", InputFormat.CSV)
    assert "missing: price" in told
    assert "extra:   cost STRING" in told
    assert "(in line 1 of rows.txt)" in told


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (b'{"id": 5.5}', "line 3: column 'id' (BIGINT): given 5.5"),
        (b'{"id": 1, "price": "1.255"}', "line 3: column 'price' (DECIMAL(10,2)): given"),
        (
            b'{"id": 1, "text": ["%s"]}' % (b"x" * 99),
            "column 'text' (STRING): given [\"" + "x" * 58,
        ),
        (b'{"id": "x"}', "line 3: column 'id' (BIGINT): given \"x\""),
        (b"null", "line 3: a line begins with 'null'"),
        (b'{"id": 1, "day": "soon"}', "line 3: column 'day' (DATE): given \"soon\""),
        (b'{"text": "a"}', "id: a null, where the topic allows none\n  (in line 3 of rows.txt)"),
        (b'{"id": 1, "texts": "a"}', "extra:   texts STRING\n  (in line 3 of rows.txt)"),
    ],
)
def test_a_json_line_that_is_refused_is_named(line: bytes, part: str) -> None:
    assert part in refusal(b'{"id": 1}\n\n' + line + b'\n{"id": 2}\n', InputFormat.JSON)


KEYS = [f'"k{number}": 1' for number in range(50_000)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{{{', '.join(KEYS)}}}\n", 1),
        (f'{{"id": {{{", ".join(KEYS)}}}}}\n', 1),
        (f'{{"id": [{{{"}, {".join(KEYS)}}}]}}\n', 1),
        ("".join(f"{{{key}}}\n" for key in KEYS), 1_007),
        (" ".join(f"{{{key}}}" for key in KEYS), 1),
    ],
    ids=["line", "nested", "list", "lines", "one line"],
)
def test_json_of_far_more_columns_than_a_topic_may_have_is_rejected_unread(
    text: str, line: int
) -> None:
    wanted = rf"line {line}: up to here the lines have \d+ columns; a topic has at most 1000"
    with pytest.raises(InvalidOption, match=wanted):
        RowFile(io.BufferedReader(io.BytesIO(text.encode())), "x", InputFormat.JSON).schema()
    with pytest.raises(InvalidOption, match=r"line \d+: (up to|column 'id'|the line is no JSON)"):
        rows(text.encode(), InputFormat.JSON, pa.schema([("id", pa.int64())]))


@pytest.mark.slow
def test_json_lines_that_lack_most_of_many_columns_are_read_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("raftlog.cli.json_rows._CELLS_MAX", 100_600)
    schema = pa.schema([(f"k{number}", pa.int64()) for number in range(1_000)])
    count = 250
    source = io.BufferedReader(io.BytesIO(b"{}\n" * count + b'{"k1": 2}\n'))
    read = list(batches_of(source, "x", InputFormat.JSON, schema))
    assert [batch.num_rows for batch in read if batch is not None] == [100, 100, 51]
    assert read[-1] is not None
    assert read[-1].column(1)[-1].as_py() == 2
    sparse = f"{{{', '.join(KEYS[:900])}}}\n" + "{}\n" * count
    with pytest.raises(InvalidOption, match="and each lacks nearly all"):
        rows(sparse.encode(), InputFormat.JSON, pa.schema([]))
    with pytest.raises(InvalidOption, match="line 1: the line is no JSON: Extra data"):
        rows(b"{} " * 101, InputFormat.JSON, schema)


def test_parquet_of_more_columns_than_a_topic_may_have_is_rejected_unread() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({f"k{number}": [1] for number in range(1_007)}), sink)
    with pytest.raises(InvalidOption, match="it has 1007 columns; a topic has at most 1000"):
        rows(sink.getvalue(), InputFormat.PARQUET)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "list", "map", "struct", "fixed"])
def test_a_small_parquet_file_whose_values_take_gigabytes_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(parquet_rows, "_BATCH_BYTES_MAX", 4 << 20)
    monkeypatch.setattr(parquet_rows, "_BYTES_FREE", 16 << 20)
    rows = 4_096
    one = pa.array(["x" * 50_000])
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), one)
    column = {
        "text": text,
        "list": pa.ListArray.from_arrays([*range(rows + 1)], text),
        "map": pa.MapArray.from_arrays([*range(rows + 1)], text.indices, text),
        "struct": pa.StructArray.from_arrays([text], ["text"]),
        "fixed": text.cast(pa.string()).cast(pa.binary()).cast(pa.binary(50_000)),
    }[kind]
    table = pa.table({"it": column})
    file = tmp_path / "x.parquet"
    pq.write_table(table, file, store_schema=False)
    assert file.stat().st_size < 4_000
    before = pa.default_memory_pool()
    measured = pa.proxy_memory_pool(before)
    pa.set_memory_pool(measured)
    try:
        with file.open("rb") as source:
            read = batches_of(source, str(file), InputFormat.PARQUET, table.schema)
            with pytest.raises(InvalidOption, match=rf"{file}.* 16 MiB and 1000 times"):
                list(read)
    finally:
        pa.set_memory_pool(before)
    assert measured.max_memory() < 64 << 20


@pytest.mark.slow
def test_parquet_is_read_in_steps_as_it_is(tmp_path: Path) -> None:
    """With values of every length, also some that are decoded a few at a time."""
    count = 3_000
    texts = pa.array(["a", "b" * 100_000, None] * (count // 3))
    table = pa.table(
        {
            "id": range(count),
            "text": texts,
            "view": texts.cast(pa.string_view()),
            "kind": texts.dictionary_encode(),
            "list": [["x", "y"], None, []] * (count // 3),
            "struct": [{"a": "u", "b": [{"c": b"k"}]}] * count,
            "map": pa.array([[("k", "v")]] * count, pa.map_(pa.string(), pa.string())),
            "fixed": pa.array([b"12"] * count, pa.binary(2)),
            "price": pa.array([decimal.Decimal("1.5")] * count, pa.decimal128(30, 2)),
        }
    )
    file = tmp_path / "x.parquet"
    pq.write_table(table, file, row_group_size=1_100)
    with file.open("rb") as source:
        read = list(batches_of(source, str(file), InputFormat.PARQUET, table.schema))
    batches = [batch for batch in read if batch is not None]
    assert 2 < len(batches) < 10
    assert pa.Table.from_batches(batches).to_pylist() == table.to_pylist()


def test_a_parquet_row_that_is_refused_is_named_by_its_number() -> None:
    columns = {name: pa.nulls(4) for name in ("text", "day", "at", "price")}
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([1, 2, None, 4]), **columns}), sink)
    assert "(in row 3 of rows.txt)" in refusal(sink.getvalue(), InputFormat.PARQUET)
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": pa.array(["a"])}), sink)
    assert "row" not in refusal(sink.getvalue(), InputFormat.PARQUET).replace("rows.txt", "")

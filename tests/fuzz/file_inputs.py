"""Broken CSV, JSON and Parquet through what `raftlog produce` does with a file, in a process of
its own: Arrow reads them in C++, where a defect is a signal and not an exception.

python -m tests.fuzz.file_inputs COUNT
"""

from __future__ import annotations

import io
import random
import sys
from collections import Counter

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from raftlog.cli.kafka_rows import KAFKA_SCHEMA
from raftlog.cli.row_files import InputFormat, RowFile
from raftlog.errors import InvalidRequest
from raftlog.machines.schema import Schema
from raftlog.records.arrow_types import arrow_schema, schema_of
from raftlog.records.batch_codec import encode_batch
from raftlog.records.batching import coalesce
from raftlog.records.conform import conform
from tests.fuzz.inputs import numbered
from tests.fuzz.mutations import broken

DDL = (
    "id bigint not null, text string, day date, at timestamp, price decimal(10,2), raw binary, "
    "share double, yes boolean, small smallint, list array<string>"
)
PLAIN = "id bigint not null, text string, share double, yes boolean"


def rows(count: int) -> list[dict[str, object]]:
    return [
        {
            "id": each,
            "text": f"ro\u00e4 {each}" * (each % 3),
            "share": each / 7,
            "yes": each % 2 == 0,
        }
        for each in range(count)
    ]


def good_files() -> dict[InputFormat, list[bytes]]:
    """Some of each format that can be read, large and small, compressed and not."""
    found: dict[InputFormat, list[bytes]] = {each: [] for each in InputFormat}
    for count in (1, 3, 200):
        table = pa.Table.from_pylist(rows(count))
        sink = io.BytesIO()
        pc.write_csv(table, sink)
        found[InputFormat.CSV].append(sink.getvalue())
        lines = [
            f'{{"id": {row["id"]}, "text": "{row["text"]}", "share": {row["share"]}, "yes": null}}'
            for row in rows(count)
        ]
        found[InputFormat.JSON].append("\n".join(lines).encode())
        found[InputFormat.KAFKA_JSON] += kafka_files(count)
        for compression in ("none", "snappy", "zstd"):
            sink = io.BytesIO()
            pq.write_table(table, sink, compression=compression, use_dictionary=count > 1)
            found[InputFormat.PARQUET].append(sink.getvalue())
    return found


def kafka_files(count: int) -> list[bytes]:
    """As kcat prints records, and as rpk does."""
    kcat = (
        f'{{"topic":"t","partition":0,"offset":{each},"tstype":"create","ts":{each},"broker":1,'
        f'"headers":["h","{each}"],"key":null,"payload":"value {each}"}}'
        for each in range(count)
    )
    rpk = (
        f'{{"topic":"t","key":"k","value":"value {each}","timestamp":{each},"partition":0,'
        f'"offset":{each},"headers":[{{"key":"h","value":"{each}"}}]}}'
        for each in range(count)
    )
    return ["\n".join(lines).encode() for lines in (kcat, rpk)]


def spoiled(
    files: dict[InputFormat, list[bytes]], format_: InputFormat, chance: random.Random
) -> bytes:
    data = chance.choice(files[format_])
    if format_ is InputFormat.PARQUET and chance.random() < 0.6:
        # Keep its length and its magic: otherwise nothing else is ever looked at.
        footer = int.from_bytes(data[-8:-4], "little")
        body, tail = data[: -8 - footer], data[-8 - footer : -8]
        if chance.random() < 0.7:
            changed = bytearray(tail)
            for _ in range(chance.randint(1, 4)):
                changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            tail = bytes(changed)
        else:
            changed = bytearray(body)
            for _ in range(chance.randint(1, 4)):
                changed[chance.randrange(4, len(changed))] ^= 1 << chance.randrange(8)
            body = bytes(changed)
        return body + tail + data[-8:]
    return broken(data, chance)


def produce(data: bytes, format_: InputFormat, schema: Schema) -> str:
    """Do what `raftlog produce` does, except sending: `ok`, or the error's name."""
    try:
        source = io.BufferedReader(io.BytesIO(data))
        arrow = arrow_schema(schema)
        rows = RowFile(source, "the file", format_)
        for part in rows.parts(arrow, lambda batch: conform(batch, schema, "t")):
            assert part is not None, "it is no pipe"
            for piece in coalesce([part.batch], 1 << 20):
                encode_batch(piece, schema, "lz4")
    except InvalidRequest as error:
        return type(error).__name__
    return "ok"


def main(count: int) -> None:
    files = good_files()
    wide, plain, kafkas = schema_of(DDL), schema_of(PLAIN), schema_of(KAFKA_SCHEMA)
    for format_, examples in files.items():
        schema = kafkas if format_ is InputFormat.KAFKA_JSON else plain
        assert {produce(data, format_, schema) for data in examples} == {"ok"}, format_
    answers: Counter[str] = Counter()
    for one in numbered("files", count):
        format_ = one.random.choice(list(InputFormat))
        data = spoiled(files, format_, one.random)
        sys.stderr.write(f"\rinput {one.number} ({format_}); replay: {one.replay} ")
        schema = wide if one.random.random() < 0.3 else plain
        if format_ is InputFormat.KAFKA_JSON and schema is plain:
            schema = kafkas
        answers[f"{format_} {produce(data, format_, schema)}"] += 1
    sys.stderr.write("\n")
    print(dict(answers.most_common()))


if __name__ == "__main__":
    main(int(sys.argv[1]))

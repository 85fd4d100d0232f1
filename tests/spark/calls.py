"""A source and sink like `raftlog` that notes each call to the cluster, in whichever process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from raftlog.client.connection import Connection
from raftlog.spark.datasource import RaftlogDataSource
from raftlog.spark.writer import RaftlogStreamWriter, StagedMessage

_noted_in: list[Path] = []
"""Where this process notes its calls."""


def note_calls(path: str) -> None:
    """Append the name of each call of this process to the file, from now on."""
    if not _noted_in:
        for name, place in (("_call", 1), ("send_leader", 1), ("stream", 1)):
            _wrap(name, place)
    _noted_in[:] = [Path(path)]


def _wrap(name: str, place: int) -> None:
    inner = getattr(Connection, name)

    @wraps(inner)
    def noting(self: Connection, *given: Any, **named: Any) -> Any:
        if _noted_in[0].parent.exists():  # Spark uses this process for later queries, too
            with _noted_in[0].open("a") as file:
                file.write(f"{given[place].name}\n")
        return inner(self, *given, **named)

    setattr(Connection, name, noting)


def noted(path: Path) -> list[str]:
    """The calls in their order."""
    return path.read_text().split()


class CountedSource(RaftlogDataSource):
    """`raftlog` with the option `calls`, the file of the names."""

    @classmethod
    def name(cls) -> str:
        return "raftlog_counted"

    def __init__(self, options: dict[str, str]) -> None:
        own = dict(options)
        self._calls = own.pop("calls")
        note_calls(self._calls)
        super().__init__(own)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        note_calls(self._calls)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return CountedWriter(super().streamWriter(schema, overwrite), self._calls)


class CountedWriter(DataSourceStreamArrowWriter):
    """The writer, which is sent to tasks without its source."""

    def __init__(self, inner: RaftlogStreamWriter, calls: str) -> None:
        self._inner = inner
        self._calls = calls

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        note_calls(self._calls)
        return self._inner.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        self._inner.commit(messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        self._inner.abort(messages, batchId)

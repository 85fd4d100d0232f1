"""What a read returns: its batches one after another, or the rest of them as one table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from raftlog.client.reader import TopicReader
from raftlog.core.types import Offset
from raftlog.errors import RaftlogError

if TYPE_CHECKING:
    import pandas as pd


class RecordBatches:
    """An iterator over the Arrow batches of a read. One thread at a time; any may call `close`.

    Close it, or use it as a context manager, to end it before its last batch.
    """

    def __init__(
        self, reader: TopicReader, batches: Iterator[pa.RecordBatch] | None = None
    ) -> None:
        self._reader = reader
        self._batches = batches

    @property
    def schema(self) -> pa.Schema:
        """The schema of each batch: the topic's columns as the read began, NOT NULL included."""
        return self._reader.schema

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        while not self._reader.is_stopped:
            try:
                batch = self._reader.chosen(self._read())
            except RaftlogError:
                if not self._reader.is_stopped:
                    raise
                break
            if batch.num_rows:
                return batch
        raise StopIteration

    def _read(self) -> pa.RecordBatch:
        """The next batch, with the rows that `where` leaves out."""
        assert self._batches is not None, "a subclass without batches reads them itself"
        return next(self._batches)

    def to_table(self) -> pa.Table:
        """Read the rest.

        Returns:
            All rows that were not read yet, in memory. Of a `follow`, those that come until it
            ends.

        Raises:
            RaftlogError: As the read.
        """
        return pa.Table.from_batches(list(self), schema=self.schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Read the rest for pandas, which has to be installed.

        Args:
            options: Those of `pyarrow.Table.to_pandas`. By Arrow's defaults whole numbers become
                doubles where a column, or a field of a struct, has nulls, also if the struct is
                null; `types_mapper=pandas.ArrowDtype` keeps every value.

        Returns:
            The rows of `to_table`.

        Raises:
            RaftlogError: As the read.
        """
        frame: pd.DataFrame = self.to_table().to_pandas(**options)
        return frame

    def close(self) -> None:
        """End the iteration, also that of another thread, whose next batch does not come.

        A read that waits for records ends at once, and one that waits for a node after its try
        (`client.try_timeout_s`).
        """
        self._reader.stop()


class FollowedBatches(RecordBatches):
    """The batches of a topic as they come. After the end of an iteration, or an error, the next one
    continues where it was, except after `close`."""

    def __init__(
        self, reader: TopicReader, start: Offset, *, patience_s: float, until_idle: bool
    ) -> None:
        """`start`: the first offset to read. The others are as for `TopicReader.follow`."""
        super().__init__(reader)
        self._position = start
        self._patience_s = patience_s
        self._until_idle = until_idle

    def _read(self) -> pa.RecordBatch:
        batches, self._batches = self._batches, None
        if batches is None:
            batches = self._reader.follow(
                self._position, patience_s=self._patience_s, until_idle=self._until_idle
            )
        batch = next(batches)
        self._batches = batches
        self._position = Offset(self._position + batch.num_rows)
        return batch

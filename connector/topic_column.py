"""Rows that say themselves which topic they go to: the column `topic`, where no option names one.

As with Kafka's sink, the option wins: with it, such a column is a column like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StringType, StructType

from raftlog.errors import InvalidOption, InvalidTopicName
from raftlog.machines.topic_names import is_topic_name

if TYPE_CHECKING:
    import pyarrow as pa

COLUMN = "topic"

_ADVICE = (
    "Name the topic to write: .option('topic', 'flights'); or give each row a string column "
    f"{COLUMN!r} with the name of its topic, which is not written."
)


def without_topic(given: StructType) -> StructType:
    """The columns that are written if the rows name their topics. Raises `InvalidOption` if there
    is no column that could."""
    found = [field for field in given.fields if field.name == COLUMN]
    if not found:
        problem = "is missing"
    elif len(found) > 1:
        problem = f"is missing, and two columns are called {COLUMN!r}"
    elif not isinstance(found[0].dataType, StringType):
        kind = found[0].dataType.simpleString()
        problem = f"is missing, and the rows' column {COLUMN!r} is {kind}, which names no topic"
    else:
        return StructType([field for field in given.fields if field.name != COLUMN])
    raise InvalidOption(option="topic", problem=problem, advice=_ADVICE)


def by_topic(batch: pa.RecordBatch, column: int) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic in their order, without the column that names it.

    They are copies, unless all are of one topic: what waits for more of its kind does not keep the
    others in memory. Raises `InvalidOption` for a row without a topic, `InvalidTopicName`.
    """
    import pyarrow.compute as pc

    topics = batch.column(column)
    if topics.null_count:
        raise InvalidOption(
            option="topic",
            problem=f"is not given, and column {COLUMN!r} is null in {topics.null_count} of "
            f"{batch.num_rows} rows",
            advice=f"Filter such rows, or give them a topic: coalesce({COLUMN}, 'other').",
        )
    rest = batch.select([at for at in range(batch.num_columns) if at != column])
    found: Any = topics.dictionary_encode()
    raw: list[Any] = found.dictionary.cast("binary").to_pylist()
    names = [name.decode(errors="backslashreplace") for name in raw]  # Spark's may not be UTF-8
    for name in names:
        if not is_topic_name(name):
            raise InvalidTopicName(topic=name)
    if len(names) == 1:
        yield names[0], rest
        return
    # The sort is stable, and the codes count the names by their first appearance.
    order = pc.sort_indices(found.indices)
    start = 0
    for name, count in zip(names, pc.value_counts(found.indices).field("counts"), strict=True):
        yield name, rest.take(order.slice(start, count.as_py()))
        start += count.as_py()

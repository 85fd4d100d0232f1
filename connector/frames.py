"""Reads and writes in one line, on the driver: `raftlog.spark.read`, `read_stream` and `write`.

Spark hands a Python source neither the columns that a query uses nor, by default, its filters. So
the reads do it: they project the columns, tell the source the condition, and put the condition on
the rows as well. The source skips what cannot match; which rows there are is Spark's decision.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.sql.types import (
    AtomicType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from raftlog.errors import InvalidOption
from raftlog.predicates.predicate import And
from raftlog.spark.declarations import PREDICATE
from raftlog.spark.metadata_columns import METADATA_NAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ORDERED: tuple[type[AtomicType], ...] = (
    BinaryType,
    BooleanType,
    DateType,
    NumericType,
    TimestampNTZType,
    TimestampType,
)
"""Types besides text that a condition's values may have."""

_DATES_AS_TEXT = "spark.sql.legacy.typeCoercion.datetimeToString.enabled"
"""Spark's setting that compares dates and times with texts as texts: by no order of ours."""


def read(
    spark: SparkSession,
    topic: str,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Read a topic as a batch: only these columns, and only what may match.

        late = raftlog.spark.read(spark, "flights", columns=["carrier"], where="dep_delay > 60")

    Stored batches none of whose rows can match are not read. It may be called in any thread of the
    driver; a thread of your own can also write to topics from then on, which ends with
    DATA_SOURCE_NOT_FOUND before.

    Args:
        spark: The session.
        topic: The topic, or several, comma-separated, as in the option `subscribe`.
        columns: The columns to read, in this order; metadata columns (`_offset`, ...) may be among
            them. Default: all of the topic's.
        where: The condition on the rows, as Spark's SQL. It may test columns that are not among
            `columns`, and metadata columns. What of it `raftlog tail --where` also takes leaves
            out what cannot match; the rest only filters. Default: all rows.
        options: Options of the source by name, such as `{"endingOffsets": "latest"}`; values are
            turned into text, and None counts as not given. Default: none.

    Returns:
        A DataFrame of exactly these columns and rows.

    Raises:
        InvalidOption: A column does not exist, or an option is wrong.
        AnalysisException: Spark cannot make sense of `where`.
    """
    return _read(spark, spark.read, topic, columns, where, options)


def read_stream(
    spark: SparkSession,
    topic: str,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Read a topic as a stream: only these columns, and only what may match.

        late = raftlog.spark.read_stream(spark, "flights", where="dep_delay > 60")

    Args:
        spark: As in `read`.
        topic: As in `read`.
        columns: As in `read`.
        where: As in `read`. Records that are skipped count for the limits of a micro-batch.
        options: As in `read`, such as `{"startingOffsets": "earliest"}`.

    Returns:
        A streaming DataFrame of exactly these columns and rows.

    Raises:
        InvalidOption: A column does not exist, or an option is wrong.
        AnalysisException: Spark cannot make sense of `where`.
    """
    return _read(spark, spark.readStream, topic, columns, where, options)


def write(data: DataFrame, topic: str, *, options: Mapping[str, object] | None = None) -> None:
    """Append a DataFrame's rows to a topic: all of them or, after an error, none.

        raftlog.spark.write(late, "delays")

    The same as `data.write.format("raftlog").option("topic", topic).mode("append").save()`. Without
    a mode Spark fails with UNSUPPORTED_DATA_SOURCE_SAVE_MODE, because its default, errorifexists,
    is none that it has for Python sources. It may be called in any thread of the driver.

    Args:
        data: The rows; not a stream.
        topic: The topic. It is created with the rows' columns unless it exists (`createTopic`).
        options: Options of the sink by name, such as `{"mergeSchema": True}`; values are turned
            into text, and None counts as not given. Default: none.

    Raises:
        AnalysisException: The rows do not fit the topic, an option is wrong, or the cluster
            rejected the write. Nothing is written.
    """
    _use_session(data.sparkSession)
    given = _texts(options) | {"topic": topic}
    data.write.format("raftlog").options(**given).mode("append").save()


def _read(
    spark: SparkSession,
    reader: Any,
    topic: str,
    columns: Sequence[str] | None,
    where: str | None,
    options: Mapping[str, object] | None,
) -> DataFrame:
    if where is not None and not isinstance(where, str):
        raise InvalidOption(
            option="where",
            problem=f"is of type {type(where).__name__}",
            advice="Give a condition as SQL text, or filter the result with its method where.",
        )
    given = _texts(options) | {"subscribe": topic}
    if any(name.lower() == "view" for name in given):
        raise InvalidOption(
            option="view",
            problem="is given to a read of a topic's records",
            advice='Read a view with spark.read.format("raftlog").option("view", ...).load().',
        )
    _use_session(spark)
    reader = reader.format("raftlog").options(**given)
    everything: StructType = reader.option("includeMetadata", "true").load().schema
    wanted = _wanted(everything, columns, given)
    reader = reader.option("includeMetadata", given.get("includeMetadata", "false"))
    found: DataFrame
    if where is None:
        found = reader.schema(_only(everything, wanted)).load()
        return found
    tested = [name for name in _named(everything.names, where) if name not in wanted]
    needed = _only(everything, [*wanted, *tested])
    found = reader.schema(needed).option(PREDICATE, _predicate(spark, where, needed)).load()
    return found.where(where).select(*map(_quoted, wanted))


def _use_session(spark: SparkSession) -> None:
    """Make the session the active one of this thread in the JVM. Spark looks there for the Python
    sources that are written to, and a thread of the user's own has none. With Spark Connect there
    is nothing to do."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is not None:
        spark._get_j_spark_session_class(jvm).setActiveSession(spark._jsparkSession)


def _texts(options: Mapping[str, object] | None) -> dict[str, str]:
    """As Spark writes options."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (options or {}).items()
        if value is not None
    }


def _wanted(
    schema: StructType, columns: Sequence[str] | None, given: Mapping[str, str]
) -> list[str]:
    """The columns of the result."""
    if columns is None:
        has_metadata = {name.lower(): text for name, text in given.items()}.get("includemetadata")
        shown = has_metadata is not None and has_metadata.lower() == "true"
        return [name for name in schema.names if shown or name not in METADATA_NAMES]
    if isinstance(columns, str) or not columns:
        raise InvalidOption(
            option="columns", problem=f"is {columns!r}", advice="Give a list of columns' names."
        )
    for name in columns:
        if name not in schema.names:
            raise InvalidOption(
                option="columns",
                problem=f"names {name!r}",
                advice=f"There are: {', '.join(schema.names)}.",
            )
    return list(columns)


def _only(schema: StructType, names: Sequence[str]) -> StructType:
    return StructType([schema[name] for name in names])


def _quoted(name: str) -> str:
    """A column's name as it is: Spark would take a dot for a part of a column."""
    return f"`{name.replace('`', '``')}`"


def _named(names: Sequence[str], where: str) -> list[str]:
    """Every column that the condition may refer to, in upper or lower case, whatever it means.

    By the words of the text, so that what Spark takes for a column is never missing: without it
    Spark might find something else of the same name, such as `user`.
    """
    folded = _folded(where)
    words = set(re.findall(r"\w+", folded))
    return [
        name
        for name in names
        if _folded(name) in words
        or (re.fullmatch(r"\w+", name) is None and _folded(name.replace("`", "``")) in folded)
    ]


def _folded(text: str) -> str:
    """Equal for texts that differ in case only, as Java compares their letters."""
    return text.upper().lower()


def _predicate(spark: SparkSession, where: str, schema: StructType) -> str:
    """The condition as the source's option."""
    from raftlog.records.condition import sparks_predicate
    from raftlog.spark.spark_version import arrow_schema
    from raftlog.wire.codec import predicate_text

    ordered = [field for field in schema if _is_ordered_as_bounds(field.dataType)]
    zone = _zone(spark.conf.get("spark.sql.session.timeZone") or "")
    if spark.conf.get(_DATES_AS_TEXT, "false") != "false":
        return predicate_text(And(parts=()))
    return predicate_text(sparks_predicate(where, arrow_schema(StructType(ordered)), zone))


def _is_ordered_as_bounds(kind: DataType) -> bool:
    """Whether Spark compares values as their bounds are compared: not text with a collation."""
    if isinstance(kind, StringType):
        return kind.jsonValue() == "string"
    return isinstance(kind, _ORDERED)


def _zone(name: str) -> tzinfo | None:
    """The session's time zone; None for one that only Java has."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None

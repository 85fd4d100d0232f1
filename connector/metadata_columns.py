"""Metadata columns: what the source says of each record, and how the sink knows that it did.

The source marks each of them in its field metadata, which Spark carries along with a column. So
the sink leaves out what was read, and never a column that a user made under such a name.
"""

from __future__ import annotations

from pyspark.sql.types import (
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from raftlog.errors import SchemaMismatch
from raftlog.machines.schema import METADATA_MARK


def _marked(name: str, kind: DataType) -> StructField:
    return StructField(name, kind, metadata={METADATA_MARK: name})


METADATA = StructType(
    [
        _marked("_topic", StringType()),
        _marked("_offset", LongType()),
        _marked("_timestamp", TimestampType()),
        _marked("_epoch", LongType()),
        _marked("_writer", StringType()),
        _marked("_term", LongType()),
    ]
)
"""Columns that a read can ask for and that a write leaves out. A topic never has them."""

METADATA_NAMES = tuple(METADATA.names)


def is_metadata(field: StructField) -> bool:
    """Whether a DataFrame's column is a metadata column that was read, under its own name.

    One that was renamed is a column like any other. In a session that is not case-sensitive,
    `select("_OFFSET")` gives a name another case.
    """
    mark = field.metadata.get(METADATA_MARK)
    return mark in METADATA_NAMES and mark == field.name.lower()


def without_metadata(given: StructType) -> StructType:
    """The columns without metadata columns, so that what was read can be written."""
    return StructType([field for field in given.fields if not is_metadata(field)])


def check_reserved(given: StructType, topic: str) -> None:
    """Check that every column under a metadata column's name is that metadata column.

    Raises `SchemaMismatch`: no topic has columns of these names, in upper or lower case, and to
    leave out one of the user's would lose it.
    """
    names = [field.name for field in given.fields if _takes_name(field)]
    if not names:
        return
    drops = ", ".join(repr(name) for name in names)
    raise SchemaMismatch(
        topic=topic,
        difference="\n".join(
            f"  {name}: the name is reserved for metadata, and the source did not make this column"
            for name in names
        ),
        advice=f"Rename the column, for instance .withColumnRenamed({names[0]!r}, "
        f"'my{names[0]}'), or leave it out: .drop({drops}). A metadata column is left out by "
        "itself if it was read with includeMetadata=true and only filtered, selected or joined "
        "since: an expression, or a read with .schema(...), makes it a column of your own.",
    )


def _takes_name(field: StructField) -> bool:
    return field.name.lower() in METADATA_NAMES and not is_metadata(field)

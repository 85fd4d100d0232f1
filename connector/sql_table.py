"""Tables of Spark's catalog: `CREATE TABLE ... USING raftlog OPTIONS (...)`. They are read only.

Spark asks for the schema with the table's options, and its catalog keeps both. But a query of the
table brings a Python source only the schema, and no option (Spark 4.3). So the options travel in
the field metadata of the first column.

    CREATE TABLE   schema()   options {"option.subscribe": "t", "provider": "raftlog", ...}
    SELECT         reader()   options {}, schema with the table's field metadata
    INSERT         writer()   options {}, schema with field metadata of the rows *or* of the table

An insert cannot be served: the columns of `INSERT INTO one SELECT * FROM other` bring the options
of `other`, so the rows would go there.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from raftlog.errors import InvalidOption
from raftlog.spark.declarations import BY_KEY, FOUND, SOURCES, Endpoint
from raftlog.spark.option_values import OptionValues
from raftlog.spark.options import source_options

MARK = "raftlog.table"
"""The key in the first column's field metadata whose value is the table's options. Spark's catalog
keeps it: never change it."""

_PROVIDER = "provider"
_PREFIX = "option."
"""Before each of the table's options, among the properties with which Spark asks for a schema."""

_CHOOSE_RECORDS = ("subscribe", "subscribepattern", "view")


def declared(given: Mapping[str, str]) -> dict[str, str] | None:
    """The options of the `CREATE TABLE` that asks for a schema. None if it is a read that asks.

    Raises `InvalidOption` for what neither a batch read nor a stream of the table would take.
    """
    if _PROVIDER not in given:
        return None
    table = {
        name.removeprefix(_PREFIX): value
        for name, value in given.items()
        if name.startswith(_PREFIX)
    }
    OptionValues(table, SOURCES)
    if not _has(table, "view"):
        for endpoint in SOURCES:
            source_options(_known_to(endpoint, table), endpoint)
    return table


def with_options(schema: StructType, table: Mapping[str, str]) -> StructType:
    """The table's columns, which bring its options to each read."""
    first, *others = schema.fields
    metadata = {**(first.metadata or {}), MARK: dict(table)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def read_options(
    given: Mapping[str, str], schema: StructType, endpoint: Endpoint
) -> dict[str, str] | None:
    """The options of the table that is read, and over them those of `SELECT ... WITH (...)`.

    None if no table is read: if the given options choose the records, or no table's do.
    """
    table = _options_in(schema)
    if table is None or any(_has(given, name) for name in _CHOOSE_RECORDS):
        return None
    own = {name: value for name, value in given.items() if name != FOUND}
    return _known_to(endpoint, table) | own


def refuse_insert(given: Mapping[str, str], schema: StructType) -> None:
    """Reject a write without options, of columns that a table brought."""
    if _options_in(schema) is not None and not given.keys() - {FOUND}:
        raise InvalidOption(
            option="topic",
            problem="is missing: Spark does not pass on a table's options with INSERT",
            advice="Write with .write.format('raftlog').option('topic', ...). A table of raftlog "
            "in Spark's catalog is read only.",
        )


def _known_to(endpoint: Endpoint, table: Mapping[str, str]) -> dict[str, str]:
    """Those of a table's options that this use of it takes."""
    return {
        name: value for name, value in table.items() if endpoint in BY_KEY[name.lower()].endpoints
    }


def _options_in(schema: StructType) -> dict[str, str] | None:
    tables = [field.metadata[MARK] for field in schema.fields if MARK in (field.metadata or {})]
    return tables[0] if tables else None


def _has(options: Mapping[str, str], name: str) -> bool:
    return name in {given.lower() for given in options}

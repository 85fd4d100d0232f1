"""A topic's schema as plain values, which are compared and stored.

A field's type is the JSON text of Spark's type (`"long"`, `{"type":"struct",...}`) in canonical
form: sorted keys, no spaces. Equality is defined only on these values, never on Arrow's bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

RESERVED_NAMES = ("_topic", "_offset", "_timestamp", "_epoch", "_writer", "_term")
"""Metadata columns: a topic's own fields never carry these names."""

METADATA_MARK = "raftlog.metadata"
"""The key in a column's field metadata, of Spark and of Arrow, whose value is the name of the
metadata column that it is: a read made it, so a write leaves it out. Under such a name without the
mark it is a column of the user's. Plans and files have it: never change it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column."""

    id: int
    """From 1; never used again in its topic."""
    name: str
    """The column's name."""
    type: str
    """The canonical JSON text of Spark's type, such as `"long"` with its quotes."""
    nullable: bool
    """Whether a value may be null."""
    since: int = 0
    """The first version of the schema that has the column in this form; 0: version 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerField:
    """A column in the form that the versions [since, until) of a schema have it in: it was changed
    or dropped in version `until`."""

    id: int
    """That of its other forms."""
    name: str
    """The column's name then."""
    type: str
    """Its type then, as `Field.type`."""
    nullable: bool
    """Whether a value could be null."""
    until: int
    """The first version that does not have this form."""
    since: int = 0
    """The first version that has it; 0: version 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The columns of a topic at one version, with what is needed to know those of each version
    before it."""

    version: int
    """From 1."""
    fields: tuple[Field, ...]
    """The columns in order."""
    former: tuple[FormerField, ...] = ()
    """Columns of earlier versions that are gone or have another form now, by `until`."""

    def at(self, version: int) -> Schema:
        """The schema as it was at an earlier version.

        Args:
            version: 1 to this one's.

        Returns:
            Its columns then, with their names and types of then.
        """
        assert 1 <= version <= self.version, f"version {version} of a schema at {self.version}"
        return self if version == self.version else _at(self, version)

    def was_added(self, field: Field) -> bool:
        """Tell whether a column is later than the topic: writers that do not know it write nulls.

        Args:
            field: One of `fields`.

        Returns:
            Whether the first version lacks it.
        """
        return field.since > 0 and self.at(1).field(field.id) is None

    def to_arrow(self) -> pa.Schema:
        """Give the columns as Arrow has them.

        Returns:
            The schema of each batch of all columns that a read gives.
        """
        from raftlog.records.arrow_types import arrow_schema  # a node has no pyarrow in memory

        return arrow_schema(self)

    def field(self, field_id: int) -> Field | None:
        """Find a column by its id.

        Args:
            field_id: From 1.

        Returns:
            The column; None: this version has none with this id.
        """
        return next((field for field in self.fields if field.id == field_id), None)


@lru_cache(maxsize=256)
def _at(schema: Schema, version: int) -> Schema:
    """Columns stand in the order of their ids from the second version on, and did so before it."""
    forms = [field for field in schema.fields if field.since <= version]
    forms += [
        Field(id=old.id, name=old.name, type=old.type, nullable=old.nullable, since=old.since)
        for old in schema.former
        if old.since <= version < old.until
    ]
    if schema.former:
        forms.sort(key=lambda field: field.id)
    former = tuple(old for old in schema.former if old.until <= version)
    return Schema(version=version, fields=tuple(forms), former=former)

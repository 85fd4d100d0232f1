"""A topic's schema as plain values, which are compared and stored.

A field's type is the JSON text of Spark's type (`"long"`, `{"type":"struct",...}`) in canonical
form: sorted keys, no spaces. Equality is defined only on these values, never on Arrow's bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

RESERVED_NAMES = ("_topic", "_offset", "_timestamp", "_epoch", "_writer", "_term")
"""Metadata columns: a topic's own fields never carry these names."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The columns of a topic at one version."""

    version: int
    """From 1."""
    fields: tuple[Field, ...]
    """The columns in order."""

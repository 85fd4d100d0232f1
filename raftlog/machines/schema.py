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
    """One column. `id` counts from 1 in its topic and is never used again."""

    id: int
    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The columns of a topic, in order, at one version. Versions count from 1."""

    version: int
    fields: tuple[Field, ...]

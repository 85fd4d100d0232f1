"""A topic's schema as plain values: what is compared, fingerprinted and stored.

A field's type is the JSON text of Spark's type (`"long"`, `{"type":"struct",...}`) in canonical
form: sorted keys, no spaces. Equality and fingerprints are defined on these values alone, never
on serialised Arrow bytes.
"""

from __future__ import annotations

import hashlib
import json
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
    """The columns of a topic at one version, from 1; order is the order of the columns."""

    version: int
    fields: tuple[Field, ...]

    def fingerprint(self) -> str:
        """Hex of a digest of names, types and nullability, in order; version and ids aside."""
        rows = [[field.name, field.type, field.nullable] for field in self.fields]
        text = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

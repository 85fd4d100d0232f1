"""A topic's schema as plain values, which are compared, fingerprinted and stored.

A field's type is the JSON text of Spark's type (`"long"`, `{"type":"struct",...}`) in canonical
form: sorted keys, no spaces. Equality and fingerprints are defined only on these values, never on
serialised Arrow bytes.
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
    """The columns of a topic, in order, at one version. Versions count from 1."""

    version: int
    fields: tuple[Field, ...]

    def fingerprint(self) -> str:
        """Hex digest of the columns' names, types and nullability, in order, without ids."""
        rows = [[field.name, field.type, field.nullable] for field in self.fields]
        text = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

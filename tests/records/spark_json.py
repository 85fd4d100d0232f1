"""A topic's schema as Spark writes one."""

from __future__ import annotations

import json

from raftlog.machines.schema import Schema
from raftlog.records.schema_text import type_text


def struct_json(schema: Schema) -> str:
    """The JSON of the schema, for Spark's `StructType.fromJson` and for `parse_json`."""
    fields = [
        {
            "name": field.name,
            "type": json.loads(field.type),
            "nullable": field.nullable,
            "metadata": {},
        }
        for field in schema.fields
    ]
    return type_text({"type": "struct", "fields": fields})

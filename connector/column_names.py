"""Names of columns that differ only in case: one column, unless `spark.sql.caseSensitive` is true.

A topic's columns never differ only in case, so there is at most one that a name can mean. Spark
tells the driver's side of a Python data source nothing of its settings. So names are matched
without case there, and the tasks, which see the setting, refuse such a match if it is true, before
any row is written or read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.types import StructField, StructType

from raftlog.errors import SchemaMismatch

if TYPE_CHECKING:
    from raftlog import TopicInfo

CASE_SENSITIVE = "spark.sql.caseSensitive"
"""A local property of every task, if the session has it set."""


def matched(given: Sequence[str], known: Iterable[str]) -> list[str]:
    """For each name the known one that it means: the same or, if it is given once and the same is
    not given, one that differs only in case. A name that means none stays."""
    by_lower = {name.lower(): name for name in known}
    exact = set(given)
    meant = [by_lower.get(name.lower(), name) for name in given]
    return [name if wanted in exact else wanted for name, wanted in zip(given, meant, strict=True)]


def renamed(given: StructType, known: Iterable[str]) -> StructType:
    """The columns under the names that they mean."""
    names = matched(given.names, known)
    return StructType(
        [
            field
            if field.name == name
            else StructField(name, field.dataType, field.nullable, field.metadata)
            for field, name in zip(given.fields, names, strict=True)
        ]
    )


def in_other_case(given: StructType, topic: TopicInfo) -> bool:
    """Whether some name means a column of the topic that differs in case."""
    return given.names != matched(given.names, [field.name for field in topic.schema.fields])


def check_case(given: Sequence[str], meant: Sequence[str], topic: str) -> None:
    """In a task: check that no name means a column that only differs in case, if Spark is
    case-sensitive. Raises `SchemaMismatch`."""
    lines = [
        f"  {name}: {wanted} in the topic, and {CASE_SENSITIVE} is true"
        for name, wanted in zip(given, meant, strict=True)
        if name != wanted
    ]
    if lines and _is_case_sensitive():
        raise SchemaMismatch(
            topic=topic,
            difference="\n".join(lines),
            advice=f"Write each name as the topic has it, or set {CASE_SENSITIVE} to false.",
        )


def _is_case_sensitive() -> bool:
    context = TaskContext.get()
    setting = None if context is None else context.getLocalProperty(CASE_SENSITIVE)
    return setting is not None and setting.lower() == "true"

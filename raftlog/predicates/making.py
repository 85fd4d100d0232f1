"""Predicates out of what a condition's parts say, as far as statistics can judge them. Pure.

A value that is None is one that no predicate can say, such as a decimal: what is tested with it is
`Unknown`.
"""

from __future__ import annotations

from collections.abc import Iterable

from raftlog.predicates.predicate import (
    DEPTH_MAX,
    IN_VALUES_MAX,
    NODES_MAX,
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unknown,
    Value,
    depth,
    node_count,
)

TEXT_CHARACTERS_MAX = 1_024
"""A longer text or binary is not compared with bounds. No setting: bounds have 64 bytes."""


def compared(column: Column, operator: str, value: Value | None) -> Predicate:
    """A comparison with a value, by one of `OPERATORS`."""
    if value is None or _is_long(value):
        return Unknown()
    return Compare(column=column, operator=operator, value=value)


def one_of(column: Column, values: Iterable[Value | None], *, has_null: bool) -> Predicate:
    """`column IN (...)`, whose list also has a null or not. Without a match, a null makes it null.

    A list that is too long is told by its bounds only.
    """
    found = list(values)
    known = [value for value in found if value is not None and not _is_long(value)]
    null = (Constant(value=None),) if has_null else ()
    if not known:
        return Unknown() if found else Or(parts=null)
    if len(known) < len(found) or len({type(value) for value in known}) > 1:
        return Unknown()
    ordered = sorted(set(known))
    if len(ordered) <= IN_VALUES_MAX:
        return Or(parts=(In(column=column, values=tuple(ordered)), *null))
    between = And(
        parts=(
            Compare(column=column, operator=">=", value=ordered[0]),
            Compare(column=column, operator="<=", value=ordered[-1]),
            Unknown(),
        )
    )
    return Or(parts=(between, *null))


def same(column: Column, value: Value | None, *, is_null: bool) -> Predicate:
    """`column <=> value`, which is never null."""
    if is_null:
        return IsNull(column=column)
    return And(parts=(Not(part=IsNull(column=column)), compared(column, "=", value)))


def starting(column: Column, prefix: str | None) -> Predicate:
    """The text column begins with the prefix."""
    if prefix is None or _is_long(prefix):
        return Unknown()
    return StartsWith(column=column, prefix=prefix)


def fitted(predicate: Predicate) -> Predicate:
    """The predicate, or of one that is too large what fits of the parts that all must be true."""
    if node_count(predicate) <= NODES_MAX and depth(predicate) <= DEPTH_MAX:
        return predicate
    parts: list[Predicate] = []
    for part in predicate.parts if isinstance(predicate, And) else ():
        more = And(parts=(*parts, part))
        if node_count(more) <= NODES_MAX and depth(more) <= DEPTH_MAX:
            parts.append(part)
    return And(parts=tuple(parts))


def _is_long(value: Value) -> bool:
    return isinstance(value, (str, bytes)) and len(value) > TEXT_CHARACTERS_MAX

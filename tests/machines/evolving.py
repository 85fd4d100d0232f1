"""Topics whose schema changes, as a model that knows nothing of ids: each version is a list of
columns, and a column is an object that lives on under other names and types."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from raftlog.machines.evolution import ADD, DROP, DROP_NOT_NULL, RENAME, SET_TYPE, ColumnChange
from raftlog.machines.schema import Field, Schema


def array(element: str) -> str:
    return f'{{"containsNull":true,"elementType":{element},"type":"array"}}'


def map_to(value: str) -> str:
    return f'{{"keyType":"string","type":"map","valueContainsNull":true,"valueType":{value}}}'


def struct(**types: str) -> str:
    parts = [
        f'{{"metadata":{{}},"name":"{name}","nullable":true,"type":{kind}}}'
        for name, kind in types.items()
    ]
    return f'{{"fields":[{",".join(parts)}],"type":"struct"}}'


POINT = struct(x='"integer"')
WIDE_POINT = struct(x='"long"', y=array(POINT))
WIDER = {
    '"byte"': ('"short"', '"integer"', '"long"'),
    '"short"': ('"integer"', '"long"'),
    '"integer"': ('"long"',),
    '"float"': ('"double"',),
    '"decimal(5,2)"': ('"decimal(9,2)"', '"decimal(38,2)"'),
    '"decimal(9,2)"': ('"decimal(10,2)"',),
    array('"integer"'): (array('"long"'),),
    POINT: (WIDE_POINT, struct(x='"integer"', y='"string"')),
    WIDE_POINT: (struct(x='"long"', y=array(struct(x='"long"', z='"float"'))),),
    array(POINT): (array(WIDE_POINT),),
    map_to(array(POINT)): (map_to(array(WIDE_POINT)),),
}
"""What each type may become, written down by hand."""

TYPES = (
    *WIDER,
    '"long"',
    '"double"',
    '"string"',
    array('"long"'),
    array(WIDE_POINT),
    struct(y='"long"', x='"long"'),
)
NAMES = ("a", "B", "c", "d")


class Identity:
    """What stays of a column."""


@dataclass(frozen=True, slots=True)
class Column:
    identity: Identity
    name: str
    type: str
    nullable: bool


Version = tuple[Column, ...]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Version], list[list[ColumnChange]]]:
    """The versions of a topic, and the changes that led from each to the next."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    first = tuple(
        Column(Identity(), name, draw(st.sampled_from(TYPES)), draw(st.booleans()))
        for name in names
    )
    versions, steps = [first], []
    for _ in range(draw(st.integers(0, 5))):
        now, changes = versions[-1], []
        for _ in range(draw(st.integers(1, 3))):
            now, change = draw(_changes(now))
            changes.append(change)
        versions.append(now)
        steps.append(changes)
    return versions, steps


@st.composite
def _changes(draw: st.DrawFn, now: Version) -> tuple[Version, ColumnChange]:
    """One legal change of the columns."""
    taken = {column.name for column in now}
    fresh = f"n{draw(st.integers(0, 9**9))}"
    while fresh in taken:
        fresh += "x"
    free = [name for name in NAMES if name not in taken] + [fresh]
    legal = [ADD, RENAME]
    strict = [column for column in now if not column.nullable]
    narrow = [column for column in now if column.type in WIDER]
    legal += [DROP] * (len(now) > 1) + [SET_TYPE] * bool(narrow) + [DROP_NOT_NULL] * bool(strict)
    match draw(st.sampled_from(legal)):
        case "add":
            made = Column(
                Identity(), draw(st.sampled_from(free)), draw(st.sampled_from(TYPES)), True
            )
            return (*now, made), ColumnChange(action=ADD, name=made.name, type=made.type)
        case "rename":
            old, to = draw(st.sampled_from(now)), draw(st.sampled_from(free))
            change = ColumnChange(action=RENAME, name=old.name, to=to)
            return _with(now, old, Column(old.identity, to, old.type, old.nullable)), change
        case "drop":
            old = draw(st.sampled_from(now))
            left = tuple(column for column in now if column is not old)
            return left, ColumnChange(action=DROP, name=old.name)
        case "set type":
            old = draw(st.sampled_from(narrow))
            kind = draw(st.sampled_from(WIDER[old.type]))
            change = ColumnChange(action=SET_TYPE, name=old.name, type=kind)
            return _with(now, old, Column(old.identity, old.name, kind, old.nullable)), change
        case _:
            old = draw(st.sampled_from(strict))
            change = ColumnChange(action=DROP_NOT_NULL, name=old.name)
            return _with(now, old, Column(old.identity, old.name, old.type, True)), change


def _with(now: Version, old: Column, new: Column) -> Version:
    return tuple(new if column is old else column for column in now)


def first_schema(version: Version) -> Schema:
    return Schema(
        version=1,
        fields=tuple(
            Field(id=number, name=column.name, type=column.type, nullable=column.nullable)
            for number, column in enumerate(version, 1)
        ),
    )

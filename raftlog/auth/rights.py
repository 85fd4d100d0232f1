"""Who may do what: rights on topics, writers and keys, granted to principals.

A caller may do what a grant allows, and nothing else. Pure values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from raftlog.auth.principals import Caller, problem_of_principal

_DECISIONS_MAX = 10_000
"""So many answers are remembered between two changes of the grants. No setting: it bounds memory,
and an answer costs microseconds."""


class Right(StrEnum):
    """What a principal may do."""

    READ = "read"
    """Read records, positions and writers."""
    WRITE = "write"
    """Append, write epochs, publish positions of a reader group."""
    CREATE = "create"
    """Create topics."""
    ALTER = "alter"
    """Change settings and columns."""
    DELETE = "delete"
    """Delete topics, trim and overwrite them."""
    ADMIN = "admin"
    """All of these, and grant them to others."""
    CLUSTER = "cluster"
    """Add, place and remove nodes, and see all of them."""


class Kind(StrEnum):
    """What a right is for."""

    TOPIC = "topic"
    PREFIX = "prefix"
    """All topics whose names begin so."""
    WRITER = "writer"
    """To continue or remove a writer of another principal."""
    READER_GROUP = "reader-group"
    """To publish positions of a reader group, or to remove them: retention may wait for them."""
    KEYS = "keys"
    """All keys of the key-value store that begin so."""
    ALL = "all"
    """Every topic, writer and key, and the cluster."""


class Resource(NamedTuple):
    """What a right is for."""

    kind: Kind
    """Of what kind it is."""
    name: str
    """The name or prefix, 1 character or more; "" with `Kind.ALL`, and only there."""

    @property
    def words(self) -> str:
        """As people read it."""
        match self.kind:
            case Kind.ALL:
                return "everything"
            case Kind.PREFIX:
                return f"topics {self.name!r}..."
            case Kind.KEYS:
                return f"keys {self.name!r}..."
            case Kind.READER_GROUP:
                return f"reader group {self.name!r}"
            case _:
                return f"{self.kind} {self.name!r}"


EVERYTHING = Resource(Kind.ALL, "")
ANYTHING = Resource(Kind.KEYS, "")
"""Asked for with no right in particular: something, whatever it is."""


def topic_named(name: str) -> Resource:
    """One topic, as what is asked for."""
    return Resource(Kind.TOPIC, name)


def writer_named(name: str) -> Resource:
    """One writer, as what is asked for."""
    return Resource(Kind.WRITER, name)


def reader_group_named(name: str) -> Resource:
    """One reader group, as what is asked for."""
    return Resource(Kind.READER_GROUP, name)


def keys_under(prefix: str) -> Resource:
    """The keys that begin so, or one key, as what is asked for."""
    return Resource(Kind.KEYS, prefix)


_FITTING = {
    Kind.TOPIC: frozenset(Right) - {Right.CLUSTER},
    Kind.PREFIX: frozenset(Right) - {Right.CLUSTER},
    Kind.WRITER: frozenset({Right.WRITE, Right.DELETE, Right.ADMIN}),
    Kind.READER_GROUP: frozenset({Right.WRITE, Right.ADMIN}),
    Kind.KEYS: frozenset({Right.READ, Right.WRITE, Right.ADMIN}),
    Kind.ALL: frozenset(Right),
}
"""The rights that there are on each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The rights of one principal on one resource."""

    to: str
    """A principal, and no node."""
    resource: Resource
    """What they are for."""
    rights: frozenset[Right]
    """At least one."""

    def allows(self, right: Right, asked: Resource) -> bool:
        """Whether it gives a right.

        Args:
            right: The right.
            asked: What it is asked for.

        Returns:
            Whether it gives it, or admin, on all that is asked for.
        """
        return (right in self.rights or Right.ADMIN in self.rights) and self.covers(asked)

    def covers(self, asked: Resource) -> bool:
        """Whether it is for something.

        Args:
            asked: What is asked for.

        Returns:
            Whether all of that belongs to its resource.
        """
        kind, name = self.resource
        match kind:
            case Kind.ALL:
                return True
            case Kind.PREFIX:
                return asked.kind in (Kind.TOPIC, Kind.PREFIX) and asked.name.startswith(name)
            case Kind.KEYS:
                return asked.kind is Kind.KEYS and asked.name.startswith(name)
            case _:
                return asked == self.resource


def problem_of_grant(grant: Grant) -> str | None:
    """What is wrong with a grant that was written, or None."""
    kind, name = grant.resource
    problem = problem_of_principal(grant.to)
    if problem is not None:
        return f"{grant.to[:80]!r} cannot be given rights: {problem}"
    if (kind is Kind.ALL) != (not name):
        return f"it is for {kind} with the name {name!r}"
    if not grant.rights:
        return "it gives no right"
    wrong = sorted(grant.rights - _FITTING[kind])
    if wrong:
        fitting = ", ".join(right for right in Right if right in _FITTING[kind])
        return (
            f"there is no right {wrong[0].value!r} on {grant.resource.words}; there are {fitting}"
        )
    return None


class Grants:
    """All grants of a cluster. They do not change; others take their place."""

    def __init__(self, grants: Iterable[Grant]) -> None:
        self._of: dict[str, dict[Resource, Grant]] = {}
        for grant in grants:
            self._of.setdefault(grant.to, {})[grant.resource] = grant
        self._decided: dict[tuple[Caller, Right | None, Resource], bool] = {}

    def allow(self, who: Caller, right: Right | None, asked: Resource) -> bool:
        """Whether `who` has the right on all that is asked for; None: any right."""
        key = (who, right, asked)
        decided = self._decided.get(key)
        if decided is None:
            decided = any(
                asked == ANYTHING or grant.covers(asked)
                if right is None
                else grant.allows(right, asked)
                for grant in self.of(who)
            )
            if len(self._decided) >= _DECISIONS_MAX:
                self._decided.clear()
            self._decided[key] = decided
        return decided

    def of(self, who: Caller) -> Iterator[Grant]:
        """The grants to this caller and its groups."""
        for name in who.names:
            yield from self._of.get(name, {}).values()

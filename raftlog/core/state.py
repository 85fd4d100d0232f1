"""A member's state as a tree of parts that can be copied and told apart.

An explorer of histories tries one more event on each of several copies of a member, and skips the
states that it has seen. Every mutable class of the core is a `Part`, so both need no code of
its own in any of them, and a slot that is added later cannot be forgotten.
"""

from __future__ import annotations

from copy import copy
from hashlib import blake2b
from typing import ClassVar, Self

_NOT_STATE = frozenset({"_random"})
"""Slots that a fingerprint leaves out: a generator has no value that could be compared."""


class Part:
    """Mutable state in slots. Each holds a value, a container of values, a part or a dict of parts.

    What is in containers is never changed in place, so copies share it.
    """

    __slots__: tuple[str, ...] = ()
    parts: ClassVar[tuple[str, ...]] = ()
    """The names of all slots, those of the classes that it is made from first."""

    def __init_subclass__(cls) -> None:
        cls.parts = tuple(dict.fromkeys((*cls.parts, *cls.__slots__)))

    def clone(self) -> Self:
        """An independent copy that decides the same on the same inputs, its generator included."""
        other = object.__new__(type(self))
        for name in self.parts:
            setattr(other, name, _clone(getattr(self, name)))
        return other

    def fingerprint(self) -> bytes:
        """16 bytes over the whole state but its generator: equal states, equal bytes."""
        return blake2b(repr(_plain(self)).encode(), digest_size=16).digest()


def _clone(value: object) -> object:
    if isinstance(value, Part):
        return value.clone()
    if isinstance(value, dict):
        return {key: _clone(each) for key, each in value.items()}
    return copy(value)


def _plain(value: object) -> object:
    """A value whose `repr` depends on nothing but the content."""
    if isinstance(value, Part):
        return [_plain(getattr(value, name)) for name in value.parts if name not in _NOT_STATE]
    if isinstance(value, dict):
        return sorted((key, _plain(each)) for key, each in value.items())
    if isinstance(value, set | frozenset):
        return sorted(value)
    return value

"""A member's state as a tree of parts that can be copied and told apart.

An explorer of histories tries one more event on each of several copies of a member, and skips the
states that it has seen. Every mutable class of the core is a `Part`, so both need no code of
its own in any of them, and a slot that is added later cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from hashlib import blake2b
from typing import Any, ClassVar, Self

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
        return blake2b(repr(plain(self)).encode(), digest_size=16).digest()


_AS_IT_IS: Mapping[type[Part], Callable[[Any], object]] = {}


def _clone(value: object) -> object:
    if isinstance(value, Part):
        return value.clone()
    if isinstance(value, dict):
        return {key: _clone(each) for key, each in value.items()}
    return copy(value)


def plain(value: object, forms: Mapping[type[Part], Callable[[Any], object]] = _AS_IT_IS) -> object:
    """A value whose `repr` depends on nothing but the content, and for parts of the types in
    `forms` on what these make of them."""
    if isinstance(value, Part):
        form = forms.get(type(value))
        if form is not None:
            return form(value)
        named = (name for name in value.parts if name not in _NOT_STATE)
        return [plain(getattr(value, name), forms) for name in named]
    if isinstance(value, dict):
        return sorted((key, plain(each, forms)) for key, each in value.items())
    if isinstance(value, set | frozenset):
        return sorted(value)
    return value

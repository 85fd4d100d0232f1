"""How a bug is planted: something of a real class or module is replaced while a context lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def both(*patches: Any) -> Iterator[None]:
    """Several replacements that make one bug."""
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name` is `value` while the context lasts."""
    missing = object()
    original = vars(owner).get(name, missing)
    if callable(value):
        assert hasattr(owner, name), f"{name} is no longer there to be broken"
    setattr(owner, name, value)
    try:
        yield
    finally:
        if original is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def constant(value: Any) -> property:
    """An attribute that says `value` whatever it is set to."""
    return property(lambda self: value, lambda self, ignored: None)

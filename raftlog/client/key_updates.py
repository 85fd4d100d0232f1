"""Keys of the key-value store with values of a format: read, and changed beside other clients."""

from __future__ import annotations

from collections.abc import Callable

from raftlog.client.key_values import KeyValueStore
from raftlog.errors import VersionConflict

_TRIES = 20
"""So often another client may change the same key in between. No setting: people do it."""


def update(
    store: KeyValueStore, key: str, change: Callable[[bytes | None], bytes | None]
) -> bytes | None:
    """Put what `change` makes of the key's value in its place, and return that; None: there is no
    such key, before or after. Raises `VersionConflict` if others always came in between."""
    for left in reversed(range(_TRIES)):
        found = store.get(key)
        value = change(None if found is None else found.value)
        version = 0 if found is None else found.version
        try:
            if value is not None:
                store.put(key, value, expected=version)
            elif found is not None:
                store.delete(key, expected=version)
        except VersionConflict:
            if left == 0:
                raise
        else:
            return value
    raise AssertionError("the last try returns or raises")

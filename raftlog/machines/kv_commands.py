"""The commands of the key-value store, and what it holds of a key.

A key's version is the index of the entry that wrote its value; 0: the key is absent. So it is
never used again, and two versions tell which value is the newer one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from raftlog.core.types import LogIndex

SESSION_CHARACTERS = 32
"""Of a session's id: 128 random bits. Who does not know it cannot write in the session."""

ANY_VERSION = -1
"""What a write expects that is done whatever version the key has."""


class KeyValue(NamedTuple):
    """A key that is present."""

    key: str
    """1 to 1,024 characters."""
    version: LogIndex
    """The index of the entry that wrote the value, from 1."""
    value: bytes
    """0 to 65,536 bytes."""
    owner: str = ""
    """The principal that wrote it; "": an admin did, or callers are not authenticated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """What an entry did to a key."""

    index: LogIndex
    """The entry's."""
    key: str
    """The key."""
    value: bytes
    """The new value; b"" if it was deleted."""
    deleted: bool
    """Whether the entry removed it."""

    @property
    def version(self) -> LogIndex:
        """The key's version from this entry on; 0: it is absent."""
        return LogIndex(0) if self.deleted else self.index


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """Begin a session of writes."""

    session: str
    """`SESSION_CHARACTERS` hexadecimal digits, which the leader draws at random."""
    owner: str
    """Who opens it, and alone may write in it; "": callers are not asked who they are."""
    ends: str
    """A session of the same owner to end before, so that none of its writes is done late; "":
    none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutKey:
    """Write a value, if the key has the version that is expected."""

    session: str
    owner: str
    """Who writes: as in `OpenSession`."""
    sequence: int
    """The number of the write in its session: 1 more than that of the one before, from 1. A
    repeated one is answered with the first outcome, and changes nothing."""
    key: str
    value: bytes
    expected: int
    """`ANY_VERSION`; 0: the key must be absent."""
    share: str = ""
    """The principal in whose share of the store the key is; "": in that of none, because the caller
    may do everything, or callers are not authenticated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteKey:
    """Remove a key, if it has the version that is expected. An absent one is no error."""

    session: str
    owner: str
    sequence: int
    key: str
    expected: int


KeyWrite = PutKey | DeleteKey

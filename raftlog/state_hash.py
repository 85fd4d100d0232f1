"""The running hash over all that a replica has applied: the same on all replicas at an index."""

from __future__ import annotations

import hashlib
import struct

from raftlog.core.types import EntryKind, LogIndex, Term
from raftlog.machines.encoding import encode_outcome
from raftlog.machines.outcomes import Outcome

STATE_HASH_FIRST = bytes(8)
"""Before the first entry."""


def next_state_hash(
    before: bytes,
    index: LogIndex,
    term: Term,
    kind: EntryKind,
    command: bytes,
    outcome: Outcome | None,
) -> bytes:
    """The hash after applying entry `index`; `outcome` is None for an entry without a command."""
    digest = hashlib.blake2b(before, digest_size=len(STATE_HASH_FIRST))
    digest.update(struct.pack("<QQB", index, term, kind))
    digest.update(command)
    if outcome is not None:
        digest.update(encode_outcome(outcome))
    return digest.digest()

"""The digest of a topic's history: equal on two replicas if their records in history are.

Every row group has one: of its offsets, of what readers get with its records (timestamps, terms,
epochs, writers), of the bytes that retention counts, and of the records themselves
(`raftlog.compaction.digest`). A file's is their sum, and that of a whole history is the sum of its
files'. So it does not depend on where files begin, nor on how their chunks are compressed, and a
file that is added or trimmed away changes only its own part. Sums are modulo 2^128: they must tell
defects apart, not resist an attacker. docs/FORMAT.md says which bytes are covered.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from array import array
from collections.abc import Iterable

from raftlog.core.types import Offset
from raftlog.wire.runs import Runs

HISTORY_DIGEST_BYTES = 16

NO_RECORDS = bytes(HISTORY_DIGEST_BYTES)
"""The digest of an empty history."""

_ROW_GROUP = b"raftlog row group 1"
_NUMBERS = struct.Struct("<qqqq")
_LENGTH = struct.Struct("<q")
_MODULUS = 1 << 8 * HISTORY_DIGEST_BYTES


def row_group_digest(start: Offset, record_bytes: int, runs: Runs, records: bytes) -> bytes:
    """Of the row group whose first record is `start`; `records` is the digest of its records."""
    digest = hashlib.blake2b(_ROW_GROUP, digest_size=HISTORY_DIGEST_BYTES)
    digest.update(_NUMBERS.pack(start, record_bytes, len(runs), len(runs.names)))
    for column in (runs.counts, runs.timestamps_us, runs.terms, runs.epochs, runs.writers):
        digest.update(_little_endian(column))
    for name in runs.names:
        text = name.encode()
        digest.update(_LENGTH.pack(len(text)))
        digest.update(text)
    digest.update(records)
    return digest.digest()


def digest_sum(digests: Iterable[bytes]) -> bytes:
    """The digest of all that these are the digests of, in any order."""
    total = sum(int.from_bytes(digest, "little") for digest in digests)
    return (total % _MODULUS).to_bytes(HISTORY_DIGEST_BYTES, "little")


def _little_endian(column: array[int]) -> bytes:
    if sys.byteorder == "little":
        return column.tobytes()
    swapped = array("q", column)
    swapped.byteswap()
    return swapped.tobytes()

"""Errors of the key-value store, and of reads at an index of a log."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from raftlog.errors.exit_code import ExitCode
from raftlog.errors.raftlog_error import RaftlogError, cut
from raftlog.errors.request import InvalidRequest
from raftlog.errors.unavailable import Unavailable
from raftlog.errors.write import WriteRefused

_KEY_SHOWN_MAX = 100


@dataclass(kw_only=True, eq=False)
class VersionConflict(WriteRefused):
    """The key has another version than the write expects; 0: it is absent."""

    key: str
    expected: int
    found: int

    @property
    def cause(self) -> str:
        key = cut(self.key, _KEY_SHOWN_MAX)
        found = f"has version {self.found}" if self.found else "is absent"
        expected = f"version {self.expected}" if self.expected else "it to be absent"
        return f"Key {key!r} {found}, and the write expects {expected}."

    remedy_text = "Read the key again, and decide by what it is now."


@dataclass(kw_only=True, eq=False)
class StoredValueInvalid(InvalidRequest):
    """One of raftlog's own keys has an invalid name or value. A write of it was rejected: `call` is
    "write". A stored value was not changed."""

    kind: str
    key: str
    problem: str
    call: str = ""

    @property
    def cause(self) -> str:
        holds = "would hold" if self.call == "write" else "holds"
        return f"Key {cut(self.key, _KEY_SHOWN_MAX)!r} {holds} no {self.kind}: {self.problem}."

    @property
    def remedy(self) -> str:
        if self.call == "write":
            return (
                "Nothing was written. raftlog writes such keys itself: use `raftlog acl`, `raftlog "
                "quota` or `raftlog groups`, or the client's acl, quotas and positions."
            )
        return (
            "If a later version of raftlog wrote it, use that; if not, remove it: "
            f"raftlog kv delete {shlex.quote(self.key)}."
        )


@dataclass(kw_only=True, eq=False)
class UnknownSession(WriteRefused):
    """The store has ended the session, because too many others wrote since. The write was not done
    by this attempt; an earlier one of the same write may have been."""

    session: str

    cause_text = "The key-value store knows no session {session} of this caller."
    remedy_text = (
        "Read the key to see whether the write was done, and write through a new client. When "
        "there are more than 10,000 sessions, the identity with the most loses its least recently "
        "used one."
    )


@dataclass(kw_only=True, eq=False)
class SequencePassed(WriteRefused):
    """A late resend: its session has gone on to `last_sequence`."""

    session: str
    sequence: int
    last_sequence: int

    cause_text = (
        "Write {sequence} of session {session} arrives after its write {last_sequence}: it was "
        "given up."
    )
    remedy_text = "Read the key to see whether it was done. One session has one write in flight."


@dataclass(kw_only=True, eq=False)
class IndexOverflow(Unavailable):
    """This replica has applied its log up to `latest`, below the index that is asked for."""

    requested: int
    latest: int
    grpc_status = "OUT_OF_RANGE"

    cause_text = "Index {requested} is not there yet: the log is applied up to {latest}."
    remedy_text = (
        "Give an index that a read, a write or `last_applied` told; what comes next is there later."
    )


@dataclass(kw_only=True, eq=False)
class IndexUnderflow(RaftlogError):
    """What the index asks for is dropped here; `earliest` is the next one that is kept."""

    requested: int
    earliest: int
    exit_code = ExitCode.DATA_LOSS
    grpc_status = "OUT_OF_RANGE"

    cause_text = "Index {requested} is no longer kept: the next one here is {earliest}."
    remedy_text = "Read what is there now, and go on from the index that comes with it."


@dataclass(kw_only=True, eq=False)
class NoSnapshot(RaftlogError):
    """The snapshot that is asked for was not taken; `latest` is the newest here, 0: none."""

    requested: int
    latest: int
    exit_code = ExitCode.NOT_FOUND
    grpc_status = "FAILED_PRECONDITION"

    @property
    def cause(self) -> str:
        asked = f"at index {self.requested} " if self.requested else ""
        newest = f"the newest is at {self.latest}" if self.latest else "there is none yet"
        return f"There is no snapshot {asked}here: {newest}."

    remedy_text = (
        "Without one the log has every entry (GetEntries). A node takes the next one after "
        "`storage.snapshot_entries` entries or `storage.snapshot_age_s` seconds."
    )


@dataclass(kw_only=True, eq=False)
class WatcherTooSlow(RaftlogError):
    """A watcher did not take events as fast as they came; `limit` of them waited."""

    limit: int
    grpc_status = "RESOURCE_EXHAUSTED"

    cause_text = "The watcher is too slow: {limit} events wait for it, and further ones are lost."
    remedy_text = "Watch again: the first events tell how things are now."

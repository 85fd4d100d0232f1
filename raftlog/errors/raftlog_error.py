"""The base of every error in `raftlog.errors`: plain values that give its cause and remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import ClassVar

from raftlog.errors.exit_code import ExitCode
from raftlog.redaction import without_keys


class Surface(Enum):
    """Where an error is shown; the values continue "the remedy" in docs/ERRORS.md."""

    PYTHON = ""
    COMMAND_LINE = " on the command line"
    SPARK = " in Spark"


_OF_PYTHON = {
    "batch_bytes": "client.batch_bytes",
    "batch_limits": "",
    "bootstrap_servers": "client.bootstrap_servers",
    "request_timeout_s": "client.request_timeout_s",
    "token": "client.token (file:PATH, env:NAME or command:LINE)",
    "writer_name": "EpochKey.writer",
    "zookeeper": "client.zookeeper",
}
OPTIONS = {
    Surface.PYTHON: _OF_PYTHON,
    Surface.COMMAND_LINE: _OF_PYTHON
    | {
        "bootstrap_servers": "--servers",
        "token": f"`raftlog login` keeps one, or {_OF_PYTHON['token']}",
        "zookeeper": "--zookeeper",
    },
    Surface.SPARK: {
        "batch_bytes": "batch.bytes",
        "batch_limits": " (maxOffsetsPerTrigger, maxFilesPerTrigger)",
        "bootstrap_servers": "raftlog.bootstrap.servers",
        "request_timeout_s": "raftlog.request.timeout.ms",
        "token": "a credential (raftlog.auth.credential)",
        "writer_name": "txnAppId",
        "zookeeper": "raftlog.zookeeper.connect",
    },
}
"""What remedies name, as each surface calls it."""


@dataclass(kw_only=True, eq=False)
class RaftlogError(Exception):
    """Base of the tree. Subclasses are keyword-only dataclasses of plain values."""

    retriable: ClassVar[bool] = False
    """Whether the same request may succeed later or at another node, unchanged."""
    exit_code: ClassVar[ExitCode] = ExitCode.FAILED
    """The exit code of a verb of the command line that ends with this error."""
    grpc_status: ClassVar[str] = "UNKNOWN"
    """The name of the grpc status code with which it travels."""

    cause_text: ClassVar[str]
    """What is wrong, as a format of the error's values. A subclass sets it or overrides `cause`."""
    remedy_text: ClassVar[str]
    """What to do about it, likewise; `OPTIONS` are values of it, too."""
    spark_remedy_text: ClassVar[str] = ""
    """The same in Spark; "": `remedy_text`."""
    surface = Surface.PYTHON
    """Where the error is shown. No part of its values: what shows errors sets it."""

    @property
    def cause(self) -> str:
        """What is wrong, in one or two sentences."""
        return self.cause_text.format_map(vars(self))

    @property
    def remedy(self) -> str:
        """What to do about it, naming the option that matters."""
        in_spark = self.surface is Surface.SPARK and self.spark_remedy_text
        text = in_spark or self.remedy_text
        return text.format_map(OPTIONS[self.surface] | vars(self))

    def __str__(self) -> str:
        return without_keys(f"{self.cause} {self.remedy}")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), {f.name: getattr(self, f.name) for f in fields(self)}))

    def to_wire(self) -> tuple[str, dict[str, str]]:
        """What the wire carries of the error.

        Returns:
            The error's code (its class name), and its values as text by name.
        """
        return type(self).__name__, {f.name: str(getattr(self, f.name)) for f in fields(self)}


def cut(text: str, characters_max: int) -> str:
    """The text as a message shows it: what a caller gave may be longer than a screen, or a private
    key."""
    text = without_keys(text)
    return text if len(text) <= characters_max else f"{text[:characters_max]}..."


def _rebuild(kind: type[RaftlogError], values: dict[str, object]) -> RaftlogError:
    return kind(**values)


@dataclass(kw_only=True, eq=False)
class Internal(RaftlogError):
    """A defect of ours, never of the user's."""

    what: str
    grpc_status = "INTERNAL"

    cause_text = "raftlog met a defect of its own: {what}."
    remedy_text = "Please report it with the node's log."


@dataclass(kw_only=True, eq=False)
class CompactorKilled(RaftlogError):
    """Something ended the node's compaction process by a signal. The node starts another."""

    signal: str

    cause_text = "The compaction process was ended by {signal}, before its job was done."
    remedy_text = (
        "It is tried again by itself. After SIGKILL see whether the kernel was out of memory "
        "(`dmesg`): give the machine more, or run less beside the node."
    )


@dataclass(kw_only=True, eq=False)
class CompactorOutOfMemory(RaftlogError):
    """A job of the node's compaction process needs more memory than it gets. Nothing changed."""

    problem: str

    cause_text = "The compaction process has too little memory: {problem}."
    remedy_text = (
        "The node tries again later. Give the machine more memory, or run less beside the node."
    )


@dataclass(kw_only=True, eq=False)
class FileTooLarge(RaftlogError):
    """A file of a node, such as a snapshot, would be larger than one may be. Nothing changed."""

    file: str
    size: int
    limit: int

    cause_text = "{file} would have {size} bytes; the limit is {limit}."
    remedy_text = (
        "Make the topic's state smaller: remove writers that are gone (raftlog writers list, "
        "raftlog writers remove). The node retries."
    )


def from_wire(code: str, values: Mapping[str, str]) -> RaftlogError:
    """The typed error that `to_wire` described. An unknown code becomes `Internal`.

    A newer server may send a value that this side does not know: it is ignored. A value that this
    side needs but does not get becomes an empty text or 0: a poorer message is better than none.
    """
    kind = _kinds().get(code)
    if kind is None:
        return Internal(what=f"the server answered with the unknown error {code}: {dict(values)}")
    known = {}
    for field in fields(kind):
        text = values.get(field.name, "")
        known[field.name] = _to_int(text) if field.type in (int, "int") else text
    return kind(**known)


def _to_int(text: str) -> int:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() else 0


def _kinds() -> dict[str, type[RaftlogError]]:
    found: dict[str, type[RaftlogError]] = {}
    waiting = [RaftlogError]
    while waiting:
        kind = waiting.pop()
        found[kind.__name__] = kind
        waiting.extend(kind.__subclasses__())
    return found

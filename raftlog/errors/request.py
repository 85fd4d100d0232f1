"""Errors of a request that cannot succeed as it is, and of names that are missing or taken."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from raftlog.errors.exit_code import ExitCode
from raftlog.errors.raftlog_error import OPTIONS, RaftlogError, Surface, cut

_NAME_SHOWN_MAX = 249
"""No topic has a longer name."""
_PROBLEM_SHOWN_MAX = 600


class InvalidRequest(RaftlogError):
    exit_code = ExitCode.USAGE
    grpc_status = "INVALID_ARGUMENT"


@dataclass(kw_only=True, eq=False)
class MalformedRequest(InvalidRequest):
    """Bytes that are not a request of the named call, or values that it can never accept."""

    call: str
    what: str

    cause_text = "{call} got a request that it cannot read: {what}."
    remedy_text = "Use a client of the same major version as the server."


@dataclass(kw_only=True, eq=False)
class PeerProtocolViolation(InvalidRequest):
    """A message between nodes that breaks the rules of Raft. It has changed nothing."""

    group: int
    peer: int
    kind: str
    problem: str

    cause_text = "Node {peer} sent {kind} of group {group} that no correct node sends: {problem}."
    remedy_text = (
        "It was dropped. Stop node {peer}, and check its version, disk and memory. If they cannot "
        "be trusted, leave it down and give its place to another: `raftlog cluster replace`."
    )


@dataclass(kw_only=True, eq=False)
class InvalidOption(InvalidRequest):
    """An option's name or value. `problem` continues the sentence, `advice` is one of its own."""

    option: str
    problem: str
    advice: str

    remedy_text = "{advice}"

    @property
    def cause(self) -> str:
        return f"Option {self.option!r} {cut(self.problem, _PROBLEM_SHOWN_MAX)}."


@dataclass(kw_only=True, eq=False)
class Unauthenticated(RaftlogError):
    """A node that authenticates callers does not know this one. `problem` is a clause of its
    own."""

    exit_code = ExitCode.REFUSED
    grpc_status = "UNAUTHENTICATED"

    problem: str

    @property
    def cause(self) -> str:
        return f"The node does not know who calls: {cut(self.problem, _PROBLEM_SHOWN_MAX)}."

    remedy_text = (
        "Say where your token is: {token}. "
        "Who runs the cluster makes one with `raftlog tokens add NAME`."
    )


@dataclass(kw_only=True, eq=False)
class Forbidden(RaftlogError):
    """The caller is known, and was not granted `right` on what `kind` and `name` say (a value of
    `raftlog.auth.rights.Kind` and its name); "": it has no right at all. Nothing was done."""

    exit_code = ExitCode.REFUSED
    grpc_status = "PERMISSION_DENIED"

    principal: str
    right: str
    kind: str
    name: str = ""

    @property
    def cause(self) -> str:
        what = f"{self.kind} {self.name!r}" if self.name else "the whole cluster"
        if not self.right:
            return f"{self.principal!r} does not have any right."
        return f"{self.principal!r} does not have the right {self.right!r} on {what}."

    @property
    def remedy(self) -> str:
        if not self.right:
            return "An admin can grant it some: raftlog acl grant."
        where = [f"--{self.kind}", self.name] if self.name else ["--all"]
        grant = shlex.join(["raftlog", "acl", "grant", self.principal, self.right, *where])
        return f"A caller with the right 'admin' there can grant it: {grant}"


@dataclass(kw_only=True, eq=False)
class ClusterMismatch(InvalidRequest):
    """A checkpoint has offsets of cluster `wanted`, but `servers` are of cluster `found`."""

    wanted: str
    found: str
    servers: str

    cause_text = (
        "This checkpoint is of cluster {wanted}, and the servers {servers} are of cluster {found}."
    )
    remedy_text = (
        "Name the servers of cluster {wanted} in raftlog.bootstrap.servers. To read this cluster "
        "instead, use a new checkpointLocation; failOnDataLoss does not change this."
    )


@dataclass(kw_only=True, eq=False)
class ExtraMissing(InvalidRequest):
    """The verb needs the parts of a server, and this is a client's installation."""

    verb: str
    missing: str
    command: str
    """The line for a shell that adds them to this installation."""

    cause_text = "`raftlog {verb}` needs a server's parts, and this installation lacks {missing}."
    remedy_text = "Install them: {command}"


@dataclass(kw_only=True, eq=False)
class SparkTooOld(InvalidRequest):
    """This PySpark reads topics as batches and writes them, but cannot read one as a stream."""

    found: str
    wanted: str

    cause_text = (
        "PySpark {found} cannot read a topic as a stream: it does not tell a Python source where a "
        "micro-batch starts."
    )
    remedy_text = (
        "Use PySpark {wanted} or later. With {found}, read the topic as a batch (spark.read); "
        "batches and streams can be written."
    )


@dataclass(kw_only=True, eq=False)
class PathUnusable(InvalidRequest):
    """The operating system refused a file or folder that a verb needs."""

    path: str
    problem: str

    cause_text = "{path} cannot be used: {problem}."
    remedy_text = "Name another place (a cluster's folder: --data), or mend this one."


@dataclass(kw_only=True, eq=False)
class OutputUnwritable(RaftlogError):
    """What a verb prints cannot be written. What the verb has done stays done."""

    problem: str

    cause_text = "Standard output cannot be written: {problem}."
    remedy_text = "Send it to a terminal, or to a file on a disk that has room."


@dataclass(kw_only=True, eq=False)
class InvalidTopicName(InvalidRequest):
    """The name has characters, or a length, that no topic can have."""

    topic: str

    @property
    def cause(self) -> str:
        return f"{cut(self.topic, _NAME_SHOWN_MAX)!r} is not a valid topic name."

    remedy_text = "Use 1 to 249 of A-Z a-z 0-9 . _ - without a leading dot."


@dataclass(kw_only=True, eq=False)
class SchemaMismatch(InvalidRequest):
    """`difference` lists the fields that differ, one per line. `advice` is that of a write if it is
    empty. `rows` has the number of the first row that does not fit, from 0, if it is about one."""

    topic: str
    difference: str
    advice: str = ""
    rows = tuple[int, ...]()  # no value: only the client that has the rows sets it

    @property
    def cause(self) -> str:
        row = f", in row {self.rows[0]}, counted from 0" if self.rows else ""
        return f"The schema does not fit topic {self.topic!r}:\n{self.difference}{row}\n"

    @property
    def remedy(self) -> str:
        write = (
            "Give rows of the topic's schema (`raftlog topic describe`); select and cast the "
            "columns of a table or DataFrame."
        )
        return self.advice or write


@dataclass(kw_only=True, eq=False)
class TooLarge(InvalidRequest):
    """`what` has `size` bytes, more than `limit`, which the setting `option` raises. `rows` has the
    numbers of the rows that a producer left out, as `what` counts them."""

    what: str
    size: int
    limit: int
    option: str
    rows = tuple[int, ...]()  # no value: only the client that has the rows sets it

    cause_text = "{what} has {size} bytes; the limit is {limit}."
    remedy_text = "Split it, or raise {option}."


@dataclass(kw_only=True, eq=False)
class TooMany(InvalidRequest):
    """A count over a fixed bound. It is not a setting, because what is applied, or both ends of a
    call, depend on it."""

    what: str
    limit: int
    unit: str

    cause_text = "{what} would have more than {limit} {unit}."
    remedy_text = "Use fewer; this bound is the same in every cluster."


@dataclass(kw_only=True, eq=False)
class ClientClosed(InvalidRequest):
    """The client was closed. The call was not sent."""

    cause_text = "This client was closed."
    remedy_text = "Make another with `raftlog.connect`, and close it after its last call."


@dataclass(kw_only=True, eq=False)
class ProducerClosed(InvalidRequest):
    """The producer takes no more rows. Nothing of this call was accepted."""

    topic: str
    problem: str = "it was closed"

    cause_text = "This producer of topic {topic!r} takes no more rows: {problem}."
    remedy_text = "Make a new one. Rows that were not flushed may be in the log: check its end."


class NotFound(RaftlogError):
    """What the request names is not there."""

    exit_code = ExitCode.NOT_FOUND
    grpc_status = "NOT_FOUND"


@dataclass(kw_only=True, eq=False)
class TopicNotFound(NotFound):
    """`nearest` holds the closest known names, comma-separated, or is empty. `right` is what the
    caller needs for what it does with the topic, or is empty: to read it."""

    topic: str
    nearest: str = ""
    right: str = ""

    @property
    def cause(self) -> str:
        hint = f" Did you mean {self.nearest}?" if self.nearest else ""
        return f"There is no topic {self.topic!r}.{hint}"

    @property
    def remedy(self) -> str:
        topics = "`raftlog topic list`"
        create = f"raftlog topic create {shlex.quote(self.topic)} --schema '...'"
        if self.surface is Surface.PYTHON:
            topics, create = "client.list_topics()", f"client.create_topic({self.topic!r}, schema)"
        look = (
            f"See {topics}, or name the servers of the cluster that has it: "
            f"{OPTIONS[self.surface]['bootstrap_servers']}."
        )
        match self.right:
            case "delete":
                return f"There is nothing to remove. {look}"
            case "alter" | "admin":
                return f"There is nothing to change. {look}"
            case "" if self.surface is Surface.SPARK:
                return (
                    f"{look} If the topic was deleted, take it out of subscribe. If it is new, "
                    f"create it first: {create}"
                )
            case _:
                return f"{look} If the topic is new, create it first: {create}"


@dataclass(kw_only=True, eq=False)
class ReaderGroupNotFound(NotFound):
    """No reader group of this name has a position in any topic."""

    group: str

    cause_text = "There is no reader group {group!r}: it has no position in any topic."
    remedy_text = "See `raftlog lag`, which lists all groups."


@dataclass(kw_only=True, eq=False)
class WriterNotFound(NotFound):
    """The topic never knew the writer, or has forgotten it."""

    topic: str
    writer: str

    cause_text = "Topic {topic!r} remembers no writer {writer!r}."

    @property
    def remedy(self) -> str:
        return f"See `raftlog writers list {shlex.quote(self.topic)}`."


class AlreadyExists(RaftlogError):
    """What is to be created is there already."""

    exit_code = ExitCode.ALREADY_EXISTS
    grpc_status = "ALREADY_EXISTS"


@dataclass(kw_only=True, eq=False)
class TopicExists(AlreadyExists):
    """Another topic has the name, with its own schema and records."""

    topic: str

    cause_text = "Topic {topic!r} exists."
    remedy_text = (
        "Write to it, choose another name, or accept it as it is: if_not_exists=True in Python, "
        "--if-not-exists on the command line."
    )

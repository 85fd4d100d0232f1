"""Errors of a cluster that cannot answer now: the same request may succeed later."""

from __future__ import annotations

import errno
import shlex
from dataclasses import dataclass

from raftlog.errors.exit_code import ExitCode
from raftlog.errors.raftlog_error import RaftlogError


class Unavailable(RaftlogError):
    """No node can answer now; the same request may succeed later."""

    retriable = True
    exit_code = ExitCode.UNAVAILABLE
    grpc_status = "UNAVAILABLE"


@dataclass(kw_only=True, eq=False)
class NotLeader(Unavailable):
    """The asked node does not lead `group`. `leader` and `address` are a hint (0, "": none)."""

    group: int
    node: int = 0
    """The node that was asked; 0: not known."""
    what: str = ""
    """What the group holds, in words: a topic by its name; "": not known."""
    leader: int = 0
    address: str = ""

    @property
    def cause(self) -> str:
        node = f"Node {self.node}" if self.node else "The asked node"
        group = f"{self.what} (group {self.group})" if self.what else f"group {self.group}"
        return f"{node} does not lead {group}."

    @property
    def remedy(self) -> str:
        if self.leader:
            return f"Ask node {self.leader} at {self.address}."
        return "No leader is known: an election may be in progress; try again shortly."


@dataclass(kw_only=True, eq=False)
class NodeUnreachable(Unavailable):
    """No answer from `address`, which may be several, separated by ", ". What was asked may still
    have been done."""

    address: str
    problem: str

    @property
    def cause(self) -> str:
        nodes = "None of the nodes at" if ", " in self.address else "The node at"
        verb = "answers" if ", " in self.address else "gave no answer"
        return f"{nodes} {self.address} {verb}: {self.problem}."

    remedy_text = "Start the cluster (`raftlog up`) or name its nodes: {bootstrap_servers}."


@dataclass(kw_only=True, eq=False)
class IdentityProviderUnavailable(Unavailable):
    """A node has no keys to prove access tokens with, because the provider of the issuer with this
    alias gave it none."""

    issuer: str

    cause_text = "The node could not fetch the keys of issuer {issuer!r} for access tokens."
    remedy_text = (
        "Check auth.oidc_jwks, and that the node reaches it: its log says what went wrong. Tokens "
        "of auth.tokens_file and certificates count meanwhile."
    )


@dataclass(kw_only=True, eq=False)
class AuditUnavailable(Unavailable):
    """An operation could not be written to the node's audit log, which `audit.required` asks for.
    Nothing was done."""

    problem: str

    cause_text = "The operation could not be written to the node's audit log: {problem}."
    remedy_text = (
        "Make room on the disk of audit.file, or let its node write it; without audit.required the "
        "operation is done all the same."
    )


@dataclass(kw_only=True, eq=False)
class MemberUnknown(Unavailable):
    """A certificate names a node that is no member, as far as the asked node knows: it may lag
    behind the controller."""

    node: int

    cause_text = "Node {node} is not a member of the cluster, as far as this node knows."
    remedy_text = (
        "It is tried again: a node that has just started learns of the others from the controller. "
        "If node {node} was never added: `raftlog cluster add`."
    )


@dataclass(kw_only=True, eq=False)
class RegisteredJustNow(Unavailable):
    """The node has registered less than `seconds` ago. Nothing was done."""

    node: int
    seconds: str

    cause_text = "Node {node} has registered less than {seconds} s ago."
    remedy_text = (
        "A starting node tries again. If the error stays, another process keeps registering with "
        "the node's certificate: see RegisterNode in the audit log."
    )


@dataclass(kw_only=True, eq=False)
class RightsUnknown(Unavailable):
    """A node does not know who may do what: since it started, or for longer than it may go on with
    what it knew, it has not reached those who do."""

    problem: str

    cause_text = "The node does not know what callers may do: {problem}."
    remedy_text = (
        "Start the nodes that hold the key-value store's group (`raftlog cluster status`): its "
        "leader has the grants. A node keeps using those it knows for auth.rights_age_max_s; "
        "principals of auth.admins are served meanwhile."
    )


@dataclass(kw_only=True, eq=False)
class TokenReplaced(Unavailable):
    """A node refused the token that a call showed, and where it came from is another one now."""

    problem: str

    cause_text = "The node refused a token that has been replaced meanwhile: {problem}."
    remedy_text = "The call is sent again with the new one, by itself."


@dataclass(kw_only=True, eq=False)
class ZooKeeperUnavailable(Unavailable):
    """ZooKeeper named no node of the cluster, and none is known from elsewhere."""

    ensemble: str
    """Hosts and path."""
    problem: str

    cause_text = "ZooKeeper at {ensemble} named no node of a cluster: {problem}."
    remedy_text = "Check {zookeeper}, or name nodes instead: {bootstrap_servers}."


@dataclass(kw_only=True, eq=False)
class NodeStopping(Unavailable):
    """The node was told to stop and takes no more calls."""

    cause_text = "This node is stopping."
    remedy_text = "Another node answers; the client asks there."


@dataclass(kw_only=True, eq=False)
class NoQuorum(Unavailable):
    """A majority did not confirm the write or read. A write may still become visible."""

    what: str

    cause_text = "No majority of voters confirmed {what}."
    remedy_text = "See `raftlog status`: a majority of the nodes must run and reach one another."


@dataclass(kw_only=True, eq=False)
class ChangeUnderWay(Unavailable):
    """The members of `group` cannot be changed before entry `index` is committed."""

    group: int
    index: int

    cause_text = (
        "The members of group {group} are being changed, or its leader has just begun: entry "
        "{index} is not committed everywhere yet."
    )
    remedy_text = "One change at a time: try again when it is done."


@dataclass(kw_only=True, eq=False)
class TransferUnderWay(Unavailable):
    """The leader of `group` hands its role to node `to`, and writes nothing meanwhile."""

    group: int
    to: int

    cause_text = "The leader of group {group} is handing its role to node {to}."
    remedy_text = "Try again shortly: it takes an election timeout at most."


@dataclass(kw_only=True, eq=False)
class MemberBehind(Unavailable):
    """`node` cannot vote in `group` before it is a learner that has the log."""

    group: int
    node: int

    cause_text = "Node {node} is no learner of group {group} that has got its log."
    remedy_text = "Add it as a learner first, and try again when it has the log."


@dataclass(kw_only=True, eq=False)
class NotYet(Unavailable):
    """This replica has applied the topic only up to `have`, below the mark `need`."""

    topic: str
    have: int
    need: int

    cause_text = "This replica of {topic!r} has applied up to offset {have} of {need}."
    remedy_text = "Another replica may have it; the client asks there."


@dataclass(kw_only=True, eq=False)
class ReplicaDiverged(Unavailable):
    """The state of this replica, on `node`, or its history, is not what a majority has."""

    topic: str
    node: int
    what: str
    """What differs."""

    cause_text = (
        "The {what} of topic {topic!r} on node {node} differs from that of the other replicas."
    )
    remedy_text = (
        "Another replica serves reads; the client asks there. Node {node} replaces what differs by "
        "another replica's, at most twice a day. Restart node {node} if its state goes on "
        'differing: it replays its log. Please report it; see `raftlog docs OPERATIONS`, "differ".'
    )

    def __post_init__(self) -> None:
        self.what = self.what or "state"


@dataclass(kw_only=True, eq=False)
class ReplicaQuarantined(Unavailable):
    """The files of this replica, on `node`, are damaged at byte `position` of `file`."""

    topic: str
    node: int
    file: str
    position: int
    problem: str

    cause_text = (
        "The replica of topic {topic!r} on node {node} is quarantined: {file} is damaged at byte "
        "{position}: {problem}."
    )
    remedy_text = (
        "While a majority of its replicas is whole, another one serves the topic; the client asks "
        "there. Its files on node {node} are as they were. See `raftlog docs OPERATIONS`, "
        '"damaged", before you touch them.'
    )


@dataclass(kw_only=True, eq=False)
class StateDisputed(Unavailable):
    """The replicas' states differ and none has a majority. Records below `agreed` are served."""

    topic: str
    agreed: int

    cause_text = (
        "The replicas of topic {topic!r} have different states, and no state has a majority: "
        "records from offset {agreed} on are not served."
    )
    remedy_text = (
        "Start all nodes, then restart them one after another: each replays its log. Please report "
        "it if the states still differ."
    )


@dataclass(kw_only=True, eq=False)
class HistoryDisputed(Unavailable):
    """The replicas have different records in history and none has a majority. Records outside of
    [start, end) are served."""

    topic: str
    start: int
    end: int

    cause_text = (
        "The replicas of topic {topic!r} have different records in history, and no majority has "
        "the same: records [{start}, {end}) are not served."
    )
    remedy_text = (
        "Start all nodes: the majority is right. Please report it if it lasts, and keep the data "
        'folders of all nodes; see `raftlog docs OPERATIONS`, "differ".'
    )


@dataclass(kw_only=True, eq=False)
class Overloaded(Unavailable):
    """A bounded queue is full; nothing was accepted. `queue` is the setting, `holder` what holds
    more, if that is not clear from it."""

    queue: str
    limit: int
    holder: str = ""

    @property
    def cause(self) -> str:
        if self.holder:
            return f"{self.holder} ({self.queue}: {self.limit})."
        return f"The queue {self.queue} holds its limit of {self.limit}."

    @property
    def remedy(self) -> str:
        if self.holder:
            return f'Wait. If it stays so, see `raftlog docs OPERATIONS`, "{self.queue}".'
        return f"Send less at once, or raise {self.queue} (`raftlog docs conf/raftlog.toml`)."


@dataclass(kw_only=True, eq=False)
class QuotaExceeded(Unavailable):
    """`principal` uses more of a node than its quota allows: `quota` is a value of
    `raftlog.auth.quotas.Limit`, `limit` what it may use, and `seconds` how long it has to wait, if
    that is known. Nothing was done."""

    grpc_status = "RESOURCE_EXHAUSTED"

    principal: str
    quota: str
    limit: int
    seconds: str = ""

    @property
    def cause(self) -> str:
        when = f"; try again in {self.seconds} s" if self.seconds else ""
        return (
            f"{self.principal!r} exceeds its quota of this node, {self.quota}: {self.limit}{when}."
        )

    @property
    def remedy(self) -> str:
        words = [self.principal, f"--{self.quota.replace('_', '-')}", "NUMBER"]
        return f"Use less at once. An admin can raise it: raftlog quota set {shlex.join(words)}"


@dataclass(kw_only=True, eq=False)
class ResourceShortage(Unavailable):
    """What `file` needs is used up. Nothing of it counts; the same may be done later."""

    file: str
    node: str = "this node"
    grpc_status = "RESOURCE_EXHAUSTED"


@dataclass(kw_only=True, eq=False)
class DiskFull(ResourceShortage):
    """There is no room for a write to `file`. Nothing of it counts; it may be written later."""

    cause_text = "The disk of {node} is full: there is no room for {file}."
    remedy_text = (
        "Make room on that disk or delete topics. A running node then continues, and "
        "serves reads meanwhile. Start a node again that failed to start."
    )


@dataclass(kw_only=True, eq=False)
class LimitReached(ResourceShortage):
    """A process or its machine has reached a `limit`: open files, memory, threads or processes.
    Nothing of what it was to do counts; it may be done later."""

    limit: str

    cause_text = "{file} failed: {node} has no more {limit}."

    @property
    def remedy(self) -> str:
        option = _REMEDIES.get(self.limit, "Raise that limit.")
        return f"{option} A running node tries again."


_OPEN_FILES, _MEMORY, _PROCESSES = "open files", "memory", "threads or processes"

_REMEDIES = {
    _OPEN_FILES: (
        "Raise LimitNOFILE of its unit (ulimit -n), or fs.file-max of the machine, or lower "
        "server.connections_max."
    ),
    _MEMORY: "Give the machine more memory (MemoryMax of its unit), or run less beside the node.",
    _PROCESSES: "Raise TasksMax of its unit (ulimit -u), or run less beside the node.",
}
"""What a node may have no more of, and which option gives it more."""

_LIMIT_OF = {
    errno.EMFILE: _OPEN_FILES,
    errno.ENFILE: _OPEN_FILES,
    errno.ENOMEM: _MEMORY,
    errno.EAGAIN: _PROCESSES,
}


def shortage_of(error: BaseException, what: str) -> ResourceShortage | None:
    """The error to report if `what` failed with `error` because the process or its machine has
    reached a limit; None: it failed for another reason."""
    if isinstance(error, ResourceShortage):
        return error
    limit = None
    if isinstance(error, MemoryError):
        limit = _MEMORY
    elif isinstance(error, OSError):
        limit = _LIMIT_OF.get(error.errno or 0)
    elif isinstance(error, RuntimeError) and "start new thread" in str(error):
        limit = _PROCESSES
    return LimitReached(file=what, limit=limit) if limit is not None else None


@dataclass(kw_only=True, eq=False)
class DeadlineExceeded(Unavailable):
    """The request's one total deadline passed. `last` is the last answer, if there was any."""

    what: str
    seconds: str
    last: str = ""
    exit_code = ExitCode.UNAVAILABLE
    grpc_status = "DEADLINE_EXCEEDED"

    @property
    def cause(self) -> str:
        because = f" The last answer was: {self.last}" if self.last else ""
        return f"{self.what} was not done within {self.seconds} s.{because}"

    remedy_text = "See `raftlog status`; a slow cluster needs a higher {request_timeout_s}."


@dataclass(kw_only=True, eq=False)
class NodesNotReady(Unavailable):
    """The `nodes` that `raftlog up` started, each with the reason why it is not ready, and their
    `logs`."""

    seconds: str
    nodes: str
    logs: str
    exit_code = ExitCode.UNAVAILABLE
    grpc_status = "DEADLINE_EXCEEDED"

    cause_text = "Not all nodes were ready within {seconds} s. Missing: {nodes}."
    remedy_text = (
        "Their logs say what they do: {logs}. Nodes that replay long logs need a higher "
        "up.ready_timeout_s."
    )


@dataclass(kw_only=True, eq=False)
class ChangeUnfinished(DeadlineExceeded):
    """A change of nodes or placements took longer than its caller waits. It goes on."""

    remedy_text = (
        "Give the same command again, with a longer --timeout-s if need be: it goes on from what "
        "there is, which `raftlog cluster status` shows."
    )

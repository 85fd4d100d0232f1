"""Records that must exist and do not: a branch of the tree in `raftlog.errors`."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.errors.exit_code import ExitCode
from raftlog.errors.raftlog_error import OPTIONS, RaftlogError, Surface


@dataclass(kw_only=True, eq=False)
class TopicRecreated(RaftlogError):
    """The incarnation that the request names is gone. Its offsets mean nothing any more."""

    topic: str
    wanted: str
    found: str = ""
    group: str = ""
    """The reader group whose position is in `wanted`, if it is one's."""
    exit_code = ExitCode.DATA_LOSS
    grpc_status = "FAILED_PRECONDITION"

    @property
    def cause(self) -> str:
        now = f"; it is now {self.found}" if self.found else ""
        return f"Topic {self.topic!r}, incarnation {self.wanted}, was deleted{now}."

    @property
    def remedy(self) -> str:
        check = (
            "Check first that the servers are still those of the same cluster "
            f"({OPTIONS[self.surface]['bootstrap_servers']}). If the topic was meant to go: "
        )
        if self.group:
            return (
                f"{check}move group {self.group!r} to the start of the new one (`raftlog groups "
                f"reset`, or client.positions.publish({self.group!r}, {self.topic!r}, 0)), and "
                "follow again."
            )
        match self.surface:
            case Surface.PYTHON:
                return f"{check}describe it again, and make its producers and readers again."
            case Surface.COMMAND_LINE:
                return f"{check}run the command again."
        return (
            f"{check}a stream that reads it takes a new checkpointLocation, or "
            "failOnDataLoss=false; a stream that writes it takes a new checkpointLocation, or "
            "createTopic=always."
        )


@dataclass(kw_only=True, eq=False)
class OffsetTrimmed(RaftlogError):
    """`requested` is below `earliest`; the topic holds [earliest, end)."""

    topic: str
    requested: int
    earliest: int
    end: int
    group: str = ""
    """The reader group whose position is `requested`, if it is one's."""
    exit_code = ExitCode.DATA_LOSS
    grpc_status = "OUT_OF_RANGE"

    @property
    def cause(self) -> str:
        held = f"the log holds [{self.earliest}, {self.end})"
        if self.earliest == self.end:
            held = f"the log begins at offset {self.end}, and holds no records from there on"
        return f"Offset {self.requested} of topic {self.topic!r} is trimmed: {held}."

    @property
    def remedy(self) -> str:
        if self.group:
            return (
                f"Group {self.group!r} never processed what is gone. To go on without it, move the "
                f"group (`raftlog groups reset`, or client.positions.publish({self.group!r}, "
                f"{self.topic!r}, {self.earliest})), and follow again."
            )
        match self.surface:
            case Surface.PYTHON:
                return f"Read from offset {self.earliest} on (start)."
            case Surface.COMMAND_LINE:
                return f"Read from offset {self.earliest} on (--start earliest)."
        return (
            f"Read a batch again, from offset {self.earliest} on (startingOffsets). A stream that "
            "has begun skips what is gone with failOnDataLoss=false."
        )


@dataclass(kw_only=True, eq=False)
class DataLoss(RaftlogError):
    what: str
    advice: str = "Do not write before you know why; see `raftlog docs OPERATIONS`, Data loss."
    exit_code = ExitCode.DATA_LOSS
    grpc_status = "DATA_LOSS"

    cause_text = "{what}"
    remedy_text = "{advice}"


@dataclass(kw_only=True, eq=False)
class CorruptFile(DataLoss):
    """Bytes that are not what was written. They are never taken for the end of the log.

    `advice` is set where it is known that no other node has them whole.
    """

    what: str = ""
    advice: str = ""
    file: str
    position: int
    problem: str

    cause_text = "{file} is damaged at byte {position}: {problem}."

    @property
    def remedy(self) -> str:
        return self.advice or (
            "Nothing was changed; what other nodes have whole is read from them. See "
            '`raftlog docs OPERATIONS`, "damaged", before you touch the file.'
        )


@dataclass(kw_only=True, eq=False)
class AcknowledgedEntriesLost(DataLoss):
    """Node `peer`, which leads, says that entry `committed`, which this node acknowledged, is
    committed; the log here ends at `last`, and lacks that entry. This node gives no vote in the
    group until its log is as up to date again: its vote could elect a leader without that entry. No
    caller gets this: the node logs it."""

    what: str = ""
    group: int
    peer: int
    last: int
    committed: int

    cause_text = (
        "This node's log of group {group} ends at entry {last}, and lacks entry {committed}. Node "
        "{peer} says that it is committed, and that this node had acknowledged it. The data folder "
        "is an older copy, its disk lost what it had reported as synced, or node {peer} lies."
    )
    remedy_text = (
        "If the folder is an older copy, stop this node; the others continue. Put back only the "
        "folder with which it last ran, or give its place to another: `raftlog cluster replace`. "
        "If it is not, stop node {peer}, then restart this one."
    )

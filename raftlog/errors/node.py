"""Why a process must not serve as a node: a branch of the tree in `raftlog.errors`.

NodeRefused                 this process must not serve
|-- DataFolderLocked
|-- DataFolderForeign       of another cluster or node
|-- StoreMissing            an empty folder, where a node's data should be
|-- StoreUnfinished         a store that is part of no cluster yet
|-- FormatUnsupported       a file, folder or node of another format
|-- LogFromNewerVersion     an entry that this program cannot apply
|-- AddressInUse
|-- IdentityRefused         the node's folder was wiped or exchanged
|-- StoreCopied             another process has a copy of the node's folder
|-- NodeRemoved             the node is none of the cluster's any more
|-- PeerUnproven            its certificate does not name it
`-- DiskFailed              a write or sync failed: the process exits
"""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.errors.exit_code import ExitCode
from raftlog.errors.raftlog_error import RaftlogError

_SHOWN_MAX = 64
"""Characters of a format that an error shows."""


class NodeRefused(RaftlogError):
    exit_code = ExitCode.NODE_REFUSED
    grpc_status = "FAILED_PRECONDITION"


@dataclass(kw_only=True, eq=False)
class DataFolderLocked(NodeRefused):
    """Process `holder` (empty if not known) runs on the data folder."""

    folder: str
    holder: str = ""

    @property
    def cause(self) -> str:
        by = f" by process {self.holder}" if self.holder else ""
        return f"The data folder {self.folder} is in use{by}."

    remedy_text = "Stop that process (`raftlog down`), or give another --data."


@dataclass(kw_only=True, eq=False)
class DataFolderForeign(NodeRefused):
    """A folder, or a peer's, that belongs to another cluster or node."""

    folder: str
    found: str
    wanted: str

    cause_text = "The data folder {folder} belongs to {found}, not to {wanted}."
    remedy_text = (
        "Give the --data folder of this node; nothing in it was changed. If it is the right one "
        "and has lost its identity, bring that back from a copy, or replace the node: `raftlog "
        "cluster replace`."
    )


@dataclass(kw_only=True, eq=False)
class StoreMissing(NodeRefused):
    """A node's data folder is empty or not there. An empty one never takes its place: it has
    forgotten its votes, and could found a second cluster."""

    folder: str
    node: int

    cause_text = "There is no store of node {node} in {folder}."
    remedy_text = (
        "If it was there before, put back the folder with which the node last ran, never an older "
        "copy, or give its place to a node with a new id: `raftlog cluster replace {node} --with "
        "ID --address HOST:PORT`. A new cluster's stores are made by `raftlog up` or `raftlog "
        "init`, and that of a node which was added to a cluster by `raftlog serve --join`."
    )


@dataclass(kw_only=True, eq=False)
class StoreUnfinished(NodeRefused):
    """A node's store was made, and never became part of a cluster."""

    folder: str
    node: int

    cause_text = "The store of node {node} in {folder} is part of no cluster yet."
    remedy_text = (
        "Give the command that made it again: `raftlog init` with --with for each founder (or with "
        "`discovery.zookeeper`), `raftlog up`, or `raftlog serve --join`."
    )


@dataclass(kw_only=True, eq=False)
class FormatUnsupported(NodeRefused):
    """A file, a data folder or a node of another format than this program's."""

    folder: str
    found: str
    supported: str

    cause_text = "{folder} has format {found}; this program has format {supported}."
    remedy_text = (
        "Run the program of that format. To change to this one, start all nodes with it and with "
        "new data folders, and copy the topics over (`raftlog tail -o json`, `raftlog produce`). "
        "Nothing was changed."
    )

    @classmethod
    def check(cls, folder: str, found: object, supported: str) -> None:
        """Raise unless `found`, a value from outside, is the format `supported`."""
        if found != supported:
            shown = str(found) if isinstance(found, str | int) else ""
            raise cls(folder=folder, found=shown[:_SHOWN_MAX] or "unknown", supported=supported)


@dataclass(kw_only=True, eq=False)
class LogFromNewerVersion(NodeRefused):
    """Entry `index` cannot be applied by this program. 0 means the group's creation.

    Nothing after it was applied, because this replica would then differ from the others.
    """

    group: int
    index: int
    found: str

    cause_text = "Entry {index} of group {group} comes from a newer version: {found}."
    remedy_text = (
        "Install a version on this node that knows it; an upgrade cannot be undone after all nodes "
        "took it. Nothing was changed."
    )


@dataclass(kw_only=True, eq=False)
class AddressInUse(NodeRefused):
    """`option` is where another address can be given."""

    address: str
    option: str = "[nodes] in cluster.toml of each node's --data"

    cause_text = "The address {address} is in use."
    remedy_text = "Stop what listens there, or choose another one: {option}."


@dataclass(kw_only=True, eq=False)
class IdentityRefused(NodeRefused):
    """The cluster knows this node id with another store_uuid: its folder was wiped or exchanged."""

    node: int
    store_uuid: str
    known_store_uuid: str

    cause_text = (
        "Node {node} is known with store {known_store_uuid}; this folder is store {store_uuid}."
    )
    remedy_text = (
        "Restore the node's own folder: a wiped one has forgotten its votes and must not return "
        "under its old id. If it is lost, give its place to a node with a new id: "
        "`raftlog cluster replace {node} --with ID --address HOST:PORT`."
    )


@dataclass(kw_only=True, eq=False)
class StoreCopied(NodeRefused):
    """Another process of the node runs, or ran later, with another copy of this one's folder. Each
    process has its own boot_id, which its folder keeps."""

    node: int
    boot_id: str
    known_boot_id: str

    cause_text = (
        "Process {boot_id} of node {node} has a copy of its data folder, with which another one, "
        "{known_boot_id}, runs or ran later."
    )
    remedy_text = (
        "Keep the copy whose process runs, or ran last, and remove the other: it may lack what was "
        "acknowledged since. If only the other is left, give the node's place to a node with a new "
        "id: "
        "`raftlog cluster replace {node} --with ID --address HOST:PORT`."
    )


@dataclass(kw_only=True, eq=False)
class PeerUnproven(NodeRefused):
    """A node says that it is `node`; `shown` are the DNS names of its certificate, comma-separated.

    It keeps serving the peers that it reaches otherwise, and tries again.
    """

    grpc_status = "UNAUTHENTICATED"

    node: int
    wanted: str
    shown: str

    @property
    def cause(self) -> str:
        shown = f"names {self.shown}" if self.shown else "names no node, or there is none"
        return f"Node {self.node} must show a certificate for {self.wanted}; its own {shown}."

    remedy_text = (
        "Give the node its own certificate (tls.cert_file, `raftlog certs`), and all nodes the "
        "same tls.peer_port_offset: nodes reach one another at that port only."
    )


@dataclass(kw_only=True, eq=False)
class NodeRemoved(NodeRefused):
    """A node id is never used again: another folder would not know what was promised under it."""

    node: int

    cause_text = "Node {node} was removed from the cluster."
    remedy_text = (
        "Its folder may be deleted. To bring the machine back, use an empty folder and an id that "
        "no node ever had: `raftlog cluster add`."
    )


@dataclass(kw_only=True, eq=False)
class DiskFailed(NodeRefused):
    """A write or sync failed. It is never tried again: the process exits."""

    file: str
    problem: str

    cause_text = "Writing {file} failed: {problem}."
    remedy_text = "Mend the disk or make room, then start the node again; it catches up by itself."

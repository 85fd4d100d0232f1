"""The folder of a cluster that `raftlog up` made: what it records, and which nodes run from it.

    DIR/cluster.toml             cluster id and nodes' addresses; written last, see below
    DIR/.cluster.toml.lock       locked by the process that writes cluster.toml
    DIR/up.pid                   the pid of the `raftlog up` that runs here, locked by it likewise
    DIR/node-2/                  node 2's data, and nothing else
    DIR/node-2.pid               the pid of node 2's process, locked by it while it lives
    DIR/log/node-2.log           node 2's output, if `up` started it; may be deleted
    DIR/tls/                     certificates of nodes and clients, made by `raftlog certs`

A process holds a write lock (fcntl) on its pid file from start to end, and the kernel releases the
lock when the process ends. The kernel says who holds it, and only a process that may write the file
can: so nothing but a node is taken for one, whatever the file says. A process must not open its own
pid file again: to close it would release the lock.

The folder says what runs with the caller's rights. So it must be the caller's own, or root's.

The nodes' stores are made before cluster.toml is written (`raftlog.cli.stores`). Until then no node
has run from them, and what made them may be ended and given again. After that a store that is not
there is lost: nothing takes its place.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import pwd
import reprlib
import shlex
import stat
import struct
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from raftlog.changing_files import lock_file, only_writer
from raftlog.config import ClientSettings, Settings
from raftlog.config_hosts import PORT_MAX
from raftlog.config_tls import TlsSettings
from raftlog.core.types import FORMAT_STAMP
from raftlog.errors import (
    DataFolderForeign,
    DataFolderLocked,
    DiskFailed,
    FormatUnsupported,
    InvalidOption,
)
from raftlog.machines.limits import NODE_MAX

LOOK_INTERVAL_S = 0.05
KILLED_PATIENCE_S = 1.0
"""How much longer a killed process may keep its lock on a busy machine: the kernel releases locks
when the last of the process's threads has ended."""
CLUSTER_FILE = "cluster.toml"
_DRAFT_FILE = "cluster.draft"
_UP_FILE = "up.pid"
_TLS_FOLDER = "tls"
_LOG_FOLDER = "log"
_FOLDERS = (_TLS_FOLDER, _LOG_FOLDER, "node-*")
"""Patterns of what is in the folder; the last one has the nodes' pid files as well."""
_ROOT = 0
_LOCK = struct.Struct("hhqqi0q")
"""The kernel's `struct flock`: type, whence, start, length, pid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFolder:
    """The content of DIR/cluster.toml, and the paths of each node's files."""

    folder: Path
    cluster_id: str
    addresses: dict[int, str]
    removed: tuple[int, ...] = ()
    """The nodes that ran from this folder until they were removed from the cluster."""

    def data(self, node: int) -> Path:
        """The node's data folder."""
        return self.folder / f"node-{node}"

    def log_file(self, node: int) -> Path:
        """The output of a node that `up` started."""
        return self.folder / _LOG_FOLDER / f"node-{node}.log"

    def pid_file(self, node: int) -> Path:
        """The file that the node's process keeps locked."""
        return self.folder / f"node-{node}.pid"

    @property
    def tls(self) -> Path:
        """Where `raftlog certs` puts certificates."""
        return self.folder / _TLS_FOLDER

    @property
    def ca_file(self) -> Path:
        """What a client trusts that is to believe these certificates."""
        return self.tls / "ca.pem"

    def with_certificates(self, settings: Settings) -> Settings:
        """The settings, with the folder's certificates if it has some and the settings name no
        others."""
        if not self.ca_file.exists():
            return settings
        update: dict[str, TlsSettings | ClientSettings] = {}
        if not settings.tls.cert_file:
            own, key = self.tls / "node-{node}.pem", self.tls / "node-{node}.key"
            update["tls"] = settings.tls.with_arguments(
                cert_file=str(own), key_file=str(key), ca_file=str(self.ca_file)
            )
        if not settings.client.tls_ca_file:
            update["client"] = settings.client.with_arguments(
                tls_ca_file=str(self.ca_file),
                tls_cert_file=str(self.tls / "client.pem"),
                tls_key_file=str(self.tls / "client.key"),
            )
        return settings.model_copy(update=update)

    def running(self) -> dict[int, int]:
        """The pid of each node that runs from this folder now."""
        pids = {node: running_pid(self.pid_file(node)) for node in self.addresses}
        return {node: pid for node, pid in pids.items() if pid is not None}


def new_cluster(folder: Path, *, addresses: dict[int, str]) -> ClusterFolder:
    """A new cluster without an id, to be written by `record`. Raises `DataFolderForeign` for a
    folder in use.

    A start that was killed before it recorded its cluster may have left files, which are ours.
    """
    _refuse_foreign(folder)
    new = ClusterFolder(folder=folder, cluster_id="", addresses=addresses)
    own = (_DRAFT_FILE, _UP_FILE, _TLS_FOLDER, lock_file(Path(CLUSTER_FILE)).name)
    ours = {*own, *(new.data(node).name for node in addresses)}
    if folder.exists() and any(each.name not in ours for each in folder.iterdir()):
        raise DataFolderForeign(
            folder=str(folder),
            found=_described(folder),
            wanted="a raftlog cluster",
        )
    return new


def record(cluster: ClusterFolder) -> None:
    """Write the cluster's file, durably; its folder is made if it is not there."""
    cluster.folder.mkdir(parents=True, exist_ok=True)
    with only_writer(cluster.folder / CLUSTER_FILE):
        _record(cluster)


def _record(cluster: ClusterFolder) -> None:
    lines = [
        "# The nodes of a raftlog cluster. raftlog writes this file, and its nodes check it.",
        f"format = {json.dumps(FORMAT_STAMP)}",
        f"cluster_id = {json.dumps(cluster.cluster_id)}",
        f"removed = {json.dumps(cluster.removed)}",
        "",
        "[nodes]",
        *(f"{node} = {json.dumps(address)}" for node, address in cluster.addresses.items()),
    ]
    _write_durably(cluster.folder / CLUSTER_FILE, "\n".join(lines) + "\n")


def _stores_in(folder: Path) -> list[str]:
    """The names of the nodes' folders there."""
    return sorted(each.parent.name for each in folder.glob("node-*/identity"))


def _described(folder: Path) -> str:
    """What a folder without a cluster holds."""
    if stores := _stores_in(folder):
        return f"a cluster that is not founded yet (it holds {', '.join(stores)})"
    return f"something else (it holds files but no {CLUSTER_FILE})"


def _no_cluster(folder: Path) -> InvalidOption:
    if stores := _stores_in(folder):
        return InvalidOption(
            option="--data",
            problem=f"names {folder}, which holds {', '.join(stores)} of a cluster that is not "
            "founded yet",
            advice="Run `raftlog init --with LINE --with LINE ...` with the line of every founder, "
            "or, where ZooKeeper has them, `raftlog init` again.",
        )
    return InvalidOption(
        option="--data",
        problem=f"names {folder}, which is not a cluster's folder: it has no {CLUSTER_FILE}",
        advice="Give the right folder. If a node ran from this one, it was lost: run neither `up` "
        "nor `init`, but `raftlog cluster replace N --with ID --address HOST:PORT` at another "
        "node. A new cluster is made by `raftlog up --data "
        f"{shlex.quote(str(folder))}` or, on several machines, "
        "`raftlog init`; a node that was added to a cluster starts with `raftlog serve --join`.",
    )


def forget(folder: Path, node: int) -> None:
    """Take a node that was removed from the cluster out of the folder's file, durably: `up` does
    not start it again. Its data stays."""
    with only_writer(folder / CLUSTER_FILE):  # two nodes of it may end at once
        cluster = open_folder(folder)
        if node in cluster.addresses and len(cluster.addresses) > 1:
            addresses = {each: at for each, at in cluster.addresses.items() if each != node}
            _record(replace(cluster, addresses=addresses, removed=(*cluster.removed, node)))


def _refuse_foreign(folder: Path) -> None:
    """Raise `InvalidOption` if another user owns or may write the folder, or a file of ours in it
    or directly in one of its folders.

    Root's files are trusted. A link is judged by what it leads to.
    """
    patterns = (CLUSTER_FILE, *(f"{name}{rest}" for name in _FOLDERS for rest in ("", "/*")))
    ours = (path for pattern in patterns for path in sorted(folder.glob(pattern)))
    for path in itertools.chain([folder], ours):
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        if found.st_uid not in (_ROOT, os.geteuid()):
            problem = f"is owned by {_user(found.st_uid)}"
        elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            problem = f"of {_user(found.st_uid)} can be written by others"
        else:
            continue
        raise InvalidOption(
            option="--data",
            problem=f"names a folder that another user may have written: {path} {problem}",
            advice="What it says runs with your rights. Choose another --data, or run the command "
            "as the owner. If you know all that is in it, make it yours: "
            f"`chown -R {_user(os.geteuid())} {shlex.quote(str(folder))}` "
            f"and `chmod -R go-w {shlex.quote(str(folder))}`.",
        )


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def exists(folder: Path) -> bool:
    """Whether the folder has a cluster."""
    return (folder / CLUSTER_FILE).exists()


def open_folder(folder: Path) -> ClusterFolder:
    """The cluster in the folder. Raises `InvalidOption`, `FormatUnsupported`, `OSError`."""
    _refuse_foreign(folder)
    file = folder / CLUSTER_FILE
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _no_cluster(folder) from None
    except (ValueError, RecursionError) as error:  # no UTF-8, or no TOML
        raise _unreadable(file, str(error)) from error
    if "format" not in table:
        raise _unreadable(file, "format is missing")
    FormatUnsupported.check(str(file), table["format"], FORMAT_STAMP)
    addresses = _addresses(file, table)
    return ClusterFolder(
        folder=folder,
        cluster_id=_cluster_id(file, table),
        addresses=addresses,
        removed=_nodes(file, table, "removed"),
    )


def _cluster_id(file: Path, table: dict[str, Any]) -> str:
    value = table.get("cluster_id")
    if not isinstance(value, str) or not value:
        raise _unreadable(file, "cluster_id is missing")
    return value


def _addresses(file: Path, table: dict[str, Any]) -> dict[int, str]:
    nodes = table.get("nodes")
    if not isinstance(nodes, dict) or not nodes:
        raise _unreadable(file, "[nodes] is missing or empty")
    addresses = {}
    for node, address in nodes.items():
        if not (_is_within(node, NODE_MAX) and isinstance(address, str)):
            shown = reprlib.repr(node)
            raise _unreadable(file, f"[nodes] holds {shown}; a line is like 1 = 'host:port'")
        if not _is_within(address.rpartition(":")[2], PORT_MAX):
            shown = reprlib.repr(address)
            raise _unreadable(file, f"node {node} has {shown}, which is not host:port")
        addresses[int(node)] = address
    return dict(sorted(addresses.items()))


def _is_within(text: str, most: int) -> bool:
    """Whether the text is a number of [1, most]."""
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    return digits and 0 < int(text) <= most


def _nodes(file: Path, table: dict[str, Any], name: str) -> tuple[int, ...]:
    nodes = table.get(name)
    if not isinstance(nodes, list) or not all(
        type(each) is int and 0 < each <= NODE_MAX for each in nodes
    ):
        raise _unreadable(file, f"{name} is no list of nodes")
    if len(set(nodes)) < len(nodes):
        raise _unreadable(file, f"{name} names a node twice")
    return tuple(sorted(nodes))


def _unreadable(file: Path, problem: str) -> InvalidOption:
    return InvalidOption(
        option="--data",
        problem=f"names a folder whose {file} cannot be used ({problem})",
        advice="Restore the file: it holds the cluster's id and the nodes' addresses.",
    )


def _write_durably(file: Path, text: str) -> None:
    """Write all or nothing, even over a power loss: the nodes' data is useless without it."""
    draft = file.with_name(_DRAFT_FILE)
    with draft.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    draft.rename(file)
    for folder in (file.parent, file.parent.parent):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def only_up_in(folder: Path) -> Iterator[None]:
    """Be the one `raftlog up` that founds or runs the cluster in the folder, which is made.

    Raises `DataFolderLocked` if there is another: each would take some of the nodes, or give a new
    cluster an id that the other's nodes do not have.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _refuse_foreign(folder)
    with holding_pid_file(folder / _UP_FILE, folder, patience_s=KILLED_PATIENCE_S):
        yield


@contextlib.contextmanager
def holding_pid_file(file: Path, folder: Path, *, patience_s: float = 0.0) -> Iterator[None]:
    """Keep `file` locked with this process's pid in it.

    Waits up to `patience_s` for a holder that is ending, then raises `DataFolderLocked`, which
    names `folder`.
    """
    descriptor = not_followed(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        if not wait_until(lambda: _lock(descriptor), patience_s):
            raise DataFolderLocked(folder=str(folder), holder=str(_holder(descriptor) or "unknown"))
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise DiskFailed(file=str(file), problem=str(error)) from error
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def not_followed(path: str | Path, flags: int) -> int:
    """An opener for files in the folder: a symbolic link would lead out of it."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def running_pid(file: Path) -> int | None:
    """The pid of the other process that holds `file`; None if none does. Raises `OSError`."""
    try:
        with open(file, "rb", opener=not_followed) as opened:  # names the path if it is a folder
            return _holder(opened.fileno())
    except FileNotFoundError:
        return None


def _holder(descriptor: int) -> int | None:
    """Whose lock it is; None also if this process sees no such pid, as of another container."""
    asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _LOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return pid if kind != fcntl.F_UNLCK and pid > 0 else None


def wait_until(holds: Callable[[], bool], timeout_s: float) -> bool:
    """Poll until the condition holds. Returns False if the time passed first."""
    deadline_s = time.monotonic() + timeout_s
    pause = threading.Event()
    while not holds():
        if time.monotonic() >= deadline_s:
            return False
        pause.wait(LOOK_INTERVAL_S)
    return True

"""A node's data folder: whose it is, which groups it holds, and that one process has it.

    lock                  taken first, held until the process ends; holds the holder's pid
    identity              cluster id, node id, store_uuid, format version
    hard-state.journal    see `hard_state`
    groups/<id>/manifest  what the group is, as text that only the caller reads
    groups/<id>/*.log     the group's log, made after its manifest
    deletions             up to where of the controller's log groups were removed for it

Identity and manifests are checked texts, written under another name, synced and renamed. The
identity comes last when a folder is made: whoever finds one finds the rest. Nothing here is
removed because it cannot be read; what is foreign, of another format or damaged is an error, and
nothing is changed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from raftlog.checksum import crc32c
from raftlog.core.types import GroupId, LogIndex, NodeId
from raftlog.errors import CorruptFile, DataFolderForeign, FormatUnsupported, RaftlogError
from raftlog.storage.contract import ROOT, FileSystem, Lock
from raftlog.storage.frames import FORMAT_VERSION
from raftlog.storage.hard_state import JOURNAL_NAME, HardStateJournal, read_states
from raftlog.storage.write import NEW_FILE_ENDING

IDENTITY_NAME = "identity"
LOCK_NAME = "lock"
GROUPS_FOLDER = "groups"
DELETIONS_NAME = "deletions"
_MANIFEST_NAME = "manifest"
_REMOVED_ENDING = ".removed"
_GROUP_NAME = re.compile(r"0|[1-9]\d{0,18}")
_HEADLINE = re.compile(rb"raftlog text (\d{1,9}) crc ([0-9a-f]{8}) bytes (\d{1,9})\n")
_TEXT_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose a data folder is. `store_uuid` is minted with the folder and dies with it."""

    cluster_id: str
    node: NodeId
    store_uuid: str


def read_identity(fs: FileSystem) -> Identity | None:
    """The folder's identity without locking it; None where no data folder was made.

    Raises `FormatUnsupported`, `CorruptFile`.
    """
    if not fs.exists(IDENTITY_NAME):
        return None
    place = fs.location(IDENTITY_NAME)
    try:
        values = json.loads(_read_text(fs, IDENTITY_NAME))
        return Identity(
            cluster_id=str(values["cluster_id"]),
            node=NodeId(int(values["node"])),
            store_uuid=str(values["store_uuid"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        problem = f"it is no identity: {error!r}"
        raise CorruptFile(file=place, position=0, problem=problem) from error


class DataFolder:
    """An open, locked data folder. One per process; one owner thread."""

    def __init__(self, fs: FileSystem, lock: Lock, identity: Identity) -> None:
        self._lock = lock
        self.fs = fs
        self.identity = identity

    @classmethod
    def open(
        cls, fs: FileSystem, *, cluster_id: str, node: NodeId, new_store_uuid: str
    ) -> DataFolder:
        """Lock the folder and check whose it is; make it, with `new_store_uuid`, if it is empty.

        Raises `DataFolderLocked`, `DataFolderForeign` (another cluster's or node's, or files that
        are not ours and no identity), `FormatUnsupported`, `CorruptFile`, `DiskFailed`.
        """
        fs.make_folder(ROOT)
        lock = fs.lock(LOCK_NAME)
        try:
            identity = read_identity(fs)
            if identity is None:
                identity = Identity(cluster_id=cluster_id, node=node, store_uuid=new_store_uuid)
                _make(fs, identity)
            _check_owner(fs, identity, cluster_id, node)
            if not fs.exists(GROUPS_FOLDER):
                place = fs.location(GROUPS_FOLDER)
                raise CorruptFile(file=place, position=0, problem="it is missing")
            _finish_removals(fs)
        except RaftlogError:
            lock.release()
            raise
        return cls(fs, lock, identity)

    def open_journal(self) -> HardStateJournal:
        """The node's hard states. It was made with the folder: a missing one is `CorruptFile`."""
        return HardStateJournal.open(self.fs, ROOT, must_exist=True)

    def groups(self) -> list[GroupId]:
        """The groups that have a manifest, ascending."""
        names = [name for name in self.fs.list(GROUPS_FOLDER) if _GROUP_NAME.fullmatch(name)]
        groups = sorted(GroupId(int(name)) for name in names)
        return [group for group in groups if self.fs.exists(_manifest_path(group))]

    def group_folder(self, group: GroupId) -> str:
        """Where the group's log belongs."""
        return f"{GROUPS_FOLDER}/{group}"

    def create_group(self, group: GroupId, manifest: str) -> str:
        """Make the group's folder with its manifest, durable when it returns the folder's path.

        A group that has a manifest keeps folder and log and gets the new manifest. Its log is
        the caller's to make (`GroupLog.create`), also where a crash came between the two.
        """
        folder = self.group_folder(group)
        self.fs.make_folder(folder)
        self.fs.sync_folder(GROUPS_FOLDER)
        _write_text(self.fs, folder, _MANIFEST_NAME, manifest)
        return folder

    def manifest(self, group: GroupId) -> str:
        """The text that `create_group` was given. Raises `CorruptFile`, `FormatUnsupported`."""
        return _read_text(self.fs, _manifest_path(group))

    def deletions_index(self) -> LogIndex:
        """The last index given to `note_deletions`, or 0. Raises `CorruptFile`."""
        if not self.fs.exists(DELETIONS_NAME):
            return LogIndex(0)
        text = _read_text(self.fs, DELETIONS_NAME)
        if not text.isdecimal():
            place = self.fs.location(DELETIONS_NAME)
            raise CorruptFile(file=place, position=0, problem=f"it holds {text!r}, no index")
        return LogIndex(int(text))

    def note_deletions(self, index: LogIndex) -> None:
        """Note, durably, that groups go which the controller's log deletes up to `index`.

        A node that starts replays that log from its beginning. Before it is at this index again
        it must make no group: it could make one again that was removed here, votes forgotten.
        """
        if index > self.deletions_index():
            _write_text(self.fs, ROOT, DELETIONS_NAME, str(index))

    def remove_group(self, group: GroupId) -> None:
        """Remove a group that was deleted, log and all; durable when it returns.

        It loses its name first, so that a crash never leaves a part of it. The group's files
        must be closed. Any thread may call it, for different groups also at once.
        """
        folder = self.group_folder(group)
        nameless = folder + _REMOVED_ENDING
        self.fs.rename(folder, nameless)
        self.fs.sync_folder(GROUPS_FOLDER)
        # This one alone: another thread may be in the middle of another.
        self.fs.remove(nameless)
        self.fs.sync_folder(GROUPS_FOLDER)

    def close(self) -> None:
        """Give the folder back; its logs and journal are closed before."""
        self._lock.release()


def _make(fs: FileSystem, identity: Identity) -> None:
    """Fill an empty folder, or one whose making a crash interrupted; the identity comes last."""
    ours = {LOCK_NAME, GROUPS_FOLDER, IDENTITY_NAME + NEW_FILE_ENDING, "lost+found"}
    ours |= {name for name in fs.list(ROOT) if name.startswith(JOURNAL_NAME)}
    strange = [name for name in fs.list(ROOT) if name not in ours]
    if fs.exists(GROUPS_FOLDER):
        strange += [f"{GROUPS_FOLDER}/{name}" for name in fs.list(GROUPS_FOLDER)]
    if strange:
        raise DataFolderForeign(
            folder=fs.location(ROOT),
            found=f"something else (it has no identity, but {strange[0]!r})",
            wanted=f"node {identity.node} of cluster {identity.cluster_id}",
        )
    if fs.exists(JOURNAL_NAME) and read_states(fs, ROOT)[0]:
        raise CorruptFile(
            file=fs.location(IDENTITY_NAME), position=0, problem="it is missing, but votes are here"
        )
    fs.make_folder(GROUPS_FOLDER)
    HardStateJournal.open(fs, ROOT).close()
    text = {
        "cluster_id": identity.cluster_id,
        "node": identity.node,
        "store_uuid": identity.store_uuid,
    }
    _write_text(fs, ROOT, IDENTITY_NAME, json.dumps(text, indent=2) + "\n")


def _check_owner(fs: FileSystem, identity: Identity, cluster_id: str, node: NodeId) -> None:
    if (identity.cluster_id, identity.node) != (cluster_id, node):
        raise DataFolderForeign(
            folder=fs.location(ROOT),
            found=f"node {identity.node} of cluster {identity.cluster_id}",
            wanted=f"node {node} of cluster {cluster_id}",
        )


def _finish_removals(fs: FileSystem) -> None:
    for name in fs.list(GROUPS_FOLDER):
        if name.endswith(_REMOVED_ENDING):
            fs.remove(f"{GROUPS_FOLDER}/{name}")
    fs.sync_folder(GROUPS_FOLDER)


def _manifest_path(group: GroupId) -> str:
    return f"{GROUPS_FOLDER}/{group}/{_MANIFEST_NAME}"


def _write_text(fs: FileSystem, folder: str, name: str, text: str) -> None:
    """Write a text under its name, atomically; durable when it returns."""
    path = f"{folder}/{name}" if folder else name
    data = text.encode()
    assert len(data) <= _TEXT_BYTES_MAX, f"{path} would have {len(data)} bytes"
    if fs.exists(path + NEW_FILE_ENDING):
        fs.remove(path + NEW_FILE_ENDING)
    headline = f"raftlog text {FORMAT_VERSION} crc {crc32c(data):08x} bytes {len(data)}\n"
    file = fs.open(path + NEW_FILE_ENDING, create=True)
    try:
        file.write_at(0, [headline.encode(), data])
        file.sync()
    finally:
        # On a full disk this is tried for hours; an open file would keep its space when removed.
        file.close()
    fs.rename(path + NEW_FILE_ENDING, path)
    fs.sync_folder(folder)


def _read_text(fs: FileSystem, path: str) -> str:
    """The text that `_write_text` wrote, checked."""
    try:
        file = fs.open(path, create=False)
    except FileNotFoundError as error:
        raise CorruptFile(file=fs.location(path), position=0, problem="it is missing") from error
    try:
        data = file.read_at(0, file.size())
        name = file.path
    finally:
        file.close()
    headline = _HEADLINE.match(data)
    if headline is None:
        raise CorruptFile(file=name, position=0, problem="it does not begin as a text of ours")
    version, crc, length = int(headline[1]), int(headline[2], 16), int(headline[3])
    text = data[headline.end() :]
    if len(text) != length or crc32c(text) != crc:
        raise CorruptFile(file=name, position=headline.end(), problem="its checksum differs")
    if version != FORMAT_VERSION:
        raise FormatUnsupported(folder=name, found=version, supported=FORMAT_VERSION)
    return text.decode()

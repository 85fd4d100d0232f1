"""A node's data folder: who owns it, which groups it holds, and the lock of its one process.

    lock                  taken first, held until the process ends; contains the holder's pid
    identity              format, cluster id, node id, store_uuid, founders; identity.2 is its
                          second copy
    hard-state.journal    see `hard_state`; hard-state.2.journal is its second copy
    groups/<id>/manifest  what the group is, a text that only the caller interprets; manifest.2
    groups/<id>/*.log     the group's log, created after its manifest
    groups/<id>.damaged-N a damaged folder of a group that was filled again, kept for a person
    reserve               room for a full disk, see `reserve`; only while there is room for it
    scrubs                when each group was read whole the last time, a note
    deletions             the index of the controller's log up to which groups were removed here;
                          deletions.2

Identity, manifests and deletions are texts with a checksum, in two copies, so that one damaged byte
costs none of them. Each is written under another name, synced and renamed, one after the other. A
copy that is damaged or missing is written again from the other. Nothing is removed
because it cannot be read: a file that is foreign, of another format or damaged is an error, and
nothing is changed.

Making a folder and opening it are two things: an empty folder that was taken for a new one would
have forgotten its votes, or found a second cluster. `make_store` makes it, before it is known in
which cluster; `complete_store` says which, and who founds it (the *founding record*: it binds each
founder's store before the first vote). Only then does it open, and only until it has voted can
either be called again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from raftlog.core.types import (
    CONTROLLER_GROUP,
    FORMAT_STAMP,
    GroupId,
    LogIndex,
    NodeId,
)
from raftlog.errors import (
    CorruptFile,
    DataFolderForeign,
    FormatUnsupported,
    RaftlogError,
    ResourceShortage,
    StoreMissing,
    StoreUnfinished,
)
from raftlog.founders import Founder
from raftlog.storage.checked_file import TEXT, Copies, damage_of, read_copies, write_copies
from raftlog.storage.contract import ROOT, FileSystem, Lock
from raftlog.storage.hard_state import (
    JOURNAL_COPIES,
    HardStateJournal,
    journal_exists,
    read_states,
)
from raftlog.storage.write import NEW_FILE_ENDING, remove_unfinished

IDENTITY_NAME = "identity"
_SECOND_COPY = ".2"
"""The ending of the copy that is written after the one with the name."""
LOCK_NAME = "lock"
GROUPS_FOLDER = "groups"
DELETIONS_NAME = "deletions"
SCRUBS_NAME = "scrubs"
_MANIFEST_NAME = "manifest"
_REMOVED_ENDING = ".removed"
_DAMAGED = ".damaged-"
_GROUP_NAME = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The owner of a data folder. `store_uuid` is made with the folder and never reused."""

    cluster_id: str
    """"" until the folder is complete."""
    node: NodeId
    store_uuid: str
    founders: tuple[Founder, ...] = ()
    """The cluster's, by node. A node that is none of them, in this store, joined it."""

    @property
    def first_voters(self) -> tuple[NodeId, ...]:
        """Those of the controller's group when it was made; () unless this store was there. Another
        one waits until the group's log names its node: it may have forgotten votes."""
        own = any(
            (each.node, each.store_uuid) == (self.node, self.store_uuid) for each in self.founders
        )
        return tuple(each.node for each in self.founders) if own else ()

    @property
    def store(self) -> int:
        """64 bits of a hash of `store_uuid`, by which the journal knows its store."""
        digest = hashlib.blake2b(self.store_uuid.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little")


def read_identity(fs: FileSystem) -> Identity | None:
    """The folder's identity, read without locking it; None if no data folder was made here.

    Raises `FormatUnsupported`, `CorruptFile`.
    """
    if not _exists(fs, IDENTITY_NAME):
        return None
    location = fs.location(IDENTITY_NAME)
    try:
        values = json.loads(_read_text(fs, IDENTITY_NAME))
        FormatUnsupported.check(fs.location(ROOT), values.get("format"), FORMAT_STAMP)
        return Identity(
            cluster_id=str(values["cluster_id"]),
            node=NodeId(int(values["node"])),
            store_uuid=str(values["store_uuid"]),
            founders=tuple(
                Founder(node=NodeId(int(node)), address=str(address), store_uuid=str(store_uuid))
                for node, address, store_uuid in values["founders"]
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = f"it is not an identity: {error!r}"
        raise CorruptFile(file=location, position=0, problem=problem) from error


class DataFolder:
    """An open, locked data folder. One per process, owned by one thread."""

    def __init__(self, fs: FileSystem, lock: Lock, identity: Identity) -> None:
        self._lock = lock
        self.fs = fs
        self.identity = identity
        self._set_aside: dict[GroupId, int] = {}
        """The number that `set_aside` was last called with."""

    @classmethod
    def open(cls, fs: FileSystem, *, cluster_id: str, node: NodeId) -> DataFolder:
        """Lock the folder, which was completed, and check its owner.

        Raises `DataFolderLocked`, `StoreMissing` (there is none), `StoreUnfinished` (it was made
        and never completed), `DataFolderForeign` (it belongs to another cluster or node, or has no
        identity but files that are not ours), `FormatUnsupported`, `CorruptFile`, `DiskFailed`.
        """
        if not fs.exists(ROOT):
            raise StoreMissing(folder=fs.location(ROOT), node=node)
        lock = fs.lock(LOCK_NAME)
        try:
            identity = read_identity(fs)
            if identity is None:
                _check_unused(fs, node)
                raise StoreMissing(folder=fs.location(ROOT), node=node)
            if not identity.cluster_id:
                raise StoreUnfinished(folder=fs.location(ROOT), node=node)
            _check_owner(fs, identity, cluster_id, node)
            if not fs.exists(GROUPS_FOLDER):
                location = fs.location(GROUPS_FOLDER)
                raise CorruptFile(file=location, position=0, problem="it is missing")
            _finish_removals(fs)
        except RaftlogError:
            lock.release()
            raise
        return cls(fs, lock, identity)

    def open_journal(self) -> HardStateJournal:
        """Open the node's hard states. They came with the folder: `CorruptFile` if missing, or if
        both copies are of another store."""
        return HardStateJournal.open(self.fs, ROOT, store=self.identity.store, must_exist=True)

    def groups(self) -> list[GroupId]:
        """The groups that have a manifest, ascending."""
        return _groups(self.fs)

    def group_folder(self, group: GroupId) -> str:
        """The folder of the group's log."""
        return f"{GROUPS_FOLDER}/{group}"

    def create_group(self, group: GroupId, manifest: str) -> str:
        """Create the group's folder with its manifest. Returns its path; both are durable then.

        A group that has a manifest keeps its folder and log and gets the new manifest. The caller
        creates the log (`GroupLog.create`), also if a crash came between the two steps.
        """
        _create_group(self.fs, group, manifest)
        return self.group_folder(group)

    def manifest(self, group: GroupId) -> str:
        """The text given to `create_group`. Raises `CorruptFile`, `FormatUnsupported`."""
        return read_manifest(self.fs, self.group_folder(group))

    def deletions_index(self) -> LogIndex:
        """The last index given to `note_deletions`, or 0. Raises `CorruptFile`."""
        if not _exists(self.fs, DELETIONS_NAME):
            return LogIndex(0)
        # No group is removed before both copies are written: the older one says enough.
        return max(map(self._index_in, _copies(self.fs, DELETIONS_NAME).contents))

    def _index_in(self, content: bytes) -> LogIndex:
        if not content.isdigit():
            location = self.fs.location(DELETIONS_NAME)
            problem = f"it holds {content!r}, not an index"
            raise CorruptFile(file=location, position=0, problem=problem)
        return LogIndex(int(content))

    def note_deletions(self, index: LogIndex) -> None:
        """Record durably that the groups deleted by the controller's log up to `index` are removed.

        A node that starts replays that log from its beginning. It must create no group before it
        reaches this index: it could create one again that was removed here, without its votes.
        """
        if index > self.deletions_index():
            _write_text(self.fs, DELETIONS_NAME, str(index))

    def mend(self) -> list[CorruptFile]:
        """Write copies of identity and deletions again that are damaged or missing; where there is
        no room, a later call does. Returns what was damaged. Raises `CorruptFile` where no copy can
        be read, and `DiskFailed`."""
        names = [IDENTITY_NAME, DELETIONS_NAME]
        found = [_mend(self.fs, name) for name in names if _exists(self.fs, name)]
        return [damage for damage in found if damage is not None]

    def mend_manifest(self, group: GroupId) -> CorruptFile | None:
        """The same for the group's manifest."""
        return _mend(self.fs, _manifest_path(group))

    def remove_group(self, group: GroupId) -> None:
        """Remove a deleted group with its log; durable when this returns.

        The folder is renamed first, so that a crash never leaves half a group. The group's files
        must be closed. Any thread may call this, also for different groups at once.
        """
        folder = self.group_folder(group)
        nameless = folder + _REMOVED_ENDING
        self.fs.rename(folder, nameless)
        self.fs.sync_folder(GROUPS_FOLDER)
        # Only this one: another thread may be removing another.
        self.fs.remove(nameless)
        self.fs.sync_folder(GROUPS_FOLDER)

    def set_aside(self, group: GroupId, number: int) -> None:
        """Keep the group's folder, if it has one, under a name with this number, or with the next
        one that is free; durable when this returns. Nothing reads it any more, and only a person
        removes it. Called again for the same number, it leaves the folder that was made since.
        """
        folder = self.group_folder(group)
        if self._set_aside.get(group) != number and self.fs.exists(folder):
            free = number
            while self.fs.exists(f"{folder}{_DAMAGED}{free}"):  # put there by a person
                free += 1
            self.fs.rename(folder, f"{folder}{_DAMAGED}{free}")
        self._set_aside[group] = number
        self.fs.sync_folder(GROUPS_FOLDER)

    def set_aside_folders(self) -> dict[str, int]:
        """Where the folders are that `set_aside` kept, and the bytes of the files in each."""
        names = [name for name in self.fs.list(GROUPS_FOLDER) if _DAMAGED in name]
        return {
            self.fs.location(f"{GROUPS_FOLDER}/{name}"): _bytes_in(
                self.fs, f"{GROUPS_FOLDER}/{name}"
            )
            for name in names
        }

    def close(self) -> None:
        """Release the folder. Its logs and journal must be closed."""
        self._lock.release()


def read_manifest(fs: FileSystem, folder: str) -> str:
    """The manifest in a group's folder, as `DataFolder.manifest` gives it."""
    return _read_text(fs, f"{folder}/{_MANIFEST_NAME}")


def manifest_damage(fs: FileSystem, folder: str) -> CorruptFile | None:
    """Why a copy of the manifest in a group's folder cannot be read."""
    try:
        return _copies(fs, f"{folder}/{_MANIFEST_NAME}").damaged
    except (CorruptFile, FormatUnsupported) as error:
        return damage_of(error)


def _bytes_in(fs: FileSystem, folder: str) -> int:
    """The sizes of a folder's files together; a person may be removing them."""
    byte_count = 0
    with suppress(FileNotFoundError, CorruptFile):
        for name in fs.list(folder):
            file = fs.open(f"{folder}/{name}", create=False)
            byte_count += file.size()
            file.close()
    return byte_count


def make_store(fs: FileSystem, *, node: NodeId, new_store_uuid: str) -> Identity:
    """Make the node's store in an empty folder, or find the one that an earlier call made there and
    that has never voted. Durable when this returns.

    Raises `DataFolderLocked`, `DataFolderForeign` (it is another node's, has voted, or holds files
    that are not ours), `FormatUnsupported`, `CorruptFile`, `DiskFailed`,
    `ResourceShortage`.
    """
    fs.make_folder(ROOT)
    with _locked(fs):
        found = read_identity(fs)
        if found is not None:
            _check_new(fs, found, node)
            return found
        _check_unused(fs, node)
        fs.make_folder(GROUPS_FOLDER)
        made = Identity(cluster_id="", node=node, store_uuid=new_store_uuid)
        for name in JOURNAL_COPIES:
            if fs.exists(name):  # of a store that a crash left without an identity
                fs.remove(name)
        HardStateJournal.open(fs, ROOT, store=made.store).close()
        _write_identity(fs, made)  # last: with it the folder is whole
        return made


def complete_store(
    fs: FileSystem, *, cluster_id: str, node: NodeId, founders: Sequence[Founder], manifest: str
) -> Identity:
    """Say which cluster the store is of, and who founded it. `manifest` is that of the controller's
    group, which exists from now on. Durable when this returns.

    Raises as `make_store`, and `StoreMissing`.
    """
    if not fs.exists(ROOT):
        raise StoreMissing(folder=fs.location(ROOT), node=node)
    with _locked(fs):
        found = read_identity(fs)
        if found is None:
            raise StoreMissing(folder=fs.location(ROOT), node=node)
        _check_new(fs, found, node)
        _create_group(fs, CONTROLLER_GROUP, manifest)
        by_node = tuple(sorted(founders, key=lambda founder: founder.node))
        identity = replace(found, cluster_id=cluster_id, founders=by_node)
        _write_identity(fs, identity)
        return identity


@contextmanager
def _locked(fs: FileSystem) -> Iterator[None]:
    lock = fs.lock(LOCK_NAME)
    try:
        yield
    finally:
        lock.release()


def _check_new(fs: FileSystem, found: Identity, node: NodeId) -> None:
    """Raises `DataFolderForeign` unless the store is the node's, and no node has ever run from it.
    One that did has a hard state: nothing is done without."""
    served = bool(read_states(fs, ROOT, found.store)[0])
    if found.node != node or served:
        raise DataFolderForeign(
            folder=fs.location(ROOT),
            found=f"node {found.node}" + (f" of cluster {found.cluster_id}" if served else ""),
            wanted=f"node {node} of a cluster that is still to be founded or joined",
        )


def _write_identity(fs: FileSystem, identity: Identity) -> None:
    text = {
        "format": FORMAT_STAMP,
        "cluster_id": identity.cluster_id,
        "node": identity.node,
        "store_uuid": identity.store_uuid,
        "founders": [[each.node, each.address, each.store_uuid] for each in identity.founders],
    }
    _write_text(fs, IDENTITY_NAME, json.dumps(text, indent=2) + "\n")


def _create_group(fs: FileSystem, group: GroupId, manifest: str) -> None:
    fs.make_folder(f"{GROUPS_FOLDER}/{group}")
    fs.sync_folder(GROUPS_FOLDER)
    _write_text(fs, _manifest_path(group), manifest)


def _check_unused(fs: FileSystem, node: NodeId) -> None:
    """Raises `DataFolderForeign` or `CorruptFile` where a folder without an identity is neither
    empty nor left by a crash while it was made."""
    ours = {LOCK_NAME, GROUPS_FOLDER, IDENTITY_NAME + NEW_FILE_ENDING, "lost+found"}
    ours |= {name for name in fs.list(ROOT) if name.startswith(JOURNAL_COPIES)}
    strange = [name for name in fs.list(ROOT) if name not in ours]
    if fs.exists(GROUPS_FOLDER):
        strange += [f"{GROUPS_FOLDER}/{name}" for name in fs.list(GROUPS_FOLDER)]
    if strange:
        raise DataFolderForeign(
            folder=fs.location(ROOT),
            found=f"no known node: it has {strange[0]!r} and no file {IDENTITY_NAME!r}",
            wanted=f"node {node}",
        )
    if journal_exists(fs, ROOT) and read_states(fs, ROOT)[0]:
        raise CorruptFile(
            file=fs.location(IDENTITY_NAME), position=0, problem="it is missing, but votes exist"
        )


def _check_owner(fs: FileSystem, identity: Identity, cluster_id: str, node: NodeId) -> None:
    if (identity.cluster_id, identity.node) != (cluster_id, node):
        raise DataFolderForeign(
            folder=fs.location(ROOT),
            found=f"node {identity.node} of cluster {identity.cluster_id}",
            wanted=f"node {node} of cluster {cluster_id}",
        )


def _groups(fs: FileSystem) -> list[GroupId]:
    names = [name for name in fs.list(GROUPS_FOLDER) if _GROUP_NAME.fullmatch(name)]
    groups = sorted(GroupId(int(name)) for name in names)
    return [group for group in groups if _exists(fs, _manifest_path(group))]


def _finish_removals(fs: FileSystem) -> None:
    """Remove what a deletion left, and unfinished files: on a full disk the journal,
    which is written next, may need their room."""
    for name in fs.list(GROUPS_FOLDER):
        if name.endswith(_REMOVED_ENDING):
            fs.remove(f"{GROUPS_FOLDER}/{name}")
    for group in _groups(fs):
        remove_unfinished(fs, f"{GROUPS_FOLDER}/{group}", "")
    fs.sync_folder(GROUPS_FOLDER)


def _manifest_path(group: GroupId) -> str:
    return f"{GROUPS_FOLDER}/{group}/{_MANIFEST_NAME}"


def _write_text(fs: FileSystem, path: str, text: str) -> None:
    write_copies(fs, (path, path + _SECOND_COPY), TEXT, [text.encode()])


def _read_text(fs: FileSystem, path: str) -> str:
    return _copies(fs, path).contents[0].decode()


def _copies(fs: FileSystem, path: str) -> Copies:
    return read_copies(fs, (path, path + _SECOND_COPY), TEXT)


def _exists(fs: FileSystem, path: str) -> bool:
    return fs.exists(path) or fs.exists(path + _SECOND_COPY)


def _mend(fs: FileSystem, path: str) -> CorruptFile | None:
    """Write the copies again if one is damaged or missing; what was damaged."""
    found = _copies(fs, path)
    if found.incomplete:
        with suppress(ResourceShortage):
            _write_text(fs, path, found.contents[0].decode())
    return found.damaged

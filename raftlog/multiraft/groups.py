"""The replicas of a data folder: opened, created and removed, with their files.

A group's folder is `groups/<id>/`. Its manifest says what group it is, so a restarted node
serves its groups before it has caught up with the controller. Only the controller's log decides
when a folder is made or removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from raftlog.comparison import Comparison
from raftlog.core.membership import Membership, MembershipAt, Memberships
from raftlog.core.recovery import begun, is_recovering
from raftlog.core.timer import Random
from raftlog.core.types import (
    CONTROLLER_GROUP,
    NO_INDEX,
    NO_NODE,
    GroupId,
    HardState,
    LastEntry,
    LogIndex,
    NodeId,
    RaftTiming,
    Term,
)
from raftlog.errors import CorruptFile, FormatUnsupported, ResourceShortage
from raftlog.founders import Founder
from raftlog.image.group_manifest import info_from_manifest, manifest_of
from raftlog.image.incoming import Incoming, discard_received, install, publish
from raftlog.image.machine import NO_PROGRESS, Restored, new_machine, restored
from raftlog.image.manifest import Image, leftovers, read_image, write_image
from raftlog.image.open_image import OpenImage
from raftlog.image.outvoted import NEVER_OUTVOTED, Outvoted, read_outvoted, write_outvoted
from raftlog.image.rebuild import rebuild
from raftlog.image.snapshot_file import read_snapshot
from raftlog.machines.contract import StateMachine
from raftlog.machines.group_info import CONTROLLER, ControllerInfo, GroupInfo
from raftlog.machines.outcomes import Outcome
from raftlog.multiraft.effects import (
    DamagePassedOver,
    GroupQuarantined,
    GroupRefilling,
    TornTailTruncated,
)
from raftlog.replica import Replica
from raftlog.state_hash import STATE_HASH_FIRST
from raftlog.storage.checked_file import TEXT, damage_of, read_checked, write_checked
from raftlog.storage.folder import SCRUBS_NAME, DataFolder
from raftlog.storage.fresh import put_in_place
from raftlog.storage.hard_state import JOURNAL_NAME
from raftlog.storage.last_entry import last_entry
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.storage.open_files import OpenFiles
from raftlog.storage.payload_cache import PayloadCache
from raftlog.storage.prefix import Base, PrefixRemoval
from raftlog.storage.reserve import Reserve


class GroupFiles(NamedTuple):
    """What the files of a group come to, when they are opened."""

    log: GroupLog
    machine: StateMachine[Any, Outcome]
    memberships: Memberships
    applied_index: LogIndex
    """The machine's state is that after this entry; the log replays the rest."""
    state_hash: bytes
    image: Image
    outvoted: Outvoted


class Quarantine(NamedTuple):
    """A group whose files are damaged, so that it has no replica here. They stay as they are."""

    group: GroupId
    info: GroupInfo | None
    """None if the file that tells it is what is damaged."""
    damage: CorruptFile
    lost: LastEntry | None
    """Where its log ends; None: that cannot be told."""


class OpenedGroup(NamedTuple):
    """A replica over a group's files."""

    replica: Replica
    info: GroupInfo
    image: OpenImage
    outvoted: Outvoted = NEVER_OUTVOTED


class GroupStore:
    """Makes replicas from the files of one data folder. Its methods block on disk.

    All but `replica` may run on another thread, one at a time. They only read the journal of
    hard states, which belongs to the loop's thread.
    """

    def __init__(
        self,
        *,
        folder: DataFolder,
        timing: RaftTiming,
        log_limits: LogLimits,
        random: Random,
        open_files_max: int = 1_000_000,
        tell: Callable[
            [TornTailTruncated | DamagePassedOver | GroupQuarantined | GroupRefilling], None
        ],
        log_type: type[GroupLog] = GroupLog,
        replica_type: Callable[..., Replica] = Replica,
    ) -> None:
        """`log_type` and `replica_type` make every log and replica: a simulation gives its own,
        which are watched."""
        self._folder = folder
        self._node = NodeId(folder.identity.node)
        self._timing = timing
        self._log_limits = log_limits
        self._cache = PayloadCache(log_limits.payload_cache_bytes_max)
        self.open_files = OpenFiles(open_files_max)
        """What the logs and images of all groups keep open."""
        self._random = random
        self._tell = tell
        self._log_type = log_type
        self._replica_type = replica_type
        self.fs = folder.fs
        self._told_of(CONTROLLER_GROUP, folder.mend())
        self.set_aside: Mapping[str, int] = folder.set_aside_folders()
        """Damaged folders that are kept, with the bytes in each, as of the last look."""
        self.deletions_index = folder.deletions_index()
        """Where the controller's replica must be again before any group is made."""
        self.journal = folder.open_journal()
        self._told_of(CONTROLLER_GROUP, [self.journal.report.damaged])

    def open_all(self) -> list[OpenedGroup | Quarantine]:
        """The controller's replica, and every other group with a folder.

        A node cannot run without a replica of the controller's group. If its files are damaged, it
        begins to recover at once. Raises `CorruptFile` where there is no other node to get it from,
        where there are no files, and where the journal of hard states has forgotten what an image
        proves that it knew.
        """
        groups = self._folder.groups()
        found: list[OpenedGroup | Quarantine] = []
        found.append(self.replica(CONTROLLER, self._open_controller(CONTROLLER_GROUP in groups)))
        found.extend(self._created_group(group) for group in groups if group != CONTROLLER_GROUP)
        return found

    def _told_of(self, group: GroupId, damages: Iterable[CorruptFile | None]) -> None:
        """Tell of damage that something else stands in for."""
        for damage in damages:
            if damage is not None:
                self._tell(DamagePassedOver(group=group, cause=damage.cause))

    def _open_controller(self, exists: bool) -> GroupFiles:
        try:
            if not exists:
                location = self.fs.location(self.folder_of(CONTROLLER_GROUP))
                raise CorruptFile(file=location, position=0, problem="it is missing")
            return self._open_group(CONTROLLER)
        except CorruptFile as damage:
            if self.decides_alone(CONTROLLER_GROUP, self._folder.identity.first_voters):
                raise
            self._tell(
                GroupQuarantined(group=CONTROLLER_GROUP, info=CONTROLLER, cause=damage.cause)
            )
        recovery = self.begin_recovery(CONTROLLER_GROUP, self._last_entry(CONTROLLER_GROUP))
        while (write := self.journal.take_write()) is not None:
            write.run_whole()
            self.journal.written(write)
        self._tell(GroupRefilling(group=CONTROLLER_GROUP, info=CONTROLLER))
        return self.make_group_again(CONTROLLER, recovery)

    @property
    def founders(self) -> tuple[Founder, ...]:
        """Who founded the cluster."""
        return self._folder.identity.founders

    def decides_alone(self, group: GroupId, made_with: tuple[NodeId, ...]) -> bool:
        """Is this node the only one that has what the group's log here held? By the latest voters
        that the journal knows of, or those that the group was made with."""
        state = self.journal.get(group)
        if state is None or state.voters is None:
            return made_with == (self._node,)
        return {*state.voters.voters, *state.voters.outgoing} == {self._node}

    def begin_recovery(self, group: GroupId, lost: LastEntry | None) -> int:
        """Put into the journal that another recovery of the group begins, of a log that ended with
        `lost` (`raftlog.core.recovery.begun`), and return its number. For the journal's thread."""
        state = begun(self.journal.get(group) or HardState(Term(0), NO_NODE), lost)
        self.journal.put(group, state)
        return state.recovery

    def _last_entry(self, group: GroupId) -> LastEntry | None:
        """Where the log of a group that cannot be opened ends; None: that cannot be told."""
        fs, folder = self._folder.fs, self.folder_of(group)
        try:
            image = read_image(fs, folder).image
            last = last_entry(fs, folder, group, image.base)
        except (CorruptFile, FormatUnsupported):
            return None
        return last if last is not None and last.index >= image.index else None

    def _created_group(self, group: GroupId) -> OpenedGroup | Quarantine:
        info: GroupInfo | None = None
        try:
            self._told_of(group, [self._folder.mend_manifest(group)])
            info = info_from_manifest(self._folder.manifest(group), group)
            files = self._open_group(info)
        except CorruptFile as error:
            return Quarantine(group, info, error, self._last_entry(group))
        return self.replica(info, files)

    def make_group(self, info: GroupInfo) -> GroupFiles:
        """A new group's folder and empty log, durable on return. Touches only files."""
        self._folder.create_group(info.group, manifest_of(info))
        return self._open_group(info)

    def make_group_again(self, info: GroupInfo, recovery: int) -> GroupFiles:
        """As `make_group`, for a group whose recovery of this number the journal knows durably. The
        folder that it has is quarantined."""
        self._folder.set_aside(info.group, recovery)
        self.set_aside = self._folder.set_aside_folders()
        return self.make_group(info)

    def replica(self, info: GroupInfo, files: GroupFiles) -> OpenedGroup:
        """A replica over the files. Raises `CorruptFile` as `open_all`."""
        group = info.group
        self._check_journal(group, files.image)
        replica = self._replica_type(
            node=self._node,
            group=group,
            memberships=files.memberships,
            timing=self._timing,
            log=files.log,
            journal=self.journal,
            machine=files.machine,
            random=self._random,
            applied_index=files.applied_index,
            state_hash=files.state_hash,
            histories=Comparison(
                self._node,
                diverged=files.outvoted.history,
                agreed_mark=files.image.agreed_mark,
            ),
        )
        image = OpenImage(
            self._folder.fs, self.folder_of(group), group, files.image, self.open_files
        )
        return OpenedGroup(replica, info, image, files.outvoted)

    def mend_copies(self, info: GroupInfo) -> bool:
        """Write both copies of the group's two manifests again, as far as they are known and there
        is room. Returns whether it is done: never later, the group may be gone by then."""
        fs, folder = self._folder.fs, self.folder_of(info.group)
        try:
            self._folder.create_group(info.group, manifest_of(info))
            image = read_image(fs, folder).image
            if image.generation:
                write_image(fs, folder, image)
        except (CorruptFile, FormatUnsupported, ResourceShortage):
            return False
        return True

    def mend(self) -> list[CorruptFile]:
        """Write the node's own texts again where a copy is damaged; what was damaged."""
        return self._folder.mend()

    def scrub_times(self) -> dict[GroupId, int]:
        """When the last scrub of each group ended, in microseconds since 1970 UTC, as far as it is
        known. The note is made again if it is damaged."""
        fs = self._folder.fs
        if not fs.exists(SCRUBS_NAME):
            return {}
        try:
            rows = json.loads(read_checked(fs, SCRUBS_NAME, TEXT))
        except (CorruptFile, FormatUnsupported) as error:
            self._told_of(CONTROLLER_GROUP, [damage_of(error)])
            return {}
        return {GroupId(group): int(ended_us) for group, ended_us in rows}

    def note_scrubs(self, times: Mapping[GroupId, int]) -> None:
        """Keep what `scrub_times` gives. Raises `ResourceShortage`: then it may be called again."""
        text = json.dumps(sorted(times.items())).encode()
        write_checked(self._folder.fs, SCRUBS_NAME, TEXT, [text])
        self.set_aside = self._folder.set_aside_folders()

    def _check_journal(self, group: GroupId, image: Image) -> None:
        """No image is published before the journal holds the term of its snapshot durably. So one
        that does not was cut off in both copies, which looks like a crash, and has lost votes. A
        vote could be given twice: no replica of this node may run.
        """
        state = self.journal.get(group)
        known = state.term if state is not None else 0
        if image.snapshots and known < image.snapshots[-1].term:
            problem = (
                f"it ends too early, in both copies: it knows group {group} up to term {known}, "
                f"and the group's snapshot is of term {image.snapshots[-1].term}"
            )
            raise CorruptFile(file=self.fs.location(JOURNAL_NAME), position=0, problem=problem)

    def reserve(self, byte_count: int) -> Reserve:
        """The disk's reserve, of so many bytes."""
        return Reserve(self._folder.fs, byte_count)

    def folder_of(self, group: GroupId) -> str:
        """The group's folder in the data folder."""
        return self._folder.group_folder(group)

    def publish(self, group: GroupId, image: Image, received: frozenset[str] = frozenset()) -> None:
        """Make the image the group's; durable when this returns. Its files are durable already;
        those in `received` came from another node, and get their names.

        Raises `ResourceShortage`: then it may be called again.
        """
        publish(self._folder.fs, self.folder_of(group), image, received)

    def incoming(self, info: GroupInfo, reached: Mapping[str, int] = NO_PROGRESS) -> Incoming:
        """Where an image of another node is received for the group: see `Incoming`."""
        return Incoming(self._folder.fs, self.folder_of(info.group), info, reached)

    def discard_received(self, groups: Iterable[GroupId]) -> None:
        """Remove what was received of images for these groups, and is not theirs."""
        for group in groups:
            if self._folder.fs.exists(self.folder_of(group)):
                discard_received(self._folder.fs, self.folder_of(group))

    def install(self, info: GroupInfo, image: Image) -> GroupFiles | CorruptFile:
        """Let an image that was received whole take the place of all that the group has, and open
        it. Durable when this returns. Returns the damage if what was checked on arrival cannot be
        read back.

        The former log and image must be closed. Raises `ResourceShortage`: then it may be called
        again.
        """
        install(self._folder.fs, self.folder_of(info.group), info.group, image)
        return self._open_again(info)

    def rebuild(
        self, info: GroupInfo, image: Image, log_base: Base, now_us: int
    ) -> GroupFiles | CorruptFile:
        """Let an image that was received whole take the place of one that was outvoted, and open
        the group. The log stays. Durable when this returns, and counted before it begins. Returns
        damage as `install` does.

        The former log and image must be closed. Raises `ResourceShortage`: then it may be called
        again.
        """
        fs, folder = self._folder.fs, self.folder_of(info.group)
        former = read_outvoted(fs, folder)
        if now_us not in former.rebuilt_us:
            write_outvoted(fs, folder, former.rebuilt(now_us))
        rebuild(fs, folder, image, log_base)
        write_outvoted(fs, folder, replace(read_outvoted(fs, folder), history=False))
        return self._open_again(info)

    def _open_again(self, info: GroupInfo) -> GroupFiles | CorruptFile:
        try:
            return self._open_group(info)
        except CorruptFile as damage:
            return damage

    def note_outvoted(self, group: GroupId, value: Outvoted) -> None:
        """Durable when this returns. Raises `ResourceShortage`: then it may be called again."""
        write_outvoted(self._folder.fs, self.folder_of(group), value)

    def drop_files(self, group: GroupId, removal: PrefixRemoval, obsolete: Iterable[str]) -> None:
        """Remove what a published image does without: segments of the log, and files of the image
        before it."""
        removal.run()
        self.remove_files(group, obsolete)

    def remove_files(self, group: GroupId, names: Iterable[str]) -> None:
        """Remove files that no manifest of the group names any more. One that was missing is
        what another one has taken the place of."""
        fs, folder = self._folder.fs, self.folder_of(group)
        for name in names:
            if fs.exists(f"{folder}/{name}"):
                fs.remove(f"{folder}/{name}")

    def remove(self, group: GroupId, controller_index: LogIndex) -> None:
        """Drop the files of a group that the controller's log deleted up to that index.

        None of them is open. Raises `ResourceShortage`, such as where there is no room even for the
        note; then it may be called again. The hard state goes after them: a crash in between leaves
        one that is never used.
        """
        self._folder.note_deletions(controller_index)
        self._folder.remove_group(group)

    def close(self, replicas: Iterable[Replica]) -> None:
        for replica in replicas:
            replica.log.close()
        self.journal.close()
        self._folder.close()

    def _open_group(self, info: GroupInfo) -> GroupFiles:
        """The group's log and its machine at the newest snapshot that is whole.

        Damage that something else stands in for is told and mended. Raises `CorruptFile`: then the
        log's torn end may have been truncated, and nothing else was changed.
        """
        group = info.group
        fs, folder = self._folder.fs, self.folder_of(group)
        image, damaged = read_image(fs, folder)
        put_in_place(fs, folder, image.base, image.fresh_log)
        log = self._open_log(group, image.base)
        try:
            files = self._at_snapshot(info, log, image)
            if isinstance(info, ControllerInfo):
                # A damaged command of another group ends that replica when it is replayed. A node
                # cannot end its replica of the controller: it must have another log before it
                # begins.
                for index in range(files.applied_index + 1, log.last_index + 1):
                    log.command(index)
        except (CorruptFile, ResourceShortage):
            log.abandon()
            raise
        if damaged is not None:
            self._told_of(group, [damage_of(damaged)])
            write_image(fs, folder, image)
        for path in leftovers(fs, folder, image):
            fs.remove(path)
        log.join(self.open_files)
        return files

    def _at_snapshot(self, info: GroupInfo, log: GroupLog, image: Image) -> GroupFiles:
        """The machine at the newest snapshot that is whole. Raises `CorruptFile` if the log does
        not go on from any."""
        fs, folder = self._folder.fs, self.folder_of(info.group)
        if log.last_index < image.index:
            problem = f"the log ends with entry {log.last_index}, below the snapshot {image.index}"
            raise CorruptFile(file=fs.location(folder), position=0, problem=problem)
        found, index, state_hash = self._newest_whole(info, log, image)
        return GroupFiles(
            log=log,
            machine=found.machine,
            memberships=self._memberships(info, log, found.membership, index),
            applied_index=index,
            state_hash=state_hash,
            image=image,
            outvoted=read_outvoted(fs, folder),
        )

    def _newest_whole(
        self, info: GroupInfo, log: GroupLog, image: Image
    ) -> tuple[Restored, LogIndex, bytes]:
        """What the newest whole snapshot comes to, its index and state hash; or the beginning."""
        fs, folder = self._folder.fs, self.folder_of(info.group)
        for each in reversed(image.snapshots):
            if each.index < log.base_index:
                break
            try:
                found = restored(info, each, read_snapshot(fs, folder, info.group, each))
            except CorruptFile as error:
                self._tell(DamagePassedOver(group=info.group, cause=error.cause))
            else:
                return found, each.index, each.state_hash
        if log.base_index:
            problem = f"no snapshot is whole from which the log after {log.base_index} goes on"
            raise CorruptFile(file=fs.location(folder), position=0, problem=problem)
        return Restored(new_machine(info), None), NO_INDEX, STATE_HASH_FIRST

    def _memberships(
        self, info: GroupInfo, log: GroupLog, found: MembershipAt | None, index: LogIndex
    ) -> Memberships:
        """That of the snapshot at `index`, or the one that the group was made with, and those of
        the log after it. Raises `CorruptFile`: who votes must be known."""
        if found is None:
            if isinstance(info, ControllerInfo):
                voters = self._folder.identity.first_voters
            else:
                voters = info.voters
            # Another node was not there when the group was made: it waits until the log names it.
            founded = Membership(voters if self._node in voters else ())
            found = MembershipAt(NO_INDEX, founded)
        memberships = Memberships(found)
        try:
            memberships.grown(log.configurations(index))
        except ValueError as error:
            file = self._folder.fs.location(self.folder_of(info.group))
            problem = f"an entry of its log is no membership: {error}"
            raise CorruptFile(file=file, position=0, problem=problem) from None
        return memberships

    def _open_log(self, group: GroupId, base: Base) -> GroupLog:
        """The group's log, made where a crash came between its manifest and its log.

        A group that has a hard state has served: then a missing log is a lost one, unless it is
        known to be.
        """
        fs, folder = self._folder.fs, self._folder.group_folder(group)
        if self._log_type.exists(fs, folder):
            found = self._log_type.open(fs, folder, group, self._log_limits, self._cache, base=base)
            report = found.report
            self._told_of(group, report.rebuilt)
            if report.torn_bytes:
                self._tell(
                    TornTailTruncated(
                        file=report.torn_file,
                        position=report.torn_position,
                        byte_count=report.torn_bytes,
                    )
                )
            return found
        state = self.journal.get(group)
        if state is not None and not is_recovering(state.recovery):
            raise CorruptFile(
                file=fs.location(folder), position=0, problem="the group's log is missing"
            )
        return self._log_type.create(fs, folder, group, self._log_limits, self._cache)

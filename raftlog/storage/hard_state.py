"""The node-wide journal of hard states: the term and vote of each group, synced before they are
sent.

There is one journal for all groups, so that one write serves many, and two copies of it: a vote
that is forgotten could be given twice, and one damaged byte must not keep a node out for good.
Every write goes to the one and then to the other, and counts once both are synced. So whatever
counts is in each of them, and what only one of them has is as good: a term, a vote or a recovery is
never taken back. Opening takes the later state of each group and rewrites both. Each
names its store: the journal of another node knows none of this one's votes.

Frames, and the rule for torn or
damaged bytes, are those of the log (`frames`, `recovery`). A frame's command holds the states that
changed since the frame before it. A copy is rewritten whole when it is opened and when it has
grown: written under another name, synced, renamed over the old one, and the folder synced. So it
never exceeds a few times what it holds, and a complete copy has the name at every moment.

The journal also keeps a random boot_id of the node's process, another one each time it is opened,
and those of the processes before it since one was registered with the controller: a process with a
copy of the folder does not know the boot_ids of those that came after the copy was made.

CHECKLIST rows 31 and 77: one durable vote per term, repeatable; term and vote always durable. They
are always written in one record.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from raftlog.core.types import (
    BOOT_IDS_MAX,
    NO_INDEX,
    NO_NODE,
    GroupId,
    HardState,
    LastEntry,
    LogIndex,
    NodeId,
    Term,
    VotersAt,
)
from raftlog.errors import CorruptFile, FormatUnsupported
from raftlog.storage.checked_file import damage_of
from raftlog.storage.contract import File, FileSystem
from raftlog.storage.frames import (
    FRAME_HEADER_BYTES,
    HARD_STATES,
    MARKER,
    Purpose,
    SegmentHeader,
)
from raftlog.storage.recovery import (
    FrameWalk,
    PlacedFrame,
    payload_is_whole,
    read_segment_header,
    read_tail,
)
from raftlog.storage.write import LogWrite, Piece, Segment, remove_unfinished

JOURNAL_NAME = "hard-state.journal"
JOURNAL_COPIES = (JOURNAL_NAME, "hard-state.2.journal")
"""In the order in which they are written."""

_ENDING = ".journal"
_ALL_GROUPS = (1 << 64) - 1
"""The group of a boot_id."""

_RECORD = struct.Struct("<BQQQ")
_PUT = 1
_FORGET = 0
_RECOVERY = 2
"""The number of a group's recovery, in the place of the term. It follows on the group's put."""
_LOST = 3
"""The term and index of the last entry of a log that is lost. It follows on the recovery."""
_VOTERS = 4
"""The index of the log's latest membership, in the place of the term. In the place of the vote is
twice its term, and 1 more if the log has it durably."""
_VOTER = 5
"""A voter of it; 1 in the place of the vote: a former one, which counts still."""
_BOOT = 6
"""A boot_id, in the place of the term. In the place of the vote is the index of its registration,
if that is known, and then those before it are forgotten. It is of no group."""
_RESERVE_BYTES = 64 * 1024
_COMPACT_BYTES_MIN = 256 * 1024
_COMPACT_FACTOR = 4
"""Disk space reserved ahead, and when the journal is rewritten: once it holds so many times what is
alive in it, and at least so much. No settings: a group's record takes a few dozen bytes, so the
file stays small whatever these are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalReport:
    """What opening found. `torn_bytes` above 0: a write interrupted by a crash was truncated."""

    groups: int
    boots: tuple[int, ...] = ()
    """Of earlier processes, the one that was registered first."""
    registered_at: LogIndex = NO_INDEX
    torn_position: int = 0
    torn_bytes: int = 0
    damaged: CorruptFile | None = None
    """Why one copy cannot be read. Opening the journal writes it again from the other."""


class _Copy(NamedTuple):
    """One copy, as far as it is durable."""

    path: str
    header: SegmentHeader
    end: int
    chain: int


class JournalCheck:
    """Reads the copies of a journal again. `run` on any thread, also while the journal is written:
    a copy that was replaced meanwhile is whole by its making, and what was added is not read."""

    def __init__(self, fs: FileSystem, copies: tuple[_Copy, ...]) -> None:
        self._fs = fs
        self._copies = copies

    def run(self) -> list[CorruptFile]:
        """What is damaged of them."""
        found = []
        for copy in self._copies:
            try:
                self._check(copy)
            except (CorruptFile, FormatUnsupported) as error:
                found.append(damage_of(error))
        return found

    def _check(self, copy: _Copy) -> None:
        try:
            file = self._fs.open(copy.path, create=False)
        except FileNotFoundError:
            location = self._fs.location(copy.path)
            raise CorruptFile(file=location, position=0, problem="it is missing") from None
        try:
            header = read_segment_header(file, purpose=Purpose.HARD_STATES, group=copy.header.group)
            if header.segment_id != copy.header.segment_id:
                return
            walk = FrameWalk(file, header, stop=copy.end)
            for frame in walk:
                if not payload_is_whole(file, frame):
                    problem = "the checksum of its records differs"
                    raise CorruptFile(file=file.path, position=frame.position, problem=problem)
            if (walk.end, walk.chain) != (copy.end, copy.chain):
                problem = f"it has no valid frame there, below its end at {copy.end}"
                raise CorruptFile(file=file.path, position=walk.end, problem=problem)
        finally:
            file.close()


class HardStateJournal:
    """Terms and votes of all groups of a node. Owned by one thread; writes are as in `GroupLog`."""

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        states: dict[GroupId, HardState],
        report: JournalReport,
        *,
        store: int,
        boots: tuple[int, ...],
        registered_at: LogIndex,
    ) -> None:
        self._fs = fs
        self._folder = folder
        self._store = store
        self._states = states
        self._boots = boots
        self.registered_at = registered_at
        """The index of the controller's log with which the first of `boot_ids` was registered; 0:
        none was, as far as the folder knows."""
        self._boots_changed = False
        self._changed: set[GroupId] = set()
        self._outstanding: LogWrite | None = None
        self._marker_wanted = False
        self._rewrite_wanted = False
        self.ticket = 0
        """Counts the changes. What was put up to a ticket is durable once `durable_ticket` has
        reached it. Only the owner may read it."""
        self.durable_ticket = 0
        self._written_ticket = 0
        self._frames = 0
        self._live_bytes = 0
        """Of the records that the last rewrite wrote."""
        self._replaced: tuple[Segment, ...] = ()
        self._segments: tuple[Segment, ...] = ()
        """Of the copies, with the same frames at the same positions."""
        self.report = report

    @classmethod
    def open(
        cls, fs: FileSystem, folder: str, *, store: int = 0, must_exist: bool = False
    ) -> HardStateJournal:
        """Open the folder's journal of this store (64 bits), or create one unless it `must_exist`
        (see `DataFolder`).

        All states found and this start are durable when this returns. Raises `CorruptFile` if
        neither copy of this store can be read (nothing is changed then: a lost vote is never taken
        for no vote), `FormatUnsupported`, `DiskFailed`.
        """
        boots: tuple[int, ...] = ()
        registered_at = NO_INDEX
        if must_exist or journal_exists(fs, folder):
            states, report = read_states(fs, folder, store)
            boots = (*_few(report.boots), fs.new_id())
            registered_at = report.registered_at
        else:
            states, report = {}, JournalReport(groups=0)
        remove_unfinished(fs, folder, _ENDING)
        journal = cls(
            fs, folder, states, report, store=store, boots=boots, registered_at=registered_at
        )
        journal._write_all()
        return journal

    @property
    def boot_ids(self) -> tuple[str, ...]:
        """Of the processes that opened the journal since one was registered, that one first, and
        of this one, last."""
        return tuple(f"{boot:016x}" for boot in self._boots)

    def registered(self, index: LogIndex) -> None:
        """The controller knows this process, by the entry at `index` of its log: forget the ones
        before it, with the next write."""
        self._boots, self.registered_at = self._boots[-1:], index
        self._boots_changed = True

    def get(self, group: GroupId) -> HardState | None:
        """The last state that was put, durable or not; None if the group has none."""
        return self._states.get(group)

    @property
    def groups(self) -> Collection[GroupId]:
        """The groups that have a hard state."""
        return self._states.keys()

    def put(self, group: GroupId, state: HardState) -> None:
        """Set a group's state. Its term must not fall, nor its vote change within a term."""
        known = self._states.get(group)
        if known == state:
            return
        if known is not None:
            assert state.term >= known.term, f"group {group}: a term never falls"
            assert state.recovery >= known.recovery, f"group {group}: a recovery is never undone"
            assert state.term > known.term or known.vote in (NO_NODE, state.vote), (
                f"group {group} voted for {known.vote} in term {known.term}, not for {state.vote}"
            )
        self._states[group] = state
        self._changed.add(group)
        self.ticket += 1

    def forget(self, group: GroupId) -> None:
        """Drop a removed group, whose id is never used again. An unknown group is not an error."""
        if self._states.pop(group, None) is not None:
            self._changed.add(group)
            self.ticket += 1

    def plan_check(self) -> JournalCheck | None:
        """Read both copies as far as they are durable, which any thread may then do; None while a
        write is in flight."""
        if self._outstanding is not None:
            return None
        copies = tuple(
            _Copy(each.path, each.header, each.synced, each.chain) for each in self._segments
        )
        return JournalCheck(self._fs, copies)

    def rewrite(self) -> None:
        """Let the next write replace both copies, because one of them is damaged."""
        self._rewrite_wanted = True

    def idle_marker(self) -> bool:
        """Like `GroupLog.idle_marker`: whether there is a marker to write now."""
        segment = self._segments[0]
        is_idle = self._outstanding is None and not self._is_changed
        self._marker_wanted = is_idle and segment.proven_to < segment.data_end
        return self._marker_wanted

    def take_write(self) -> LogWrite | None:
        """All changes since the last write as one, or None. Needs `written` for the last one.

        Raises `ResourceShortage` where its files cannot be opened: nothing has changed then, and it
        may be called again.
        """
        assert self._outstanding is None, "one write at a time"
        if not self._rewrite_wanted and (self._is_changed or self._marker_wanted):
            for segment in self._segments:
                segment.opened(self._fs)  # before anything is planned that could not be done then
        if self._rewrite_wanted:
            self._rewrite_wanted = self._boots_changed = False
            self._changed.clear()
            self._written_ticket = self.ticket
            self._outstanding = self._plan_rewrite()
        elif self._is_changed:
            records = self._encode(sorted(self._changed))
            if self._boots_changed:
                records = self._encode_boots() + records
            self._boots_changed = False
            self._changed.clear()
            self._written_ticket = self.ticket
            grown = self._segments[0].end + FRAME_HEADER_BYTES + len(records)
            if grown > self._compact_bytes():
                self._outstanding = self._plan_rewrite()
            else:
                self._outstanding = self._plan_frame(records)
        elif self._marker_wanted:
            self._outstanding = self._plan_marker()
        self._marker_wanted = False
        return self._outstanding

    def written(self, write: LogWrite) -> None:
        """Record that `write.run()` has returned: what it wrote is durable."""
        assert write is self._outstanding, "this is not the write in flight"
        assert write.done, "the write has not been run"
        self._outstanding = None
        self.durable_ticket = self._written_ticket
        for segment in self._segments:
            segment.synced = segment.end
        for segment in self._replaced:
            segment.close()
        self._replaced = ()

    def close(self) -> None:
        """Write what is pending and a marker, then close the file. No write may be in flight.

        On a full disk the rest is not written. No message that depends on it has been sent.
        """
        if self._outstanding is None:
            self.idle_marker()
            while (write := self.take_write()) is not None:
                write.run()
                if not write.done:
                    break
                self.written(write)
                self.idle_marker()
        for segment in self._segments:
            segment.close()

    def _write_all(self) -> None:
        self._outstanding = self._plan_rewrite()
        self._outstanding.run_whole()
        self.written(self._outstanding)

    def _compact_bytes(self) -> int:
        """The size at which the file is rewritten: a few times what it holds after a rewrite."""
        return max(_COMPACT_BYTES_MIN, _COMPACT_FACTOR * self._live_bytes)

    def _plan_rewrite(self) -> LogWrite:
        """New files with every state. Each takes the old one's name once it is durable."""
        self._replaced = self._segments
        self._segments = tuple(
            Segment(path, _new_header(self._fs, self._store)) for path in _paths(self._folder)
        )
        self._frames = 0
        pieces = [Piece(segment, file=None) for segment in self._segments]
        records = self._encode_boots() + self._encode(sorted(self._states))
        self._live_bytes = len(records)
        self._add_frame(pieces, records)
        for segment in self._segments:
            # It gets its name only when all of this is durable, so the marker is true by then.
            segment.synced = segment.end
        _add_marker(pieces)
        return self._planned(pieces)

    def _plan_frame(self, records: bytes) -> LogWrite:
        pieces = self._next_pieces()
        self._add_frame(pieces, records)
        return self._planned(pieces)

    def _plan_marker(self) -> LogWrite:
        pieces = self._next_pieces()
        _add_marker(pieces)
        return self._planned(pieces)

    def _next_pieces(self) -> list[Piece]:
        return [Piece(each, file=each.opened(self._fs)) for each in self._segments]

    def _planned(self, pieces: list[Piece]) -> LogWrite:
        for piece in pieces:
            piece.reserve = piece.segment.reserve_ahead(_RESERVE_BYTES, self._compact_bytes())
        return LogWrite(self._fs, self._folder, pieces)

    def _add_frame(self, pieces: list[Piece], records: bytes) -> None:
        self._frames += 1
        number = self._frames
        for piece in pieces:
            piece.segment.add_frame(
                piece.buffers, kind=HARD_STATES, index=number, term=0, command=records, body=b""
            )

    @property
    def _is_changed(self) -> bool:
        return bool(self._changed) or self._boots_changed

    def _encode_boots(self) -> bytes:
        records = [
            _RECORD.pack(_BOOT, _ALL_GROUPS, boot, 0 if place else self.registered_at)
            for place, boot in enumerate(self._boots)
        ]
        return b"".join(records)

    def _encode(self, groups: list[GroupId]) -> bytes:
        records = []
        for group in groups:
            state = self._states.get(group)
            if state is None:
                records.append(_RECORD.pack(_FORGET, group, 0, 0))
            else:
                records.append(_RECORD.pack(_PUT, group, state.term, state.vote))
                if state.recovery:
                    records.append(_RECORD.pack(_RECOVERY, group, state.recovery, 0))
                if state.lost is not None:
                    records.append(_RECORD.pack(_LOST, group, state.lost.term, state.lost.index))
                if state.voters is not None:
                    since, voters, outgoing, held, term = state.voters
                    records.append(_RECORD.pack(_VOTERS, group, since, 2 * term + held))
                    for kind, nodes in enumerate((voters, outgoing)):
                        records += [_RECORD.pack(_VOTER, group, node, kind) for node in nodes]
        return b"".join(records)


def _add_marker(pieces: list[Piece]) -> None:
    for piece in pieces:
        piece.segment.add_frame(piece.buffers, kind=MARKER, index=0, term=0, command=b"", body=b"")


def _new_header(fs: FileSystem, store: int) -> SegmentHeader:
    return SegmentHeader(
        purpose=Purpose.HARD_STATES,
        segment_id=fs.new_id(),
        group=store,
        first_index=1,
        previous_end=0,
        previous_chain=0,
    )


def _paths(folder: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" if folder else name for name in JOURNAL_COPIES)


def _few(boots: tuple[int, ...]) -> tuple[int, ...]:
    """The first and the last of them, where so many processes have started that none registered."""
    return boots if len(boots) <= BOOT_IDS_MAX else (boots[0], *boots[1 - BOOT_IDS_MAX :])


def journal_exists(fs: FileSystem, folder: str) -> bool:
    """Does the folder have a journal, or a copy of it?"""
    return any(fs.exists(path) for path in _paths(folder))


def read_states(
    fs: FileSystem, folder: str, store: int | None = None
) -> tuple[dict[GroupId, HardState], JournalReport]:
    """The states in a journal that a process left, by the rule in `recovery`. Changes nothing.

    Raises `CorruptFile` if neither copy of the `store` (None: of any) can be read,
    `FormatUnsupported`.
    """
    found: list[tuple[dict[GroupId, HardState], JournalReport]] = []
    damaged: CorruptFile | None = None
    for path in _paths(folder):
        try:
            if fs.exists(path):
                found.append(_read_copy(fs, path, store))
            elif not found:
                raise CorruptFile(file=fs.location(path), position=0, problem="it is missing")
        except CorruptFile as error:
            damaged = damaged or error
    if not found:
        assert damaged is not None, "a copy that is not there is damaged as well"
        raise damaged
    states: dict[GroupId, HardState] = {}
    for copy, _ in found:
        for group, state in copy.items():
            # Of two states of a group one was put after the other.
            states[group] = max(state, states.get(group, state), key=_age)
    report = max((report for _, report in found), key=lambda each: each.torn_bytes)
    # What one copy has forgotten does no harm.
    boots = tuple(dict.fromkeys(boot for _, report in found for boot in report.boots))
    registered_at = max(report.registered_at for _, report in found)
    return states, replace(
        report, groups=len(states), boots=boots, registered_at=registered_at, damaged=damaged
    )


def _age(state: HardState) -> tuple[int, int, int, int, bool]:
    """Rises with each state that is put after another one of the group. Of voters that were taken
    back in a term nothing was answered before both copies had that."""
    voters = state.voters
    return (*state[:3], voters.since if voters else 0, voters is not None and voters.held)


def _read_copy(
    fs: FileSystem, path: str, store: int | None
) -> tuple[dict[GroupId, HardState], JournalReport]:
    file = fs.open(path, create=False)
    try:
        header = read_segment_header(file, purpose=Purpose.HARD_STATES, group=store)
        frames: list[PlacedFrame] = []
        tail = read_tail(file, header, frames.append)
        states: dict[GroupId, HardState] = {}
        boots: dict[int, int] = {}
        count = 0
        for frame in frames:
            if frame.position >= tail.end or frame.header.kind == MARKER:
                continue
            count += 1
            _check(file, frame, count)
            _replay(file, frame, states, boots)
    finally:
        file.close()
    torn = tail.end if tail.torn_bytes else 0
    return states, JournalReport(
        groups=len(states),
        boots=tuple(boots),
        registered_at=LogIndex(max(boots.values(), default=0)),
        torn_position=torn,
        torn_bytes=tail.torn_bytes,
    )


def _check(file: File, frame: PlacedFrame, count: int) -> None:
    header = frame.header
    problem = ""
    if header.kind != HARD_STATES:
        problem = f"the kind of its frame is {header.kind}"
    elif header.index != count:
        problem = f"frame {header.index} follows frame {count - 1}"
    elif header.command_length % _RECORD.size or header.body_length:
        problem = f"a frame of {header.payload_bytes} bytes holds no records"
    elif not payload_is_whole(file, frame):
        problem = "the checksum of its records differs"
    if problem:
        raise CorruptFile(file=file.path, position=frame.position, problem=problem)


def _replay(
    file: File, frame: PlacedFrame, states: dict[GroupId, HardState], boots: dict[int, int]
) -> None:
    """Take over what the frame says; of each boot_id where it was registered, or 0."""
    records = file.read_at(frame.position + FRAME_HEADER_BYTES, frame.header.command_length)
    for kind, number, first, second in _RECORD.iter_unpack(records):
        group = GroupId(number)
        state = states.get(group)
        if kind == _PUT:
            states[group] = HardState(Term(first), NodeId(second))
        elif kind == _FORGET:
            states.pop(group, None)
        elif kind == _BOOT:
            if second:
                boots.clear()
            boots[first] = second
        elif state is not None and kind == _RECOVERY:
            states[group] = state._replace(recovery=first)
        elif state is not None and kind == _LOST:
            states[group] = state._replace(lost=LastEntry(Term(first), LogIndex(second)))
        elif state is not None and kind == _VOTERS:
            term, held = divmod(second, 2)
            since = VotersAt(LogIndex(first), (), held=bool(held), term=Term(term))
            states[group] = state._replace(voters=since)
        elif state is not None and state.voters is not None and kind == _VOTER:
            known, node = state.voters, (NodeId(first),)
            if second:
                known = known._replace(outgoing=known.outgoing + node)
            else:
                known = known._replace(voters=known.voters + node)
            states[group] = state._replace(voters=known)
        else:
            raise CorruptFile(
                file=file.path,
                position=frame.position,
                problem=f"the kind of its record is {kind}",
            )

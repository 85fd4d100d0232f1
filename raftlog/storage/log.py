"""One group's replicated log on disk: entries in order, in segments, durable when reported so.

`GroupLog` belongs to one thread, which plans the work (`append`, `truncate_from`) and hands it out
as a `LogWrite` (`take_write`). Any thread may do it (`LogWrite.run`). Then the owning thread calls
`written`, and only from then on the entries count as durable. At most one write is in flight at a
time. What arrives meanwhile goes into the next one, so that one sync covers it all (group commit).

The log holds the entries after its *base*. Once an image covers a beginning of it, `drop_to` moves
the base forward and hands out the removal of the files (`prefix`).

CHECKLIST rows: 1 (contiguous indexes, terms that never fall, before and after reopening), 21
(recovery from a crash: `recovery`), 22 (`truncate_from`), 31 and 77 (`hard_state`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from raftlog.core.types import EMPTY_PAYLOAD, Entry, EntryKind, LogIndex, Payload, Term
from raftlog.errors import CorruptFile
from raftlog.storage.contract import File, FileSystem
from raftlog.storage.frames import (
    FRAME_HEADER_BYTES,
    MARKER,
    SEGMENT_HEADER_BYTES,
    Purpose,
    SegmentHeader,
)
from raftlog.storage.limits import SEALED_BYTES_MIN, LogLimits
from raftlog.storage.mend import SegmentPlan
from raftlog.storage.open_files import OpenFiles, SegmentFiles
from raftlog.storage.payload_cache import PayloadCache
from raftlog.storage.prefix import NO_BASE, Base, PrefixRemoval
from raftlog.storage.read import (
    EntryFrame,
    LogRead,
    Wanted,
    read_command,
    read_in_frame,
    read_payload,
)
from raftlog.storage.reopen import (
    SEGMENT_ENDING,
    RecoveryReport,
    Reopened,
    reopen,
    segment_names,
    segment_path,
)
from raftlog.storage.write import LogWrite, Piece, Segment, Truncation, remove_unfinished


class _PlannedTruncation(NamedTuple):
    """Part of the plan, but not taken by a write yet."""

    removed: tuple[Segment, ...]
    """In the order of removal: the last segment first."""
    segment: Segment
    size: int


class GroupLog:
    """The log of one group, after its base. Ranges here include both ends, as in Raft."""

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        group: int,
        limits: LogLimits,
        found: Reopened,
        cache: PayloadCache | None,
    ) -> None:
        assert found.report is not None
        self._fs = fs
        self._folder = folder
        self._group = group
        self._limits = limits
        self._segments = found.segments
        self._table = found.table
        self._pending: dict[int, Payload] = {}
        """Payloads of all entries that are not durable yet. No other copy exists: never evicted."""
        if cache is None:
            cache = PayloadCache(limits.payload_cache_bytes_max)
        self._cached = cache.share()
        """Payloads of some entries that are durable."""
        self._files = SegmentFiles(fs, limits.sealed_files_max)
        self._durable = found.table.last_index
        self._truncation: _PlannedTruncation | None = None
        self._outstanding: LogWrite | None = None
        self._in_use: tuple[Segment, ...] = ()
        """The segments whose files it may use."""
        self._marker_wanted = False
        self._ended = False
        self._seal_wanted = False
        self.incarnation = 0
        """How often the log was truncated. A read planned before may name entries since replaced.
        """
        self.report: RecoveryReport = found.report
        """What opening found. A created log reports one empty segment."""

    # ------------------------------------------------------------ making and opening

    @classmethod
    def create(
        cls,
        fs: FileSystem,
        folder: str,
        group: int,
        limits: LogLimits,
        cache: PayloadCache | None = None,
    ) -> GroupLog:
        """Create an empty log in an existing folder that has none; durable when this returns.

        `cache` is shared by the node's logs; with None the log gets one of its own.
        """
        assert not cls.exists(fs, folder), f"{folder} holds a log"
        header = SegmentHeader(
            purpose=Purpose.LOG,
            segment_id=fs.new_id(),
            group=group,
            first_index=1,
            previous_end=0,
            previous_chain=0,
        )
        piece = Piece(Segment(segment_path(folder, 1), header), file=None)
        remove_unfinished(fs, folder, SEGMENT_ENDING)
        LogWrite(fs, folder, [piece]).run_whole()
        report = RecoveryReport(segments=1, last_index=LogIndex(0))
        found = Reopened(segments=[piece.segment], report=report)
        return cls(fs, folder, group, limits, found, cache)

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        folder: str,
        group: int,
        limits: LogLimits,
        cache: PayloadCache | None = None,
        *,
        base: Base = NO_BASE,
    ) -> GroupLog:
        """Open what a process left, however it ended; `recovery` has the rule.

        `base` is what the group's manifest says: the log must have a segment that begins directly
        after it. Earlier ones are what a crash left of a `PrefixRemoval`, and are removed.

        All entries found are durable when this returns. `cache` is as for `create`. Raises
        `CorruptFile` (nothing is changed then), `FormatUnsupported`, `DiskFailed`.
        """
        return cls(fs, folder, group, limits, reopen(fs, folder, group, base), cache)

    @staticmethod
    def exists(fs: FileSystem, folder: str) -> bool:
        """Whether the folder contains a log."""
        return bool(segment_names(fs, folder))

    def close(self) -> None:
        """Write what is pending and a marker, then close the files. No write may be in flight.

        On a full disk the rest is not written. It was never reported as durable.
        """
        if self._ended:
            return
        if self._outstanding is None:
            self.idle_marker()
            while (write := self.take_write()) is not None:
                write.run()
                if not write.done:
                    break
                self.written(write)
                self.idle_marker()
        self._end()

    def discard(self) -> None:
        """Close the log of a group that is about to be removed, and drop what is pending.

        Gives back at once the space reserved ahead and the space of a write that found no more
        room: on a full disk the removal itself needs some. No write may be in flight.
        """
        self._files.leave()
        remove_unfinished(self._fs, self._folder, SEGMENT_ENDING)
        for segment in reversed(self._segments):
            if self._fs.exists(segment.path):
                segment.opened(self._fs).truncate(segment.synced)
                break
        self._end()

    def abandon(self) -> None:
        """Close the files and write nothing: another log takes this one's place, or has. No write
        may be in flight. `close` does nothing then."""
        self._end()

    def _end(self) -> None:
        """Close the files and release the memory."""
        self._ended = True
        self._files.leave()
        removed = self._truncation.removed if self._truncation is not None else ()
        for segment in (*self._segments, *removed):
            segment.close()
        self._pending.clear()
        self._cached.release()

    def join(self, open_files: OpenFiles) -> None:
        """From now on its files count among these, and may be closed between two uses."""
        self._files.join(open_files, self._segments)

    # ------------------------------------------------------------ what is in it

    @property
    def base_index(self) -> LogIndex:
        """The index of the entry before the first one here; 0 if none was dropped."""
        return self._table.base_index

    @property
    def base_term(self) -> Term:
        return self._table.base_term

    @property
    def last_index(self) -> LogIndex:
        """The index of the last entry, durable or not; `base_index` if there is none."""
        return self._table.last_index

    @property
    def last_term(self) -> Term:
        return self._table.last_term

    @property
    def durable_index(self) -> LogIndex:
        """All entries up to this index are synced to disk."""
        return self._durable

    @property
    def byte_count(self) -> int:
        """Bytes of the log's files once all is written, without space reserved ahead."""
        return sum(segment.end for segment in self._segments)

    def first_within(self, bytes_max: int) -> LogIndex:
        """The first entry of the newest segments that have at most so many bytes together; one past
        `last_index` if the last segment has more."""
        first = self.last_index + 1
        for segment in reversed(self._segments):
            bytes_max -= segment.end
            if bytes_max < 0:
                break
            first = segment.first_index
        return LogIndex(first)

    def term_at(self, index: int) -> Term:
        """The term of an entry in [base_index, last_index]; index 0 has term 0."""
        return self._table.term_at(index)

    def kind_at(self, index: int) -> EntryKind:
        """The kind of an entry after the base."""
        return self._table.kind_at(index)

    def terms(self) -> list[tuple[LogIndex, Term]]:
        """Each term with its first index in this log, ascending."""
        return self._table.terms()

    def size_at(self, index: int) -> int:
        """Bytes of the entry's command and body."""
        return self._table.size_at(index)

    def sizes(self) -> list[int]:
        """Payload bytes of every entry, from `base_index` + 1 on."""
        return self._table.sizes()

    # ------------------------------------------------------------ changing it

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries at the end. The first must follow `last_index`; terms must not fall.

        They are readable at once, and durable after `take_write`, `run` and `written`.
        """
        for entry in entries:
            self._table.add_entry(entry)
            self._pending[entry.index] = entry.payload

    def truncate_from(self, index: int) -> None:
        """Drop the entries at and after `index`, because a leader's entries conflict with them.

        They are no longer readable. The truncation becomes durable with the next write, which
        syncs it before it writes anything else (CHECKLIST row 22); until then a crash may bring
        the entries back. `index` must be in [base_index + 1, last_index].
        """
        self._require(index)
        self.incarnation += 1
        for gone in range(max(index, self._durable + 1), self.last_index + 1):
            del self._pending[gone]
        self._cached.drop_from(index)
        if index <= self._table.placed:
            self._plan_truncation(index)
        self._table.truncate(index)
        self._durable = min(self._durable, LogIndex(index - 1))

    def droppable(self, index: int) -> Base:
        """The base that `drop_to(index)` would give. Changes nothing.

        As long as nothing at or below `index` is truncated, a later call gives no lower one. So
        a caller may make it durable in the manifest first, and drop afterwards.
        """
        count = self._droppable_segments(index)
        if not count:
            return self.base_index, self.base_term
        base_index = LogIndex(self._segments[count].first_index - 1)
        return base_index, self._table.term_at(base_index)

    def drop_to(self, index: int) -> PrefixRemoval:
        """Drop the segments whose last entry is at or below `index`, and move the base there.

        The entries are no longer readable, and their memory is free. The files stay until the
        removal is run; until the manifest has the new base, a crash brings all of them back. Never
        dropped are the active segment, entries that are not durable, and segments that a write in
        flight touches: a later call gets those.

        The caller ensures that `index` is in [base_index, last_index] and that nothing needs the
        entries up to it any more: they are committed, applied, and in an image. A `LogRead` of them
        in flight may find that its file is gone; its owner must no longer want it.
        """
        assert self.base_index <= index <= self.last_index, (
            f"entry {index} is not in [{self.base_index}, {self.last_index}]"
        )
        base = self.droppable(index)
        count = self._droppable_segments(index)
        assert base[0] <= self._durable, "what is not durable is active or in a write in flight"
        dropped = self._segments[:count]
        del self._segments[:count]
        for segment in dropped:
            self._files.close(segment)
        self._table.drop_to(base[0])
        self._cached.drop_to(base[0])
        paths = tuple(segment.path for segment in dropped)
        return PrefixRemoval(fs=self._fs, folder=self._folder, removed=paths, base=base)

    def _droppable_segments(self, index: int) -> int:
        """How many segments, from the first, `drop_to(index)` drops."""
        in_write = self._outstanding.segments if self._outstanding is not None else ()
        count = 0
        while (
            count + 1 < len(self._segments)
            and self._segments[count + 1].first_index <= index + 1
            and self._segments[count] not in in_write
        ):
            count += 1
        return count

    def idle_marker(self) -> bool:
        """Plan a marker that proves the last entries durable, unless one does already.

        For a log that falls idle: afterwards damage to its last entries is not mistaken for a torn
        write. Returns whether `take_write` has a marker now. Does nothing while anything is pending
        or in flight: such a log is not idle, and a marker must not vouch for what is not durable.
        """
        active = self._segments[-1]
        is_idle = self._outstanding is None and self._truncation is None
        is_idle = is_idle and self._durable == self.last_index
        self._marker_wanted = is_idle and active.proven_to < active.data_end
        return self._marker_wanted

    def take_write(self) -> LogWrite | None:
        """Everything pending as one write, or None. Call `written` for the last one first. Raises
        `ResourceShortage`, if a file cannot be opened: nothing has changed then."""
        assert self._outstanding is None, "one write at a time"
        if (
            self._table.placed == self.last_index
            and self._truncation is None
            and not self._marker_wanted
        ):
            return None  # the usual case: most turns of a group have nothing to write
        active = self._segments[-1]
        self._files.opened(active)  # before anything is planned that could not be done then
        pieces = self._lay_out()
        if not pieces and self._truncation is None:
            return None
        self._outstanding = LogWrite(self._fs, self._folder, pieces, self._take_truncation())
        self._in_use = (active, *self._outstanding.segments)
        for segment in self._in_use:
            segment.busy = True
        return self._outstanding

    def written(self, write: LogWrite) -> None:
        """Record that `write.run()` has returned: what it wrote, and was not truncated since, is
        durable.

        A write that raised is never reported here: the process exits.
        """
        assert write is self._outstanding, "this is not the write in flight"
        assert write.done, "the write has not been run"
        self._outstanding = None
        for segment in self._in_use:
            segment.busy = False
        for segment in write.segments:
            segment.synced = segment.end
        durable = self._table.placed
        for index in range(self._durable + 1, durable + 1):
            self._cached.put(index, self._pending.pop(index))
        self._durable = durable
        self._files.used(write.segments)
        if self._truncation is None:
            self._files.keep_few(self._segments[-1])

    # ------------------------------------------------------------ reading

    def entries(self, first: int, last: int, bytes_max: int) -> list[Entry]:
        """Entries from `first` to at most `last`, together at most `bytes_max` payload bytes.

        Returns at least one, however large. CRCs of command and body are checked for every entry
        read from disk. Bytes that differ raise `CorruptFile` and are never returned.
        """
        self._require(first, last)
        found: list[Entry] = []
        for index in range(first, last + 1):
            bytes_max -= self._table.size_at(index)
            if found and bytes_max < 0:
                break
            payload = self._in_memory(index)
            if payload is None:
                payload = read_payload(self._opened_for(index), self._frame_of(index))
            term, kind = self._table.term_at(index), self._table.kind_at(index)
            found.append(Entry(LogIndex(index), term, kind, payload))
        return found

    def configurations(self, after: int) -> list[Entry]:
        """The entries after that one that bring another membership. Raises `CorruptFile`."""
        indexes = self._table.indexes_of(EntryKind.CONFIGURATION, after)
        return [entry for index in indexes for entry in self.entries(index, index, 0)]

    def plan_read(self, first: int, last: int) -> LogRead:
        """Plan to read the entries from `first` to `last`, which any thread may then do.

        This does not block. After the read ran, compare its `incarnation` with the log's before
        using it. Do not close the log before that.
        """
        self._require(first, last)
        wanted = []
        byte_count = 0
        for index in range(first, last + 1):
            byte_count += self._table.size_at(index)
            payload = self._in_memory(index)
            term, kind = self._table.term_at(index), self._table.kind_at(index)
            entry = Entry(LogIndex(index), term, kind, payload or EMPTY_PAYLOAD)
            if payload is not None:
                wanted.append(Wanted(entry, "", None))
            else:
                path = self._segments[self._segment_of(index)].path
                wanted.append(Wanted(entry, path, self._frame_of(index)))
        return LogRead(self._fs, wanted, byte_count=byte_count, incarnation=self.incarnation)

    def plan_no_read(self) -> LogRead:
        """A read of no entries."""
        return LogRead(self._fs, (), byte_count=0, incarnation=self.incarnation)

    def check_entry(self, index: int) -> None:
        """Read the entry where readers get it from, and check its CRCs. Raises `CorruptFile`."""
        self.entries(index, index, 0)

    def command(self, index: int) -> tuple[Term, EntryKind, bytes]:
        """The entry without its body, which is not read. The CRC of the command is checked."""
        self._require(index)
        if (payload := self._in_memory(index)) is not None:
            command = payload.command
        else:
            command = read_command(self._opened_for(index), self._frame_of(index))
        return self._table.term_at(index), self._table.kind_at(index), command

    def body_slices(self, index: int, slices: Sequence[tuple[int, int]]) -> list[bytes]:
        """Raw bytes [position, position + length) of the entry's body, for each slice.

        They are not checked: the chunks of a body have their CRCs in the command, and the reader
        checks them end to end.
        """
        self._require(index)
        command_length, body_length = self._table.lengths_at(index)
        payload = self._in_memory(index)
        found = []
        for position, length in slices:
            assert 0 <= position <= position + length <= body_length, "a slice exceeds the body"
            if payload is not None:
                found.append(payload.body[position : position + length])
            else:
                start = FRAME_HEADER_BYTES + command_length + position
                file, frame = self._opened_for(index), self._frame_of(index)
                found.append(read_in_frame(file, frame, start, length))
        return found

    def _require(self, first: int, last: int | None = None) -> None:
        last = first if last is None else last
        assert self.base_index < first <= last <= self.last_index, (
            f"entries {first} to {last} are not in [{self.base_index + 1}, {self.last_index}]"
        )

    def _in_memory(self, index: int) -> Payload | None:
        if index > self._durable:
            return self._pending[index]
        return self._cached.get(index)

    # ------------------------------------------------------------ damage at rest

    def segment_named(self, name: str) -> LogIndex | None:
        """The first index of the segment with this file name; None: the log has none such."""
        for segment in self._segments:
            if segment.path.rpartition("/")[2] == name:
                return LogIndex(segment.first_index)
        return None

    def has_segment(self, first: LogIndex) -> bool:
        """Is there a segment that begins with this entry?"""
        return any(segment.first_index == first for segment in self._segments)

    def segment_with(self, index: int) -> LogIndex | None:
        """The first index of the segment that holds an entry on disk; None if none does."""
        if not self.base_index < index <= self._durable:
            return None
        return LogIndex(self._segments[self._segment_of(index)].first_index)

    def entry_at(self, first: LogIndex, position: int) -> LogIndex:
        """The last entry at or before a position in the segment that begins with `first`; `first`
        if there is none."""
        at = self._segment_of(first)
        is_last = at + 1 == len(self._segments)
        end = self._table.placed + 1 if is_last else self._segments[at + 1].first_index
        before = bisect_right(range(first, end), position, key=self._table.position_at)
        return LogIndex(first + max(0, before - 1))

    def damage_of(self, index: int, problem: str) -> CorruptFile:
        """That something is wrong with the entry, which is on disk."""
        path = self._segments[self._segment_of(index)].path
        return CorruptFile(
            file=self._fs.location(path),
            position=self._table.position_at(index),
            problem=f"entry {index}: {problem}",
        )

    def plan_mend(self, first: LogIndex) -> SegmentPlan | None:
        """What the segment that begins with `first` must hold; None if it is gone, or a truncation
        of the files is still to be written. No write may be in flight where the plan is used to
        write (`storage.mend`)."""
        segments = self._segments
        at = self._segment_of(first)
        if at < 0 or segments[at].first_index != first or self._truncation is not None:
            return None
        segment = segments[at]
        is_last = at + 1 == len(segments)
        last = self._durable if is_last else LogIndex(segments[at + 1].first_index - 1)
        if last < first - 1 or last > self._durable:
            return None
        end, chain = segment.end, segment.chain
        if self._outstanding is not None and segment in self._outstanding.segments:
            return None
        table = self._table.part(first, last)
        return SegmentPlan(self._folder, segment.path, segment.header, end, chain, table)

    def mended(self, plan: SegmentPlan) -> None:
        """The segment has a new file with what was planned: read and write that from now on."""
        for segment in (*self._segments, *(self._truncation.removed if self._truncation else ())):
            if segment.path == plan.path:
                self._files.close(segment)
                segment.reserved = min(segment.reserved, plan.end)

    # ------------------------------------------------------------ planning

    def _lay_out(self) -> list[Piece]:
        """Plan frames for every entry without a position; if there is none, for a wanted marker."""
        pieces: list[Piece] = []
        first, last = self._table.placed + 1, self.last_index
        if first <= last:
            piece = self._piece_for_active(pieces)
            for index in range(first, last + 1):
                if self._is_full(piece.segment, FRAME_HEADER_BYTES + self._table.size_at(index)):
                    piece = self._begin_segment(pieces, index)
                self._place(piece, index)
        elif self._marker_wanted and self._truncation is None:
            piece = self._piece_for_active(pieces)
            piece.segment.add_frame(
                piece.buffers,
                kind=MARKER,
                index=self.last_index,
                term=self.last_term,
                command=b"",
                body=b"",
            )
        self._marker_wanted = False
        for piece in pieces:
            if piece.seal_at is None:
                limits = self._limits
                piece.reserve = piece.segment.reserve_ahead(
                    limits.preallocate_bytes, limits.segment_bytes_max
                )
        return pieces

    def _piece_for_active(self, pieces: list[Piece]) -> Piece:
        active = self._segments[-1]
        pieces.append(Piece(active, file=active.opened(self._fs)))
        return pieces[-1]

    def _is_full(self, segment: Segment, frame_bytes: int) -> bool:
        """Whether the frame must go to a new segment. An empty segment takes any frame."""
        if segment.end == SEGMENT_HEADER_BYTES:
            return False
        if self._seal_wanted:
            return True
        return segment.end + frame_bytes > self._limits.segment_bytes_max

    def seal(self) -> None:
        """Let the next entry begin a new segment, so that the active one can be dropped as soon as
        its entries are not needed. Not if it is small: a new file costs more."""
        self._seal_wanted = self._segments[-1].end >= SEALED_BYTES_MIN

    def _begin_segment(self, pieces: list[Piece], first_index: int) -> Piece:
        """Seal the active segment. It is synced whole before its successor gets its name."""
        sealed = pieces[-1].segment
        pieces[-1].seal_at = sealed.end
        header = SegmentHeader(
            purpose=Purpose.LOG,
            segment_id=self._fs.new_id(),
            group=self._group,
            first_index=first_index,
            previous_end=sealed.end,
            previous_chain=sealed.chain,
        )
        segment = Segment(segment_path(self._folder, first_index), header)
        self._segments.append(segment)
        self._seal_wanted = False
        pieces.append(Piece(segment, file=None))
        return pieces[-1]

    def _place(self, piece: Piece, index: int) -> None:
        payload = self._pending[index]
        piece.has_body = piece.has_body or bool(payload.body)
        position = piece.segment.add_frame(
            piece.buffers,
            kind=self._table.kind_at(index),
            index=index,
            term=self._table.term_at(index),
            command=payload.command,
            body=payload.body,
        )
        self._table.place(position, piece.segment.chain)

    def _plan_truncation(self, index: int) -> None:
        """Truncate the plan at an entry with a position. The next write truncates the files."""
        # A segment that begins with the entry stays, without frames: the end of the segment before
        # it may be the base that a manifest names (`droppable`).
        at = self._segment_of(index)
        removed = self._segments[at + 1 :]
        del self._segments[at + 1 :]
        segment = self._segments[at]
        self._files.not_sealed((*removed, segment))
        if segment.first_index < index:
            segment.truncate(self._table.end_at(index - 1), self._table.chain_at(index - 1))
        else:
            segment.truncate(SEGMENT_HEADER_BYTES, segment.header.chain)
        earlier = self._truncation.removed if self._truncation is not None else ()
        self._truncation = _PlannedTruncation((*earlier, *reversed(removed)), segment, segment.end)

    def _take_truncation(self) -> Truncation | None:
        """The planned truncation for a write, if any. Closes the files of removed segments: no
        write is in flight that could be using them."""
        planned, self._truncation = self._truncation, None
        if planned is None:
            return None
        for segment in planned.removed:
            self._files.close(segment)
        return Truncation(
            removed=tuple(segment.path for segment in planned.removed),
            file=planned.segment.opened(self._fs),
            size=planned.size,
        )

    # ------------------------------------------------------------ bytes from disk

    def _segment_of(self, index: int) -> int:
        return bisect_right(self._segments, index, key=lambda segment: segment.first_index) - 1

    def _opened_for(self, index: int) -> File:
        """The file that holds the entry. A few other sealed segments stay open."""
        segment = self._segments[self._segment_of(index)]
        file = self._files.opened(segment)
        self._files.used([segment])
        if self._outstanding is None and self._truncation is None:
            self._files.keep_few(self._segments[-1])
        return file

    def _frame_of(self, index: int) -> EntryFrame:
        """The frame of an entry that is on disk."""
        assert index <= self._durable, "an entry that is not durable is in memory"
        command_length, body_length = self._table.lengths_at(index)
        return EntryFrame(
            entry_index=index,
            position=self._table.position_at(index),
            seed=self._segments[self._segment_of(index)].seed,
            chain=self._table.chain_at(index),
            command_length=command_length,
            body_length=body_length,
        )

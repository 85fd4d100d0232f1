"""A damaged header in a log, rebuilt from what is left around it.

Nearly all that a header says is known from elsewhere. Index and term follow the frame before, the
checksums are those of the payload, the lengths end where the next frame begins, and `synced_to` is
that of the frame before or the frame's own position (one write is in flight at a time). So each
field is tried as it is on disk and as it should be, and each byte with every other value. Where its
fields came from proves nothing. This does:

- The next frame, or the header of the next segment, has the chain that includes this frame, if the
  frame ends exactly there.
- For the last frame, and for one before another damaged header: its own CRC or its chain on disk
  confirms the fields, and its payload is whole. The second of two damaged headers then links to
  the next frame, or neither counts.

A torn write has no such proof, unless all that it says was written. Then a log may keep the entry.

Two lengths that are both damaged, in more than a byte, follow from nothing here if the frame has
both a command and a body. Nor does the id of a segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from raftlog.checksum import crc32c
from raftlog.core.types import EntryKind
from raftlog.storage.contract import File
from raftlog.storage.frames import (
    FRAME_HEADER_BYTES,
    MARKER,
    SEGMENT_HEADER_BYTES,
    FrameHeader,
    PayloadSum,
    Purpose,
    SegmentHeader,
    complete_fields,
    confirms,
    decode_frame_header,
    fields_with_one_byte_changed,
    frame_fields,
    likely_segment_headers,
    unchecked_frame_header,
)
from raftlog.storage.index import EntryTable
from raftlog.storage.recovery import FrameWalk, PlacedFrame, payload_is_whole


class Following(NamedTuple):
    """What comes after a damaged frame, or after several."""

    position: int
    frame: FrameHeader | None
    """None: the segment ends there, with this chain."""
    chain: int = 0

    def continues(self, chain: int) -> bool:
        return self.chain == chain if self.frame is None else self.frame.chains_from(chain)


class Rebuilt(NamedTuple):
    """A header as it was."""

    header: FrameHeader
    data: bytes


def rebuilt_header(
    file: File, seed: int, walk: FrameWalk, table: EntryTable, following: Following | None
) -> Rebuilt | None:
    """The header at the end of the walk, whose entries are in `table`; None if it is not known.
    `following`: None if nothing valid comes after it."""
    damaged = file.read_at(walk.end, FRAME_HEADER_BYTES)
    if len(damaged) < FRAME_HEADER_BYTES:
        return None
    limit = file.size() if following is None else min(following.position, file.size())
    frame = _DamagedFrame(file, damaged, walk, table, following, limit)
    changed = fields_with_one_byte_changed(damaged, seed)
    for fields in (*([] if changed is None else [changed]), *frame.likely_fields()):
        data, chain = complete_fields(fields, seed, walk.chain)
        header = decode_frame_header(data, 0, seed)
        if header is None or not frame.may_be(header):
            continue
        placed = PlacedFrame(walk.end, header, walk.chain, walk.proven_to)
        is_linked = (
            following is not None
            and placed.end == following.position
            and following.continues(chain)
        )
        if is_linked or (confirms(damaged, data) and payload_is_whole(file, placed)):
            return Rebuilt(header, data)
    return None


class _DamagedFrame(NamedTuple):
    file: File
    damaged: bytes
    walk: FrameWalk
    table: EntryTable
    following: Following | None
    limit: int
    """It ends there or before."""

    def may_be(self, header: FrameHeader) -> bool:
        """Could a frame with this header come at that place?"""
        last = self.table.last_index
        is_next = header.index == (last if header.kind == MARKER else last + 1)
        after = None if self.following is None else self.following.frame
        return (
            is_next
            and header.kind in {*EntryKind, MARKER}
            and self.table.last_term <= header.term
            and (after is None or header.term <= after.term)
            and self.walk.proven_to <= header.synced_to <= self.walk.end
            and self.walk.end + header.frame_bytes <= self.limit
        )

    def likely_fields(self) -> Iterator[bytes]:
        """The fields, each as it is and as it should be."""
        said, table = unchecked_frame_header(self.damaged, 0), self.table
        after = None if self.following is None else self.following.frame
        terms = {said.term, table.last_term, *([] if after is None else [after.term])}
        synced = {said.synced_to, self.walk.proven_to, self.walk.end}
        kinds = {said.kind, *map(int, EntryKind)} - {MARKER}
        payloads = [summed for pair in self._lengths(said) for summed in self._sums(said, *pair)]
        for kind, term, synced_to, payload in product(kinds, terms, synced, payloads):
            yield frame_fields(
                kind=kind,
                index=table.last_index + 1,
                term=term,
                synced_to=synced_to,
                payload=payload,
            )
        for synced_to in synced:
            yield frame_fields(
                kind=MARKER,
                index=table.last_index,
                term=table.last_term,
                synced_to=synced_to,
                payload=PayloadSum(0, 0, 0, 0),
            )

    def _lengths(self, said: FrameHeader) -> set[tuple[int, int]]:
        room = self.limit - self.walk.end - FRAME_HEADER_BYTES
        command, body = said.command_length, said.body_length
        pairs = {(command, body)}
        if self.following is not None:
            pairs |= {(command, room - command), (room - body, body), (room, 0), (0, room)}
        return {pair for pair in pairs if min(pair) >= 0 and sum(pair) <= room}

    def _sums(self, said: FrameHeader, command_length: int, body_length: int) -> set[PayloadSum]:
        start = self.walk.end + FRAME_HEADER_BYTES
        payload = self.file.read_at(start, command_length + body_length)
        commands = {said.command_crc, crc32c(payload[:command_length])}
        bodies = {said.body_crc, crc32c(payload[command_length:])}
        return {
            PayloadSum(command_length, body_length, *crcs) for crcs in product(commands, bodies)
        }


def rebuilt_segment_header(file: File, group: int, first_index: int) -> SegmentHeader | None:
    """The header of a log's segment that begins with this entry; None if it is not known. Its own
    CRC proves it, or the first frame."""
    damaged = file.read_at(0, SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES)
    if len(damaged) < SEGMENT_HEADER_BYTES:
        return None
    for header in likely_segment_headers(
        damaged[:SEGMENT_HEADER_BYTES], purpose=Purpose.LOG, group=group, first_index=first_index
    ):
        if (header.purpose, header.group, header.first_index) != (Purpose.LOG, group, first_index):
            continue
        first = decode_frame_header(damaged, SEGMENT_HEADER_BYTES, header.seed)
        is_linked = first is not None and first.chains_from(header.chain)
        if is_linked or header.encode()[-4:] == damaged[SEGMENT_HEADER_BYTES - 4 :][:4]:
            return header
    return None

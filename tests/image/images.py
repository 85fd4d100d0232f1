"""Small images for the tests."""

from __future__ import annotations

from raftlog.core.types import LogIndex, Offset, Term
from raftlog.image.manifest import HistoryInfo, Image, SnapshotInfo, StagesInfo


def snapshot(index: int, mark: int = 0, term: int = 2) -> SnapshotInfo:
    return SnapshotInfo(
        index=LogIndex(index),
        term=Term(term),
        mark=Offset(mark),
        state_hash=index.to_bytes(8, "little"),
    )


def stages(first: int, last: int) -> StagesInfo:
    return StagesInfo(
        first=LogIndex(first),
        last=LogIndex(last),
        byte_count=128,
        chain=last,
    )


def history(start: int, end: int) -> HistoryInfo:
    return HistoryInfo(
        start=Offset(start),
        end=Offset(end),
        record_bytes=10 * (end - start),
        byte_count=9 * (end - start),
        file_id=start + 1,
        footer_crc=end,
        digest=b"digest %09d" % end,
    )


def image(generation: int) -> Image:
    """An image whose every part tells its generation."""
    mark = 100 * generation
    return Image(
        generation=generation,
        base=(LogIndex(10 * generation - 10), Term(1)),
        snapshots=tuple(snapshot(10 * each, 100 * each) for each in range(1, generation + 1)),
        stages=(stages(1, 10 * generation),),
        history=(history(0, mark),),
    )

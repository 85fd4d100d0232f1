"""How ranges of offsets become tasks: by bytes, at extents, as many as asked for. Pure logic."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

BYTES_PER_TASK_MIN = 1 << 20
"""Smaller tasks cost more to start than they gain, unless `minPartitions` asks for them."""


PIECES_PER_TASK_MAX = 32
"""A task asks for its pieces one after another, a round trip each, so more tasks share many."""


def pieces_wanted(records: Sequence[int], pieces_min: int) -> list[int]:
    """`pieces_min` shared among ranges in proportion to their records; at least one for each."""
    total = sum(records)
    return [max(1, -(-pieces_min * count // total)) for count in records]


def gathered(
    matches: Sequence[tuple[int, int, int]],
    pieces_max: int,
    *,
    pieces_min: int | None,
    records_max: int | None,
) -> list[tuple[tuple[int, int], ...]]:
    """Ranges of records with gaps between them as tasks, each of several ranges in order.

    `matches` are (start, end, bytes) in order, none empty. Tasks are as `split` makes them out of
    at most `pieces_max` pieces of about equal bytes, if the records lay next to each other: each
    ends with the match that ends nearest to its equal share.
    """
    places = list(accumulate((end - start for start, end, _ in matches), initial=0))
    bytes_before = list(accumulate((size for _, _, size in matches), initial=0))
    shares = (bytes_before[-1] * piece / pieces_max for piece in range(1, pieces_max))
    ends = sorted({0, len(matches), *(_nearest(bytes_before, share) for share in shares)})
    pieces = split(
        [places[end] for end in ends],
        [bytes_before[end] - bytes_before[start] for start, end in pairwise(ends)],
        pieces_min=pieces_min,
        records_max=records_max,
    )
    return list(_ranges(matches, pieces))


def _nearest(rising: Sequence[int], value: float) -> int:
    """The index of the number that is nearest to the value, which is from the first to the last."""
    above = bisect_left(rising, value)
    return above - (above > 0 and value - rising[above - 1] < rising[above] - value)


def _ranges(
    matches: Sequence[tuple[int, int, int]], pieces: Sequence[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Which ranges of records each piece is, of pieces that count the records of all matches."""
    waiting = deque((start, end) for start, end, _ in matches)
    for first, last in pieces:
        needed = last - first
        task: list[tuple[int, int]] = []
        while needed:
            start, end = waiting.popleft()
            taken = min(needed, end - start)
            needed -= taken
            if taken < end - start:
                waiting.appendleft((start + taken, end))
            if task and task[-1][1] == start:
                task[-1] = (task[-1][0], start + taken)
            else:
                task.append((start, start + taken))
        yield tuple(task)


def split(
    offsets: Sequence[int],
    body_bytes: Sequence[int],
    *,
    pieces_min: int | None,
    records_max: int | None,
) -> list[tuple[int, int]]:
    """Ranges [start, end) that cover [offsets[0], offsets[-1]) in order; none is empty.

    `body_bytes[i]` bytes lie between `offsets[i]` and `offsets[i + 1]`. Without `pieces_min`,
    pieces below `BYTES_PER_TASK_MIN` are joined with their successors. With it, pieces are halved
    until there are as many, or each is one record. At the end, pieces above `records_max` are
    split.
    """
    assert len(offsets) == len(body_bytes) + 1, (len(offsets), len(body_bytes))
    pieces = [(start, end) for start, end in pairwise(offsets) if start < end]
    if pieces_min is None:
        pieces = _joined(offsets, body_bytes)
    else:
        pieces = _halved(pieces, pieces_min)
    if records_max is not None:
        pieces = [part for piece in pieces for part in _divided(piece, records_max)]
    return pieces


def packed(
    pieces: Sequence[tuple[int, int]], *, tasks_min: int, records_max: int | None
) -> list[range]:
    """Which pieces, each (records, bytes), one task reads: runs of consecutive ones, all in order.

    A task takes pieces until it has `BYTES_PER_TASK_MIN` or `PIECES_PER_TASK_MAX`, or the next
    would pass `records_max`. If that leaves fewer than `tasks_min` tasks, each piece is a task.
    """
    tasks: list[range] = []
    begin = records = size = 0
    for index, (more_records, more_bytes) in enumerate(pieces):
        full = size >= BYTES_PER_TASK_MIN or index - begin == PIECES_PER_TASK_MAX
        over = records_max is not None and records + more_records > records_max
        if begin < index and (full or over):
            tasks.append(range(begin, index))
            begin, records, size = index, 0, 0
        records, size = records + more_records, size + more_bytes
    if begin < len(pieces):
        tasks.append(range(begin, len(pieces)))
    if len(tasks) < tasks_min:
        return [range(index, index + 1) for index in range(len(pieces))]
    return tasks


def _joined(offsets: Sequence[int], body_bytes: Sequence[int]) -> list[tuple[int, int]]:
    pieces: list[tuple[int, int]] = []
    begin, batched_bytes = offsets[0], 0
    for end, size in zip(offsets[1:], body_bytes, strict=True):
        batched_bytes += size
        if batched_bytes >= BYTES_PER_TASK_MIN and end > begin:
            pieces.append((begin, end))
            begin, batched_bytes = end, 0
    if begin < offsets[-1]:
        pieces.append((begin, offsets[-1]))
    return pieces


def _halved(pieces: list[tuple[int, int]], pieces_min: int) -> list[tuple[int, int]]:
    heap = [(start - end, start, end) for start, end in pieces]
    heapq.heapify(heap)
    while 0 < len(heap) < pieces_min and heap[0][0] < -1:
        _, start, end = heapq.heappop(heap)
        middle = (start + end) // 2
        heapq.heappush(heap, (start - middle, start, middle))
        heapq.heappush(heap, (middle - end, middle, end))
    return sorted((start, end) for _, start, end in heap)


def _divided(piece: tuple[int, int], records_max: int) -> list[tuple[int, int]]:
    start, end = piece
    count = -(-(end - start) // records_max)
    bounds = [start + (end - start) * part // count for part in range(count + 1)]
    return list(pairwise(bounds))

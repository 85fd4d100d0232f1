"""Where a writer's epoch ends in a topic: the options `startingAfterEpoch` and `asOfEpoch`.

A topic remembers only the last epoch of each writer. But each record says of which epoch it is, and
along the offsets a writer's epochs only rise. So an earlier one is found by halves: at each step
the next record of the writer says in which half its end is. Other writers' records between are
passed over, and are never decoded: a read of metadata columns moves no column's bytes.

(A writer that was removed and began again at lower epochs is not told from one that did not.)
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from raftlog.errors import InvalidOption, WriterNotFound
from raftlog.spark.offsets import AfterEpoch

if TYPE_CHECKING:
    from raftlog import LogClient, TopicInfo

WINDOW_RECORDS_MIN, WINDOW_RECORDS_MAX = 1 << 12, 1 << 22
"""How many records are asked for at once: few at first, as the writer's next one is mostly near."""


class Found(NamedTuple):
    """A record of the writer."""

    offset: int
    epoch: int


Seek = Callable[[int, int], Found | None]
"""The writer's first record in [start, end)."""


def end_of(client: LogClient, topic: TopicInfo, after: AfterEpoch) -> int:
    """The topic's end as it was after the epoch's commit.

    Raises `InvalidOption` if the topic does not know the writer, if it did not commit the epoch, if
    all its records up to that epoch are trimmed, or if the epoch has no records and others wrote
    around it.
    """
    try:
        writer = client.writers.describe(topic, after.writer)
    except WriterNotFound as error:
        raise _refused(
            after,
            f"which topic {topic.name!r} does not know",
            f"`raftlog writers list {shlex.quote(topic.name)}` and the view epochs have its "
            "writers: a stream's is its query id, or its txnAppId. Writes without a txnAppId are "
            "forgotten after a while: give an offset instead.",
        ) from error
    if after.epoch > writer.last_epoch:
        newest = writer.last_epoch
        committed = f"the last one is {newest}" if newest >= 0 else "there is none"
        raise _refused(
            after,
            f"which is not committed in topic {topic.name!r}: {committed}",
            "Give that one or an earlier one, or read again when it is committed. A batch whose "
            "rows name other topics is not committed in this one.",
        )
    # Asked after the writer, so that it is not before the end of the writer's last epoch.
    held = client.read_high_water_mark(topic)
    log_start, mark = held.log_start_offset, held.high_water_mark
    first, last_end = int(writer.last_start), int(writer.last_end)
    if after.epoch == writer.last_epoch:
        if last_end < log_start or first < last_end == log_start:
            raise _trimmed(after, topic, log_start)
        return last_end
    return _end_before(client, topic, after, log_start, first, mark)


def _end_before(
    client: LogClient, topic: TopicInfo, after: AfterEpoch, log_start: int, first: int, mark: int
) -> int:
    """The end after an epoch before the writer's last one, which begins at offset `first`."""

    def seek(start: int, end: int) -> Found | None:
        return _first_record(client, topic, after.writer, start, end, mark)

    last = last_up_to(after.epoch, log_start, first, seek)
    if last is None and log_start > 0:
        raise _trimmed(after, topic, log_start)
    end = 0 if last is None else last.offset + 1
    if last is not None and last.epoch == after.epoch:
        return end
    # It has no records. If no other writer wrote around it, the topic's end was here all the same.
    later = seek(end, first)
    until = first if later is None else later.offset
    if until == end:
        return end
    raise _refused(
        after,
        f"which has no records in topic {topic.name!r}, and others wrote before and after it: the "
        f"topic's end was somewhere in [{end}, {until}]",
        "Give an epoch that has records, or one of these offsets.",
    )


def last_up_to(epoch: int, start: int, end: int, seek: Seek) -> Found | None:
    """The writer's last record in [start, end) of this epoch or an earlier one.

    Of the writer's records none below `start` is of a later epoch, and none from `end` on is of
    this one or an earlier one.
    """
    last = None
    while start < end:
        middle = (start + end) // 2
        found = seek(middle, end)
        if found is not None and found.epoch <= epoch:
            last, start = found, found.offset + 1
        else:
            end = middle
    return last


def _first_record(
    client: LogClient, topic: TopicInfo, writer: str, start: int, end: int, mark: int
) -> Found | None:
    import pyarrow.compute as pc

    columns = ["_offset", "_writer", "_epoch"]
    count = WINDOW_RECORDS_MIN
    while start < end:
        until = min(start + count, end)
        for batch in client.read(topic, start, until, mark=mark, columns=columns):
            at = pc.index(batch.column("_writer"), writer).as_py()
            if at >= 0:
                return Found(
                    batch.column("_offset")[at].as_py(), batch.column("_epoch")[at].as_py()
                )
        start, count = until, min(2 * count, WINDOW_RECORDS_MAX)
    return None


def _trimmed(after: AfterEpoch, topic: TopicInfo, log_start: int) -> InvalidOption:
    return _refused(
        after,
        f"whose records in topic {topic.name!r} are gone: the topic begins at offset {log_start}, "
        "after a trim, by retention, or because a later batch took the place of all records "
        "(overwrite, complete)",
        "Give a later epoch. What is gone cannot be read any more.",
    )


def _refused(after: AfterEpoch, problem: str, advice: str) -> InvalidOption:
    return InvalidOption(
        option=after.option,
        problem=f"is {after.epoch} of writer {after.writer!r}, {problem}",
        advice=advice,
    )

"""A stream's position in its topics: Spark's offset, as JSON and as values. Pure logic.

Spark stores and compares the JSON's text, so its keys are sorted and nothing in it is volatile:

    {"cluster": "...", "topics": {"flights": {"end": 15, "from": 10, "incarnation": "..."}}, "v": 1}
    {"topics": {"flights": {"start": "latest"}}, "v": 1}          the initial offset
    {"topics": {"*": {"start": "latest"}}, "v": 1}                that of a pattern

`cluster` is the id of the topics' cluster. Only the initial offset lacks it.

Spark asks for the initial offset more than once within batch 0, and a Python source cannot remember
its answer. So the initial offset is symbolic (`start`: earliest, latest, a number, a time or an
epoch), and the *end* of the first batch fixes it: `from` is where that topic's range starts. It is
written and read only for topics whose `start` is symbolic, missing, or of another incarnation.
Every other range is [start.end, end.end). A query that starts again within batch 0 finds that end
in Spark's log, and so the same range.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeGuard

from raftlog.errors import ClusterMismatch, DataLoss, InvalidOption, OffsetTrimmed, TopicRecreated
from raftlog.spark.limits import Waiting

EARLIEST = "earliest"
LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class AtTime:
    """The first record whose timestamp is at or after a time; timestamps never fall."""

    option: str
    """The option that says so."""
    timestamp_us: int
    otherwise_latest: bool
    """What holds if there is no such record: the topic's end. If false: an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterEpoch:
    """The topic's end as it was when this epoch of this writer had been committed."""

    option: str
    """The option that says so."""
    writer: str
    epoch: int


Sought = AtTime | AfterEpoch
"""A position that only the topic's records tell."""

Position = str | int | Sought
"""`EARLIEST`, `LATEST`, an offset from 0 up, or what has to be looked up."""

OTHERS = "*"
"""In JSON: all topics that are not named. No topic has this name."""

VERSION = 1

log = logging.getLogger("raftlog.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A topic whose start is not resolved yet.

    What is `Sought` is looked up for the first batch, and is then as durable as `latest` is.
    """

    start: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A topic that is read up to `end`, exclusive. `first` is "from" in the JSON."""

    incarnation: str
    end: int
    first: int | None = None


StreamOffset = Mapping[str, Pending | Reached]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWatermark:
    """A topic as a linearizable read found it, with the records [log_start, high_water_mark)."""

    topic: str
    incarnation: str
    log_start: int
    high_water_mark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRange:
    """Records [start, end) of one incarnation of a topic."""

    topic: str
    incarnation: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The cluster that answered, and the servers that were asked."""

    id: str
    servers: str


def initial(starting: Mapping[str, Position]) -> dict[str, Any]:
    """The offset before batch 0. It depends only on the options, so every call agrees."""
    return render({topic: Pending(start=position) for topic, position in starting.items()})


def render(offset: StreamOffset, cluster_id: str | None = None) -> dict[str, Any]:
    """The offset as the JSON object that Spark stores, keys sorted."""
    topics: dict[str, Any] = {}
    for topic in sorted(offset):
        entry = offset[topic]
        if isinstance(entry, Pending):
            at = entry.start
            topics[topic] = {"start": asdict(at) if isinstance(at, Sought) else at}
            continue
        topics[topic] = {"end": entry.end}
        if entry.first is not None:
            topics[topic]["from"] = entry.first
        topics[topic]["incarnation"] = entry.incarnation
    of_cluster = {} if cluster_id is None else {"cluster": cluster_id}
    return {**of_cluster, "topics": topics, "v": VERSION}


def parse(json_object: Mapping[str, Any]) -> StreamOffset:
    """The topics that `render` wrote. Raises `DataLoss` for what this version cannot read."""
    topics = _object(json_object).get("topics")
    if json_object.get("v") != VERSION or not isinstance(topics, dict):
        raise _unreadable(json_object, f"is not of version {VERSION}")
    offset: dict[str, Pending | Reached] = {}
    for topic, entry in topics.items():
        found = _entry(entry)
        if found is None:
            raise _unreadable(json_object, f"has for topic {topic!r} what no version writes")
        offset[topic] = found
    return offset


def _entry(entry: Any) -> Pending | Reached | None:
    match entry:
        case {"start": given, **rest} if not rest:
            at = _position(given)
            return None if at is None else Pending(start=at)
        case {"incarnation": str(incarnation), "end": end, **rest} if not rest.keys() - {"from"}:
            first = rest.get("from")
            if _is_offset(end) and (first is None or _is_offset(first)):
                return Reached(incarnation=incarnation, end=end, first=first)
    return None


def _position(given: Any) -> Position | None:
    match given:
        case str() if given in (EARLIEST, LATEST):
            return given
        case {
            "option": str(option),
            "timestamp_us": int(time_us),
            "otherwise_latest": bool(latest),
        } if len(given) == len(fields(AtTime)):
            return AtTime(option=option, timestamp_us=time_us, otherwise_latest=latest)
        case {"option": str(option), "writer": str(writer), "epoch": int(epoch)} if len(
            given
        ) == len(fields(AfterEpoch)):
            return AfterEpoch(option=option, writer=writer, epoch=epoch)
    return given if _is_offset(given) else None


def _is_offset(given: object) -> TypeGuard[int]:
    return type(given) is int and given >= 0


def _object(given: Any) -> Mapping[str, Any]:
    """What Spark stored, which is an object unless it was changed. Raises `DataLoss`."""
    if not isinstance(given, Mapping):
        raise _unreadable(given, "is no JSON object")
    return given


def _unreadable(given: object, problem: str) -> DataLoss:
    return DataLoss(
        what=f"The checkpoint's offset {given!r} {problem}.",
        advice="Use the version of raftlog that wrote the checkpoint, or a new checkpoint. "
        "`raftlog doctor` says more.",
    )


def cluster_of(json_object: Mapping[str, Any]) -> str | None:
    """The id of an offset's cluster; None if it is the initial offset."""
    found = _object(json_object).get("cluster")
    if found is not None and not isinstance(found, str):
        raise _unreadable(json_object, "names a cluster that is none")
    return found


def check_cluster(wanted_id: str | None, found: Cluster) -> None:
    """Raise `ClusterMismatch` if an offset is of another cluster than the one that answered.

    Offsets mean nothing in another cluster, so failOnDataLoss does not matter here.
    """
    if wanted_id is not None and wanted_id != found.id:
        raise ClusterMismatch(wanted=wanted_id, found=found.id, servers=found.servers)


def next_end(
    start: dict[str, Any],
    marks: Mapping[str, TopicWatermark],
    *,
    cluster: Cluster,
    find: Callable[[str, Sought], int],
    admit: Callable[[Waiting], Mapping[str, int]],
    covers: Callable[[str], bool],
    fail_on_data_loss: bool,
) -> dict[str, Any]:
    """The end of the batch that begins at `start`, given what the subscribed topics hold.

    Returns `start` itself if there is nothing to do. A pending or missing topic is never idle: its
    start becomes concrete, even with an empty range. A missing topic (subscribed after the query
    began, or new under its pattern) starts at its log start, as Kafka's new partitions do. A topic
    that is no longer subscribed (`covers`) keeps its entry, so that subscribing again continues
    where it stopped. A mark below the stream's own position means to wait. `find` tells the offset
    of a time or an epoch, `admit` how many of each topic's waiting records the batch has. Raises
    `ClusterMismatch`, `OffsetTrimmed`, `TopicRecreated` (also if a topic is gone) or
    `InvalidOption`. With `fail_on_data_loss` false, the middle two become a warning and a skip.
    """
    check_cluster(cluster_of(start), cluster)
    known = parse(start)
    begins = {
        topic: _resume(known.get(topic, known.get(OTHERS)), mark, find, fail_on_data_loss)
        for topic, mark in marks.items()
    }
    takes = admit(
        {
            topic: (begin, max(begin, marks[topic].high_water_mark))
            for topic, begin in begins.items()
        }
    )
    ends = {topic: entry for topic, entry in known.items() if isinstance(entry, Reached)}
    for topic in [one for one in ends if one not in marks and covers(one)]:
        _gone(topic, ends.pop(topic), fail_on_data_loss)
    for topic, begin in begins.items():
        entry, mark = known.get(topic), marks[topic]
        end = begin + takes[topic]
        if _continues(entry, mark.incarnation):
            assert end >= entry.end, f"{topic}: {end} would be a step back from {entry.end}"
            if end > entry.end:
                ends[topic] = Reached(incarnation=mark.incarnation, end=end)
        else:
            ends[topic] = Reached(incarnation=mark.incarnation, end=end, first=begin)
    return start if ends == known else render(ends, cluster.id)


def ranges(start: Mapping[str, Any], end: Mapping[str, Any]) -> list[TopicRange]:
    """What Spark's batch (start, end] means: the ranges that are not empty, by topic name."""
    before, after = parse(start), parse(end)
    found = []
    for topic in sorted(after):
        reached = after[topic]
        if isinstance(reached, Pending):
            raise DataLoss(what=f"The batch's end is symbolic for topic {topic!r}: {dict(end)!r}.")
        entry = before.get(topic)
        first = entry.end if _continues(entry, reached.incarnation) else reached.first
        if first is None or first > reached.end:
            raise DataLoss(
                what=f"The checkpoint's offsets of topic {topic!r} do not fit together: "
                f"{dict(start)!r}, then {dict(end)!r}."
            )
        if first < reached.end:
            found.append(
                TopicRange(
                    topic=topic, incarnation=reached.incarnation, start=first, end=reached.end
                )
            )
    return found


def clamp(
    wanted: TopicRange, mark: TopicWatermark | None, *, fail_on_data_loss: bool
) -> TopicRange | None:
    """The part of a planned range that the topic still holds; None if that is nothing.

    `mark` is a linearizable one, or None if the topic does not exist. With `fail_on_data_loss`, any
    difference is an error that names the lost range.
    """
    if mark is None or mark.incarnation != wanted.incarnation:
        error: Exception = TopicRecreated(
            topic=wanted.topic,
            wanted=wanted.incarnation,
            found="" if mark is None else mark.incarnation,
        )
        return _lost(wanted, error, fail_on_data_loss, None)
    start = max(wanted.start, mark.log_start)
    end = min(wanted.end, mark.high_water_mark)
    if start > wanted.start:
        error = OffsetTrimmed(
            topic=wanted.topic,
            requested=wanted.start,
            earliest=mark.log_start,
            end=mark.high_water_mark,
        )
    elif end < wanted.end:
        error = DataLoss(
            what=f"Records [{max(end, wanted.start)}, {wanted.end}) of topic {wanted.topic!r} "
            f"were read before and are gone: it now ends at {mark.high_water_mark}.",
            advice="Was an older log restored? Set failOnDataLoss=false to continue without them.",
        )
    else:
        return wanted
    kept = None
    if start < end:
        kept = TopicRange(topic=wanted.topic, incarnation=wanted.incarnation, start=start, end=end)
    return _lost(wanted, error, fail_on_data_loss, kept)


def check_ends(
    start: Mapping[str, Any], marks: Mapping[str, TopicWatermark], *, fail_on_data_loss: bool
) -> None:
    """Refuse to start a query whose position is above a topic's end: `DataLoss`, or a warning.

    A mark never falls, so records were lost there. While a query runs, a mark below its position
    only means to wait.
    """
    for topic, entry in parse(start).items():
        mark = marks.get(topic)
        if mark is None or not _continues(entry, mark.incarnation):
            continue
        if mark.high_water_mark < entry.end:
            error = ended_before(entry.end, mark)
            if fail_on_data_loss:
                raise error
            log.warning("%s", error.cause)


def ended_before(position: int, mark: TopicWatermark) -> DataLoss:
    """The error of a position above a topic's end."""
    return DataLoss(
        what=f"A query is at offset {position} of topic {mark.topic!r}, which now ends at "
        f"{mark.high_water_mark}: records [{mark.high_water_mark}, {position}) were there and are "
        "gone. It would wait, and skip what is written at these offsets from now on.",
        advice="Was an older log restored? See `raftlog docs OPERATIONS`, Data loss. "
        "failOnDataLoss=false waits and skips.",
    )


# ---------------------------------------------------------------- one topic


def _continues(entry: Pending | Reached | None, incarnation: str) -> TypeGuard[Reached]:
    return isinstance(entry, Reached) and entry.incarnation == incarnation


def _resume(
    entry: Pending | Reached | None,
    mark: TopicWatermark,
    find: Callable[[str, Sought], int],
    fail_on_data_loss: bool,
) -> int:
    """Where reading this topic continues. Above the mark there is nothing to read yet."""
    match entry:
        case None:
            return mark.log_start
        case Pending(start=position) if position == EARLIEST:
            return mark.log_start
        case Pending(start=position) if position == LATEST:
            return mark.high_water_mark
        case Pending(start=AtTime() as time):
            return first_at(time, find(mark.topic, time), mark)
        case Pending(start=AfterEpoch() as after):
            return find(mark.topic, after)
        case Pending(start=position):
            assert isinstance(position, int), position
            check_start_exists(position, mark)
            return _not_trimmed(position, mark, fail_on_data_loss)
        case Reached(incarnation=incarnation, end=end) if incarnation == mark.incarnation:
            return _not_trimmed(end, mark, fail_on_data_loss)
        case Reached(incarnation=incarnation):
            error = TopicRecreated(topic=mark.topic, wanted=incarnation, found=mark.incarnation)
            if fail_on_data_loss:
                raise error
            log.warning("%s The stream continues at its offset %s.", error.cause, mark.log_start)
            return mark.log_start


def _gone(topic: str, entry: Reached, fail_on_data_loss: bool) -> None:
    error = TopicRecreated(topic=topic, wanted=entry.incarnation)
    if fail_on_data_loss:
        raise error
    log.warning("%s The stream continues without it.", error.cause)


def check_start_exists(
    position: int, mark: TopicWatermark, option: str = "startingOffsets"
) -> None:
    """Raise `InvalidOption` if an option names an offset that is not written yet."""
    if position > mark.high_water_mark:
        raise InvalidOption(
            option=option,
            problem=f"is {position} for {mark.topic!r}, above its end {mark.high_water_mark}",
            advice=f"Use an offset from {mark.log_start} to {mark.high_water_mark}.",
        )


def first_at(time: AtTime, found: int, mark: TopicWatermark) -> int:
    """The offset that a time means, after it was looked up as `found`, later than the mark.

    Raises `InvalidOption` if there is no record of that time or after it, and that is an error.
    """
    if found >= mark.high_water_mark and not time.otherwise_latest:
        raise InvalidOption(
            option=time.option,
            problem=f"is {time.timestamp_us // 1000}, and no record of {mark.topic!r} has this "
            "timestamp or a later one",
            advice="Give an earlier time, or startingOffsetsByTimestampStrategy=latest to start "
            "at the topic's end then.",
        )
    return found


def _not_trimmed(position: int, mark: TopicWatermark, fail_on_data_loss: bool) -> int:
    if position >= mark.log_start:
        return position
    error = OffsetTrimmed(
        topic=mark.topic,
        requested=position,
        earliest=mark.log_start,
        end=mark.high_water_mark,
    )
    if fail_on_data_loss:
        raise error
    log.warning("%s The stream continues at offset %s.", error.cause, mark.log_start)
    return mark.log_start


def _lost(
    wanted: TopicRange, error: Exception, fail_on_data_loss: bool, kept: TopicRange | None
) -> TopicRange | None:
    if fail_on_data_loss:
        raise error
    left = f"[{kept.start}, {kept.end})" if kept else "nothing"
    log.warning("Of [%s, %s) %s is left: %s", wanted.start, wanted.end, left, error)
    return kept

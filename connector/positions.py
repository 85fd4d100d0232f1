"""Where a read starts and ends, as options say it: by offset, time or epoch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from raftlog.errors import InvalidOption
from raftlog.machines.limits import INTEGER_MAX
from raftlog.redaction import shown_value
from raftlog.spark.offsets import EARLIEST, LATEST, OTHERS, AfterEpoch, AtTime, Position
from raftlog.spark.option_values import OptionValues, doc_of
from raftlog.spark.topics import Topics

POSITION_NUMBERS = {-2: EARLIEST, -1: LATEST}
"""Kafka's numbers for the two symbolic positions in JSON."""

STRATEGY = "startingOffsetsByTimestampStrategy"

EPOCHS = ("startingAfterEpoch", "asOfEpoch")
EPOCH_WRITER = "epochWriter"

_STARTING = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", EPOCHS[0])
_ENDING = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", EPOCHS[1])

_MILLISECONDS_MAX = INTEGER_MAX // 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """A position for every topic."""

    named: Mapping[str, Position]
    others: Position
    """Of the topics that are not named."""

    def of(self, topic: str) -> Position:
        """The topic's position."""
        return self.named.get(topic, self.others)


def starting_positions(values: OptionValues, topics: Topics, default: Position) -> Positions:
    """Where each topic is read from, by whichever option says it."""
    name = _only_one(values, _STARTING)
    strategy = values.choice(STRATEGY, ("error", "latest"))
    by_time = name.endswith("Timestamp")
    if values.given(STRATEGY) is not None and not by_time:
        raise InvalidOption(
            option=STRATEGY,
            problem="is given without a time to start at",
            advice="Give startingTimestamp or startingOffsetsByTimestamp too, or leave it out.",
        )
    return _positions(values, name, topics, default, otherwise_latest=strategy == "latest")


def ending_positions(values: OptionValues, topics: Topics) -> Positions:
    """Where a batch read of each topic ends, exclusive. The end of time is the end of the topic."""
    return _positions(values, _only_one(values, _ENDING), topics, LATEST, otherwise_latest=True)


def check_epoch_writer(values: OptionValues) -> None:
    """Check that the writer and its epochs are given together. Raises `InvalidOption`."""
    epochs = [name for name in EPOCHS if values.given(name) is not None]
    written = bool(values.text(EPOCH_WRITER))
    if written != bool(epochs):
        missing = f"{EPOCHS[0]!r} or {EPOCHS[1]!r}" if written else repr(EPOCH_WRITER)
        raise InvalidOption(
            option=EPOCH_WRITER if written else epochs[0],
            problem=f"is given without {missing}",
            advice="Give both: an epoch is a number of one writer's batches.",
        )


def check_batch_range(starting: Positions, ending: Positions, topics: Topics) -> None:
    """Check that a batch read of these topics can have records. Raises `InvalidOption`."""
    for topic in topics.names or {OTHERS, *starting.named, *ending.named}:
        start, end = starting.of(topic), ending.of(topic)
        if start == LATEST:
            raise InvalidOption(
                option="startingOffsets",
                problem=f"is latest for {topic!r} in a batch read, which would read nothing",
                advice="Use earliest or an offset.",
            )
        if end == EARLIEST:
            raise InvalidOption(
                option="endingOffsets",
                problem=f"is earliest for {topic!r}, which would read nothing",
                advice="Use latest or an offset.",
            )
        if isinstance(start, int) and isinstance(end, int) and start > end:
            raise InvalidOption(
                option="startingOffsets",
                problem=f"is {start} for {topic!r}, above its 'endingOffsets' {end}",
                advice="The end is exclusive and never below the start.",
            )
        if (
            isinstance(start, AtTime)
            and isinstance(end, AtTime)
            and start.timestamp_us > end.timestamp_us
        ):
            raise InvalidOption(
                option=start.option,
                problem=f"is {start.timestamp_us // 1000} for {topic!r}, after its "
                f"{end.option!r} {end.timestamp_us // 1000}",
                advice="The end is exclusive and never before the start.",
            )
        if (
            isinstance(start, AfterEpoch)
            and isinstance(end, AfterEpoch)
            and start.epoch > end.epoch
        ):
            raise InvalidOption(
                option=start.option,
                problem=f"is {start.epoch}, after {end.option!r} {end.epoch}",
                advice="A read ends at the epoch after which it starts, or at a later one.",
            )


def _only_one(values: OptionValues, names: tuple[str, ...]) -> str:
    """The one of the options that is given; the first, if none is."""
    given = [name for name in names if values.given(name) is not None]
    if len(given) > 1:
        raise InvalidOption(
            option=given[1],
            problem=f"is given with {given[0]!r}, and each of them says where to "
            f"{'start' if given[0].startswith('start') else 'end'}",
            advice="Give one of them.",
        )
    return given[0] if given else names[0]


def _positions(
    values: OptionValues,
    name: str,
    topics: Topics,
    default: Position,
    *,
    otherwise_latest: bool,
) -> Positions:
    """The positions that the option gives: one for all topics, or JSON per topic."""

    def at(milliseconds: int) -> Position:
        return AtTime(
            option=name, timestamp_us=milliseconds * 1000, otherwise_latest=otherwise_latest
        )

    if name.endswith("ingTimestamp"):
        return Positions(named={}, others=at(values.count(name, 0, _MILLISECONDS_MAX)))
    if name in EPOCHS:
        epoch = values.count(name, 0, INTEGER_MAX - 1)
        writer = values.text(EPOCH_WRITER) or ""
        return Positions(named={}, others=AfterEpoch(option=name, writer=writer, epoch=epoch))
    text = values.text(name)
    if text is None:
        return Positions(named={}, others=default)
    if name.endswith("ByTimestamp"):
        return _per_topic(name, text, topics, default, _milliseconds(at))
    if text.lower() in (EARLIEST, LATEST):
        return Positions(named={}, others=text.lower())
    return _per_topic(name, text, topics, default, _offset_or_symbol)


def _per_topic(
    name: str,
    text: str,
    topics: Topics,
    default: Position,
    read: Callable[[str, str, Any], Position],
) -> Positions:
    """The positions of a JSON object. Topics that it does not name have that of `OTHERS`, or the
    position that they have without the option."""
    try:
        given = json.loads(text, object_pairs_hook=_each_once)
    except _Twice as error:
        raise InvalidOption(
            option=name,
            problem=f"names {str(error)!r} twice",
            advice="Name each topic once.",
        ) from None
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        symbols = "" if "Timestamp" in name else "neither earliest, latest nor "
        raise InvalidOption(
            option=name,
            problem=f"is {shown_value(text)}, which is {symbols or 'not '}a JSON object",
            advice=doc_of(name),
        )
    named = {topic: read(name, topic, number) for topic, number in given.items()}
    others = named.pop(OTHERS, default)
    unknown = sorted(topic for topic in named if not topics.covers(topic))
    if unknown:
        raise InvalidOption(
            option=name,
            problem=f"names {', '.join(unknown)}, not in {topics.option!r}",
            advice=f"Name subscribed topics only, or {OTHERS!r} for all others.",
        )
    return Positions(named=named, others=others)


class _Twice(Exception):
    """A name that is twice in an object of JSON, of which Python would take the last."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(key)
        found[key] = value
    return found


def _offset_or_symbol(name: str, topic: str, number: Any) -> Position:
    if type(number) is not int or not -2 <= number <= INTEGER_MAX:
        raise InvalidOption(
            option=name,
            problem=f"gives {topic!r} the position {number!r}",
            advice="A position is an offset from 0 up, -1 (latest) or -2 (earliest), for "
            'example {"orders": 150000}: a topic has no partitions.',
        )
    return POSITION_NUMBERS.get(number, number)


def _milliseconds(at: Callable[[int], Position]) -> Callable[[str, str, Any], Position]:
    def read(name: str, topic: str, number: Any) -> Position:
        if type(number) is not int or not 0 <= number <= _MILLISECONDS_MAX:
            raise InvalidOption(
                option=name,
                problem=f"gives {topic!r} the time {number!r}",
                advice="A time is in milliseconds since 1970 UTC, for example "
                '{"orders": 1764000000000}: a topic has no partitions.',
            )
        return at(number)

    return read

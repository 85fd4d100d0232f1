"""Where a read starts and ends, as options say it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from raftlog.errors import InvalidOption
from raftlog.spark.offsets import EARLIEST, LATEST, Position
from raftlog.spark.option_values import OptionValues, doc_of

POSITION_NUMBERS = {-2: EARLIEST, -1: LATEST}
"""Kafka's numbers for the two symbolic positions in JSON."""


def positions(
    values: OptionValues, name: str, topics: tuple[str, ...], default: Position
) -> dict[str, Position]:
    """A position for every subscribed topic, from earliest, latest or JSON."""
    text = values.text(name)
    if text is None:
        return dict.fromkeys(topics, default)
    if text.lower() in (EARLIEST, LATEST):
        return dict.fromkeys(topics, text.lower())
    given = _position_object(name, text)
    unknown, missing = sorted(set(given) - set(topics)), sorted(set(topics) - set(given))
    if unknown or missing:
        parts = [f"names {', '.join(unknown)}, not in 'subscribe'"] if unknown else []
        parts += [f"lacks {', '.join(missing)}, in 'subscribe'"] if missing else []
        raise InvalidOption(
            option=name,
            problem=" and ".join(parts),
            advice="Give a position for every subscribed topic and for no other.",
        )
    return {topic: POSITION_NUMBERS.get(number, number) for topic, number in given.items()}


def _position_object(name: str, text: str) -> dict[str, int]:
    try:
        given = json.loads(text)
    except json.JSONDecodeError:
        given = None
    if not isinstance(given, dict):
        raise InvalidOption(
            option=name,
            problem=f"is {text!r}, which is neither earliest, latest nor a JSON object",
            advice=doc_of(name),
        )
    for topic, number in given.items():
        if type(number) is not int or number < -2:
            raise InvalidOption(
                option=name,
                problem=f"gives {topic!r} the position {number!r}",
                advice="A position is an offset from 0 up, -1 (latest) or -2 (earliest), for "
                'example {"orders": 150000}: a topic has no partitions.',
            )
    return given


def check_batch_range(starting: Mapping[str, Position], ending: Mapping[str, Position]) -> None:
    """Check that a batch read can have records. Raises `InvalidOption`."""
    for topic, start in starting.items():
        end = ending[topic]
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

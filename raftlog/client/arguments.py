"""The arguments that the client's methods share: their types and bounds, checked at the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from raftlog.config_section import Section, setting
from raftlog.errors import InvalidOption
from raftlog.machines.commands import TopicInfo
from raftlog.machines.limits import INTEGER_MAX

ReadPreference = Literal["nearest", "leader", "follower"]
"""`nearest`: any replica, spread over the readers; `follower`: any replica but the leader."""

OFFSETS = {"ge": 0, "le": INTEGER_MAX}


class ReadArguments(Section):
    """What `read`, `follow` and `read_sizes` take besides the topic."""

    start: int = setting(0, "The first offset.", **OFFSETS)
    end: int = setting(0, "The offset to stop before.", **OFFSETS)
    mark: int = setting(0, "A high-water mark that the caller knows.", **OFFSETS)
    columns: Sequence[str] = setting((), "The columns to read, in this order.")
    preference: ReadPreference = setting("nearest", "Which replicas to ask.")
    idle_timeout_s: float = setting(0.0, "How long to wait for another record.", ge=0)
    pieces_max: int = setting(1, "The most pieces of a range.", ge=1)


class FlushArguments(Section):
    """What `append_and_flush` takes besides the rows."""

    timeout_s: float = setting(0.0, "When to give up.", ge=0)


def topic_argument(topic: object) -> TopicInfo | str:
    """What may name a topic. Raises `InvalidOption` for a value of another type."""
    if isinstance(topic, TopicInfo | str):
        return topic
    raise InvalidOption(
        option="topic",
        problem=f"is of type {type(topic).__name__}",
        advice="Give the topic's name, or the TopicInfo that describe_topic returns.",
    )

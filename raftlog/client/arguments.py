"""The arguments that the client's methods share: their types and bounds, checked at the call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from reprlib import repr as shortened
from typing import Literal

from raftlog.auth.principals import PRINCIPAL_ADVICE, problem_of_principal
from raftlog.config_hosts import is_address, is_any_host
from raftlog.config_section import Section, setting
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import InvalidOption, InvalidTopicName
from raftlog.machines.commands import AttemptReference, TopicInfo
from raftlog.machines.limits import INTEGER_MAX, REPLICAS_MAX
from raftlog.machines.settings import ADVICE_ON_SETTINGS, TopicSetting, problem_of_setting
from raftlog.machines.topic_names import is_topic_name
from raftlog.redaction import shown_address, without_keys

ReadPreference = Literal["nearest", "leader", "follower", "observer"]
"""`nearest`: any replica, spread over the readers; `follower`: any voter but the leader;
`observer`: any node that never votes. Of these, nodes of `client.rack` come first. Where none of
them answers, or is far enough, any other replica is asked."""

_KEEP_ALL = (
    "Give None, on the command line none, to keep all records; `raftlog topic trim` removes them."
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_THIS_CENTURY_US = range(946_684_800_000_000, 4_102_444_800_000_000)

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


class TrimArguments(Section):
    """What `trim` and `find_offset` take besides the topic."""

    before: int = setting(0, "The first offset to keep.", **OFFSETS)
    timestamp_us: int = setting(
        0, "A time, microseconds since 1970 UTC.", ge=-INTEGER_MAX, le=INTEGER_MAX
    )


class PlacementArguments(Section):
    """Where a topic is put."""

    replicas: int = setting(1, "On how many nodes a topic is.", ge=1, le=REPLICAS_MAX)


class FlushArguments(Section):
    """What `append_and_flush` takes besides the rows."""

    timeout_s: float = setting(0.0, "When to give up.", ge=0)


def whole_argument(name: str, value: object, *, least: int = 0, most: int = INTEGER_MAX - 1) -> int:
    """A whole number in [least, most]. Raises `InvalidOption`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, value, "Give a whole number.")
    if not least <= value <= most:
        advice = f"Give {least} to {most}."
        raise InvalidOption(option=name, problem=f"is {value}", advice=advice)
    return value


def timestamp_argument(timestamp_us: int | datetime) -> int:
    """Microseconds since 1970 UTC. Raises `InvalidOption`, also for a datetime without a zone, and
    for a number that is a time of this century in seconds or milliseconds."""
    given: object = timestamp_us
    if isinstance(timestamp_us, datetime):
        if timestamp_us.utcoffset() is None:
            raise InvalidOption(
                option="timestamp_us",
                problem=f"is {timestamp_us}, which has no time zone",
                advice="Give it one, such as `.replace(tzinfo=datetime.UTC)`.",
            )
        given = (timestamp_us - _EPOCH) // timedelta(microseconds=1)
    time_us = TrimArguments().with_values(timestamp_us=given).timestamp_us
    for factor in (1_000, 1_000_000) if given is timestamp_us else ():
        if time_us * factor in _THIS_CENTURY_US:
            raise InvalidOption(
                option="timestamp_us",
                problem=f"is {time_us}, a time of 1970 in microseconds",
                advice=f"Multiply it by {factor:,}, or give a datetime with a time zone.",
            )
    return time_us


def seconds_argument(name: str, value: object) -> float:
    """A time from 0 on. Raises `InvalidOption`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(name, value, "Give a number of seconds.")
    if not value >= 0:
        raise InvalidOption(option=name, problem=f"is {value}", advice="Give 0 or more.")
    return float(value)


def flag_argument(name: str, value: object) -> bool:
    """True or false. Raises `InvalidOption`."""
    if not isinstance(value, bool):
        raise wrong_type(name, value, "Give True or False.")
    return value


def text_argument(name: str, value: object, *, most: int = INTEGER_MAX) -> str:
    """A text of at most so many characters, which UTF-8 can hold. Raises `InvalidOption`."""
    if not isinstance(value, str):
        raise wrong_type(name, value, "Give a text.")
    problem = None
    if len(value) > most:
        problem = f"has {len(value)} characters"
    elif not is_unicode(value):
        problem = "has a lone surrogate, which UTF-8 cannot hold"
    if problem is not None:
        bound = "" if most == INTEGER_MAX else f"at most {most} "
        raise InvalidOption(
            option=name, problem=problem, advice=f"Give {bound}characters of Unicode."
        )
    return value


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can hold the text. Python's can have lone surrogates: it puts them in place of
    bytes of the command line that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def wrong_type(name: str, value: object, advice: str) -> InvalidOption:
    """The error of an argument whose type is none of those that it may have."""
    return InvalidOption(option=name, problem=f"is of type {type(value).__name__}", advice=advice)


def groups_argument(groups: object) -> tuple[GroupId, ...]:
    """Numbers of groups. Raises `InvalidOption`."""
    if isinstance(groups, str) or not isinstance(groups, Iterable):
        raise wrong_type("groups", groups, "Give a list of groups, such as [topic.group].")
    return tuple(GroupId(whole_argument("groups", each)) for each in groups)


def attempts_argument(attempts: object) -> tuple[AttemptReference, ...]:
    """What `Attempt.finish` returned. Raises `InvalidOption`."""
    advice = "Give a list of what the attempts' `finish` returned, without None."
    if isinstance(attempts, str) or not isinstance(attempts, Iterable):
        raise wrong_type("attempts", attempts, advice)
    found = []
    for each in attempts:
        if not isinstance(each, AttemptReference):
            raise wrong_type("attempts", each, advice)
        found.append(each)
    return tuple(found)


def replicas_argument(replicas: int | None) -> int:
    """How many replicas are asked for; 0: the default. Raises `InvalidOption`."""
    return (
        0 if replicas is None else PlacementArguments().with_arguments(replicas=replicas).replicas
    )


def settings_argument(settings: object) -> tuple[TopicSetting, ...]:
    """A mapping from settings' names to values; None is the default. Raises `InvalidOption`."""
    if not isinstance(settings, Mapping):
        raise wrong_type("settings", settings, "Give a dict, such as {'retention_s': 86400}.")
    return tuple(_setting(name, value) for name, value in settings.items())


def _setting(name: object, value: object) -> TopicSetting:
    advice = ADVICE_ON_SETTINGS
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    setting = TopicSetting(name=str(name), value=number or 0)
    problem = problem_of_setting(setting)
    if problem is None and number is not value:
        problem = f"is of type {type(value).__name__}, not a whole number"
        advice = "Give seconds, bytes or records, such as {'retention_s': 604800} for 7 days."
    elif problem is None and value == 0:
        problem, advice = "is 0, which would keep nothing", _KEEP_ALL
    if problem is not None:
        raise InvalidOption(option=str(name), problem=problem, advice=advice)
    return setting


def topic_argument(topic: object) -> TopicInfo | str:
    """What may name a topic. Raises `InvalidOption` for a value of another type, and
    `InvalidTopicName` for a text that no topic can have as its name."""
    if isinstance(topic, TopicInfo):
        return topic
    if isinstance(topic, str):
        return name_argument(topic)
    raise wrong_type(
        "topic", topic, "Give the topic's name, or the TopicInfo that describe_topic returns."
    )


def topics_argument(topics: object) -> list[TopicInfo | str]:
    """What may name several topics. Raises as `topic_argument` does."""
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        raise wrong_type("topics", topics, "Give a list of topics, such as list_topics() returns.")
    return [topic_argument(topic) for topic in topics]


def name_argument(name: object) -> str:
    """A name that a topic can have, and no token: names are shown. Raises `InvalidOption` for a
    value of another type, `InvalidTopicName`."""
    if not isinstance(name, str):
        raise wrong_type("name", name, "Give the topic's name.")
    if not is_topic_name(name) or without_keys(name) != name:
        raise InvalidTopicName(topic=name)
    return name


def principal_argument(name: str, value: object, *, groups: bool = True) -> str:
    """A principal that can be given rights. Raises `InvalidOption`, also for a token: principals
    are shown."""
    principal = text_argument(name, value)
    if without_keys(principal) != principal:
        raise InvalidOption(
            option=name, problem="is a token or a key", advice="Give the principal that has it."
        )
    if (problem := problem_of_principal(principal, groups=groups)) is not None:
        raise InvalidOption(
            option=name, problem=f"is {principal[:80]!r}: {problem}", advice=PRINCIPAL_ADVICE
        )
    return principal


_REACHED = "Give what the other nodes and clients reach, such as 10.0.0.4:7401."


def address_argument(address: object) -> str:
    """Where others reach a node. Raises `InvalidOption` for what is not `host:port`, or is none
    that one can reach."""
    problem = None
    if not isinstance(address, str) or not is_address(address):
        shown = shown_address(address) if isinstance(address, str) else address
        problem = f"is {shortened(shown)}, which is not host:port"
    elif is_any_host(address.rpartition(":")[0]):
        problem = f"is {address}, at which a node may listen, but no client can reach it"
    if problem is not None:
        raise InvalidOption(option="address", problem=problem, advice=_REACHED)
    return str(address)


def nodes_argument(name: str, nodes: Sequence[int]) -> tuple[NodeId, ...]:
    """Different nodes, rising. Raises `InvalidOption` for what is no list of ids."""
    if isinstance(nodes, str) or not isinstance(nodes, Iterable):
        raise wrong_type(name, nodes, "Give a list of node ids, such as [1, 2].")
    for each in nodes:
        whole_argument(name, each, least=1, most=INTEGER_MAX)
    return tuple(sorted(map(NodeId, set(nodes))))

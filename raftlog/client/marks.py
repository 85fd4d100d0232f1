"""The high-water marks of many topics, each by a linearizable read of its own, several at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from raftlog.client.connection import Connection, Sent
from raftlog.client.retries import Deadline
from raftlog.client.topics import meant
from raftlog.errors import InvalidOption, NotLeader, RaftlogError, TopicNotFound, TopicRecreated
from raftlog.machines.commands import TopicInfo
from raftlog.wire.calls import READ_HIGH_WATER_MARK, ReadableRange, ReadHighWaterMark

IN_FLIGHT_MAX = 32
"""So many topics are asked at once. No setting: 128 were no faster, and a node works on
`server.requests_max` calls."""


class _Asked(NamedTuple):
    """A topic whose answer is not here yet, and its place among the topics."""

    place: int
    topic: TopicInfo
    deadline: Deadline
    sent: Sent[ReadableRange] | None
    """None: it is to be asked by a blocking call."""
    hinted: bool
    """Whether it was sent again, to the leader that a node had named."""


def read_marks(
    connection: Connection, topics: Sequence[TopicInfo | str]
) -> list[ReadableRange | RaftlogError]:
    """Ask the topics' leaders, at most `IN_FLIGHT_MAX` at once; the answers in the topics' order.

    Of a topic that is gone the answer is the `TopicNotFound` or `TopicRecreated` that says so. Each
    topic's deadline begins when it is first asked. Raises the first error that does not say
    that a topic is gone, and gives up what is in flight then.
    """
    answers: dict[int, ReadableRange | RaftlogError] = {}
    waiting = deque(enumerate(topics))
    in_flight: deque[_Asked] = deque()
    try:
        while waiting or in_flight:
            while waiting and len(in_flight) < IN_FLIGHT_MAX:
                place, topic = waiting.popleft()
                only = not (waiting or in_flight)
                try:
                    in_flight.append(_first(connection, place, topic, only=only))
                except TopicNotFound as error:
                    answers[place] = error
            if not in_flight:
                break
            oldest = in_flight.popleft()
            found = _answer(connection, oldest)
            if found is None:
                in_flight.append(_sent(connection, oldest._replace(hinted=True)))
            else:
                answers[oldest.place] = found
    finally:
        for left in in_flight:
            if left.sent is not None:
                left.sent.cancel()
    return [answers[place] for place in range(len(answers))]


def check_not_above(option: str, offset: int, topic: TopicInfo, held: ReadableRange) -> None:
    """Raises `InvalidOption` for an offset above the end of a topic that holds this."""
    if offset > held.high_water_mark:
        raise InvalidOption(
            option=option,
            problem=f"is {offset}, and topic {topic.name!r} holds "
            f"[{held.log_start_offset}, {held.high_water_mark})",
            advice="Give an offset from its start to its end.",
        )


def _first(connection: Connection, place: int, topic: TopicInfo | str, *, only: bool) -> _Asked:
    """Ask for the first time. Raises `TopicNotFound` for a name that no topic has.

    With nothing else to ask it leaves that to one blocking call, which costs less than a future.
    """
    info = meant(connection, topic)
    deadline = Deadline(
        f"{READ_HIGH_WATER_MARK.name} of topic {info.name!r}",
        connection.settings.request_timeout_s,
    )
    asked = _Asked(place, info, deadline, None, hinted=False)
    return asked if only else _sent(connection, asked)


def _sent(connection: Connection, asked: _Asked) -> _Asked:
    request = _request(asked.topic)
    sent = connection.send_leader(
        asked.topic.group, READ_HIGH_WATER_MARK, request, b"", asked.deadline, guess=True
    )
    return asked._replace(sent=sent)


def _answer(connection: Connection, asked: _Asked) -> ReadableRange | RaftlogError | None:
    """The answer, once it is here. None: the node that was asked named the leader, which is to be
    asked without waiting for it.

    What else may be tried again is, as one request by itself with its pauses.
    """
    group = asked.topic.group
    earlier: RaftlogError | None = None
    try:
        if asked.sent is not None:
            try:
                return connection.receive(asked.sent, group)
            except RaftlogError as error:
                if not error.retriable:
                    raise
                if isinstance(error, NotLeader) and error.address and not asked.hinted:
                    return None
                earlier = error
        return connection.call_leader(
            group,
            READ_HIGH_WATER_MARK,
            _request(asked.topic),
            deadline=asked.deadline,
            earlier=earlier,
        )
    except (TopicNotFound, TopicRecreated) as error:
        return error


def _request(topic: TopicInfo) -> ReadHighWaterMark:
    return ReadHighWaterMark(group=topic.group, incarnation=topic.incarnation)

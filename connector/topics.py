"""Which topics a source reads: those that it names, or those whose names match a pattern."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raftlog.errors import InvalidOption
from raftlog.spark.option_values import OptionValues, doc_of

if TYPE_CHECKING:
    from raftlog import LogClient, TopicInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """The topics of a read, by names or by a pattern; the other one is empty."""

    names: tuple[str, ...] = ()
    """Sorted."""
    pattern: str = ""
    """A regular expression that matches whole names. Topics may come and go."""

    @property
    def option(self) -> str:
        """The option that says so."""
        return "subscribePattern" if self.pattern else "subscribe"

    def covers(self, topic: str) -> bool:
        """Whether a topic of this name is one of them."""
        if self.pattern:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.names

    def describe(self, client: LogClient) -> list[TopicInfo]:
        """The topics as they are now, by name. Those of a pattern may be none.

        Raises `TopicNotFound` if a topic that is named does not exist.
        """
        if not self.pattern:
            return [client.describe_topic(name) for name in self.names]
        return [topic for topic in client.list_topics() if self.covers(topic.name)]

    def describe_some(self, client: LogClient) -> list[TopicInfo]:
        """Like `describe`, but without a topic there are no columns to read: `InvalidOption`."""
        found = self.describe(client)
        if not found:
            raise InvalidOption(
                option=self.option,
                problem=f"is {self.pattern!r}, which matches no topic",
                advice="`raftlog topic list` shows their names. The pattern must match a whole "
                "name, and one topic must exist when the query starts: it has the columns.",
            )
        return found


def topics_of(values: OptionValues) -> Topics:
    """The topics that the options say. Raises `InvalidOption`."""
    text, pattern = values.given("subscribe"), values.given("subscribePattern")
    if pattern is not None:
        if text is not None:
            raise InvalidOption(
                option="subscribePattern",
                problem="is given with 'subscribe', and each of them says what to read",
                advice="Give one of them.",
            )
        return Topics(pattern=_checked_pattern(pattern))
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if not names:
        raise InvalidOption(
            option="subscribe",
            problem="is missing",
            advice="Name the topics to read: .option('subscribe', 'flights'); or give a regular "
            "expression for their names: .option('subscribePattern', 'flights-.*').",
        )
    for name in names:
        if names.count(name) > 1:
            raise InvalidOption(
                option="subscribe",
                problem=f"names {name!r} twice",
                advice="Name each topic once.",
            )
    return Topics(names=tuple(sorted(names)))


def _checked_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
        problem = "" if pattern else "is empty"
    except re.error as error:
        problem = f"is {pattern!r}, which is no regular expression of Python: {error}"
    if problem:
        raise InvalidOption(
            option="subscribePattern", problem=problem, advice=doc_of("subscribePattern")
        )
    return pattern

"""Arguments are refused at the call, before any node is asked: nothing listens at the address."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from operator import attrgetter
from typing import Any

import pytest

import raftlog
from raftlog.client.arguments import settings_argument, timestamp_argument
from raftlog.errors import InvalidOption, InvalidTopicName
from raftlog.machines.commands import EpochKey, TopicInfo
from raftlog.machines.schema import Schema
from raftlog.machines.settings import TopicSetting

NO_NODE = "127.0.0.1:1"
KEY = EpochKey(writer="w", query_id="w", run="r", epoch=0, streaming=True)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Untyped, because a checker would refuse these calls."""
    with raftlog.connect(NO_NODE) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "arguments", "named", "value", "allowed"),
    [
        ("producer", {"max_in_flight": -3}, "max_in_flight", "-3", "at least 1, at most 64"),
        ("producer", {"max_in_flight": 0}, "max_in_flight", "0", "at least 1, at most 64"),
        ("producer", {"compression": "gzip"}, "compression", "'gzip'", "one of lz4, zstd, none"),
        ("producer", {"batch_bytes": "1MB"}, "batch_bytes", "'1MB'", "bytes; at least 1024"),
        ("attempt", {"key": KEY, "batch_bytes": 0}, "batch_bytes", "0", "bytes; at least 1024"),
        ("read", {"preference": "closest"}, "preference", "'closest'", "nearest, leader, follower"),
        (
            "follow",
            {"preference": "closest"},
            "preference",
            "'closest'",
            "nearest, leader, follower",
        ),
        ("read", {"columns": "id"}, "columns", "'id'", "a list of texts"),
        ("read", {"start": "0"}, "start", "'0'", "at least 0"),
        ("read", {"end": -1}, "end", "-1", "at least 0"),
        ("read", {"mark": 1 << 63}, "mark", "9223372036854775808", "at most 9223372036854775807"),
        ("read", {"start": True}, "start", "True", "at least 0"),
        ("follow", {"start": -5}, "start", "-5", "at least 0"),
        ("follow", {"idle_timeout_s": -1}, "idle_timeout_s", "-1", "seconds; at least 0"),
        ("read_sizes", {"start": 0, "end": 1, "mark": 1, "pieces_max": 0}, "pieces_max", "0", "1"),
        ("trim", {"before": -1}, "before", "-1", "at least 0"),
        ("find_offset", {"timestamp_us": 1 << 63}, "timestamp_us", str(1 << 63), "microseconds"),
        ("read", {"preference": None}, "preference", "None", "nearest, leader, follower"),
        ("trim", {"before": None}, "before", "None", "at least 0"),
        ("find_offset", {"timestamp_us": None}, "timestamp_us", "None", "at most"),
        (
            "read_sizes",
            {"start": 0, "end": 1, "mark": 1, "pieces_max": None},
            "pieces_max",
            "None",
            "1",
        ),
    ],
)
def test_an_invalid_argument_is_refused_at_the_call(
    client: Any, method: str, arguments: dict[str, Any], named: str, value: str, allowed: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        attrgetter(method)(client)("t", **arguments)
    assert caught.value.option == named
    assert f"is {value}." in caught.value.cause
    assert allowed in caught.value.remedy


def test_a_time_may_be_a_datetime_with_a_zone(client: Any) -> None:
    zone = timezone(timedelta(hours=1))
    assert timestamp_argument(datetime(1970, 1, 1, 1, 0, 2, 3, zone)) == 2_000_003
    assert timestamp_argument(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == -1_000_000
    with pytest.raises(InvalidOption, match="has no time zone"):
        client.find_offset("t", datetime(2026, 1, 1))


@pytest.mark.parametrize("factor", [1_000, 1_000_000])
def test_a_time_in_other_units_is_refused_with_the_factor(client: Any, factor: int) -> None:
    """It would be in 1970, before all records."""
    given = 1_769_860_800 * 1_000_000 // factor
    with pytest.raises(InvalidOption, match=rf"a time of 1970 .* Multiply it by {factor:,}"):
        client.find_offset("t", given)
    assert timestamp_argument(given * factor) == given * factor
    assert timestamp_argument(datetime.fromtimestamp(given // 1_000_000, UTC)) < given


NO_UTF_8 = "caf\udce9"
"""What Python makes of Latin-1 on the command line."""


@pytest.mark.parametrize(
    ("method", "arguments", "named"),
    [
        ("create_topic", (-1, "id bigint"), "name"),
        ("create_topic", (b"t", "id bigint"), "name"),
        ("attempt", ("t", None), "key"),
        ("commit_epoch", ("t", "key", []), "key"),
        ("commit_epoch", ("t", KEY, None), "attempts"),
        ("commit_epoch", ("t", KEY, [None]), "attempts"),
        ("abort_epoch", ("t", replace(KEY, epoch="0")), "EpochKey.epoch"),
        ("abort_epoch", ("t", replace(KEY, run=None)), "EpochKey.run"),
        ("abort_epoch", ("t", replace(KEY, streaming=1)), "EpochKey.streaming"),
        ("writers.describe", ("t", None), "writer"),
        ("writers.remove", ("t", 5), "writer"),
        ("views", (5,), "groups"),
        ("scrub", (["1"],), "groups"),
    ],
)
def test_an_argument_of_another_type_is_refused_at_the_call(
    client: Any, method: str, arguments: tuple[Any, ...], named: str
) -> None:
    with pytest.raises(InvalidOption, match="is of type") as caught:
        attrgetter(method)(client)(*arguments)
    assert caught.value.option == named


@pytest.mark.parametrize("flag", ["keep_on_mismatch", "create_writer", "transient_writer"])
def test_a_flag_is_true_or_false(client: Any, flag: str) -> None:
    with pytest.raises(InvalidOption, match="is of type str") as caught:
        client.commit_epoch("t", KEY, [], **{flag: "no"})
    assert caught.value.option == flag


NO_NAMES = [NO_UTF_8, "", "a/b", "..", "x\x1b[31mred\ny", "flights ", "\u202eflights", "a" * 250]


@pytest.mark.parametrize("name", NO_NAMES)
@pytest.mark.parametrize(
    ("method", "others"),
    [("create_topic", ("id bigint",)), ("describe_topic", ()), ("append", ([],)), ("read", ()),
     ("watermark", ()), ("writers.scan", ()), ("producer", ()), ("delete_topic", ())],
)  # fmt: skip
def test_a_name_that_no_topic_can_have_is_refused_and_shown_without_control_characters(
    client: Any, method: str, others: tuple[Any, ...], name: str
) -> None:
    with pytest.raises(InvalidTopicName) as caught:
        attrgetter(method)(client)(name, *others)
    shown = str(caught.value)
    assert "is not a valid topic name" in shown
    assert shown.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda client: client.writers.describe("t", NO_UTF_8), "writer"),
        (lambda client: client.commit_epoch("t", KEY, [], plan=NO_UTF_8), "plan"),
        (lambda client: client.commit_epoch("t", KEY, [], plan="x" * 1025), "plan"),
        (lambda client: client.attempt("t", replace(KEY, writer=NO_UTF_8)), "EpochKey.writer"),
        (lambda client: client.kv.get(NO_UTF_8), "key"),
        (lambda client: client.kv.get("k", at=-1), "at"),
    ],
)
def test_a_text_that_is_no_utf_8_or_too_long_is_refused_at_the_call(
    client: Any, call: Callable[[Any], object], named: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        call(client)
    assert caught.value.option == named


def test_a_setting_of_none_is_the_default_and_one_of_0_is_refused() -> None:
    settings = settings_argument({"retention_s": None, "retention_records": 5})
    assert settings == (
        TopicSetting(name="retention_s", value=0),
        TopicSetting(name="retention_records", value=5),
    )
    week = "of type str, not a whole number.* 604800"
    for value, problem in ((0, "would keep nothing"), (True, "of type bool"), ("7d", week)):
        with pytest.raises(InvalidOption, match=problem):
            settings_argument({"retention_s": value})
    with pytest.raises(InvalidOption, match="is no setting of a topic"):
        settings_argument({"cleanup.policy": "compact"})


@pytest.mark.parametrize("timeout_s", [-1, 0, float("nan"), "30", 3601])
def test_connect_refuses_settings_that_no_file_could_have(timeout_s: Any) -> None:
    invalid = raftlog.ClientSettings().model_copy(update={"request_timeout_s": timeout_s})
    for arguments in ({"request_timeout_s": timeout_s}, {"settings": invalid}):
        with pytest.raises(InvalidOption, match=r"'request_timeout_s' is .*") as caught:
            raftlog.connect(NO_NODE, **arguments)
        assert "seconds; above 0, at most 3600" in caught.value.remedy


@pytest.mark.parametrize(
    ("method", "others"),
    [
        ("describe_topic", ()), ("delete_topic", ()), ("append", ([],)), ("producer", ()),
        ("find_offset", (0,)), ("read", ()), ("follow", ()), ("read_high_water_mark", ()),
        ("attempt", (KEY,)),
        ("commit_epoch", (KEY, ())), ("abort_epoch", (KEY,)), ("writers.scan", ()),
        ("writers.describe", ("w",)), ("writers.remove", ("w",)), ("watermark", ()),
    ],
)  # fmt: skip
def test_what_is_no_topic_is_refused_by_every_method_that_takes_one(
    client: Any, method: str, others: tuple[Any, ...]
) -> None:
    with pytest.raises(InvalidOption, match="is of type int") as caught:
        attrgetter(method)(client)(5, *others)
    assert caught.value.option == "topic"


@pytest.mark.parametrize(
    ("topics", "option"), [("flights", "topics"), (5, "topics"), (["flights", 5], "topic")]
)
def test_what_is_no_list_of_topics_is_refused_before_any_is_asked(
    client: Any, topics: Any, option: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        client.read_high_water_marks(topics)
    assert caught.value.option == option


def test_a_producer_of_a_known_topic_asks_nobody_and_refuses_a_negative_timeout(
    client: Any,
) -> None:
    schema = Schema(version=1, fields=())
    topic = TopicInfo(
        name="t", incarnation=uuid.uuid4().hex, group=1, schema=schema, voters=(1,), created_us=0,
        rules=1,
    )  # fmt: skip
    producer = client.producer(topic)
    assert producer.topic == topic
    with pytest.raises(InvalidOption, match="'timeout_s' is -1"):
        producer.append_and_flush([], timeout_s=-1)

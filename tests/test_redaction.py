"""What somebody gave, in a message: without what may be secret in it."""

from __future__ import annotations

import pytest

from raftlog.errors import InvalidOption, InvalidTopicName, RaftlogError
from raftlog.records.ddl import read_ddl
from raftlog.redaction import (
    shown_address,
    shown_location,
    shown_value,
    without_keys,
    without_secrets,
)

KEY = "-----BEGIN PRIVATE KEY-----\nplanted\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("s3://KEY:planted@bucket/a/b?region=x", "s3://KEY:***@bucket/a/b?region=x"),
        ("s3://KEY@bucket/a", "s3://KEY@bucket/a"),
        ("s3:/KEY:planted@bucket/a", "s3:/KEY:***@bucket/a"),
        ("//KEY:planted@bucket/a", "//KEY:***@bucket/a"),
        ("file:/a:planted@c/x", "file:/a:***@c/x"),
        ("KEY:planted@c/x", "KEY:***@c/x"),
        ("1s3://KEY:pw@c/x", "1s3://KEY:***@c/x"),
        (
            "s3://b/x?a=1?token=planted&b=?key=&sig=planted",
            "s3://b/x?a=1?token=***&b=?key=&sig=***",
        ),
        ("./a:b@c/x", "./a:b@c/x"),
        ("/a:b@c/x", "/a:b@c/x"),
        (
            "abfs://c@store/a?tenant_id=t&client_secret=planted",
            "abfs://c@store/a?tenant_id=t&client_secret=***",
        ),
        ("s3://KEY:pl/an?t#ed@bucket/x", "s3://KEY:***@bucket/x"),
        ("s3://KEY:a@bucket/banana", "s3://KEY:***@bucket/banana"),
        ("abfss://c@store/x?sv=1&sig=planted%2Bmore&se=2", "abfss://c@store/x?sv=1&sig=***&se=2"),
        ("/data/a:planted@b?token=1", "/data/a:planted@b?token=1"),
        ("file:/data/a", "file:/data/a"),
        ("s3://KEY:planted%40bucket/x", "s3://KEY:***%40bucket/x"),
        ("user:planted@host", "user:***@host"),
        ("s3://KEY:planted/bucket/x", "s3://KEY:***/bucket/x"),
        ("hdfs://host:8020/x", "hdfs://host:8020/x"),
    ],
)
def test_what_is_secret_in_a_uri_is_not_shown(location, shown):
    assert shown_location(location) == shown
    told = without_secrets(f"Cannot parse URI: '{location}': planted+more, pl/an?t#ed", location)
    assert f"'{shown}'" in told
    assert "pl/an?t#ed" not in told or "pl/an" not in location
    assert "planted+more" not in told or "sig" not in location


@pytest.mark.parametrize(
    ("address", "within", "shown"),
    [
        ("node-1:7401", "", "node-1:7401"),
        ("user:planted@node-1:7401", "", "***@node-1:7401"),
        ("user:planted%40node-1:7401", "", "***%40node-1:7401"),
        ("user:pl@nted@node-1:7401", "", "***@node-1:7401"),
        ("user:pl", "user:pl,nted@node-1:7401,node-2:7401", "***@node-1:7401,node-2:7401"),
        ("bad", "bad,node-2:7401", "bad"),
        ("user:planted", "", "user:***"),
        ("localhost:74o1", "", "localhost:74o1"),
        ("user:PW", "", "user:***"),
        ("[::1]:7401x", "", "[::1]:7401x"),
        ("fe80::1", "", "fe80::1"),
        ("node-1:7401?password=planted", "", "node-1:7401?***"),
        ("https://node-1:7401/?token=planted", "", "https://node-1:7401/?***"),
        ("p?auth=planted", "", "p?***"),
        ("/raftlog/sa les", "", "/raftlog/sa les"),
        ("node-1:7401,node-2;password=planted", "", "node-1:7401,node-2;***"),
    ],
)
def test_an_address_is_shown_without_a_user(address: str, within: str, shown: str) -> None:
    assert shown_address(address, within) == shown


def test_a_value_is_shown_in_short_and_a_key_not_at_all() -> None:
    assert shown_value("soon") == "'soon'"
    assert shown_value("x" * 5000) == repr("x" * 200 + "...")
    key = "-----BEGIN PRIVATE KEY-----\nplanted\n-----END PRIVATE KEY-----\n"
    for shown in (shown_value(key), shown_address(key), shown_address("", f"h:1,{key}")):
        assert "planted" not in shown
    assert "planted" not in shown_location(key)


@pytest.mark.parametrize(
    "token", ["raftlog_" + "planted-" * 6, "eyJplanted.eyJplanted.sig-planted"]
)
def test_a_token_in_a_wrong_place_is_not_shown(token: str) -> None:
    assert "planted" not in shown_address(token)
    assert shown_address(f"{token}:7401") == "***:7401"
    error = InvalidOption(option="x", problem=f"names {token}: nothing", advice="")
    assert str(error).startswith("Option 'x' names ***: nothing")
    assert shown_address("raftlog_node:7401") == "raftlog_node:7401"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("file.eyJplanted.b.c.d", "file.***"),
        ("a=eyJplanted.b.c&d", "a=***&d"),
        ("eyJa.b", "eyJa.b"),
        ("eyJ.b.c", "eyJ.b.c"),
        ("keyJa.b.c", "keyJa.b.c"),
        ("eyJa..c.d", "eyJa..c.d"),
    ],
)
def test_a_jwt_is_found_wherever_it_stands(text: str, shown: str) -> None:
    assert without_keys(text) == shown


@pytest.mark.parametrize("unit", ["eyJ-", "eyJa.", "eyJ", "raftlog_-", KEY[:10], "-----ENDa-"])
def test_the_longest_text_is_searched_in_one_pass(unit: str) -> None:
    """With time that grows with the square of its length this would take hours."""
    text = KEY[:10] + unit * (2 * 1024 * 1024 // len(unit))
    assert len(without_keys(text)) <= len(text)


@pytest.mark.parametrize(
    "error",
    [
        InvalidTopicName(topic=KEY),
        InvalidTopicName(topic=KEY[:40]),
        InvalidOption(option="startingOffsets", problem=f"holds {KEY}", advice=KEY),
    ],
)
def test_no_error_shows_a_key_that_was_given_in_a_wrong_place(error: RaftlogError) -> None:
    assert "planted" not in str(error)
    assert "planted" not in error.cause
    assert "PEM file" in error.cause


def test_a_schema_that_is_a_key_is_not_shown() -> None:
    with pytest.raises(InvalidOption) as refused:
        read_ddl("id bigint, " + KEY)
    assert "planted" not in str(refused.value)

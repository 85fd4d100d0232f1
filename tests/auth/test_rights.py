"""What grants allow: on which resources, to whom, and how they are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.auth import grant_keys
from raftlog.auth.caller import Caller, Means
from raftlog.auth.rights import (
    EVERYTHING,
    Grant,
    Grants,
    Kind,
    Resource,
    Right,
    keys_under,
    problem_of_grant,
    topic_named,
    writer_named,
)
from raftlog.errors import StoredValueInvalid

ADA = Caller(identity="ada", means=Means.TOKEN, groups=frozenset({"analysts"}))
BOB = Caller(identity="bob", means=Means.CERTIFICATE)
PREFIX = Resource(Kind.PREFIX, "raw-")


def granted(to: str, resource: Resource, *rights: Right) -> Grant:
    return Grant(to=to, resource=resource, rights=frozenset(rights))


def test_without_a_grant_nothing_is_allowed() -> None:
    for grants in ((), (granted("ada", topic_named("t"), Right.READ),)):
        for right in (None, *Right):
            assert not Grants(grants).allow(BOB, right, topic_named("t"))


@pytest.mark.parametrize(
    ("resource", "covered", "others"),
    [
        (topic_named("t"), [topic_named("t")], [topic_named("t2"), writer_named("t"), EVERYTHING]),
        (
            PREFIX,
            [topic_named("raw-"), topic_named("raw-1"), Resource(Kind.PREFIX, "raw-x")],
            [topic_named("raw"), Resource(Kind.PREFIX, "raw"), keys_under("raw-1"), EVERYTHING],
        ),
        (writer_named("w"), [writer_named("w")], [topic_named("w"), EVERYTHING]),
        (keys_under("k"), [keys_under("k"), keys_under("k1")], [keys_under(""), topic_named("k")]),
        (
            EVERYTHING,
            [topic_named("t"), writer_named("w"), keys_under(""), PREFIX, EVERYTHING],
            [],
        ),
    ],
)
def test_a_grant_covers_its_resource_and_no_other(
    resource: Resource, covered: list[Resource], others: list[Resource]
) -> None:
    grants = Grants([granted("ada", resource, Right.WRITE)])
    assert all(grants.allow(ADA, Right.WRITE, each) for each in covered)
    assert not any(grants.allow(ADA, Right.WRITE, each) for each in others)
    assert not any(grants.allow(ADA, Right.READ, each) for each in covered)
    assert all(grants.allow(ADA, None, each) for each in covered)


def test_admin_is_every_right_on_its_resource() -> None:
    grants = Grants([granted("ada", PREFIX, Right.ADMIN)])
    assert all(grants.allow(ADA, right, topic_named("raw-1")) for right in Right)
    assert not any(grants.allow(ADA, right, topic_named("other")) for right in Right)


def test_rights_of_a_group_are_those_of_its_members_and_no_identity_has_its_name() -> None:
    grants = Grants([granted("group:analysts", topic_named("t"), Right.READ)])
    assert grants.allow(ADA, Right.READ, topic_named("t"))
    assert not grants.allow(BOB, Right.READ, topic_named("t"))
    named_so = Caller(identity="analysts", means=Means.TOKEN)
    assert not grants.allow(named_so, Right.READ, topic_named("t"))
    written_so = Caller(identity="group:analysts", means=Means.ACCESS_TOKEN)
    assert not grants.allow(written_so, Right.READ, topic_named("t"))


@pytest.mark.parametrize(
    ("grant", "problem"),
    [
        (granted("", PREFIX, Right.READ), "names nobody"),
        (granted("group:", PREFIX, Right.READ), "names nobody"),
        (granted("ada", PREFIX), "no right"),
        (granted("ada", PREFIX, Right.CLUSTER), "no right 'cluster' on topics 'raw-'"),
        (granted("ada", writer_named("w"), Right.READ), "there are write, delete, admin"),
        (granted("ada", topic_named(""), Right.READ), "with the name ''"),
        (granted("ada", Resource(Kind.ALL, "x"), Right.READ), "with the name 'x'"),
    ],
)
def test_what_is_no_grant_is_told(grant: Grant, problem: str) -> None:
    assert problem in str(problem_of_grant(grant))


NAMES = st.text(min_size=1, max_size=30)


@given(
    to=st.one_of(NAMES.filter(lambda name: name != "group:"), NAMES.map(lambda n: f"group:{n}")),
    kind=st.sampled_from([Kind.TOPIC, Kind.PREFIX]),
    name=NAMES,
    rights=st.frozensets(st.sampled_from([Right.READ, Right.WRITE, Right.ADMIN]), min_size=1),
)
def test_every_grant_is_read_as_it_was_written(
    to: str, kind: Kind, name: str, rights: frozenset[Right]
) -> None:
    if any("\ud800" <= character <= "\udfff" for character in to + name):
        return  # no UTF-8, so no key
    grant = Grant(to=to, resource=Resource(kind, name), rights=rights)
    key = grant_keys.key_of(to, grant.resource)
    assert key.startswith(grant_keys.KEY_PREFIX)
    assert grant_keys.decode(key, grant_keys.encode(grant)) == grant


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("raftlog/acl/ada/topic", b'{"v": 1, "rights": ["read"]}'),
        ("raftlog/acl/ada/topic/t/u", b'{"v": 1, "rights": ["read"]}'),
        ("raftlog/acl/ada/planet/t", b'{"v": 1, "rights": ["read"]}'),
        ("raftlog/acl/a%64a/topic/t", b'{"v": 1, "rights": ["read"]}'),
        ("raftlog/acl/ada/topic/t", b'{"v": 2, "rights": ["read"]}'),
        ("raftlog/acl/ada/topic/t", b'{"v": 1, "rights": ["fly"]}'),
        ("raftlog/acl/ada/topic/t", b'{"v": 1, "rights": []}'),
        ("raftlog/acl/ada/topic/t", b'{"v": 1, "rights": "read"}'),
        ("raftlog/acl/ada/topic/t", b"[1]"),
        ("raftlog/acl/ada/topic/t", b"\xff"),
    ],
)
def test_what_cannot_be_read_is_no_grant(key: str, value: bytes) -> None:
    with pytest.raises(StoredValueInvalid):
        grant_keys.decode(key, value)

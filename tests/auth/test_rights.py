"""What grants allow: on which resources, to whom, and how they are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.auth import grant_keys
from raftlog.auth.principals import (
    Caller,
    cert_principal,
    group_principal,
    is_alias,
    oidc_principal,
    problem_of_principal,
    token_group,
    token_principal,
)
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

ADA = Caller(principal="token:ada", groups=frozenset({"group:corp:analysts"}))
BOB = Caller(principal="cert:bob")
PREFIX = Resource(Kind.PREFIX, "raw-")


def granted(to: str, resource: Resource, *rights: Right) -> Grant:
    return Grant(to=to, resource=resource, rights=frozenset(rights))


def test_without_a_grant_nothing_is_allowed() -> None:
    for grants in ((), (granted("token:ada", topic_named("t"), Right.READ),)):
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
    grants = Grants([granted("token:ada", resource, Right.WRITE)])
    assert all(grants.allow(ADA, Right.WRITE, each) for each in covered)
    assert not any(grants.allow(ADA, Right.WRITE, each) for each in others)
    assert not any(grants.allow(ADA, Right.READ, each) for each in covered)
    assert all(grants.allow(ADA, None, each) for each in covered)


def test_admin_is_every_right_on_its_resource() -> None:
    grants = Grants([granted("token:ada", PREFIX, Right.ADMIN)])
    assert all(grants.allow(ADA, right, topic_named("raw-1")) for right in Right)
    assert not any(grants.allow(ADA, right, topic_named("other")) for right in Right)


def test_rights_of_a_group_are_those_of_its_members_and_no_caller_has_its_name() -> None:
    grants = Grants([granted("group:corp:analysts", topic_named("t"), Right.READ)])
    assert grants.allow(ADA, Right.READ, topic_named("t"))
    assert not grants.allow(BOB, Right.READ, topic_named("t"))
    for other in (
        Caller(principal=token_principal("group:corp:analysts")),
        Caller(principal=cert_principal("group:corp:analysts")),
        Caller(principal=oidc_principal("corp", "group:corp:analysts")),
        Caller(principal="token:ada", groups=frozenset({token_group("analysts")})),
        Caller(principal="oidc:corp:ada", groups=frozenset({group_principal("b", "analysts")})),
    ):
        assert not grants.allow(other, Right.READ, topic_named("t"))


def test_one_name_that_is_proven_in_two_ways_is_two_principals() -> None:
    named = {
        token_principal("ada"),
        cert_principal("ada"),
        oidc_principal("corp", "ada"),
        oidc_principal("partner", "ada"),
    }
    assert len(named) == 4
    for mine in named:
        grants = Grants([granted(mine, topic_named("t"), Right.READ)])
        allowed = {
            each
            for each in named
            if grants.allow(Caller(principal=each), Right.READ, topic_named("t"))
        }
        assert allowed == {mine}


@pytest.mark.parametrize(
    ("grant", "problem"),
    [
        (granted("", PREFIX, Right.READ), "it has no type"),
        (granted("ada", PREFIX, Right.READ), "it has no type"),
        (granted("user:ada", PREFIX, Right.READ), "it has no type"),
        (granted("token:", PREFIX, Right.READ), "its name has 0 characters"),
        (granted("cert:" + "x" * 256, PREFIX, Right.READ), "its name has 256 characters"),
        (granted("oidc:ada", PREFIX, Right.READ), "its name has 0 characters"),
        (granted("oidc::ada", PREFIX, Right.READ), "no alias"),
        (granted("oidc:Corp:ada", PREFIX, Right.READ), "no alias"),
        (granted("oidc:token:ada", PREFIX, Right.READ), "no alias"),
        (granted("group:analysts", PREFIX, Right.READ), "its name has 0 characters"),
        (granted("node:1", PREFIX, Right.READ), "it is a node"),
        (granted("token:ada", PREFIX), "no right"),
        (granted("token:ada", PREFIX, Right.CLUSTER), "no right 'cluster' on topics 'raw-'"),
        (granted("token:ada", writer_named("w"), Right.READ), "there are write, delete, admin"),
        (granted("token:ada", topic_named(""), Right.READ), "with the name ''"),
        (granted("token:ada", Resource(Kind.ALL, "x"), Right.READ), "with the name 'x'"),
    ],
)
def test_what_is_no_grant_is_told(grant: Grant, problem: str) -> None:
    assert problem in str(problem_of_grant(grant))


PRINTABLE = st.characters(exclude_categories=("C", "Z")) | st.just(" ")
NAMES = st.text(PRINTABLE, min_size=1, max_size=30)
ALIASES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,31}", fullmatch=True).filter(is_alias)
PRINCIPALS = st.one_of(
    NAMES.map(token_principal),
    NAMES.map(cert_principal),
    NAMES.map(token_group),
    st.builds(oidc_principal, ALIASES, NAMES),
    st.builds(group_principal, ALIASES, NAMES),
)


@given(PRINCIPALS)
def test_every_principal_but_a_group_can_own_a_writer(principal: str) -> None:
    assert problem_of_principal(principal) is None
    problem = problem_of_principal(principal, groups=False)
    assert problem == ("it is a group" if principal.startswith("group:") else None)


@given(
    to=PRINCIPALS,
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
        ("raftlog/acl/ada/topic/t", b'{"v": 1, "rights": ["read"]}'),
        ("raftlog/acl/token%3Aada/topic/t", b'{"v": 1, "rights": ["read"]}'),
        ("raftlog/acl/node:1/topic/t", b'{"v": 1, "rights": ["read"]}'),
        ("raftlog/acl/token:ada/topic", b'{"v": 1, "rights": ["read"]}'),
        ("raftlog/acl/token:ada/topic/t/u", b'{"v": 1, "rights": ["read"]}'),
        ("raftlog/acl/token:ada/planet/t", b'{"v": 1, "rights": ["read"]}'),
        ("raftlog/acl/token:a%64a/topic/t", b'{"v": 1, "rights": ["read"]}'),
        ("raftlog/acl/token:ada/topic/t", b'{"v": 2, "rights": ["read"]}'),
        ("raftlog/acl/token:ada/topic/t", b'{"v": 1, "rights": ["fly"]}'),
        ("raftlog/acl/token:ada/topic/t", b'{"v": 1, "rights": []}'),
        ("raftlog/acl/token:ada/topic/t", b'{"v": 1, "rights": "read"}'),
        ("raftlog/acl/token:ada/topic/t", b"[1]"),
        ("raftlog/acl/token:ada/topic/t", b"\xff"),
    ],
)
def test_what_cannot_be_read_is_no_grant(key: str, value: bytes) -> None:
    with pytest.raises(StoredValueInvalid):
        grant_keys.decode(key, value)

"""What a node knows of the grants: when it may go on with them, and which changes it refuses."""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import partial

import pytest
import structlog

from raftlog.auth import grant_keys
from raftlog.auth.principals import Caller
from raftlog.auth.rights import EVERYTHING, Grant, Grants, Kind, Resource, Right, topic_named
from raftlog.config_auth import AuthSettings
from raftlog.errors import Forbidden, NoQuorum, RightsUnknown
from raftlog.machines.kv_commands import KeyValue
from raftlog.server.rights import Rights, grants_of
from tests.server.following import looking

ADA = Caller(principal="token:ada")
EVE = Caller(principal="token:eve")
NODE = Caller(principal="node:2")
IMPOSTOR = Caller(principal="token:node 2")
TOPIC = topic_named("t")


def key_value(to: str, resource: Resource, *rights: Right) -> KeyValue:
    grant = Grant(to=to, resource=resource, rights=frozenset(rights))
    return KeyValue(grant_keys.key_of(to, resource), 1, grant_keys.encode(grant))


def test_a_node_that_has_read_no_grants_serves_nodes_and_its_own_admins_only() -> None:
    rights = Rights(AuthSettings(admins="token:ada, token:bob"), asked=True)
    assert rights.allow(ADA, Right.DELETE, TOPIC)
    assert rights.allow(NODE, Right.DELETE, TOPIC)
    for who in (EVE, IMPOSTOR):
        with pytest.raises(RightsUnknown, match="has just started"):
            rights.allow(who, Right.READ, TOPIC)


def test_a_node_that_asks_nobody_who_they_are_lets_them_do_everything() -> None:
    assert Rights(AuthSettings(), asked=False).allow(None, Right.DELETE, TOPIC)


def test_what_was_read_counts_until_it_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = AuthSettings(rights_check_s=0.05, rights_age_max_s=30.0)
    rights = Rights(settings, asked=True)
    changes: list[bool] = []
    rights.on_change = lambda: changes.append(True)
    mine = [key_value("token:eve", TOPIC, Right.READ)]
    look = partial(rights.look, has_store=True)
    looking(look, [mine, mine, NoQuorum(what="a read"), NoQuorum(what="a read")])
    assert rights.allow(EVE, Right.READ, TOPIC)
    with pytest.raises(Forbidden):
        rights.require(EVE, Right.WRITE, TOPIC)
    later_s = time.monotonic() + 31.0
    monkeypatch.setattr("time.monotonic", lambda: later_s)
    with pytest.raises(RightsUnknown, match="31 s ago"):
        rights.allow(EVE, Right.READ, TOPIC)
    assert len(changes) == 1, "the same grants again are no change"


@pytest.mark.parametrize(
    ("has_store", "logged"),
    [(True, ["grants are not read", "grants are read again"]), (False, [])],
)
def test_a_failing_read_is_logged_once_and_only_if_there_is_a_store(
    has_store: bool, logged: list[str]
) -> None:
    rights = Rights(AuthSettings(), asked=True)
    failing = NoQuorum(what="a read")
    with structlog.testing.capture_logs() as lines:
        looking(partial(rights.look, has_store=has_store), [failing, [], failing, failing, []])
    assert [line["event"] for line in lines] == logged


def test_a_grant_that_cannot_be_read_gives_nobody_anything() -> None:
    grants = grants_of([KeyValue("raftlog/acl/token:eve/topic/t", 1, b'{"v": 9}')])
    assert not grants.allow(EVE, Right.READ, TOPIC)


@pytest.mark.parametrize(
    ("held", "changed", "allowed"),
    [
        ([], TOPIC, False),
        ([(EVERYTHING, Right.ADMIN)], TOPIC, True),
        ([(EVERYTHING, Right.ADMIN)], EVERYTHING, True),
        ([(TOPIC, Right.ADMIN)], TOPIC, True),
        ([(TOPIC, Right.ADMIN)], EVERYTHING, False),
        ([(TOPIC, Right.WRITE)], TOPIC, False),
        ([(EVERYTHING, Right.CLUSTER)], TOPIC, False),
    ],
)
def test_grants_are_changed_by_who_has_admin_on_the_resource_and_by_the_nodes_admins(
    held: list[tuple[Resource, Right]], changed: Resource, allowed: bool
) -> None:
    known = Grants(
        Grant(to="token:ada", resource=what, rights=frozenset([right])) for what, right in held
    )
    Rights(AuthSettings(admins="token:eve"), asked=True).check_change(EVE, known, changed)
    rights = Rights(AuthSettings(admins="token:eve"), asked=True)
    with nullcontext() if allowed else pytest.raises(Forbidden):
        rights.check_change(ADA, known, changed)


def test_a_writer_of_another_is_continued_with_a_right_to_it_or_as_admin_of_its_topic() -> None:
    writer = Resource(Kind.WRITER, "w")
    rights = Rights(AuthSettings(admins="token:ada"), asked=True)
    assert rights.any_owner(ADA, "t", "w")
    assert Rights(AuthSettings(), asked=False).any_owner(None, "t", "w")
    with pytest.raises(RightsUnknown):
        rights.any_owner(EVE, "t", "w")
    for resource, right, may in (
        (TOPIC, Right.WRITE, False),
        (TOPIC, Right.ADMIN, True),
        (writer, Right.DELETE, False),
        (writer, Right.WRITE, True),
    ):
        granted = [key_value("token:eve", resource, right)]
        looking(partial(rights.look, has_store=True), [granted])
        assert rights.any_owner(EVE, "t", "w") is may, (resource, right)
        assert not rights.any_owner(EVE, "u", "v")

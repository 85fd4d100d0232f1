"""What callers may do while a node knows a topic by the controller's log, only by its own replica,
or not at all, as it may after a restart."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest

from raftlog.auth import grant_keys, quota_keys
from raftlog.auth.principals import Caller, node_caller
from raftlog.auth.rights import EVERYTHING, Right, topic_named
from raftlog.config_auth import AuthSettings
from raftlog.core.types import NO_INDEX, GroupId, NodeId
from raftlog.errors import Forbidden, GroupUnknown, NotLeader, RaftlogError, TopicRecreated
from raftlog.machines.commands import CreateTopic, DeleteTopic, EpochKey, TopicInfo
from raftlog.machines.schema import Field, Schema
from raftlog.server.allowed import NEEDS, Allowed
from raftlog.server.rights import Rights
from raftlog.wire import reader_positions
from raftlog.wire.calls import CALLS, COMMIT_EPOCH, READ_KEYS, CommitEpochCall
from raftlog.wire.codec import decode_request
from raftlog.wire.kv_calls import ReadKeys
from tests.fuzz.samples import frames
from tests.multiraft.compaction_scene import topic_of
from tests.multiraft.leading import THREE, TWO, LeadingNode
from tests.server.following import looking
from tests.server.test_rights import key_value

EVE = Caller(principal="token:eve")
ADA = Caller(principal="token:ada")
OF_NO_TOPIC = frozenset(
    "DescribeCluster CreateTopic ListTopics DescribePlacements WatchGroups OpenKv OpenSession"
    " PutKey DeleteKey ReadKeys WatchKeys"
    " RegisterNode AddNode SetParents SetDuty RetireNode PlaceGroup ReportPlacement"
    " TransferLeadership Scrub AlterTopic AlterSchema DeleteTopic DescribeTopic".split()
)
"""Calls that say all by themselves: they name a topic, or none, but no group to be looked up."""
RIGHTS = [None, *Right]
SAMPLES = Schema(
    version=1,
    fields=(
        Field(id=1, name="id", type='"long"', nullable=True),
        Field(id=2, name="text", type='"string"', nullable=True),
    ),
)
"""The columns of the samples' rows."""


def not_here(group: GroupId) -> NotLeader:
    return NotLeader(group=group, node=1, leader=0)


def judging(node: LeadingNode, topic: TopicInfo, *rights: Right) -> Allowed:
    """What judges the calls of the node. Eve has these rights on the topic, and Ada all."""
    rules = Rights(AuthSettings(admins="token:ada"), asked=True)
    granted = [key_value("token:eve", topic_named(topic.name), *rights)] if rights else []
    other = key_value("token:bob", EVERYTHING, Right.ADMIN)
    looking(partial(rules.look, has_store=True), [[*granted, other]])
    return Allowed(rules, node.multiraft.replicas, not_here)


def verdicts(
    node: LeadingNode, topic: TopicInfo, who: Caller, *rights: Right
) -> dict[str, type[RaftlogError] | None]:
    """By call, how it is rejected; None: it is not. Eve has these rights on the topic."""
    allowed = judging(node, topic, *rights)
    found: dict[str, type[RaftlogError] | None] = {}
    sampled = replace(topic, schema=SAMPLES)
    for name, frame in frames(sampled, sampled, "store", "address").items():
        try:
            allowed.check(who, name, decode_request(CALLS[name], frame)[0])
        except (Forbidden, GroupUnknown, NotLeader) as rejected:
            found[name] = type(rejected)
        else:
            found[name] = None
    return found


def created(node: LeadingNode, *voters: NodeId, number: int = 1) -> TopicInfo:
    """A topic that the controller's log names."""
    like = topic_of(number)
    node.write(
        CreateTopic(
            name=like.name,
            incarnation=like.incarnation,
            schema=like.schema,
            voters=voters,
            if_not_exists=False,
            timestamp_us=1,
        )
    )
    found = node.multiraft.replicas.controller.topic(like.name)
    assert isinstance(found, TopicInfo)
    return found


def test_every_call_says_what_it_needs() -> None:
    assert NEEDS.keys() == CALLS.keys()


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("missing", [Right.WRITE, Right.DELETE])
def test_an_epoch_that_overwrites_needs_the_right_to_delete_too(
    overwrite: bool, missing: Right
) -> None:
    """It takes the place of all records; an epoch that adds to them needs the right to write."""
    node, topic = LeadingNode(topics=1), topic_of(1)
    key = EpochKey(writer="w", query_id="q", run="r", epoch=0, streaming=True)
    call = CommitEpochCall(
        group=topic.group, incarnation=topic.incarnation, key=key, attempts=(), schema_version=1,
        keep_on_mismatch=False, create_writer=False, transient_writer=False, overwrite=overwrite,
    )  # fmt: skip
    allowed = judging(node, topic, *({Right.WRITE, Right.DELETE} - {missing}))
    if overwrite or missing is Right.WRITE:
        with pytest.raises(Forbidden) as rejected:
            allowed.check(EVE, COMMIT_EPOCH.name, call)
        assert rejected.value.right == missing
    else:
        allowed.check(EVE, COMMIT_EPOCH.name, call)


def test_an_error_names_a_topic_only_to_who_may_know_of_it() -> None:
    """Calls of keys name a group that they are not judged by, and a node may not have it."""
    node = LeadingNode(topics=0)
    topic = created(node, TWO, THREE)
    error = NotLeader(
        group=topic.group, node=1, what=f"topic {topic.name!r}", leader=2, address="b:2"
    )
    assert judging(node, topic, Right.READ).told(EVE, error) is error
    said = judging(node, topic).told(EVE, error)
    assert isinstance(said, NotLeader)
    assert (said.what, said.leader, said.address) == ("", 0, "")


def test_an_error_without_a_name_is_passed_on_before_any_right_is_known() -> None:
    """A node that starts asks others that start for the grants, and must learn that they have
    none."""
    node = LeadingNode(topics=0)
    rules = Rights(AuthSettings(admins="token:ada"), asked=True)
    error = not_here(GroupId(99))
    assert Allowed(rules, node.multiraft.replicas, not_here).told(EVE, error) is error


@pytest.mark.parametrize("right", RIGHTS)
def test_a_topic_that_only_its_own_replica_names_needs_the_rights_that_it_always_needs(
    right: Right | None,
) -> None:
    rights = [right] if right else []
    behind = LeadingNode(topics=1)
    assert behind.multiraft.replicas.controller.info_of(GroupId(1)) is None
    knows = LeadingNode(topics=0)
    topic = created(knows, TWO, THREE)
    assert GroupId(topic.group) not in knows.multiraft.replicas
    expected = verdicts(knows, topic, EVE, *rights)
    assert verdicts(behind, topic_of(1), EVE, *rights) == expected
    if right is None:
        assert {name for name, rejected in expected.items() if not rejected} <= OF_NO_TOPIC


@pytest.mark.parametrize("who", [EVE, ADA], ids=["one right", "every right"])
def test_on_a_group_that_is_unknown_no_call_is_judged(who: Caller) -> None:
    node = LeadingNode(topics=1)
    found = verdicts(node, topic_of(7), who, Right.READ)
    assert {name: found[name] for name in found if name not in OF_NO_TOPIC} == dict.fromkeys(
        found.keys() - OF_NO_TOPIC, NotLeader
    )


def of_guesses(node: LeadingNode, group: GroupId, *rights: Right) -> dict[str, object]:
    """How Eve's calls about a group are rejected, of which she knows the number alone. She has
    these rights on another topic."""
    guessed = replace(topic_of(1), group=group, name="another", incarnation="0" * 32)
    found = verdicts(node, guessed, EVE, *rights)
    return {name: rejected for name, rejected in found.items() if name not in OF_NO_TOPIC}


def test_a_guessed_group_number_does_not_tell_whether_there_is_a_topic() -> None:
    """Nor whether there was one. Who has a right may have one on a topic that the node does not
    know yet, and is to try again."""
    node = LeadingNode(topics=0)
    deleted = created(node, TWO, THREE)
    node.write(DeleteTopic(name=deleted.name, incarnation=deleted.incarnation))
    live = created(node, TWO, THREE, number=2)
    never = GroupId(99)
    for rights in ((), (Right.READ,)):
        found = of_guesses(node, live.group, *rights)
        assert set(found.values()) == {GroupUnknown}
        assert of_guesses(node, deleted.group, *rights) == found
    assert of_guesses(node, never) == found
    assert set(of_guesses(node, never, Right.READ).values()) == {NotLeader}


def test_a_topic_that_was_deleted_is_told_from_one_that_is_not_known_yet() -> None:
    """By the service, to a caller with the right that the call needed before."""
    node = LeadingNode(topics=0)
    topic = created(node, TWO, THREE)
    node.write(DeleteTopic(name=topic.name, incarnation=topic.incarnation))
    found = verdicts(node, topic, EVE, Right.READ)
    assert (found["Append"], found["Read"]) == (Forbidden, None)
    assert found["GetEntries"] is found["GetLastApplied"] is GroupUnknown
    with pytest.raises(TopicRecreated, match=topic.name):
        node.multiraft.replicas.of_topic(GroupId(topic.group), topic.incarnation)
    other = verdicts(node, replace(topic, group=GroupId(99)), EVE, Right.READ)
    assert other["Read"] is GroupUnknown, "another group"


def test_entries_as_they_are_need_the_right_admin() -> None:
    """They show what was staged, aborted or trimmed."""
    node = LeadingNode(topics=1)
    for right, rejected in ((Right.READ, Forbidden), (Right.ADMIN, None)):
        assert verdicts(node, topic_of(1), EVE, right)["GetEntries"] is rejected


def test_a_node_may_do_to_others_what_nodes_need_and_nothing_else() -> None:
    """Any machine's certificate would be a full administrator's otherwise."""
    node, topic = LeadingNode(topics=1), topic_of(1)
    allowed = {name for name, rejected in verdicts(node, topic, node_caller(1)).items()
               if rejected is None}  # fmt: skip
    assert allowed == {"RegisterNode", "ReportPlacement", "OpenKv"}
    assert verdicts(node, topic, node_caller(2))["RegisterNode"] is Forbidden, "as another node"


@pytest.mark.parametrize(
    ("prefix", "allowed"),
    [
        (grant_keys.KEY_PREFIX, True),
        (quota_keys.KEY_PREFIX, True),
        (reader_positions.KEY_PREFIX, True),
        ("", False),
        ("raftlog/", False),
    ],
)
def test_a_node_reads_what_it_needs_of_the_store(prefix: str, allowed: bool) -> None:
    call = ReadKeys(
        group=GroupId(1), strong=True, at_least=NO_INDEX, exactly=NO_INDEX, prefix=prefix,
        start="", end="", limit=10,
    )  # fmt: skip
    judge = judging(LeadingNode(topics=0), topic_of(1))
    with nullcontext() if allowed else pytest.raises(Forbidden):
        judge.check(node_caller(1), READ_KEYS.name, call)

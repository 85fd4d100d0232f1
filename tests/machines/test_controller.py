"""The controller: nodes bound to their folders, topics, groups that are never used again."""

from __future__ import annotations

import dataclasses

import pytest

from raftlog.core.types import GroupId, LogIndex, NodeId
from raftlog.machines.cluster_nodes import KnownNode
from raftlog.machines.commands import (
    AddNode,
    AlterTopic,
    ControllerCommand,
    CreateTopic,
    DeleteTopic,
    RegisterNode,
    TopicInfo,
)
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.limits import DELETED_TOPICS_KEPT, ControllerLimits
from raftlog.machines.outcomes import (
    ControllerOutcome,
    NodeRegistered,
    Refused,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
)
from raftlog.machines.rules import RULES_FIRST
from raftlog.machines.schema import RESERVED_NAMES, Field, Schema
from raftlog.machines.settings import TopicSetting
from tests.machines.scenes import SCHEMA


class Cluster:
    """A controller machine that is fed one command after another."""

    def __init__(self, limits: ControllerLimits | None = None) -> None:
        self.machine = ControllerMachine(limits)
        self.index = 0

    def apply(self, command: ControllerCommand) -> ControllerOutcome:
        self.index += 1
        return self.machine.apply(LogIndex(self.index), command)

    def create(
        self,
        name: str,
        incarnation: str = "",
        *,
        schema: Schema = SCHEMA,
        voters: tuple[int, ...] = (1, 2, 3),
        if_not_exists: bool = False,
        now_us: int = 5,
        settings: tuple[TopicSetting, ...] = (),
    ) -> ControllerOutcome:
        return self.apply(
            CreateTopic(
                name=name,
                incarnation=incarnation or f"incarnation of {name}"[:249],
                schema=schema,
                voters=tuple(NodeId(voter) for voter in voters),
                if_not_exists=if_not_exists,
                timestamp_us=now_us,
                settings=settings,
            )
        )

    def alter(self, name: str, *settings: TopicSetting, incarnation: str = "") -> ControllerOutcome:
        return self.apply(AlterTopic(name=name, incarnation=incarnation, settings=settings))

    def topic(self, name: str) -> TopicInfo:
        found = self.machine.topic(name)
        assert isinstance(found, TopicInfo), found
        return found

    def created(self, name: str, incarnation: str = "") -> TopicInfo:
        outcome = self.create(name, incarnation)
        assert isinstance(outcome, TopicCreated), outcome
        return outcome.topic

    def delete(self, name: str, incarnation: str = "") -> ControllerOutcome:
        return self.apply(DeleteTopic(name=name, incarnation=incarnation))

    def register(
        self, node: int, store: str, address: str = "127.0.0.1:1", rules: int = RULES_FIRST
    ) -> ControllerOutcome:
        return self.apply(
            RegisterNode(node=NodeId(node), store_uuid=store, address=address, rules=rules)
        )


def refusal(outcome: ControllerOutcome) -> tuple[str, dict[str, str | int]]:
    assert isinstance(outcome, Refused), outcome
    return outcome.code, dict(outcome.values)


# ---------------------------------------------------------------- nodes


def code(outcome: ControllerOutcome) -> str:
    return refusal(outcome)[0]


def test_a_process_with_a_copy_of_a_nodes_folder_does_not_register() -> None:
    """A copy of a folder knows none of the processes that came after it was made."""
    cluster = Cluster()

    def register(boot_id: str, *earlier: str, at: int = 0) -> str:
        command = RegisterNode(
            node=NodeId(2),
            store_uuid="s2",
            address="b:1",
            rules=1,
            boot_id=boot_id,
            earlier_boot_ids=earlier,
            registered_at=LogIndex(at),
        )
        outcome = cluster.apply(command)
        return code(outcome) if isinstance(outcome, Refused) else ""

    assert register("first") == ""
    assert register("third", "first", "second", at=1) == "", "the second never reached a leader"
    assert register("third", "first", "second", at=1) == "", "a resend"
    before = cluster.machine.state().nodes
    assert register("copy", "first", at=1) == "StoreCopied"
    assert register("again", "first", "copy", at=1) == "StoreCopied", "however often it starts"
    assert register("second", "first", at=1) == "StoreCopied"
    assert register("first") == "StoreCopied"
    assert cluster.machine.state().nodes == before
    (known,) = cluster.machine.nodes.values()
    assert (known.boot_id, known.registered_at) == ("third", 3)
    assert register("fourth", "third", at=3) == ""


def test_who_has_not_applied_a_registration_does_not_judge_the_process() -> None:
    """After a power loss of all nodes, none has applied again what the others registered last."""
    known = KnownNode("s2", "b:1", 1, boot_id="second", registered_at=LogIndex(20))

    def process(at: int, *earlier: str) -> RegisterNode:
        return RegisterNode(
            node=NodeId(2),
            store_uuid="s2",
            address="b:1",
            rules=1,
            boot_id="own",
            earlier_boot_ids=earlier,
            registered_at=LogIndex(at),
        )

    assert not known.has_other_copy(process(21, "third"))
    assert not known.has_other_copy(process(20, "second"))
    assert not known.has_other_copy(process(10, "first", "second")), "it did not hear of its own"
    assert known.has_other_copy(process(20, "third")), "no honest folder says so"
    assert known.has_other_copy(process(10, "first"))
    assert not KnownNode("s2", "b:1", 1).has_other_copy(process(0)), "none has registered"


def test_node_id_belongs_to_the_first_store_that_registers_it() -> None:
    cluster = Cluster()
    assert isinstance(cluster.register(1, "store-a"), NodeRegistered)
    assert isinstance(cluster.register(1, "store-a", "other:2"), NodeRegistered)
    before = cluster.machine.fingerprint()
    assert refusal(cluster.register(1, "store-b")) == (
        "IdentityRefused",
        {"node": 1, "store_uuid": "store-b", "known_store_uuid": "store-a"},
    )
    assert cluster.machine.fingerprint() == before
    assert cluster.machine.nodes[NodeId(1)] == KnownNode(
        "store-a", "other:2", RULES_FIRST, registered_at=LogIndex(2)
    )
    assert cluster.machine.nodes.get(NodeId(2)) is None


# ---------------------------------------------------------------- topics


def test_created_topic_is_found_by_name_and_group_and_starts_at_schema_version_1() -> None:
    cluster = Cluster()
    copied = dataclasses.replace(SCHEMA, version=4)
    outcome = cluster.create("flights", "f1", schema=copied, now_us=9)
    assert outcome == TopicCreated(
        topic=TopicInfo(
            name="flights",
            incarnation="f1",
            group=GroupId(1),
            schema=SCHEMA,
            voters=(NodeId(1), NodeId(2), NodeId(3)),
            created_us=9,
            rules=RULES_FIRST,
        ),
        existed=False,
    )
    assert cluster.machine.topic("flights") == outcome.topic
    assert cluster.machine.topics() == [outcome.topic]
    assert cluster.machine.topics() == [outcome.topic]


def test_group_ids_count_from_1_and_are_never_used_again() -> None:
    cluster = Cluster()
    assert cluster.created("a").group == 1
    assert cluster.created("b").group == 2
    cluster.delete("b")
    cluster.delete("a")
    assert cluster.created("a", "a again").group == 3
    known = [cluster.machine.is_deleted(GroupId(group)) for group in range(5)]
    assert known == [False, True, True, False, False], "the controller and groups of the future"


def test_resent_creation_is_answered_as_the_first() -> None:
    """CHECKLIST row 26."""
    cluster = Cluster()
    first = cluster.create("flights", "f1")
    assert cluster.create("flights", "f1") == first
    assert cluster.created("delays").group == 2


def test_existing_name_is_refused_or_answered_with_the_topic_as_it_is() -> None:
    cluster = Cluster()
    first = cluster.created("flights", "f1")
    assert refusal(cluster.create("flights", "f2")) == ("TopicExists", {"topic": "flights"})
    empty = Schema(version=1, fields=())
    assert cluster.create("flights", "f2", schema=empty, if_not_exists=True) == TopicCreated(
        topic=first, existed=True
    )


def test_deletion_names_its_incarnation_and_a_resend_is_answered_as_the_first() -> None:
    cluster = Cluster()
    first = cluster.created("flights", "f1")
    assert refusal(cluster.delete("flights", "f0")) == (
        "TopicRecreated",
        {"topic": "flights", "wanted": "f0", "found": "f1"},
    )
    assert cluster.delete("flights", "f1") == TopicDeleted(topic=first)
    second = cluster.created("flights", "f2")
    assert cluster.delete("flights", "f1") == TopicDeleted(topic=first)
    assert cluster.machine.topic("flights") == second
    assert cluster.delete("flights") == TopicDeleted(topic=second)


def test_late_resend_of_a_creation_revives_no_deleted_topic() -> None:
    cluster = Cluster()
    cluster.created("flights", "f1")
    cluster.delete("flights", "f1")
    code, values = refusal(cluster.create("flights", "f1"))
    assert (code, values["wanted"]) == ("TopicRecreated", "f1")
    assert cluster.machine.topics() == []


def test_deleted_incarnations_are_remembered_within_a_bound() -> None:
    cluster = Cluster()
    for number in range(DELETED_TOPICS_KEPT + 1):
        cluster.create("t", f"i{number}")
        cluster.delete("t", f"i{number}")
    assert isinstance(cluster.delete("t", "i1"), TopicDeleted)
    assert refusal(cluster.delete("t", "i0"))[0] == "TopicNotFound"


def test_missing_topic_is_answered_with_the_nearest_names() -> None:
    cluster = Cluster()
    for name in ("flights", "weather", "delays", "flights_2013"):
        cluster.created(name)
    wanted = ("TopicNotFound", {"topic": "flihgts", "nearest": "flights, flights_2013"})
    assert refusal(cluster.machine.topic("flihgts")) == wanted
    assert refusal(cluster.delete("flihgts")) == wanted
    assert refusal(cluster.machine.topic("FLIGHTS"))[1]["nearest"] == "flights"
    assert refusal(cluster.machine.topic("z" * 9999))[1]["nearest"] == ""


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".a", "a/b", "a b", "a\n", "é", "a" * 250, "a\x00", "a:b", "١"]
)
def test_name_outside_the_alphabet_is_refused(name: str) -> None:
    cluster = Cluster()
    assert refusal(cluster.create(name, "i")) == ("InvalidTopicName", {"topic": name})


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "-", "_", "a" * 249, "a."])
def test_name_within_the_alphabet_is_accepted(name: str) -> None:
    assert Cluster().created(name).name == name


def _fields(*names: str) -> tuple[Field, ...]:
    return tuple(
        Field(id=number, name=name, type='"long"', nullable=True)
        for number, name in enumerate(names, 1)
    )


@pytest.mark.parametrize(
    "fields",
    [
        (),
        *(_fields("a", reserved) for reserved in RESERVED_NAMES),
        _fields("_OFFSET"),
        _fields("a", "A"),
        _fields(""),
        (*_fields("a"), Field(id=1, name="b", type='"long"', nullable=True)),
        (Field(id=0, name="b", type='"long"', nullable=True),),
        (Field(id=1, name="b", type="", nullable=True),),
    ],
)
def test_schema_that_no_topic_can_have_is_refused(fields: tuple[Field, ...]) -> None:
    cluster = Cluster()
    code, values = refusal(cluster.create("t", schema=Schema(version=1, fields=fields)))
    assert (code, values["option"]) == ("InvalidOption", "schema")
    assert cluster.machine.topics() == []


@pytest.mark.parametrize("voters", [(), (2, 1), (1, 1), (0, 1), (1, 2**31), tuple(range(1, 9))])
def test_voters_that_no_group_can_have_are_refused(voters: tuple[int, ...]) -> None:
    assert refusal(Cluster().create("t", voters=voters))[0] == "MalformedRequest"


def test_nodes_topics_and_fields_are_bounded() -> None:
    cluster = Cluster(ControllerLimits(nodes_max=1, topics_max=1, fields_max=1))
    cluster.register(1, "a")
    cluster.created("t")
    two = Schema(version=1, fields=_fields("a", "b"))
    outcomes = (cluster.register(2, "b"), cluster.create("u"), cluster.create("v", schema=two))
    units = [refusal(outcome)[1]["unit"] for outcome in outcomes]
    assert units == ["nodes", "topics", "fields"]
    added = cluster.apply(AddNode(node=NodeId(2), address="b:1"))
    assert refusal(added)[1]["unit"] == "nodes"
    assert isinstance(cluster.register(1, "a"), NodeRegistered)


@pytest.mark.parametrize("address", ["", "nowhere", "%%%:00001", "h:99999", "[]:0", "a b:1"])
def test_an_address_that_none_can_dial_is_refused_whichever_command_has_it(address: str) -> None:
    cluster = Cluster()
    added = cluster.apply(AddNode(node=NodeId(9), address=address))
    for outcome in (cluster.register(9, "s", address), added):
        assert refusal(outcome)[0] == "MalformedRequest"
    assert not cluster.machine.nodes


def test_senseless_node_is_refused_not_fatal() -> None:
    cluster = Cluster()
    for node, store in ((0, "a"), (2**64, "a"), (1, "")):
        assert refusal(cluster.register(node, store))[0] == "MalformedRequest"


def test_creation_times_never_fall() -> None:
    cluster = Cluster()
    cluster.create("a", now_us=9)
    assert cluster.create("b", now_us=4).topic.created_us == 9


def test_same_commands_give_the_same_state_hash() -> None:
    """CHECKLIST row 70."""
    clusters = (Cluster(), Cluster())
    seen = set()
    for step in range(6):
        for cluster in clusters:
            (
                lambda c: c.register(1, "a"), lambda c: c.create("t"), lambda c: c.create("u"),
                lambda c: c.delete("t"), lambda c: c.create("t", "t again"),
                lambda c: c.register(1, "a", "b:2"),
            )[step](cluster)  # fmt: skip
        first, second = (cluster.machine.fingerprint() for cluster in clusters)
        assert first == second
        seen.add(first)
    assert len(seen) == 6, "a change that the hash does not see"


def test_settings_are_given_at_creation_and_changed_one_by_one() -> None:
    scene = Cluster()
    kept = TopicSetting(name="retention_records", value=5)
    scene.create("a", settings=(kept,))
    created = scene.topic("a")
    assert (created.settings, created.settings_version) == ((kept,), scene.index)
    week = TopicSetting(name="retention_s", value=7 * 86_400)
    assert scene.alter("a", week) == TopicAltered(topic=scene.topic("a"))
    assert scene.topic("a").settings == (kept, week)
    at = scene.topic("a").settings_version
    scene.alter("a", week)
    assert scene.topic("a").settings_version == at, "a change that changes nothing is none"
    scene.alter("a", TopicSetting(name="retention_records", value=0))
    assert scene.topic("a").settings == (week,)
    assert scene.topic("a").settings_version == scene.index


def test_a_setting_that_no_topic_has_changes_nothing() -> None:
    scene = Cluster()
    scene.created("a")
    before = scene.machine.fingerprint()
    good = TopicSetting(name="retention_s", value=1)
    for name, value in (("retention", 1), ("retention_s", -1), ("retention_s", 2**62)):
        outcome = scene.alter("a", good, TopicSetting(name=name, value=value))
        assert code(outcome) == "InvalidOption"
        advice = str(refusal(outcome)[1]["advice"])
        assert "retention_s, retention_bytes, retention_records" in advice
    assert code(scene.alter("a")) == "MalformedRequest"
    assert code(scene.alter("b", good)) == "TopicNotFound"
    assert code(scene.alter("a", good, incarnation="other")) == "TopicRecreated"
    assert scene.machine.fingerprint() == before

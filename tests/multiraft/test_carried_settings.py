"""A topic's leader, and nobody else, carries its settings and its schema from the controller into
its log."""

from __future__ import annotations

from random import Random

from raftlog.core.types import CONTROLLER_GROUP, GroupId, NodeId, Payload
from raftlog.errors import Overloaded
from raftlog.machines.commands import (
    AlterSchema,
    AlterTopic,
    CreateTopic,
    RegisterNode,
    Rules,
    SetSchema,
    TopicInfo,
)
from raftlog.machines.evolution import ADD, ColumnChange
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.settings import RULES_WITH_SETTINGS, TopicSetting
from raftlog.machines.topic import TopicMachine
from raftlog.multiraft.carried_settings import carry_settings, schema_due, settings_due
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.records.arrow_types import schema_of
from raftlog.wire.codec import decode_command, encode_command
from tests.machines.test_placements import Cluster
from tests.multiraft.compaction_scene import Scene
from tests.multiraft.test_quarantine import disk_of_two_topics
from tests.multiraft.test_refused_messages import follower
from tests.recorded.make import STORE, OneNode
from tests.storage.memory import MemoryFileSystem

GROUP = GroupId(1)


def altered() -> Cluster:
    """A controller that has the settings of group 1."""
    cluster = Cluster()
    settings = (TopicSetting(name="retention_s", value=5),)
    cluster.apply(AlterTopic(name="t", incarnation="", settings=settings))
    return cluster


def test_only_the_leader_proposes_settings_and_once_in_its_term() -> None:
    controller, led = altered().machine, Scene().topics[GROUP]
    followed = follower(disk_of_two_topics())[0].replicas[GROUP]
    assert settings_due(followed, controller) is not None
    proposed: list[LocalReplica] = []
    for _ in range(2):
        carry_settings([followed, led], controller, lambda local, payload: proposed.append(local))
    assert proposed == [led]


def test_settings_are_proposed_again_after_writes_that_went_first() -> None:
    controller, led = altered().machine, Scene().topics[GROUP]

    def refuse(local: LocalReplica, payload: Payload) -> None:
        raise Overloaded(queue="raft.unapplied_entries_max", limit=1)

    carry_settings([led], controller, refuse)
    assert settings_due(led, controller) is not None


def with_a_gate() -> Cluster:
    """A controller that has another schema of group 1 than the group itself."""
    cluster = Cluster()
    change = ColumnChange(action=ADD, name="gate", type='"string"')
    cluster.apply(AlterSchema(name="t", incarnation="", version=1, changes=(change,)))
    return cluster


def test_only_the_leader_proposes_a_schema_and_once_in_its_term() -> None:
    controller, led = with_a_gate().machine, Scene().topics[GROUP]
    followed = follower(disk_of_two_topics())[0].replicas[GROUP]
    assert schema_due(followed, controller) is None, "its rules do not know schemas that change"
    assert schema_due(led, controller) is not None
    proposed: list[object] = []

    def propose(local: LocalReplica, payload: Payload) -> None:
        assert local is led
        proposed.append(decode_command(payload.command))

    for _ in range(2):
        carry_settings([followed, led], controller, propose)
    topic = controller.info_of(GROUP)
    assert isinstance(topic, TopicInfo)
    assert proposed == [SetSchema(schema=topic.schema)]


def test_what_waits_for_a_topics_own_rules_is_carried_as_soon_as_they_rise() -> None:
    """The controller alters the topic while its log still has earlier rules."""
    node = OneNode(MemoryFileSystem(Random(1)))
    create = CreateTopic(
        name="t",
        incarnation="1" * 32,
        schema=schema_of("id bigint"),
        voters=(NodeId(1),),
        if_not_exists=False,
        timestamp_us=1,
    )
    topic = node.write(CONTROLLER_GROUP, create).topic
    assert topic.rules < RULES_WITH_SETTINGS
    change = ColumnChange(action=ADD, name="gate", type='"string"')
    settings = (TopicSetting(name="retention_s", value=5),)
    for command in (
        RegisterNode(node=NodeId(1), store_uuid=STORE, address="a:1", rules=RULES_LATEST),
        Rules(version=RULES_LATEST),
        AlterTopic(name="t", incarnation="", settings=settings),
        AlterSchema(name="t", incarnation="", version=1, changes=(change,)),
    ):
        node.multiraft.propose(
            node.multiraft.replicas.of_controller,
            Payload(encode_command(command, None), b""),
            lambda _: None,
        )
    node.run_pending()
    local = node.multiraft.replicas[topic.group]
    assert isinstance(local.machine, TopicMachine)
    assert local.machine.rules == RULES_LATEST
    assert local.machine.info.schema.version == 2
    assert local.machine.settings == settings
    node.close()

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
    SetSchema,
    TopicInfo,
)
from raftlog.machines.evolution import ADD, ColumnChange
from raftlog.machines.settings import TopicSetting
from raftlog.machines.topic import TopicMachine
from raftlog.multiraft.carried_settings import carry_settings, schema_due, settings_due
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.records.arrow_types import schema_of
from raftlog.wire.codec import decode_command
from tests.golden.one_node import OneNode
from tests.machines.test_placements import Cluster
from tests.multiraft.compaction_scene import Scene
from tests.multiraft.test_quarantine import disk_of_two_topics
from tests.multiraft.test_refused_messages import follower
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
    assert schema_due(followed, controller) is not None
    proposed: list[object] = []

    def propose(local: LocalReplica, payload: Payload) -> None:
        assert local is led
        proposed.append(decode_command(payload.command))

    for _ in range(2):
        carry_settings([followed, led], controller, propose)
    topic = controller.info_of(GROUP)
    assert isinstance(topic, TopicInfo)
    assert proposed == [SetSchema(schema=topic.schema)]


def test_settings_and_a_schema_are_in_the_topic_as_soon_as_the_controller_has_them() -> None:
    """Its leader, which applies the controller's log too, waits for no tick."""
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
    change = ColumnChange(action=ADD, name="gate", type='"string"')
    settings = (TopicSetting(name="retention_s", value=5),)
    controller = node.multiraft.replicas.of_controller
    for command in (
        AlterTopic(name="t", incarnation="", settings=settings),
        AlterSchema(name="t", incarnation="", version=1, changes=(change,)),
    ):
        node.multiraft.propose(controller, controller.payload(command), lambda _: None)
    node.run_pending()
    machine = node.multiraft.replicas[topic.group].machine
    assert isinstance(machine, TopicMachine)
    assert machine.info.schema.version == 2
    assert machine.settings == settings
    node.close()

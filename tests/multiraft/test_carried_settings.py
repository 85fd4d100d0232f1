"""A topic's leader, and nobody else, carries its settings and its schema from the controller into
its log."""

from __future__ import annotations

from raftlog.core.types import GroupId, Payload
from raftlog.errors import Overloaded
from raftlog.machines.commands import AlterSchema, AlterTopic, SetSchema, TopicInfo
from raftlog.machines.evolution import ADD, ColumnChange
from raftlog.machines.settings import TopicSetting
from raftlog.multiraft.carried_settings import carry_settings, schema_due, settings_due
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.wire.codec import decode_command
from tests.machines.test_placements import Cluster
from tests.multiraft.compaction_scene import Scene
from tests.multiraft.test_quarantine import disk_of_two_topics
from tests.multiraft.test_refused_messages import follower

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

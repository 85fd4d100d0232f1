"""A topic's leader, and nobody else, carries its settings from the controller into its log."""

from __future__ import annotations

from raftlog.core.types import GroupId, Payload
from raftlog.errors import Overloaded
from raftlog.machines.commands import AlterTopic
from raftlog.machines.settings import TopicSetting
from raftlog.multiraft.carried_settings import carry_settings, settings_due
from raftlog.multiraft.local_replica import LocalReplica
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

"""Wires cut between real nodes: a majority continues, a minority refuses, healing is harmless."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.chaos.links import PeerLinks
from raftlog.chaos.proxy import Wire
from raftlog.chaos.workload import OneNode
from raftlog.client.log_client import LogClient
from raftlog.client.producer import Producer
from raftlog.config import load
from raftlog.errors import NoQuorum, NotLeader
from raftlog.machines.commands import TopicInfo
from tests.cluster.waiting import LEADERS_STAY, leader_of

NODES = (1, 2, 3)
HELD_S = 4.0
"""Longer than the longest election timeout, and than the keepalive of a silent connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """A cluster whose wires can be cut, with a topic."""

    cluster: ProcessCluster
    links: PeerLinks
    client: LogClient
    topic: TopicInfo

    def leader_and_others(self) -> tuple[int, int, int]:
        leader = leader_of(self.client, self.topic.name)
        return leader, *(node for node in NODES if node != leader)

    def cut(self, *pairs: tuple[int, int]) -> None:
        for sender, receiver in pairs:
            self.links.set(sender, receiver, Wire(cut=True))

    def only(self, node: int, request_timeout_s: float) -> OneNode:
        """A connection that asks one node once."""
        settings = load().client.model_copy(
            update={
                "request_timeout_s": request_timeout_s,
                "try_timeout_s": request_timeout_s,
            }
        )
        return OneNode(settings, self.cluster.address(node))

    def append(self) -> None:
        """Append; some node must acknowledge it."""
        with self.cluster.client() as client:
            client.append(self.topic.name, [{"number": 1}])

    def wait_replaced(self, node: int) -> None:
        """Wait until another node leads than this one, as those say that hear one another."""
        wait_for(
            lambda: self.client.watermark(self.topic.name).leader not in (0, node),
            f"another leader than node {node}",
            PATIENCE_S,
        )

    def heal(self) -> None:
        self.links.heal()
        self.cluster.wait_caught_up(self.client, self.topic.name)


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wired]:
    with ExitStack() as stack:
        port = free_ports(len(NODES))
        addresses = {node: f"127.0.0.1:{port + node - 1}" for node in NODES}
        links = stack.enter_context(PeerLinks(addresses))
        cluster = stack.enter_context(
            ProcessCluster.start(
                tmp_path_factory.mktemp("wired") / "data",
                port=port,
                settings=[f"server.peer_routes={links.routes}", LEADERS_STAY],
            )
        )
        client = stack.enter_context(cluster.client())
        topic = client.create_topic("t", "number bigint")
        cluster.wait_caught_up(client, "t")
        yield Wired(cluster=cluster, links=links, client=client, topic=topic)


def test_a_leader_cut_off_from_all_is_replaced_and_refuses(wired: Wired) -> None:
    leader, one, other = wired.leader_and_others()
    wired.cut((leader, one), (leader, other), (one, leader), (other, leader))
    wired.append()
    wired.wait_replaced(leader)
    cut_off = wired.only(leader, PATIENCE_S)
    producer = Producer(cut_off, wired.topic, cut_off.settings.with_arguments(max_in_flight=1))
    for ask in (
        lambda: LogClient(cut_off).read_high_water_mark(wired.topic),
        lambda: producer.append_and_flush([{"number": 2}]),
    ):
        with pytest.raises((NotLeader, NoQuorum)):
            ask()
    cut_off.close()
    wired.heal()


def test_a_leader_whose_messages_reach_no_node_is_replaced(wired: Wired) -> None:
    leader, one, other = wired.leader_and_others()
    wired.cut((leader, one), (leader, other))
    wired.append()
    wired.wait_replaced(leader)
    wired.heal()


def test_a_leader_that_hears_no_node_gives_way(wired: Wired) -> None:
    leader, one, other = wired.leader_and_others()
    wired.cut((one, leader), (other, leader))
    wired.append()
    wired.wait_replaced(leader)
    wired.heal()


@pytest.mark.parametrize("mute", [True, False], ids=["unheard", "deaf"])
def test_a_follower_cut_off_in_one_direction_stops_no_write(wired: Wired, mute: bool) -> None:
    """That it also causes no election, by pre-vote, is shown where nothing else causes one:
    tests/core/test_pre_vote.py."""
    leader, follower, other = wired.leader_and_others()
    to_others = ((follower, leader), (follower, other))
    wired.cut(*(to_others if mute else [pair[::-1] for pair in to_others]))
    healed_at_s = time.monotonic() + HELD_S
    wait_for(lambda: time.monotonic() >= healed_at_s, "the follower to miss its leader", PATIENCE_S)
    wired.append()
    wired.wait_replaced(follower)  # nor does it lead
    wired.heal()


def test_cutting_one_wire_of_a_leader_stops_no_write(wired: Wired) -> None:
    """The follower behind the cut disturbs no node, because the other one hears the leader."""
    leader, one, _ = wired.leader_and_others()
    wired.cut((leader, one))
    for _ in range(3):
        wired.append()
    wired.heal()

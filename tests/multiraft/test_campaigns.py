"""The groups of a node share one budget of campaigns, and a loop that is behind backs off.

Whatever a machine is short of, an election storm ends: slow loops are simulated, with costs that
were measured, in `tests.multiraft.slow_loops`.
"""

from __future__ import annotations

import pytest

from raftlog.core.messages import NodeHeartbeat, VoteRequest
from raftlog.core.ready import Role
from raftlog.core.types import CONTROLLER_GROUP, GroupId
from raftlog.multiraft.multiraft import MultiRaft
from tests.multiraft.leading import ONE, THREE, TIMING, TWO, disk_of_topics, heartbeat
from tests.multiraft.slow_loops import Costs, SlowCluster
from tests.multiraft.test_refused_messages import started

CAMPAIGNS_MAX = 16
TOPICS = 100
LARGE = Costs().larger(10)
"""With these costs, so many topics are about as much work as a thousand."""
TENTH = 0.1
MINUTE = 60
TIMEOUT_TICKS_MAX = 2 * TIMING.election_ticks_min


class Alone:
    """Node 1, whose peers are heard and answer nothing."""

    def __init__(self, topics: int, *, heard: bool = True) -> None:
        self.multiraft, self.driver = started(disk_of_topics(topics), campaigns_max=CAMPAIGNS_MAX)
        self.heard = heard
        self.asked: list[GroupId] = []
        """The groups that asked for votes, in this order."""

    def tick(self) -> None:
        if self.heard:
            for peer in (TWO, THREE):
                beat = NodeHeartbeat(sender=peer, to=ONE, boot_id=f"{peer}.1")
                self.multiraft.receive(peer, [beat])
        self.multiraft.tick()
        self.driver.run()
        sent, self.driver.sent = self.driver.sent, []
        self.asked += [each.group for each in sent if isinstance(each, VoteRequest)]


def in_flight(multiraft: MultiRaft) -> int:
    """Campaigns whose answers are still waited for."""
    return sum(
        local.raft.role in (Role.PRE_CANDIDATE, Role.CANDIDATE) and not local.raft.campaign_due
        for local in multiraft.replicas.values()
    )


@pytest.mark.parametrize("heard", [True, False])
def test_a_node_has_only_so_many_campaigns_in_flight_and_each_group_gets_its_turn(
    heard: bool,
) -> None:
    node = Alone(2 * CAMPAIGNS_MAX, heard=heard)
    at_most = 0
    for _ in range(6 * TIMEOUT_TICKS_MAX):
        node.tick()
        at_most = max(at_most, in_flight(node.multiraft))
    assert at_most == CAMPAIGNS_MAX
    assert set(node.asked) == set(node.multiraft.replicas)


def test_groups_that_hear_no_majority_leave_half_of_the_budget_to_others() -> None:
    node = Alone(2 * CAMPAIGNS_MAX, heard=False)
    for _ in range(3 * TIMEOUT_TICKS_MAX):
        node.tick()
    assert in_flight(node.multiraft) <= CAMPAIGNS_MAX // 2


def test_a_replica_that_waits_for_its_turn_gives_its_vote_and_then_waits_no_longer() -> None:
    node = Alone(2 * CAMPAIGNS_MAX)
    for _ in range(TIMING.election_ticks_min):
        node.tick()
    raft = next(
        local.raft
        for local in node.multiraft.replicas.values()
        if local.raft.campaign_due and local.raft.role is Role.FOLLOWER
    )
    asks = VoteRequest(
        group=raft.group,
        sender=TWO,
        to=ONE,
        term=raft.term + 1,
        last_index=0,
        last_term=0,
        pre=False,
        transfer=False,
    )
    node.multiraft.receive(TWO, [asks])
    node.driver.run()
    assert raft.vote == TWO
    assert not raft.campaign_due


def test_groups_have_no_ticks_while_one_that_had_something_to_do_is_not_advanced() -> None:
    multiraft, driver = started(disk_of_topics(20))
    multiraft.receive(TWO, [heartbeat(CONTROLLER_GROUP, TWO, 1)])
    multiraft.tick()
    waiting = multiraft.campaigns.waiting
    for _ in range(3 * TIMEOUT_TICKS_MAX):
        multiraft.tick()
    assert multiraft.dirty.lags
    assert multiraft.campaigns.waiting == waiting < 20
    driver.run()
    assert not multiraft.dirty.lags
    for _ in range(TIMEOUT_TICKS_MAX):
        multiraft.tick()
        driver.run()
    assert in_flight(multiraft) > 1, "it has caught up"


def test_the_controllers_group_waits_for_no_other_group() -> None:
    node = Alone(3 * CAMPAIGNS_MAX)
    controller = node.multiraft.replicas.of_controller.raft
    longest = waits = 0
    for _ in range(8 * TIMEOUT_TICKS_MAX):
        node.tick()
        waits = waits + 1 if controller.campaign_due else 0
        longest = max(longest, waits)
    assert node.asked.count(CONTROLLER_GROUP) > 2 * 4
    assert longest <= 1, "the next campaign that ends makes room for it"


@pytest.mark.slow
def test_topics_woken_on_a_starved_machine_keep_their_leaders() -> None:
    cluster = SlowCluster(TOPICS, LARGE)
    terms, campaigns = cluster.terms(), cluster.campaigns
    cluster.starve(TENTH)
    cluster.ask_of_all()
    cluster.clock.run(2 * MINUTE, cluster.is_settled)
    assert cluster.is_settled()
    assert cluster.terms() - terms <= TOPICS // 10, "nothing was wrong with their leaders"
    assert cluster.campaigns - campaigns <= TOPICS


@pytest.mark.slow
def test_all_groups_of_a_killed_node_get_leaders_on_a_starved_machine() -> None:
    cluster = SlowCluster(TOPICS, LARGE)
    terms = cluster.terms()
    cluster.starve(TENTH)
    cluster.kill(ONE, reset=False)
    assert cluster.clock.run(2 * MINUTE, cluster.is_led)
    assert cluster.terms() - terms <= TOPICS
    terms = cluster.terms()
    cluster.clock.run(MINUTE)
    assert cluster.is_led()
    assert cluster.terms() == terms, "the terms have stopped rising"


@pytest.mark.soak
@pytest.mark.parametrize("share", [1.0, TENTH])
@pytest.mark.parametrize("killed", [True, False])
def test_there_is_no_storm_with_1500_topics(share: float, killed: bool) -> None:
    cluster = SlowCluster(1_500, Costs())
    began_us = cluster.clock.now_us
    terms, campaigns = cluster.terms(), cluster.campaigns
    led = sum(
        local.raft.role is Role.LEADER for local in cluster.nodes[ONE].running.replicas.values()
    )
    cluster.starve(share)
    if killed:
        cluster.kill(ONE, reset=share == 1)
    else:
        cluster.ask_of_all()
    assert cluster.clock.run(2 * MINUTE, cluster.is_led)
    seconds = (cluster.clock.now_us - began_us) / 1_000_000
    assert cluster.clock.run(2 * MINUTE, cluster.is_settled)
    rise = cluster.terms() - terms
    print(f"node 1 led {led}; {cluster.campaigns - campaigns} campaigns, {rise} terms, {seconds} s")
    assert rise <= (2 * led if killed else 150), "few elections in vain"
    terms = cluster.terms()
    cluster.clock.run(MINUTE)
    assert cluster.is_led()
    assert cluster.terms() == terms, "the terms have stopped rising"

"""Damage at rest is healed from the other replicas, on a running node and without a person."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.damage_table import Trouble
from raftlog.multiraft.effects import DamageNotHealable
from tests.simulation.calm import VOTERS
from tests.simulation.repairs import GROUP, DamagedCluster, leader_and_followers
from tests.storage.disks import flipped


@pytest.mark.slow
def test_there_is_something_of_every_kind_to_damage() -> None:
    cluster = DamagedCluster(1)
    for node in VOTERS:
        names = list(cluster.files(node))
        for kind, least in (("snapshot-", 2), ("stages-", 1), ("history-", 2), ("0", 2)):
            assert sum(name.startswith(kind) for name in names) >= least, (kind, names)
        assert cluster.local(node, GROUP).replica.log.base_index > 0
        assert cluster.scrubbed(node) == []
        assert len(cluster.rows(node)) == 80


@pytest.mark.parametrize("who", [0, 1], ids=["leader", "follower"])
@pytest.mark.slow
def test_a_flipped_byte_in_any_file_heals_on_a_running_replica(who: int) -> None:
    cluster = DamagedCluster(1)
    node = leader_and_followers(cluster)[who]
    before = cluster.files(node)
    rows = cluster.rows(node)
    term = cluster.local(node, GROUP).raft.term
    for name, data in before.items():
        cluster.flip(node, name, len(data) // 2)
        assert cluster.scrubbed(node), name
        cluster.wait(lambda: cluster.healed(), timeouts=100)
        assert cluster.scrubbed(node) == []
    assert cluster.rows(node) == rows
    assert cluster.local(node, GROUP).raft.term == term, "nothing was restarted"
    for name, data in cluster.files(node).items():
        if name.endswith(".log"):
            assert data.startswith(before[name])


@pytest.mark.slow
def test_a_leader_that_lacked_what_a_follower_needs_may_lead_as_soon_as_it_is_healed() -> None:
    cluster = DamagedCluster(1)
    leader, *_ = leader_and_followers(cluster)
    local = cluster.local(leader, GROUP)
    log = local.replica.log
    (entry,) = log.entries(log.last_index, log.last_index, 1)
    name = f"{log.segment_with(log.last_index):020}.log"
    cluster.flip(leader, name, cluster.files(leader)[name].index(entry.payload.command))
    catch_up = cluster.nodes[leader].multiraft._catch_up
    catch_up._unfit[GROUP] = local
    local.replica.note_damage(damaged=True)
    assert local.replica.troubles == {Trouble.NEEDED_ENTRY}
    assert cluster.scrubbed(leader)
    cluster.wait(cluster.healed, timeouts=20)
    assert not local.replica.troubles


@pytest.mark.slow
def test_a_file_that_a_peer_gave_is_read_anew_when_it_comes_a_second_time() -> None:
    """It has its name from the peer, so the second one has that of the first."""
    cluster = DamagedCluster(1)
    _, node, _ = leader_and_followers(cluster)
    names, rows = [], cluster.rows(node)
    for _ in range(3):
        names.append(cluster.local(node, GROUP).image.manifest.history[0].name)
        cluster.flip(node, names[-1], 100)
        assert cluster.scrubbed(node)
        cluster.wait(lambda: cluster.healed(), timeouts=100)
        assert cluster.rows(node) == rows
    assert names[0] != names[1] == names[2]


@pytest.mark.slow
def test_the_same_byte_on_two_of_three_heals_from_the_third() -> None:
    cluster = DamagedCluster(2)
    leader, follower, third = leader_and_followers(cluster)
    for name in sorted(cluster.files(third)):
        if not name.endswith(".log"):
            continue
        for node in (leader, follower):
            cluster.flip(node, name, len(cluster.files(node)[name]) // 2)
    for node in (leader, follower):
        for kind in ("snapshot-", "stages-", "history-"):
            name = max(name for name in cluster.files(node) if name.startswith(kind))
            cluster.flip(node, name, len(cluster.files(node)[name]) // 2)
    for node in (leader, follower):
        assert cluster.scrubbed(node)
    cluster.wait(cluster.healed, timeouts=200)
    for node in VOTERS:
        assert cluster.scrubbed(node) == []
        assert cluster.rows(node) == cluster.rows(third)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 100, 101])
def test_two_of_three_that_start_with_damaged_logs_are_filled_again_from_the_third(
    seed: int,
) -> None:
    cluster = DamagedCluster(40 + seed)
    random = Random(seed)
    for _ in range(10):
        rows = cluster.rows(VOTERS[0])
        for node in VOTERS:
            cluster.nodes[node].end(power=bool(random.randrange(2)))
        for node in random.sample(VOTERS, 2):
            cluster.damage_log_below_its_end(node, random)
        cluster.pass_timeouts(1)  # nothing is under way any more
        for node in VOTERS:
            cluster.nodes[node].start()
        cluster.append(random.randrange(1, 20))
        cluster.wait(cluster.rests, timeouts=200)
        for node in VOTERS:
            assert not cluster.local(node, GROUP).raft.recovering
            assert cluster.rows(node)[: len(rows)] == rows
            assert cluster.rows(node) == cluster.rows(VOTERS[0])


@pytest.mark.slow
def test_a_log_cut_under_a_leader_that_stays_is_sent_again() -> None:
    cluster = DamagedCluster(1)
    leader, node, third = leader_and_followers(cluster)
    rows, term = cluster.rows(leader), cluster.local(leader, GROUP).raft.term
    whole = cluster.last_durable(node)
    cluster.nodes[node].end(power=False)
    cluster.cut_log(node)
    cluster.nodes[node].start()
    assert cluster.last_durable(node) < whole
    cluster.wait(lambda: cluster.last_durable(node) == whole, timeouts=20)
    cluster.nodes[third].end(power=False)
    cluster.append(1)
    cluster.wait(lambda: len(cluster.rows(node)) == len(rows) + 1, timeouts=20)
    assert cluster.rows(node)[:-1] == rows
    assert cluster.local(leader, GROUP).raft.term == term, "the leader stayed"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_headers_damaged_on_two_of_three_while_the_third_is_behind_cost_no_record(
    seed: int,
) -> None:
    """Neither of the two may wait for the third, which lacks what they acknowledged."""
    cluster = DamagedCluster(60 + seed)
    random = Random(seed)
    leader, follower, lagging = leader_and_followers(cluster)
    cluster.cut_off(lagging)
    cluster.append(5)
    cluster.wait(lambda: cluster.last_durable(follower) == cluster.last_durable(leader))
    rows = cluster.rows(leader)
    assert cluster.last_durable(lagging) < cluster.last_durable(leader)
    cluster.pass_timeouts(3)
    for node in VOTERS:
        cluster.nodes[node].end(power=True)
    cluster.network.heal()
    for node in (leader, follower):
        cluster.nodes[node].damage_headers(GROUP, random, seed + 1)
    for node in VOTERS:
        cluster.nodes[node].start()
    cluster.append(3)
    cluster.wait(cluster.rests, timeouts=200)
    for node in VOTERS:
        assert not cluster.local(node, GROUP).raft.recovering
        assert cluster.rows(node)[: len(rows)] == rows
        assert cluster.rows(node) == cluster.rows(leader)


@pytest.mark.slow
def test_what_all_three_have_damaged_is_told_refused_and_kept_and_the_rest_is_served() -> None:
    cluster = DamagedCluster(3)
    bad: dict[int, dict[str, bytes]] = {}
    for node in VOTERS:
        local = cluster.local(node, GROUP)
        log = local.replica.log
        index = log.last_index - 1  # above the last snapshot point
        (entry,) = log.entries(index, index, 1)
        first = log.segment_with(index)
        (name,) = (each for each in cluster.files(node) if each == f"{first:020}.log")
        data = cluster.files(node)[name]
        cluster.flip(node, name, data.index(entry.payload.body) + 3)
        history = max(each for each in cluster.files(node) if each.startswith("history-"))
        cluster.flip(node, history, 100)
        bad[node] = cluster.files(node)
    for node in VOTERS:
        assert len(cluster.scrubbed(node)) == 2
    cluster.wait(
        lambda: all(cluster.counts(node).not_healable == 2 for node in VOTERS), timeouts=500
    )
    for node in VOTERS:
        told = cluster.told(node, DamageNotHealable)
        assert len(told) == 2
        assert all("position" in each or "byte" in each for each in told)
        files = cluster.files(node)
        for name, data in bad[node].items():
            assert files[name].startswith(data), "nothing is deleted"
        assert cluster.counts(node).healed == 0
    before = cluster.appended
    cluster.append(3)
    cluster.wait(
        lambda: all(
            cluster.local(node, GROUP).topic_machine.high_water_mark == before + 3
            for node in VOTERS
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 14))
def test_flips_zeros_and_cuts_anywhere_heal_while_the_topic_is_written(seed: int) -> None:
    cluster = DamagedCluster(seed)
    random = Random(seed)
    healed = 0
    for _ in range(25):
        node = random.choice(VOTERS)
        files = cluster.files(node)
        name = random.choice(sorted(files))
        data = files[name]
        at = random.randrange(len(data))
        bad = random.choice(
            [
                flipped(data, at, 1 << random.randrange(8)),
                data[:at],
                data[:at] + bytes(min(100, len(data) - at)) + data[at + 100 :],
            ]
        )
        cluster.put(node, name, bad)
        healed += len(cluster.scrubbed(node))
        cluster.append(random.randrange(4))
        cluster.wait(cluster.healed, timeouts=200)
        cluster.wait(cluster.rests, timeouts=50)
    assert healed > 10
    cluster.pass_timeouts(20)  # pins of images that were fetched lapse
    cluster.append(45)  # what an image stands in for goes with the next snapshot points
    cluster.wait(cluster.rests, timeouts=50)
    for node in VOTERS:
        assert cluster.scrubbed(node) == []
        assert cluster.rows(node) == cluster.rows(VOTERS[0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["history-", "stages-", "snapshot-"])
@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.soak)])
def test_a_crash_at_any_change_of_a_repair_leaves_what_heals_in_the_end(
    kind: str, every: int
) -> None:
    crashes = [crashes_in_repair(kind, changes) for changes in range(0, 9, every)]
    assert sum(crashes) > 3 // every


def crashes_in_repair(kind: str, changes: int) -> int:
    """Damage a follower's file, and let the node die after so many changes of its disk.

    Of the log see tests/storage/test_mend.py: the checker reads all of it at a restart.
    """
    cluster = DamagedCluster(20 + changes)
    _, node, other = leader_and_followers(cluster)
    rows = cluster.rows(other)
    name = min(each for each in cluster.files(node) if each.startswith(kind))
    if kind == "snapshot-":
        name = max(each for each in cluster.files(node) if each.startswith(kind))
    data = cluster.files(node)[name]
    cluster.flip(node, name, len(data) // 2)
    owner = cluster.nodes[node]
    assert cluster.scrubbed(node)
    owner.disk.end_after(changes)
    cluster.pass_timeouts(3)
    owner.disk.end_after(None)
    cluster.wait(lambda: owner.local(GROUP) is not None, timeouts=50)
    cluster.append(1)
    cluster.wait(cluster.rests, timeouts=100)
    cluster.scrubbed(node)
    cluster.wait(cluster.healed, timeouts=200)
    assert cluster.scrubbed(node) == []
    assert cluster.rows(node)[: len(rows)] == rows
    return cluster.simulator.counts["crash within a write"]

"""Bugs to plant in the recovery of lost logs, each with the script that notices it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from raftlog.core.recovery import Recovery
from raftlog.core.types import LastEntry
from raftlog.image.manifest import read_image
from raftlog.multiraft.groups import GroupStore
from tests.simulation.planting import replaced
from tests.simulation.repairs import GROUP, DamagedCluster, leader_and_followers


def vote_by_the_new_log() -> Any:
    """A member that has lost its log votes by what it has got again of it."""
    return replaced(Recovery, "last_for_votes", lambda self, log: log.last_entry)


def recovery_of_any_log() -> Any:
    """A recovery ends as soon as something is durable again."""

    def grown(self: Recovery, log: Any, durable_index: int) -> None:
        if self.lasts and self.lost is not None:
            self.end()

    return replaced(Recovery, "grown", grown)


def end_of_the_log_taken_for_its_base() -> Any:
    """Where the lost log ended is told by where it began."""

    def last_entry(self: GroupStore, group: Any) -> LastEntry:
        index, term = read_image(self.fs, self.folder_of(group)).image.base
        return LastEntry(term, index)

    return replaced(GroupStore, "_last_entry", last_entry)


def lagging_candidate() -> None:
    """One member has an entry that only another one had as well, which starts with a damaged log.
    While it is away, that one must not elect the third."""
    cluster = DamagedCluster(5)
    leader, damaged, lagging = leader_and_followers(cluster)
    cluster.cut_off(lagging)
    cluster.append(3)
    cluster.wait(lambda: cluster.last_durable(damaged) == cluster.last_durable(leader))
    for node in (leader, damaged):
        cluster.nodes[node].end(power=True)
    cluster.network.heal()
    cluster.damage_log_below_its_end(damaged, Random(1))
    cluster.nodes[damaged].start()
    cluster.pass_timeouts(10)
    assert cluster.leader(GROUP) is None
    cluster.nodes[leader].start()
    cluster.append(2)
    cluster.wait(cluster.rests, timeouts=100)
    for node in cluster.nodes:
        assert cluster.rows(node) == cluster.rows(leader)


RECOVERY_BUGS = (
    vote_by_the_new_log,
    recovery_of_any_log,
    end_of_the_log_taken_for_its_base,
)
RECOVERY_SCRIPTS: dict[str, Callable[[], None]] = {
    bug.__name__: lagging_candidate for bug in RECOVERY_BUGS
}

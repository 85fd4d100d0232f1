"""All nodes restart at once, and every topic replays its log: does a member campaign needlessly?"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from raftlog.chaos.cluster import ProcessCluster, wait_for
from raftlog.core.types import Entry, GroupId, LogIndex
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.storage.posix import PosixFileSystem
from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.cluster.waiting import wait_serving

_SCHEMA = "payload binary not null"
_NODES = (1, 2, 3)
_PATIENCE_S = 600.0


def replay(topics: int, entries: int) -> Callable[[Place], Iterator[Figure]]:
    """A piece with so many topics of so many entries each."""

    def piece(place: Place) -> Iterator[Figure]:
        with place.cluster("replay") as cluster, cluster.client() as client:
            names = [f"t-{number}" for number in range(topics)]
            made = [client.create_topic(name, _SCHEMA) for name in names]
            for _ in range(entries):
                client.append(names[0], [{"payload": b"x" * 100}])
            for name in names:
                cluster.wait_caught_up(client, name)
            for node in _NODES:
                cluster.terminate(node)
            for node in _NODES:
                _copy(cluster.data / f"node-{node}", [topic.group for topic in made])
            said = {node: cluster.logs[node].stat().st_size for node in _NODES}
            began_s = time.monotonic()
            for node in _NODES:
                cluster.serve(node)
            wait_serving(cluster, _PATIENCE_S)
            wait_for(
                lambda: all(
                    client.read_high_water_mark(topic).high_water_mark == entries for topic in made
                ),
                "every topic to be replayed",
                _PATIENCE_S,
            )
            for name in names:
                cluster.wait_caught_up(client, name, timeout_s=_PATIENCE_S)
            seconds = time.monotonic() - began_s
            leaders = _leaders(cluster, said)
        yield Figure(
            name="replay_elections_again",
            value=sum(max(0, len(terms) - 1) for terms in leaders.values()),
            unit="elections",
            about=f"won in groups that had a leader, after all nodes of {topics:,} topics with "
            f"{entries:,} entries each were restarted",
            detail={"groups_led": len(leaders), "replayed_s": seconds},
        )

    return piece


def _copy(folder: Path, groups: list[GroupId]) -> None:
    """Give every other group the entries of the first: to append them all would take an hour."""
    fs, limits = PosixFileSystem(folder), LogLimits()
    first = GroupLog.open(fs, f"groups/{groups[0]}", groups[0], limits)
    entries = first.entries(1, first.last_index, 1 << 40)
    first.close()
    for group in groups[1:]:
        log = GroupLog.open(fs, f"groups/{group}", group, limits)
        held = log.last_index
        log.append(
            [
                Entry(LogIndex(each.index - 1 + held), log.last_term, each.kind, each.payload)
                for each in entries[1:]
            ]
        )
        log.close()


def _leaders(cluster: ProcessCluster, said: dict[int, int]) -> dict[int, set[int]]:
    """By group, the terms for whose leadership somebody campaigned since the nodes' logs had the
    sizes `said`. Leadership that was handed over, to spread it, is none: who takes it asks for no
    vote beforehand (Raft thesis, sections 3.10 and 9.6)."""
    found: dict[int, set[int]] = defaultdict(set)
    for node, size in said.items():
        asked: set[int] = set()
        for line in cluster.logs[node].read_bytes()[size:].splitlines():
            event = json.loads(line) if line.startswith(b"{") else {}
            if event.get("event") != "leadership":
                continue
            group = event["group"]
            match event["role"]:
                case "pre-candidate":
                    asked.add(group)
                case "follower":
                    asked.discard(group)
                case "leader":
                    found[group] |= {event["term"]} if group in asked else set()
                    asked.discard(group)
    return found

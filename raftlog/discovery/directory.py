"""What a client reads: the nodes that say they serve, and who leads what."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TypeVar

from kazoo.exceptions import NoNodeError

from raftlog.config_ensemble import EnsembleSettings
from raftlog.discovery.entries import (
    CLUSTER,
    ENTRIES_MAX,
    LEADERS,
    NODES,
    ClusterEntry,
    LeaderEntry,
    NodeEntry,
    NumberedEntry,
    Unusable,
    parse,
)
from raftlog.discovery.session import Session, connected

_ASKED_AT_ONCE = 20
"""Entries. No setting: it bounds what forged ones take of memory until they are passed over, a
megabyte each, and costs a round trip more for every 20 nodes or leaders."""

NumberedType = TypeVar("NumberedType", bound=NumberedEntry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """The entries of one cluster, as they were read. Any of them may be forged or old."""

    cluster: ClusterEntry | None
    """None: no cluster has this path."""
    nodes: tuple[NodeEntry, ...]
    """By number, at most one entry for each."""
    leaders: tuple[LeaderEntry, ...]
    passed_over: tuple[str, ...]
    """Entries that are not of this cluster, or not as ours are written, each with the reason."""

    def addresses(self) -> tuple[str, ...]:
        """Where the nodes say they listen, without repeats."""
        return tuple(dict.fromkeys(each for node in self.nodes for each in node.addresses))


def look_up(settings: EnsembleSettings, *, timeout_s: float) -> Directory:
    """Read the cluster's entries, within this time. Raises `ZooKeeperUnavailable`,
    `InvalidOption`."""
    end_s = time.monotonic() + timeout_s
    with connected(settings, option="client.zookeeper", timeout_s=timeout_s) as session:
        session.end_at(end_s)
        return read_directory(session)


def read_directory(session: Session) -> Directory:
    """The entries below the session's path. Raises kazoo's exceptions."""
    passed_over: list[str] = []
    try:
        data, _ = session.get(session.path(CLUSTER))
        cluster = parse(ClusterEntry, data)
    except NoNodeError:
        return Directory(cluster=None, nodes=(), leaders=(), passed_over=())
    except Unusable as error:
        reason = f"{CLUSTER}: {error}"
        return Directory(cluster=None, nodes=(), leaders=(), passed_over=(reason,))

    def read(folder: str, kind: type[NumberedType]) -> tuple[NumberedType, ...]:
        return _read_folder(session, folder, kind, cluster.cluster_id, passed_over)

    nodes, leaders = read(NODES, NodeEntry), read(LEADERS, LeaderEntry)
    return Directory(cluster=cluster, nodes=nodes, leaders=leaders, passed_over=tuple(passed_over))


def _read_folder(
    session: Session,
    folder: str,
    kind: type[NumberedType],
    cluster_id: str,
    passed_over: list[str],
) -> tuple[NumberedType, ...]:
    """The entries of one folder, by number."""
    numbers = session.numbers(folder)[:ENTRIES_MAX]
    found: list[NumberedType] = []
    for begin in range(0, len(numbers), _ASKED_AT_ONCE):
        part = numbers[begin : begin + _ASKED_AT_ONCE]
        found += _read_part(session, folder, part, kind, cluster_id, passed_over)
    return tuple(found)


def _read_part(
    session: Session,
    folder: str,
    numbers: list[int],
    kind: type[NumberedType],
    cluster_id: str,
    passed_over: list[str],
) -> list[NumberedType]:
    """Some of them, which are asked for at once."""
    asked = {number: session.client.get_async(session.path(folder, number)) for number in numbers}
    found: list[NumberedType] = []
    for number, answer in asked.items():
        try:
            data, _ = session.gotten(answer)
            entry = parse(kind, data)
            if entry.cluster_id != cluster_id:
                raise Unusable("it is of another cluster")
            if entry.number != number:
                raise Unusable(f"it speaks of {entry.number}")
        except NoNodeError:
            continue  # its session has just ended
        except Unusable as error:
            passed_over.append(f"{folder}/{number}: {error}")
        else:
            found.append(entry)
    return found

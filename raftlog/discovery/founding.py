"""How the nodes of a new cluster agree, through ZooKeeper, on which cluster they found.

Each says that it stands ready, for as long as its session lives. The first that sees enough of them
writes the entry `cluster`: these nodes, each with its store, and the id that follows from them. It
is written once and never changed, so all get the same founding record. From then on ZooKeeper is
asked no more: the folders remember.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Annotated

from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from pydantic import Field

from raftlog.config_ensemble import DiscoverySettings
from raftlog.discovery.entries import (
    CLUSTER,
    ENTRIES_MAX,
    FOUNDING,
    VOTERS_MAX,
    ClusterEntry,
    Entry,
    FounderEntry,
    Unusable,
    parse,
)
from raftlog.discovery.session import Session, connected
from raftlog.errors import DeadlineExceeded, InvalidOption
from raftlog.founders import Founder, cluster_id_of

_LOOK_S = 1.0
"""How often to look at least, should ZooKeeper not tell of a change. No setting: it tells."""


class Candidate(Entry):
    """A node that stands ready to found a cluster, and of how many nodes."""

    founder: FounderEntry
    nodes: Annotated[int, Field(ge=1, le=VOTERS_MAX)]


def found(
    settings: DiscoverySettings, me: Founder, *, nodes: int, timeout_s: float
) -> ClusterEntry:
    """The cluster that `me` founds together with others, `nodes` in all. It names `me`.

    May be called again after a crash, with the same `me`: the answer is the same. Raises
    `InvalidOption` if the path's cluster was founded without `me`, `DeadlineExceeded` if too few
    nodes stood ready in time, `ZooKeeperUnavailable`.
    """
    end_s = time.monotonic() + timeout_s
    changed = threading.Event()
    with connected(settings, option="discovery.zookeeper", timeout_s=timeout_s) as session:
        while True:
            changed.clear()
            try:
                found = _step(session, me, nodes, changed)
            except (ConnectionLoss, SessionExpiredError, KazooTimeoutError) as error:
                found = f"the ensemble does not answer ({type(error).__name__})"
            if isinstance(found, ClusterEntry):
                return _with(found, me, session)
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise DeadlineExceeded(
                    what="Founding a cluster", seconds=f"{timeout_s:g}", last=found
                )
            changed.wait(min(left_s, _LOOK_S))


def _step(
    session: Session, me: Founder, nodes: int, changed: threading.Event
) -> ClusterEntry | str:
    """The path's cluster, or what it waits for. `changed` is set when there is something new."""
    session.make_folders(FOUNDING)
    cluster = _founded(session, changed)
    if cluster is not None:
        return cluster
    if not _stand_ready(session, me, nodes):
        return f"another folder stands ready as node {me.node}: numbers must differ"
    ready = _ready(session, nodes, changed)
    if me.node in ready and len(ready) >= nodes:
        _write(session, [ready[node] for node in sorted(ready)][:nodes])
    return f"{len(ready)} of {nodes} nodes stand ready: {sorted(ready)}"


def _founded(session: Session, changed: threading.Event) -> ClusterEntry | None:
    """The path's cluster. If there is none yet, `changed` is set when there is."""
    path = session.path(CLUSTER)
    if not session.exists(path, lambda _: changed.set()):
        return None
    data, _ = session.get(path)
    try:
        return parse(ClusterEntry, data)
    except Unusable as error:
        raise session.unavailable(f"the entry of its cluster is not one of ours: {error}") from None


def _with(cluster: ClusterEntry, me: Founder, session: Session) -> ClusterEntry:
    """The cluster, if `me` is among its founders."""
    founding = cluster.founding
    if me in founding and cluster.cluster_id != cluster_id_of(founding):
        raise session.unavailable("the id of its cluster is not that of its founders")
    if me not in founding:
        raise InvalidOption(
            option="discovery.zookeeper",
            problem=f"names the path {session.ensemble.root}, which has the cluster "
            f"{cluster.cluster_id}, founded without this folder as node {me.node} at {me.address}",
            advice="Add this node to that cluster, or give another path to found another cluster.",
        )
    return cluster


def _stand_ready(session: Session, me: Founder, nodes: int) -> bool:
    """Say so, if it is not said. False: another folder says so under this number."""
    path = session.path(FOUNDING, me.node)
    wanted = Candidate(founder=FounderEntry.of(me), nodes=nodes)
    session_id, _ = session.client.client_id or (None, None)
    try:
        data, stat = session.get(path)
    except NoNodeError:
        pass
    else:
        if stat.ephemeralOwner == session_id and data == wanted.encode():
            return True
        if not _is_ours(data, me):
            return False
        with contextlib.suppress(BadVersionError, NoNodeError):
            session.delete(path, stat.version)
    with contextlib.suppress(NodeExistsError):
        session.create(path, wanted.encode(), ephemeral=True)
    return True


def _is_ours(data: bytes | None, me: Founder) -> bool:
    """Is it what an earlier process wrote for this store, whose session has not ended yet?"""
    try:
        return parse(Candidate, data).founder.store_uuid == me.store_uuid
    except Unusable:
        return False


def _ready(session: Session, nodes: int, changed: threading.Event) -> dict[int, Founder]:
    """Who stands ready. `changed` is set when others do."""
    ready: dict[int, Founder] = {}
    for number in session.numbers(FOUNDING, lambda _: changed.set())[:ENTRIES_MAX]:
        with contextlib.suppress(NoNodeError, Unusable):
            data, _ = session.get(session.path(FOUNDING, number))
            candidate = parse(Candidate, data)
            founder = candidate.founder.founder
            if founder.node != number:
                continue
            if candidate.nodes != nodes:
                raise InvalidOption(
                    option="--nodes",
                    problem=f"is {nodes}, and node {number} was told {candidate.nodes}",
                    advice="Give all nodes of the new cluster the same count.",
                )
            if founder.address in [other.address for other in ready.values()]:
                raise InvalidOption(
                    option="--address",
                    problem=f"is {founder.address} for two nodes",
                    advice="Every node of a cluster has an address of its own.",
                )
            ready[number] = founder
    return ready


def _write(session: Session, founders: list[Founder]) -> None:
    """Found the cluster, unless another node was faster."""
    cluster = ClusterEntry.founded_by(founders)
    with contextlib.suppress(NodeExistsError):
        session.create(session.path(CLUSTER), cluster.encode())

"""A node's part in ZooKeeper: its own entry and those of the groups that it leads, kept up to date.

The node says what should stand there and goes on at once. A thread here makes it so, as soon as the
ensemble lets it, and looks now and then whether it still does. So an ensemble that is down, paused
or full of nonsense costs a node nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from raftlog.config_ensemble import DiscoverySettings
from raftlog.discovery.entries import (
    CLUSTER,
    LEADERS,
    NODES,
    ClusterEntry,
    LeaderEntry,
    NodeEntry,
    Unusable,
    parse,
)
from raftlog.discovery.session import FAILURES, Session
from raftlog.errors import InvalidOption

_REFRESH_S = 5.0
"""How often a node looks whether its entries are as they should be. No setting: two requests."""
_RESTORED_MAX = 50
"""So many entries of leaders are read again each time. No setting: a node that leads 1,000 groups
restores what was written over them within two minutes, by 10 requests a second."""
_LISTED_MAX = 10_000
"""So many groups that have an entry are told, those with the lowest numbers: what is deleted goes,
and makes room for others. No setting: the node asks of each, every second, whether it is gone."""
_RETRY_S = 0.5
"""The pause after something failed. No setting: the ensemble is asked again gently."""
_SESSIONS_LOST = 3
"""After so many times a session's length without a connection or an answer, kazoo's client is
replaced: an answer that no ensemble gives has ended its thread for good, or a server that is none
holds it with a session without end. An outage lets it be replaced too, now and then, which costs
nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What should stand in ZooKeeper besides the node's own entry."""

    leads: Mapping[int, LeaderEntry] = field(default_factory=dict)
    """By group. A node that no longer leads one leaves the entry to its successor."""
    gone: frozenset[int] = frozenset()
    """Groups that are deleted for good: their entries are removed."""


class Announcer:
    """Writes a node's entries from a thread of its own. Any thread may call its methods."""

    def __init__(
        self,
        settings: DiscoverySettings,
        *,
        cluster: ClusterEntry,
        node: NodeEntry,
        tell: Callable[[str, str], None],
    ) -> None:
        """`cluster` is written where no cluster is named yet, as by one founded without ZooKeeper.

        `tell(state, problem)` is called from other threads whenever the state changes; no problem:
        "". Raises `InvalidOption`.
        """
        assert cluster.cluster_id == node.cluster_id, "a node announces its own cluster"
        self._cluster = cluster
        self.entry = node
        """The node's own."""
        self._tell = tell
        self._told = ("", "")
        self._settings = settings
        self._session = Session(settings, option="discovery.zookeeper")
        self._answered_at_s = time.monotonic()
        self._wanted = Announcement()
        self._written: OrderedDict[int, LeaderEntry] = OrderedDict()
        """By group, that looked at longest ago first."""
        self._listed: frozenset[int] = frozenset()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="zookeeper", daemon=True)

    def start(self) -> None:
        """Connect and write, in the background."""
        self._thread.start()

    def announce(self, wanted: Announcement) -> None:
        """Replace what should stand there. Never waits; only the latest counts."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._wake.set()

    @property
    def listed(self) -> frozenset[int]:
        """Groups that have an entry, as last seen: perhaps some are gone."""
        return self._listed

    def stop(self, timeout_s: float) -> None:
        """End the session, so that the node's entry disappears at once. Waits no longer than
        `timeout_s`: then the ensemble removes the entry when the session's time is over."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout_s)

    # ------------------------------------------------------------ the thread

    @property
    def _client(self) -> KazooClient:
        return self._session.client

    def _run(self) -> None:
        self._open()
        lost_after_s = _SESSIONS_LOST * self._settings.zookeeper_session_timeout_s
        pause_s = min(_REFRESH_S, lost_after_s)
        unanswered = False
        while not self._stopping:
            self._wake.wait(pause_s)
            self._wake.clear()
            if self._stopping:
                break
            is_lost = time.monotonic() > self._answered_at_s + lost_after_s
            if is_lost and (unanswered or not self._client.connected):
                self._replace_session()
                unanswered = False
                continue
            if not self._client.connected:
                continue
            try:
                problem = self._write_all()
            except (BadVersionError, NodeExistsError, NoNodeError):
                pause_s = _RETRY_S  # another wrote at the same moment: look again
            except FAILURES as error:
                pause_s = _RETRY_S
                self._say("nothing could be written", str(error) or type(error).__name__)
                unanswered = isinstance(error, KazooTimeoutError)
            else:
                pause_s = min(_REFRESH_S, lost_after_s)
                self._say("announced" if not problem else "not announced", problem)
                unanswered = False
            if not unanswered:
                self._answered_at_s = time.monotonic()
        self._session.close()

    def _open(self) -> None:
        self._answered_at_s = time.monotonic()
        self._client.add_listener(self._on_state)
        self._client.start_async()

    def _replace_session(self) -> None:
        self._answered_at_s = time.monotonic()
        try:
            session = Session(self._settings, option="discovery.zookeeper")
        except InvalidOption as error:  # its files are gone, perhaps for a moment
            self._say("no connection", error.cause)
            return
        self._client.remove_listener(self._on_state)
        self._session.close_later()
        self._session = session
        self._open()

    def _on_state(self, state: KazooState) -> None:
        """kazoo's own thread tells: it must not wait here."""
        if state == KazooState.CONNECTED:
            self._wake.set()
        elif not self._stopping:
            self._say("no connection", "the ensemble does not answer, or ended the session")

    def _say(self, state: str, problem: str) -> None:
        if (state, problem) != self._told:
            self._told = (state, problem)
            self._tell(state, problem)

    def _write_all(self) -> str:
        """Make the entries what they should be. Returns why this must not be done, or ""."""
        wanted = self._wanted
        problem = self._check_cluster()
        if problem:
            return problem
        self._write_node()
        there = frozenset(self._session.numbers(LEADERS))
        for group, entry in wanted.leads.items():
            if group not in there or self._written.get(group) != entry:
                self._write_leader(entry)
                self._written[group] = entry
        for group in wanted.gone & there:
            with contextlib.suppress(NoNodeError):
                self._session.delete(self._session.path(LEADERS, group))
        for group in self._written.keys() - wanted.leads.keys():
            del self._written[group]
        self._restore_leaders()
        self._listed = frozenset(sorted(there - wanted.gone)[:_LISTED_MAX])
        return ""

    def _check_cluster(self) -> str:
        """Name the cluster if none is, or if what stands there is none of ours. Why nothing may be
        written here, or ""."""
        path = self._session.path(CLUSTER)
        try:
            data, stat = self._session.get(path)
        except NoNodeError:
            self._session.make_folders()
            self._session.create(path, self._cluster.encode())
            data, stat = self._session.get(path)
        self._session.make_folders(NODES, LEADERS)
        try:
            found = parse(ClusterEntry, data).cluster_id
        except Unusable as error:
            self._session.set(path, self._cluster.encode(), stat.version)
            self._say("restored", f"the entry of the cluster was not one of ours: {error}")
            return ""
        if found != self._cluster.cluster_id:
            return f"this path is of cluster {found}, not of {self._cluster.cluster_id}"
        return ""

    def _write_node(self) -> None:
        """The node's entry belongs to this session and says what it should.

        One that is there may be an earlier process's, whose session has not ended yet.
        """
        path = self._session.path(NODES, self.entry.node)
        wanted = self.entry.encode()
        session_id, _ = self._client.client_id or (None, None)
        try:
            data, stat = self._session.get(path)
        except NoNodeError:
            pass
        else:
            if data == wanted and stat.ephemeralOwner == session_id:
                return
            self._session.delete(path, stat.version)
        self._session.create(path, wanted, ephemeral=True)

    def _restore_leaders(self) -> None:
        """Look at some of the entries that stand as they should, and at others the next time."""
        for _ in range(min(_RESTORED_MAX, len(self._written))):
            group, entry = self._written.popitem(last=False)
            self._write_leader(entry)
            self._written[group] = entry

    def _write_leader(self, entry: LeaderEntry) -> None:
        """Write it, unless a later term's leader has: an older term never replaces a newer one."""
        path = self._session.path(LEADERS, entry.group)
        try:
            data, stat = self._session.get(path)
        except NoNodeError:
            self._session.create(path, entry.encode())
            return
        with contextlib.suppress(Unusable):
            found = parse(LeaderEntry, data)
            if found == entry:
                return
            if found.cluster_id == entry.cluster_id and found.term > entry.term:
                return
        # Of two leaders that write at once, one finds another version and looks again.
        self._session.set(path, entry.encode(), stat.version)

"""Which peers' processes are heard: once for all groups, so that quiesced ones need no
heartbeats."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from raftlog.core.types import NodeId


class PeerLiveness:
    """For how many ticks each peer was silent, and which start of its process was heard
    last (its boot_id).

    Whatever comes from a peer tells that it lives. It counts as silent once nothing came for
    `silent_after_ticks`; at the start every peer is taken to have been heard just now.
    """

    def __init__(self, peers: Sequence[NodeId], silent_after_ticks: int) -> None:
        self._silent_after_ticks = silent_after_ticks
        self._ticks = dict.fromkeys(peers, 0)
        self._boots: dict[NodeId, str] = {}
        self._booted: set[NodeId] = set()
        """The peers that named another start of their process in this tick."""
        self._closed: set[NodeId] = set()
        """The peers whose streams ended in this tick."""
        self._silent: frozenset[NodeId] = frozenset()

    def follow(self, peers: Collection[NodeId]) -> None:
        """These are the peers from now on; one that is new is taken to have been heard just
        now."""
        self._ticks = {peer: self._ticks.get(peer, 0) for peer in peers}
        self._silent = self._silent.intersection(peers)

    @property
    def ticks(self) -> Mapping[NodeId, int]:
        """Ticks since each peer was heard."""
        return self._ticks

    @property
    def silent(self) -> Collection[NodeId]:
        """The peers that count as silent."""
        return self._silent

    def tick(self) -> list[NodeId]:
        """One tick has passed; the peers that count as silent from now on."""
        self._booted.clear()
        self._closed.clear()
        fallen_silent = []
        for peer in self._ticks:
            self._ticks[peer] += 1
            if self._ticks[peer] == self._silent_after_ticks:
                fallen_silent.append(peer)
        if fallen_silent:
            self._silent = self._silent.union(fallen_silent)
        return fallen_silent

    def heard(self, peer: NodeId) -> bool:
        """Something came from the peer; did it count as silent?"""
        if peer not in self._ticks:
            return False
        self._ticks[peer] = 0
        was_silent = peer in self._silent
        if was_silent:
            self._silent = self._silent.difference((peer,))
        return was_silent

    def booted(self, peer: NodeId, boot_id: str) -> bool:
        """The peer names the start of its process; was another one heard before?

        Noticed once in a tick, because the caller then looks at each replica: a peer that lies may
        send thousands in one frame. A true one names its start again with its next heartbeat.
        """
        known = self._boots.get(peer)
        if known == boot_id or peer in self._booted:
            return False
        self._boots[peer] = boot_id
        if known is None:
            return False
        self._booted.add(peer)
        return True

    def closed(self, peer: NodeId) -> bool:
        """The peer's last stream has ended. Noticed once in a tick, as `booted`: a peer may open
        and close streams without end. One that is lost right after another one was opened is
        noticed when the peer is silent."""
        if peer in self._closed:
            return False
        self._closed.add(peer)
        return True

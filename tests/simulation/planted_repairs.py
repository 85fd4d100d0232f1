"""Bugs to plant in repairs of damage at rest, each with the script that notices it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from raftlog.checksum import crc32c
from raftlog.core.messages import EntryReply, PeerMessage
from raftlog.core.types import LogIndex, NodeId, Payload
from raftlog.image.incoming import Incoming
from raftlog.multiraft import image_fetch, segment_repair
from raftlog.multiraft.image_repair import Fetched, ImageRepairs
from raftlog.storage.frames import FrameHeader
from raftlog.storage.log import GroupLog
from raftlog.storage.mend import _Walk
from tests.simulation.planting import both, replaced
from tests.simulation.repairs import GROUP, DamagedCluster, leader_and_followers
from tests.storage.memory import MemoryFile


def entry_not_checked() -> Any:
    """A payload of the right length is taken for the one that was written."""

    def taken(
        self: _Walk, index: LogIndex, payload: Payload, found: FrameHeader | None
    ) -> bytes | None:
        if found is None:
            return None
        crcs = (crc32c(found.fields_chained, self._seed), found.chain)
        header = found.fields_chained + b"".join(each.to_bytes(4, "little") for each in crcs)
        return header + payload.command + payload.body

    return both(
        replaced(segment_repair, "is_whole", lambda reply: True),
        replaced(_Walk, "_frame_of", taken),
    )


def repaired_segment_not_synced() -> Any:
    """A segment that was written again takes the place of the old one before it is durable."""
    original = MemoryFile.sync

    def sync(self: MemoryFile) -> None:
        if not self.path.endswith(".log.new"):
            original(self)

    return replaced(MemoryFile, "sync", sync)


def old_descriptor_kept() -> Any:
    """After a repair the log goes on with the file that was replaced."""
    return replaced(GroupLog, "mended", lambda self, plan: None)


def repaired_file_not_checked() -> Any:
    """What comes in place of a damaged file is taken as it comes."""
    return both(
        replaced(image_fetch, "is_whole", lambda chunk: True),
        replaced(Incoming, "_check", lambda self, info: None),
    )


def damaged_file_kept() -> Any:
    """A repair counts as done, though nothing was fetched."""

    def begin(self: ImageRepairs, local: Any, damaged: frozenset[str], index: Any) -> None:
        self._ended(local, Fetched(True, damaged))

    return replaced(ImageRepairs, "begin", begin)


# ---------------------------------------------------------------- scripts


def _with_damaged_entry(seed: int) -> tuple[DamagedCluster, NodeId]:
    """A follower whose last entry with a body is damaged in the active segment, which is open."""
    cluster = DamagedCluster(seed)
    _, node, _ = leader_and_followers(cluster)
    local = cluster.local(node, GROUP)
    log = local.replica.log
    index = log.last_index
    (entry,) = log.entries(index, index, 1)
    name = f"{log.segment_with(index):020}.log"
    cluster.flip(node, name, cluster.files(node)[name].index(entry.payload.body) + 2)
    return cluster, node


def _heal(cluster: DamagedCluster, node: NodeId) -> None:
    assert cluster.scrubbed(node)
    cluster.wait(cluster.healed, timeouts=200)


def healed_for_good(seed: int) -> None:
    """An entry heals, more is appended, and then the power fails: everything is there."""
    cluster, node = _with_damaged_entry(seed)
    _heal(cluster, node)
    cluster.append(2)
    cluster.wait(lambda: len(set(map(cluster.last_durable, cluster.nodes))) == 1)
    expected = cluster.last_durable(node)
    owner = cluster.nodes[node]
    owner.end(power=True)
    cluster.simulator.run_until(cluster.simulator.now_us + 1)
    owner.start()
    local = cluster.local(node, GROUP)
    assert local.replica.log.last_index == expected, "what was acknowledged is there"
    assert cluster.scrubbed(node) == []


def _garbled(cluster: DamagedCluster) -> None:
    """From now on entries and chunks arrive with another byte."""
    deliver = cluster.network.send

    def send(source: NodeId, peer: NodeId, messages: Any) -> None:
        deliver(source, peer, [_other(message) for message in messages])

    for owner in cluster.nodes.values():
        owner.send = lambda peer, messages, owner=owner: send(owner.node, peer, messages)


def _other(message: PeerMessage) -> PeerMessage:
    if isinstance(message, EntryReply) and message.payload.body:
        body = bytes([message.payload.body[0] ^ 1]) + message.payload.body[1:]
        return replace(message, payload=Payload(message.payload.command, body))
    if hasattr(message, "data") and message.data:
        place = Random(1).randrange(len(message.data))
        flipped = bytes([message.data[place] ^ 1])
        return replace(message, data=message.data[:place] + flipped + message.data[place + 1 :])
    return message


def entry_comes_garbled() -> None:
    """A peer's answer is damaged on the way: it is not written."""
    cluster, node = _with_damaged_entry(1)
    _garbled(cluster)
    assert cluster.scrubbed(node)
    cluster.pass_timeouts(20)
    assert cluster.found_by_scrub(node), "what is damaged is known to be"
    assert cluster.counts(node).healed == 0


def file_comes_garbled() -> None:
    """Each chunk of a history file is damaged on the way, or its check is."""
    cluster = DamagedCluster(1)
    _, node, _ = leader_and_followers(cluster)
    name = cluster.local(node, GROUP).image.manifest.history[0].name
    cluster.flip(node, name, 100)
    _garbled(cluster)
    assert cluster.scrubbed(node)
    cluster.pass_timeouts(40)
    assert cluster.counts(node).healed == 0


def file_heals() -> None:
    """What counts as healed is whole."""
    cluster = DamagedCluster(1)
    _, node, _ = leader_and_followers(cluster)
    name = cluster.local(node, GROUP).image.manifest.history[0].name
    cluster.flip(node, name, 100)
    _heal(cluster, node)
    assert cluster.scrubbed(node) == []


def power_fails_after_a_repair() -> None:
    healed_for_good(2)


REPAIR_SCRIPTS: dict[str, Callable[[], None]] = {
    "entry_not_checked": entry_comes_garbled,
    "repaired_segment_not_synced": power_fails_after_a_repair,
    "old_descriptor_kept": power_fails_after_a_repair,
    "repaired_file_not_checked": file_comes_garbled,
    "damaged_file_kept": file_heals,
}
REPAIR_BUGS = (
    entry_not_checked,
    repaired_segment_not_synced,
    old_descriptor_kept,
    repaired_file_not_checked,
    damaged_file_kept,
)

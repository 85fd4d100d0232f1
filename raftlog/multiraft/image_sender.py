"""Offering images to followers that lack what this node's logs have dropped, and giving them.

A follower asks for the manifest, which pins the image, and then for its files in chunks. They are
read off the loop, in turns of the peers, within the budget that they share with entries of logs.
A follower asks for a bounded number of chunks ahead. What is lost it asks for again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from raftlog.core.messages import (
    ImageChunk,
    ImageChunkRequest,
    ImageManifest,
    ImageOffer,
    ImageRequest,
    Replicate,
)
from raftlog.core.types import GroupId, NodeId
from raftlog.damage_table import gives_images
from raftlog.errors import CorruptFile
from raftlog.image.manifest import encode_image
from raftlog.image.scrub import FileCheck
from raftlog.multiraft.catch_up_budget import CatchUpBudget
from raftlog.multiraft.effects import Effects
from raftlog.multiraft.image_pins import ImagePins
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.storage.contract import FileSystem
from raftlog.storage.read import FileRead

CHUNK_BYTES_MAX = 1024 * 1024
"""What is read at once. No setting: it goes with `transport.outbox.FRAME_BYTES_MAX`, as a heartbeat
waits for one chunk on the wire."""

_ASKED_MAX = 256
"""Chunks and manifests that one peer has asked for and not got; further requests are dropped. A
peer fetches a few images at a time, each with a few chunks ahead."""

_CHECK_TICKS = 200
"""A peer has a file checked at most once in this time: that reads all of it. No setting: the peer
asks again."""


class _Asked(NamedTuple):
    local: LocalReplica
    request: ImageRequest | ImageChunkRequest


class ImageSender:
    """What one node gives of its images. For the thread of its `MultiRaft` only."""

    def __init__(
        self,
        *,
        fs: FileSystem,
        effects: Effects,
        budget: CatchUpBudget,
        pins: ImagePins,
        damaged: Callable[[LocalReplica, CorruptFile], None],
        ended: Callable[[LocalReplica], None],
    ) -> None:
        """`damaged` is called with each file that cannot be read, `ended` after each read."""
        self._fs = fs
        self._effects = effects
        self._budget = budget
        self._pins = pins
        self._damaged = damaged
        self._ended = ended
        self._asked: dict[NodeId, OrderedDict[tuple[GroupId, str, int], _Asked]] = {}
        self._is_checking = False
        """One file at a time: it may be large, and the peer may ask again."""
        self._checked: dict[NodeId, int] = {}
        """For how many ticks no more files are checked for a peer."""
        self._stopped = False

    def stop(self) -> None:
        """Begin no read from now on, and send nothing."""
        self._stopped = True

    def tick(self) -> None:
        """One tick of the clock has passed."""
        self._checked = {peer: ticks - 1 for peer, ticks in self._checked.items() if ticks > 1}

    def forget(self, local: LocalReplica) -> None:
        """The group is gone from here, or stands at another image."""
        self._pins.forget(local.group)
        for waiting in self._asked.values():
            for key in [key for key, asked in waiting.items() if asked.local is local]:
                del waiting[key]

    def offers(self, local: LocalReplica, wishes: Iterable[Replicate]) -> list[ImageOffer]:
        """The offers that go with the core's wishes: one to each follower that is asked whether it
        holds the log's base, and is known to lack it."""
        raft = local.raft
        asked = {
            wish.to
            for wish in wishes
            if wish.span is None and wish.prev_index == raft.log.base_index
        }
        if not asked or not _has_image(local):
            return []
        return [
            ImageOffer(
                group=local.group,
                sender=raft.node,
                to=follower.node,
                index=local.image.manifest.index,
            )
            for follower in raft.followers()
            if follower.node in asked and follower.behind_base
        ]

    def offer_to(self, local: LocalReplica, peer: NodeId) -> list[ImageOffer]:
        """The offer to a node that lacks what the log has dropped, if there is an image to give."""
        if not _has_image(local):
            return []
        index = local.image.manifest.index
        return [ImageOffer(group=local.group, sender=local.raft.node, to=peer, index=index)]

    def asked(self, local: LocalReplica, request: ImageRequest | ImageChunkRequest) -> None:
        """Answer as soon as there is room for it; once, if it was asked for again meanwhile."""
        name, position = "", 0
        if isinstance(request, ImageChunkRequest):
            name, position = request.name, request.position
        waiting = self._asked.setdefault(request.sender, OrderedDict())
        if len(waiting) < _ASKED_MAX:
            waiting[(request.group, name, position)] = _Asked(local, request)

    def _check(self, local: LocalReplica, peer: NodeId, name: str) -> None:
        """What came damaged to a peer may be damaged here, unread so far."""
        if self._is_checking or peer in self._checked:
            return
        info = next((each for each in local.image.manifest.files() if each.name == name), None)
        if info is None or name in local.damaged_files:
            return
        check = FileCheck(self._fs, local.image.folder, local.group, info)
        self._is_checking = True
        number = local.begin_read()

        def ran() -> None:
            self._is_checking = False
            self._checked[peer] = _CHECK_TICKS
            local.end_read(number)
            if check.damage is not None and not self._stopped:
                self._damaged(local, check.damage)
            self._ended(local)

        self._effects.run_read(check, ran)

    def go_on(self) -> None:
        """Begin the reads for which there is room now."""
        while not self._stopped:
            ready = [
                peer for peer, waiting in self._asked.items()
                if waiting and self._budget.has_room(peer)
            ]  # fmt: skip
            if not ready:
                return
            for peer in ready:
                if self._budget.has_room(peer):
                    self._give(*self._asked[peer].popitem(last=False)[1])
            # The peer that was served last is the first one of the next round.
            first = next(iter(self._asked))
            self._asked[first] = self._asked.pop(first)

    def _give(self, local: LocalReplica, request: ImageRequest | ImageChunkRequest) -> None:
        if isinstance(request, ImageRequest):
            self._give_manifest(local, request)
            return
        pinned = self._pins.names_for(local.group, request.sender)
        if request.name not in pinned or request.name in local.damaged_files:
            self._effects.send(request.sender, [_chunk(request, None, 0)])
            return
        length = min(request.length, CHUNK_BYTES_MAX)
        path = f"{local.image.folder}/{request.name}"
        read = FileRead(self._fs, path, request.position, length)

        def answer() -> None:
            if read.data:
                end = request.position + len(read.data)
                self._pins.gave(local.group, request.sender, request.name, end)
            self._effects.send(request.sender, [_chunk(request, read.data, read.crc)])

        self._read(local, request.sender, read, length, answer)

    def _give_manifest(self, local: LocalReplica, request: ImageRequest) -> None:
        """Answer with the manifest, and pin what it names. A file that was of no use to the peer is
        looked at."""
        if request.refused:
            self._check(local, request.sender, request.refused)
        if not _has_image(local):
            return
        image = local.image.manifest
        text = encode_image(image)
        self._pins.pin(local.group, request.sender, image)
        read = FileRead(self._fs, f"{local.image.folder}/{image.snapshots[-1].name}", 0, 0)

        def answer() -> None:
            if read.data is not None:
                manifest = ImageManifest(
                    group=request.group,
                    sender=request.to,
                    to=request.sender,
                    text=text,
                    snapshot_bytes=read.file_bytes,
                )
                self._effects.send(request.sender, [manifest])

        self._read(local, request.sender, read, len(text), answer)

    def _read(
        self,
        local: LocalReplica,
        peer: NodeId,
        read: FileRead,
        byte_count: int,
        answer: Callable[[], None],
    ) -> None:
        number = local.begin_read()
        self._budget.began(peer, byte_count)

        def ran() -> None:
            local.end_read(number)
            self._budget.ended(peer, byte_count)
            if not self._stopped:
                if read.damage is not None:
                    self._damaged(local, read.damage)
                answer()
            self._ended(local)

        self._effects.run_read(read, ran)


def gives_images_of(local: LocalReplica) -> bool:
    """May others have the replica's image, if there is one?"""
    return not local.installing and gives_images(local.troubles)


def _has_image(local: LocalReplica) -> bool:
    return bool(local.image.manifest.snapshots) and gives_images_of(local)


def _chunk(request: ImageChunkRequest, data: bytes | None, crc: int) -> ImageChunk:
    """The answer; no data: there is no such file."""
    return ImageChunk(
        group=request.group,
        sender=request.to,
        to=request.sender,
        name=request.name,
        position=request.position,
        crc=crc,
        gone=data is None,
        data=data or b"",
    )

"""Images between the nodes of a cluster: offered, fetched, installed.

A follower that lacks what its leader's log has dropped takes the leader's image in place of all
that it has, and goes on from there with the log. Installing is a restart of one replica: nothing is
asked of it meanwhile, and its files are as after a crash at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from raftlog.core.messages import (
    ImageChunk,
    ImageChunkRequest,
    ImageManifest,
    ImageMessage,
    ImageOffer,
    ImageRequest,
    Replicate,
)
from raftlog.core.ready import Role
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import CorruptFile
from raftlog.image.incoming import Incoming, wanted_image
from raftlog.image.manifest import Image
from raftlog.machines.group_info import KvInfo
from raftlog.multiraft.catch_up_budget import CatchUpBudget
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.effects import Effects, ImageInstalled, ReplicaRebuilt
from raftlog.multiraft.groups import GroupFiles, GroupStore
from raftlog.multiraft.image_fetch import ImageFetches, ImageLimits, ImageTarget
from raftlog.multiraft.image_pins import ImagePins
from raftlog.multiraft.image_sender import ImageSender
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.past_states import PastStates
from raftlog.multiraft.state_copies import StateCopies


class ImageExchange:
    """Both sides of one node. For the thread of its `MultiRaft` only."""

    def __init__(
        self,
        *,
        node: NodeId,
        effects: Effects,
        disk: NodeDisk,
        store: GroupStore,
        budget: CatchUpBudget,
        limits: ImageLimits,
        now_us: Callable[[LocalReplica], int],
        groups: Mapping[GroupId, LocalReplica],
        freeze: Callable[[LocalReplica], None],
        installed: Callable[[LocalReplica], None],
        install_damaged: Callable[[LocalReplica, CorruptFile], None],
        damaged: Callable[[LocalReplica, CorruptFile], None],
        ended: Callable[[LocalReplica], None],
    ) -> None:
        """`now_us` is the time, as the group's voters confirm it. `freeze`: begin nothing with the
        replica from now on, and forget what was to be done. `installed`: it stands at another
        node's image now; its group may be gone. `install_damaged`: that image cannot be read back,
        and none of its files is open. `damaged`: a file that another node asked for cannot be read.
        `ended` is called after each read."""
        self._effects = effects
        self._disk = disk
        self._store = store
        self.pins = ImagePins(limits.pin_ticks)
        self._now_us = now_us
        self._freeze = freeze
        self._installed = installed
        self._install_damaged = install_damaged
        self._sender = ImageSender(
            fs=store.fs,
            effects=effects,
            budget=budget,
            pins=self.pins,
            damaged=damaged,
            ended=ended,
        )
        self.copies = StateCopies(
            fs=store.fs, effects=effects, pins=self.pins, damaged=damaged, ended=ended
        )
        self.past = PastStates(
            fs=store.fs,
            effects=effects,
            idle_ticks_max=limits.pin_ticks,
            damaged=damaged,
            ended=ended,
        )
        self._fetches = ImageFetches(node=node, effects=effects, disk=disk, limits=limits)
        self._groups = groups
        self._round_ticks = limits.pin_ticks
        self._ticks = 0
        self._fetched_lately: set[GroupId] = set()
        self._fetched_before: set[GroupId] | None = None
        """Groups for which something was fetched in this round of `_discard_left`, and in the one
        before. None: in the first round it is not known what the process before had fetched."""
        self._waiting: dict[LocalReplica, Image] = {}
        """Images that are here, and installed as soon as nothing uses the group's files."""

    def stop(self) -> None:
        """Send and ask for nothing from now on, and install nothing."""
        self._sender.stop()
        self._fetches.stop()
        self.past.stop()
        self._waiting.clear()

    def forget(self, local: LocalReplica) -> None:
        """The group is gone from this node."""
        self._sender.forget(local)
        self._fetches.forget(local.group)
        if isinstance(local.info, KvInfo):
            self.past.forget()
        if self._waiting.pop(local, None) is not None:
            local.installing = False

    def tick(self) -> None:
        """One tick of the clock has passed."""
        self.pins.tick(disk_full=self._disk.told.full is not None)
        self.past.tick()
        self._sender.tick()
        self._fetches.tick()
        for local in list(self._waiting):
            self._install(local)
        self._ticks += 1
        if self._fetches.groups:
            self._fetched_lately |= self._fetches.groups
        if self._ticks % self._round_ticks == 0:
            self._discard_left()

    def _discard_left(self) -> None:
        """Remove what was received for groups that have fetched nothing for a whole round: a fetch
        that broke off, also before a restart, and was not resumed."""
        before = self._fetched_before
        groups = self._groups.keys() if before is None else before & self._groups.keys()
        kept = self._fetched_lately
        kept |= {
            group
            for group in groups
            if self._groups[group].installing or self._groups[group].adopting
        }
        left = sorted(groups - kept)
        self._fetched_before, self._fetched_lately = kept, set()
        if left:
            self._disk.queue_job(lambda: self._store.discard_received(left), lambda _: None)

    def go_on(self) -> None:
        """Give what there is room for now."""
        self._sender.go_on()

    def offers(self, local: LocalReplica, wishes: Iterable[Replicate]) -> list[ImageOffer]:
        """See `ImageSender.offers`."""
        return self._sender.offers(local, wishes)

    def offer_to(self, local: LocalReplica, peer: NodeId) -> list[ImageOffer]:
        """See `ImageSender.offer_to`."""
        return self._sender.offer_to(local, peer)

    def receive(self, local: LocalReplica, message: ImageMessage) -> None:
        """A peer's message about the image of a group that is here."""
        match message:
            case ImageOffer():
                self._offered(local, message)
            case ImageRequest() | ImageChunkRequest():
                self._sender.asked(local, message)
            case ImageManifest():
                self._fetches.manifest_came(message)
            case ImageChunk():
                self._fetches.chunk_came(message)

    # ------------------------------------------------------------ here

    def _offered(self, local: LocalReplica, offer: ImageOffer) -> None:
        """Only its leader, or what it pulls from, gives a replica an image in place of what it has:
        an image cannot be compared with the entries that the replica lacks. But its state must not
        be behind the one here."""

        def stands() -> bool:
            return offer.sender == local.raft.leader or offer.sender in local.parents

        def wanted(theirs: Image) -> Image | None:
            if theirs.index <= local.replica.applied_index:
                return None
            return wanted_image(theirs, local.image.manifest)

        def is_needed(image: Image) -> bool:
            return local.needs_image(*image.base) or _is_rebuilt_by(local, image)

        if stands() and offer.index > local.replica.applied_index:
            incoming = self._store.incoming(local.info, local.progress)
            self._fetch(local, offer.sender, incoming, wanted, stands, is_needed)

    def rebuild(self, local: LocalReplica, peer: NodeId) -> None:
        """Fetch the peer's image in place of one that a majority has outvoted; see
        `raftlog.multiraft.rebuild`. Does nothing if one is being fetched already."""

        def is_needed(image: Image) -> bool:
            return _is_rebuilt_by(local, image)

        def wanted(theirs: Image) -> Image | None:
            return wanted_image(theirs, local.image.manifest) if is_needed(theirs) else None

        def stands() -> bool:
            return peer == local.raft.leader

        incoming = self._store.incoming(local.info)
        self._fetch(local, peer, incoming, wanted, stands, is_needed)

    def _fetch(
        self,
        local: LocalReplica,
        peer: NodeId,
        incoming: Incoming,
        wanted: Callable[[Image], Image | None],
        stands: Callable[[], bool],
        is_needed: Callable[[Image], bool],
    ) -> None:
        """`is_needed`: whether it is to be installed, once all of it is here. The log may have
        caught up meanwhile, and what was outvoted may have been found right."""

        def whole(image: Image, _: frozenset[str]) -> None:
            if is_needed(image):
                self._fetched(local, image)
            else:
                self._disk.queue_job(incoming.discard, lambda _: None)

        if local.installing or local.adopting:
            return
        target = ImageTarget(
            group=local.group,
            incoming=incoming,
            wanted=wanted,
            here=lambda: local.image.manifest.names(),
            whole=whole,
            stands=stands,
        )
        self._begin(target, peer)

    def _begin(self, target: ImageTarget, peer: NodeId) -> bool:
        self._fetched_lately.add(target.group)
        return self._fetches.begin(target, peer)

    def fetch(
        self,
        local: LocalReplica,
        peer: NodeId,
        *,
        wanted: Callable[[Image], Image | None],
        here: Callable[[], frozenset[str]],
        whole: Callable[[Image, frozenset[str]], None],
        failed: Callable[[bool], None],
    ) -> bool:
        """Fetch files of the peer's image for a repair, as `ImageTarget` says. False: not now."""
        if local.installing or local.adopting:
            return False
        incoming = self._store.incoming(local.info)
        target = ImageTarget(local.group, incoming, wanted, here, whole, failed)
        return self._begin(target, peer)

    def _fetched(self, local: LocalReplica, image: Image) -> None:
        """All of the image is here, and it is needed."""
        if local.raft.term < image.snapshots[-1].term or local.raft.role is Role.LEADER:
            return  # its leader will be heard, and offers it again; or it is this one by now
        if local.compacting and local.replica.diverged:
            return  # the compaction may make files of the same names; it is fetched again after it
        local.installing = True
        self._freeze(local)
        self._sender.forget(local)
        self._waiting[local] = image
        self._install(local)

    def _install(self, local: LocalReplica) -> None:
        if local.writing or local.reads_out or local.compacting or local.mending:
            return
        if not local.replica.term_is_durable(self._waiting[local].snapshots[-1].term):
            return
        image = self._waiting.pop(local)
        group, info = local.group, local.info
        event: ImageInstalled | ReplicaRebuilt
        if local.needs_image(*image.base):
            event = ImageInstalled(group=group, info=info, index=image.index)
            work = partial(self._store.install, info, image)
        else:
            log = local.replica.log
            event = ReplicaRebuilt(group=group, info=info, index=image.index)
            base, now_us = (log.base_index, log.base_term), self._now_us(local)
            work = partial(self._store.rebuild, info, image, base, now_us)
        local.replica.log.abandon()
        local.image.close()

        def installed(found: GroupFiles | CorruptFile) -> None:
            local.installing = False
            if isinstance(found, CorruptFile):
                self._install_damaged(local, found)
                return
            opened = self._store.replica(info, found)
            local.reopen(opened.replica, opened.image, opened.outvoted)
            self._effects.tell(event)
            self._installed(local)

        self._disk.queue_job(work, installed)


def _is_rebuilt_by(local: LocalReplica, image: Image) -> bool:
    return local.replica.diverged and local.may_go_on_from(image)

"""Fetching images of other nodes: asked for in chunks, written off the loop, checked as a whole.

A fetch asks the source for its manifest, and then for what is missing here of the files that the
manifest names. Some chunks are asked for ahead. Whatever is lost is asked for again when nothing
has come for a while. A source that stays silent, or has other files by now, ends the fetch. What
was received stays, so the next fetch from the same node goes on from there, also after a restart.
One from another node asks for no history file again of which all has come.

No name from the wire becomes a path: only files that the decoded manifest names are written.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from raftlog.checksum import crc32c
from raftlog.core.messages import ImageChunk, ImageChunkRequest, ImageManifest, ImageRequest
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import CorruptFile, FormatUnsupported, LogFromNewerVersion
from raftlog.image.incoming import Incoming, Missing, with_received
from raftlog.image.manifest import HistoryInfo, Image, received_image
from raftlog.machines.commands import TopicInfo
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.effects import Effects, ImageRefused

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLimits:
    """How images travel. No settings: what matters is `server.catch_up_bytes_per_s_max`."""

    chunk_bytes: int = 1024 * 1024
    """What is asked for at once: `image_sender.CHUNK_BYTES_MAX` at most."""
    chunks_ahead: int = 16
    """Chunks of one image that are asked for and not written yet: memory, and enough to keep disk
    and wire busy."""
    fetches_max: int = 4
    """Images that are fetched at a time: many small ones need not wait for a large one."""
    resend_ticks: int = 100
    """After this without an answer everything is asked for again. A sender that is throttled, or
    serves others, takes its time."""
    switch_ticks: int = 20
    """After this without an answer the image of another node that offers its own is fetched: the
    group has another leader by now. It doubles with each such change until an image has come: an
    observer has offers from many nodes, each of which may be slow."""
    give_up_ticks: int = 1200
    """After this the fetch ends. Another offer begins another one."""
    pin_ticks: int = 2400
    """A sender keeps an image so long after it last gave something new of it: longer than a
    receiver needs to restart."""


Key = tuple[str, int]
"""A chunk: the name of its file, and its position there."""


@dataclass(slots=True)
class _Check:
    """The sync and check of a file that is complete: a `BackgroundRead`."""

    incoming: Incoming
    name: str
    problem: CorruptFile | FormatUnsupported | LogFromNewerVersion | None = None

    def run(self) -> None:
        self.problem = self.incoming.finish(self.name)


class ImageTarget(NamedTuple):
    """What a fetch is for."""

    group: GroupId
    incoming: Incoming
    wanted: Callable[[Image], Image | None]
    """The image to have, given the source's; None: theirs is of no use."""
    here: Callable[[], frozenset[str]]
    """The names of files that are here and whole: they are not fetched."""
    whole: Callable[[Image, frozenset[str]], None]
    """Told when all files are here and checked, and which of them were fetched."""
    failed: Callable[[bool], None] = lambda _: None
    """Told when the fetch ends otherwise: True if the source has said what it has, and that is of
    no use."""
    stands: Callable[[], bool] = lambda: True
    """Whether the source may still give what it gives."""


@dataclass(slots=True)
class _Fetch:
    target: ImageTarget
    peer: NodeId
    image: Image | None = None
    silent_ticks: int = 0
    ended: bool = False
    fetched: frozenset[str] = frozenset()
    """The files that are fetched. The others are here."""
    chunks: Iterator[tuple[Key, int]] = field(default_factory=lambda: iter(()))
    """What is still to be asked for, with lengths."""
    asked: OrderedDict[Key, int] = field(default_factory=OrderedDict)
    writing: int = 0
    """Chunks that have come and are not written yet."""
    paused: bool = False
    """There was more to ask for, but no room for it on the disk."""
    left: Counter[str] = field(default_factory=Counter)
    """For each file that is not finished, the chunks that are not written yet."""
    complete: deque[str] = field(default_factory=deque)
    """Files of which all is here. The first is being checked: one at a time, for a check takes
    memory, and honest reads wait behind it."""


class ImageFetches:
    """The fetches of one node. For the thread of its `MultiRaft` only."""

    def __init__(
        self, *, node: NodeId, effects: Effects, disk: NodeDisk, limits: ImageLimits
    ) -> None:
        self._node = node
        self._effects = effects
        self._disk = disk
        self._limits = limits
        self._fetches: dict[GroupId, _Fetch] = {}
        self._received: dict[GroupId, list[HistoryInfo]] = {}
        """History files that came whole in a fetch that ended before its last file came."""
        self._resting: dict[tuple[GroupId, NodeId], int] = {}
        """For how many ticks nothing is fetched from a node that gave what is of no use."""
        self._switched: Counter[GroupId] = Counter()
        """How often the source was changed since an image came, or was of no use any more."""
        self._refused: dict[GroupId, tuple[NodeId, str]] = {}
        """Who gave a damaged file at last, and its name: they are told with the next request."""
        self._stopped = False

    @property
    def groups(self) -> AbstractSet[GroupId]:
        """For which something is being fetched."""
        return self._fetches.keys()

    def stop(self) -> None:
        """Ask for nothing from now on."""
        self._stopped = True

    def forget(self, group: GroupId) -> None:
        """The group is gone from here, or needs no image: end its fetch, if there is one."""
        self._received.pop(group, None)
        self._switched.pop(group, None)
        self._end(group)

    def _end(self, group: GroupId) -> None:
        self._refused.pop(group, None)
        fetch = self._fetches.pop(group, None)
        if fetch is not None:
            fetch.ended = True

    def begin(self, target: ImageTarget, peer: NodeId) -> bool:
        """Fetch the peer's image of the group. True if it has begun.

        Does nothing if one is being fetched, unless its source is another node that is silent, if
        too many others are, or if what the peer gave was refused just now: it will be offered
        again.
        """
        if (target.group, peer) in self._resting:
            return False
        running = self._fetches.get(target.group)
        if running is not None:
            patience = self._limits.switch_ticks << self._switched[target.group]
            if running.peer == peer or running.silent_ticks < patience:
                return False
            self._fail(running, answered=False)
            self._switched[target.group] += 1
        if len(self._fetches) >= self._limits.fetches_max or self._stopped or self._is_disk_full:
            return False
        fetch = self._fetches[target.group] = _Fetch(target, peer)
        self._ask_for_manifest(fetch)
        return True

    def tick(self) -> None:
        """One tick of the clock has passed: ask again for what did not come."""
        self._resting = {key: ticks - 1 for key, ticks in self._resting.items() if ticks > 1}
        for fetch in list(self._fetches.values()):
            if not fetch.target.stands():
                self._fail(fetch, answered=False)
                continue
            if fetch.paused and not self._is_disk_full:
                self._go_on(fetch)
            if fetch.image is not None and not fetch.asked:
                continue  # the disk is at work, or full
            fetch.silent_ticks += 1
            if fetch.silent_ticks >= self._limits.give_up_ticks:
                self._fail(fetch, answered=False)
            elif fetch.silent_ticks % self._limits.resend_ticks == 0:
                if fetch.image is None:
                    self._ask_for_manifest(fetch)
                else:
                    self._send_requests(fetch, list(fetch.asked.items()))

    # ------------------------------------------------------------ the manifest

    def _ask_for_manifest(self, fetch: _Fetch) -> None:
        group, peer = fetch.target.group, fetch.peer
        giver, refused = self._refused.get(group, (peer, ""))
        told = refused if giver == peer else ""
        request = ImageRequest(group=group, sender=self._node, to=peer, refused=told)
        self._effects.send(peer, [request])

    def manifest_came(self, message: ImageManifest) -> None:
        """The source says what its image is."""
        fetch = self._fetch_of(message.group, message.sender)
        if fetch is None or fetch.image is not None:
            return
        target = fetch.target
        try:
            theirs = received_image(
                message.text,
                message.snapshot_bytes,
                f"the manifest of node {message.sender}",
                of_topic=isinstance(target.incoming.info, TopicInfo),
            )
        except CorruptFile as error:
            self._refuse(fetch, error.cause)
            return
        wanted, here = target.wanted(theirs), target.here()
        if wanted is None:
            self._fail(fetch, answered=True)
            return
        received = self._received.pop(target.group, [])
        image = fetch.image = with_received(wanted, here, received)
        fetch.silent_ticks = 0
        snapshot_bytes = message.snapshot_bytes
        self._work(
            fetch,
            lambda: target.incoming.begin(image, here, snapshot_bytes),
            lambda missing: self._begun(fetch, missing),
        )

    def _begun(self, fetch: _Fetch, missing: list[Missing] | str) -> None:
        if isinstance(missing, str):
            self._refuse(fetch, missing)
            return
        length_max = self._limits.chunk_bytes
        for each in missing:
            chunks = _chunk_count(each, length_max)
            fetch.left[each.name] = chunks
            if not chunks:
                self._finish(fetch, each.name)
        fetch.fetched = frozenset(each.name for each in missing)
        fetch.chunks = _chunks(missing, length_max)
        self._go_on(fetch)

    # ------------------------------------------------------------ chunks

    def _go_on(self, fetch: _Fetch) -> None:
        """Ask for more, if there is more; or this was all. While the disk is full, what room is
        left is for what the node must write: the fetch goes on when there is more."""
        fetch.paused = self._is_disk_full
        wanted = []
        while not fetch.paused and len(fetch.asked) + fetch.writing < self._limits.chunks_ahead:
            chunk = next(fetch.chunks, None)
            if chunk is None:
                break
            key, length = chunk
            fetch.asked[key] = length
            wanted.append((key, length))
        self._send_requests(fetch, wanted)
        if not fetch.left:
            assert fetch.image is not None
            assert not fetch.asked, "a file is finished once all of it is here"
            is_here = fetch.image.names() - fetch.fetched <= fetch.target.here()
            if is_here and fetch.target.stands():
                self.forget(fetch.target.group)
                fetch.target.whole(fetch.image, fetch.fetched)
            else:  # files that were here are gone since: the next fetch gets those
                self._fail(fetch, answered=False)

    def _send_requests(self, fetch: _Fetch, wanted: Sequence[tuple[Key, int]]) -> None:
        if wanted and not self._stopped:
            requests = [
                ImageChunkRequest(
                    group=fetch.target.group,
                    sender=self._node,
                    to=fetch.peer,
                    name=name,
                    position=position,
                    length=length,
                )
                for (name, position), length in wanted
            ]
            self._effects.send(fetch.peer, requests)

    def chunk_came(self, message: ImageChunk) -> None:
        """A chunk, or the news that the source has other files by now."""
        fetch = self._fetch_of(message.group, message.sender)
        key = (message.name, message.position)
        if fetch is None or key not in fetch.asked:
            return
        if message.gone:
            self._fail(fetch, answered=True)
            return
        data = message.data
        if not is_whole(message):
            return  # as if it were lost
        if len(data) != fetch.asked[key]:
            self._refuse(fetch, f"{message.name} ends at {message.position + len(data)}")
            return
        del fetch.asked[key]
        fetch.writing += 1
        fetch.silent_ticks = 0
        incoming = fetch.target.incoming
        self._work(
            fetch, lambda: incoming.write(*key, data), lambda _: self._written(fetch, message.name)
        )

    def _written(self, fetch: _Fetch, name: str) -> None:
        fetch.writing -= 1
        fetch.left[name] -= 1
        if not fetch.left[name]:
            self._finish(fetch, name)
        self._go_on(fetch)

    def _finish(self, fetch: _Fetch, name: str) -> None:
        """All of the file is here: sync and check it, while others are written."""
        fetch.complete.append(name)
        if len(fetch.complete) == 1:
            self._check_next(fetch)

    def _check_next(self, fetch: _Fetch) -> None:
        incoming, name = fetch.target.incoming, fetch.complete[0]
        check = _Check(incoming, name)

        def checked() -> None:
            if fetch.ended or self._stopped:
                return
            if check.problem is None:
                fetch.complete.popleft()
                if fetch.complete:
                    self._check_next(fetch)
                del fetch.left[name]
                self._go_on(fetch)
                return
            cause = check.problem.cause

            def removed(_: None) -> None:
                self._refuse(fetch, cause)
                self._refused[fetch.target.group] = (fetch.peer, name)

            self._work(fetch, lambda: incoming.remove(name), removed)

        self._effects.run_read(check, checked)

    # ------------------------------------------------------------ parts

    @property
    def _is_disk_full(self) -> bool:
        return self._disk.spare_bytes is not None or self._disk.told.full is not None

    def _fetch_of(self, group: GroupId, peer: NodeId) -> _Fetch | None:
        fetch = self._fetches.get(group)
        return fetch if fetch is not None and fetch.peer == peer else None

    def _refuse(self, fetch: _Fetch, cause: str) -> None:
        self._effects.tell(ImageRefused(group=fetch.target.group, peer=fetch.peer, cause=cause))
        self._resting[fetch.target.group, fetch.peer] = self._limits.resend_ticks
        self._fail(fetch, answered=True)

    def _fail(self, fetch: _Fetch, *, answered: bool) -> None:
        group, image = fetch.target.group, fetch.image
        received = self._received.get(group, [])
        if image is not None:
            whole = fetch.fetched - fetch.left.keys()
            received = [each for each in image.history if each.name in whole]
        self._end(group)
        if received:
            self._received[group] = received
        fetch.target.failed(answered)

    def _work(self, fetch: _Fetch, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Do the work on the disk, and go on with its value, unless the fetch has ended: then the
        folder may be gone."""

        def work_if_wanted() -> Any:
            return None if fetch.ended else work()

        def done_if_wanted(value: Any) -> None:
            if not fetch.ended and not self._stopped:
                done(value)

        self._disk.queue_job(work_if_wanted, done_if_wanted)


def is_whole(chunk: ImageChunk) -> bool:
    """Are these the bytes that the sender read?"""
    return crc32c(chunk.data) == chunk.crc


def _chunk_count(missing: Missing, length_max: int) -> int:
    """How many chunks `_chunks` makes of it, whatever length the source claims."""
    _, position, byte_count = missing
    if position == byte_count:
        return 0
    return -(-byte_count // length_max) - position // length_max


def _chunks(missing: Sequence[Missing], length_max: int) -> Iterator[tuple[Key, int]]:
    """Also after a break all but the first begin at multiples of `length_max`: what begins between
    two blocks of the disk goes through the page cache (`DIRECT_BLOCK_BYTES`)."""
    for name, position, byte_count in missing:
        while position < byte_count:
            end = min(byte_count, position - position % length_max + length_max)
            yield (name, position), end - position
            position = end

"""An image on its way from one node to another: what is lost, damaged, gone, and what is kept."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest

from raftlog.core.messages import (
    ImageChunk,
    ImageChunkRequest,
    ImageManifest,
    ImageRequest,
    PeerMessage,
    Replicate,
)
from raftlog.core.progress import Progress
from raftlog.core.types import GroupId, LogIndex, NodeId, Payload, Span, Term
from raftlog.errors import CorruptFile, DiskFull
from raftlog.image.incoming import INCOMING_PREFIX, Incoming, wanted_image
from raftlog.image.manifest import NO_IMAGE, SMALL_FILE_BYTES, Image, read_image
from raftlog.machines.commands import SnapshotPoint
from raftlog.multiraft.catch_up_budget import CatchUpBudget
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.effects import BackgroundRead, ImageRefused
from raftlog.multiraft.image_fetch import ImageFetches, ImageLimits, ImageTarget, _Check
from raftlog.multiraft.image_sender import ImageSender
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.storage.reserve import Reserve
from raftlog.wire.codec import encode_command
from tests.multiraft.compaction_scene import EVERY, PIN_TICKS, topic_of
from tests.multiraft.compaction_scene import Scene as Sender
from tests.multiraft.resting import RESTING
from tests.multiraft.test_disk import Driver as DiskDriver
from tests.storage.disks import entries, files_of, flipped
from tests.storage.memory import MemoryFileSystem

GROUP = GroupId(1)
TOPIC = topic_of(1)
FOLDER = "1"
SOURCE, HERE, ANOTHER = NodeId(1), NodeId(2), NodeId(3)
LIMITS = ImageLimits(
    chunk_bytes=100, chunks_ahead=3, resend_ticks=4, switch_ticks=2, give_up_ticks=10
)

Sift = Callable[[PeerMessage], PeerMessage | None]


class Driver(DiskDriver):
    """Effects whose messages lie on a wire."""

    def __init__(self) -> None:
        super().__init__()
        self.wire: deque[PeerMessage] = deque()

    def send(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        self.wire.extend(messages)

    def run_read(self, read: BackgroundRead, ran: Callable[[], None]) -> None:
        self.asked.append(lambda: (read.run(), ran()))


class Wire:
    """A source with an image, and a node that fetches it."""

    def __init__(self, small_file_bytes: int = SMALL_FILE_BYTES) -> None:
        self.sender = Sender()
        self.sender.small_file_bytes = small_file_bytes
        self.damaged: list[CorruptFile] = []
        self.sender.write(4 * EVERY)
        self.sender.compact_all()
        self.driver = Driver()
        self.source = self._source()
        self.peer = SOURCE
        self.fs = MemoryFileSystem(Random(2))
        self.fs.make_folder(FOLDER)
        self.fs.sync_folder("")
        self.whole: list[Image] = []
        self.asked: list[ImageChunkRequest] = []
        self.start()

    def _source(self) -> ImageSender:
        return ImageSender(
            fs=self.sender.fs,
            effects=self.driver,
            budget=CatchUpBudget(self.driver, RESTING.catch_up, lambda: self.source.go_on()),
            pins=self.sender.pins,
            damaged=lambda local, damage: self.damaged.append(damage),
            ended=lambda local: None,
        )

    def change_source(self) -> None:
        """Another node with the same records."""
        self.peer = ANOTHER
        sender = Sender.of(MemoryFileSystem(Random(9)))
        sender.small_file_bytes = self.sender.small_file_bytes
        sender.add(sender.store.replica(TOPIC, sender.store.make_group(TOPIC)))
        sender.write(4 * EVERY)
        sender.compact_all()
        self.sender = sender
        self.source = self._source()

    def start(self) -> None:
        """A process that fetches; the one before is forgotten."""
        self.driver.asked.clear()
        self.disk = NodeDisk(self.driver, Reserve(self.fs, 0), slow_ticks=9, full_ticks=3)
        self.fetches = ImageFetches(node=HERE, effects=self.driver, disk=self.disk, limits=LIMITS)

    def begin(self) -> None:
        target = ImageTarget(
            group=GROUP,
            incoming=Incoming(self.fs, FOLDER, TOPIC),
            wanted=lambda theirs: wanted_image(theirs, NO_IMAGE),
            here=frozenset,
            whole=lambda image, _: self.whole.append(image),
        )
        self.fetches.begin(target, self.peer)

    def carry(self, sift: Sift = lambda message: message, steps: int = 1 << 30) -> None:
        """Carry so many messages, as they come out of `sift`, and do the work on the disk."""
        while steps and (self.driver.wire or self.driver.asked):
            self.driver.run()
            if not self.driver.wire:
                continue
            steps -= 1
            message = sift(self.driver.wire.popleft())
            local = self.sender.topics[GROUP]
            match message:
                case ImageRequest() | ImageChunkRequest():
                    if isinstance(message, ImageChunkRequest):
                        self.asked.append(message)
                    self.source.asked(local, message)
                    self.source.go_on()
                case ImageManifest():
                    self.fetches.manifest_came(message)
                case ImageChunk():
                    self.fetches.chunk_came(message)

    def tick(self, count: int) -> None:
        for _ in range(count):
            self.fetches.tick()
            self.carry()

    def is_whole(self) -> bool:
        """Is every file here, as the source has it?"""
        theirs = files_of(self.sender.fs, self.sender.store.folder_of(GROUP))
        here = files_of(self.fs, FOLDER)
        return len(self.whole) == 1 and all(
            here[INCOMING_PREFIX + name] == theirs[name] for name in self.whole[0].names()
        )


def files_of_wire(fs: MemoryFileSystem) -> int:
    return sum(map(len, files_of(fs, FOLDER).values()))


def test_an_image_is_offered_with_the_question_whether_a_follower_holds_the_log_s_base() -> None:
    wire = Wire()
    local = wire.sender.topics[GROUP]
    raft = local.raft
    assert raft.leadership is not None
    lacking, current = Progress(raft.log.last_index), Progress(raft.log.last_index)
    lacking.behind_base = True
    raft.leadership.followers |= {HERE: lacking, ANOTHER: current}

    def offered(*to: NodeId, prev_index: int, span: Span | None) -> list[NodeId]:
        wishes = [
            Replicate(
                group=GROUP,
                sender=SOURCE,
                to=node,
                term=raft.term,
                prev_index=LogIndex(prev_index),
                prev_term=raft.term,
                span=span,
                commit_index=raft.commit_index,
            )
            for node in to
        ]
        return [offer.to for offer in wire.source.offers(local, wishes)]

    base = raft.log.base_index
    assert offered(HERE, ANOTHER, prev_index=base, span=None) == [HERE]
    assert offered(HERE, prev_index=base + 1, span=None) == []
    assert offered(HERE, prev_index=base, span=Span(LogIndex(base + 1), LogIndex(base + 1))) == []


def test_all_files_come_in_chunks_with_a_few_asked_for_ahead() -> None:
    wire = Wire()
    wire.begin()
    wire.carry(steps=2)
    assert len(wire.driver.wire) + len(wire.driver.asked) <= LIMITS.chunks_ahead
    wire.carry()
    assert wire.is_whole()
    assert len(wire.asked) == len({(each.name, each.position) for each in wire.asked}) > 10


def test_what_is_lost_or_damaged_on_the_way_is_asked_for_again() -> None:
    wire = Wire()
    random = Random(1)

    def sift(message: PeerMessage) -> PeerMessage | None:
        if random.randrange(4) == 0:
            return None
        if isinstance(message, ImageChunk) and message.data and random.randrange(4) == 0:
            return replace(message, data=flipped(message.data, len(message.data) // 2))
        return message

    for _ in range(2_000):
        if wire.whole:
            break
        wire.begin()  # again, where the fetch was given up
        wire.carry(sift)
        wire.fetches.tick()
    assert wire.is_whole()
    assert not wire.driver.told, "nothing that was damaged on the way has counted"


def test_what_was_received_before_a_restart_is_not_asked_for_again() -> None:
    wire = Wire()
    wire.begin()
    wire.carry(steps=20)
    before = len(wire.asked)
    wire.driver.run()
    received = files_of_wire(wire.fs)
    assert before > 5
    wire.driver.wire.clear()
    wire.start()
    wire.begin()
    wire.carry()
    assert wire.is_whole()
    again = sum(each.length for each in wire.asked[before:])
    assert again <= files_of_wire(wire.fs) - received


def test_after_a_write_that_a_crash_tore_chunks_begin_at_multiples_of_their_length() -> None:
    wire = Wire()
    wire.begin()
    wire.carry(steps=20)
    before = len(wire.asked)
    wire.driver.run()
    incoming = {
        name: data
        for name, data in files_of(wire.fs, FOLDER).items()
        if name.startswith(INCOMING_PREFIX)
    }
    torn = max(incoming, key=lambda name: len(incoming[name]))
    wire.fs.open(f"{FOLDER}/{torn}", create=False).truncate(133)
    wire.driver.wire.clear()
    wire.start()
    wire.begin()
    wire.carry()
    assert wire.is_whole()
    again = [
        each.position for each in wire.asked[before:] if each.name == torn[len(INCOMING_PREFIX) :]
    ]
    assert again[:2] == [133, 2 * LIMITS.chunk_bytes]


def test_a_fetch_waits_while_the_disk_is_full_and_goes_on_when_there_is_room() -> None:
    wire = Wire()
    wire.begin()
    wire.carry(steps=8)
    received, asked = files_of_wire(wire.fs), len(wire.asked)
    wire.fs.make_folder("2")
    log = GroupLog.create(wire.fs, "2", 2, LogLimits())
    log.append(entries(1, 1))
    write = log.take_write()
    assert write is not None

    def refuse(operation: str, path: str) -> None:
        if path.startswith("2/"):
            raise DiskFull(file=path)

    wire.fs.interrupt = refuse
    wire.disk.run(GroupId(2), write, lambda: log.written(write))
    wire.driver.run()
    wire.disk.tick()
    assert wire.disk.told.full is not None
    wire.carry()
    wire.tick(2 * LIMITS.give_up_ticks)
    assert len(wire.asked) <= asked + LIMITS.chunks_ahead, "only what was asked for still came"
    assert files_of_wire(wire.fs) >= received > 0
    assert not wire.whole
    wire.fs.interrupt = None
    for _ in range(3):
        wire.disk.tick()
        wire.driver.run()
    wire.disk.tick()
    wire.tick(1)
    assert wire.is_whole()


def test_a_source_that_falls_silent_is_given_up_and_another_node_goes_on() -> None:
    wire = Wire()
    wire.begin()
    wire.carry(steps=20)
    silent = lambda message: None  # noqa: E731
    for _ in range(LIMITS.give_up_ticks):
        wire.fetches.tick()
        wire.carry(silent)
    before = len(wire.asked)
    wire.begin()
    wire.carry()
    assert wire.is_whole()
    assert len(wire.asked) > before


def test_files_that_came_whole_from_one_node_are_not_asked_of_another() -> None:
    """Its files of the same records have other names and other bytes."""
    wire = Wire(small_file_bytes=0)
    wire.begin()
    while not any(each.startswith("history-") for each in received_whole(wire)):
        wire.carry(steps=1)
    came = {each for each in received_whole(wire) if each.startswith("history-")}
    wire.carry(lambda message: None)
    wire.change_source()
    for _ in range(LIMITS.switch_ticks):
        before = len(wire.asked)
        wire.begin()
        wire.carry()
        assert len(wire.asked) == before, "the first one may still answer"
        wire.fetches.tick()
    wire.begin()
    wire.carry()
    (image,) = wire.whole
    assert came <= image.names()
    asked = {each.name for each in wire.asked[before:]}
    assert len(image.history) > len(came)
    assert asked
    assert asked <= image.names() - came
    assert files_of(wire.fs, FOLDER).keys() == {INCOMING_PREFIX + name for name in image.names()}


def received_whole(wire: Wire) -> set[str]:
    """The files that have come whole."""
    files = files_of(wire.sender.fs, wire.sender.store.folder_of(GROUP))
    found = files_of(wire.fs, FOLDER)
    return {name for name, data in files.items() if found.get(INCOMING_PREFIX + name) == data}


def test_files_that_are_complete_are_checked_one_at_a_time() -> None:
    """Ahead of honest reads, and each takes memory: a manifest may name 400,000 of them."""
    wire = Wire(small_file_bytes=0)
    wire.begin()
    wire.carry()
    assert len(files_of(wire.fs, FOLDER)) > 3
    wire.start()
    wire.whole.clear()
    run_read, running, checked = wire.driver.run_read, set[object](), set[object]()

    def counted(read: BackgroundRead, ran: Callable[[], None]) -> None:
        if isinstance(read, _Check):
            running.add(read.name)
            checked.add(read.name)
            assert len(running) == 1

        def counted_ran() -> None:
            running.clear()
            ran()

        run_read(read, counted_ran if isinstance(read, _Check) else ran)

    wire.driver.run_read = counted  # type: ignore[method-assign]
    wire.begin()
    wire.carry()
    assert wire.is_whole()
    assert checked == wire.whole[0].names()


def test_a_file_that_is_damaged_at_its_source_is_refused_and_told() -> None:
    """Its chunks are what the source has read, so only the check of the whole file finds it."""
    wire = Wire()
    folder = wire.sender.store.folder_of(GROUP)
    history = read_image(wire.sender.fs, folder).image.history[0]
    data = files_of(wire.sender.fs, folder)[history.name]
    file = wire.sender.fs.open(f"{folder}/{history.name}", create=False)
    file.write_at(0, [flipped(data, len(data) // 2)])
    wire.begin()
    wire.carry()
    assert not wire.whole
    (told,) = wire.driver.told
    assert isinstance(told, ImageRefused)
    assert history.name in told.cause
    asked = len(wire.asked)
    wire.begin()
    wire.carry()
    assert len(wire.asked) == asked, "it is not asked again at once"
    assert not wire.damaged
    for _ in range(LIMITS.resend_ticks):
        wire.fetches.tick()
    wire.begin()
    wire.carry()
    assert {each.file for each in wire.damaged} == {f"{folder}/{history.name}"}, "it has looked"
    file.write_at(0, [data])
    for _ in range(LIMITS.resend_ticks):
        wire.fetches.tick()
    wire.damaged.clear()
    wire.begin()
    wire.carry()
    assert wire.is_whole()
    assert not wire.damaged, "it looks again, and it is whole"


def test_a_file_that_the_source_cannot_read_is_told_there_and_not_sent() -> None:
    wire = Wire()
    folder = wire.sender.store.folder_of(GROUP)
    history = read_image(wire.sender.fs, folder).image.history[0]
    wire.sender.fs.unreadable = frozenset({f"{folder}/{history.name}"})
    wire.begin()
    wire.carry()
    assert not wire.whole
    assert {each.file for each in wire.damaged} == {f"{folder}/{history.name}"}
    wire.sender.fs.unreadable = frozenset()
    wire.begin()
    wire.carry()
    assert wire.is_whole()


def test_a_chunk_behind_the_end_of_a_file_is_empty_wherever_it_is() -> None:
    wire = Wire()
    wire.begin()
    wire.carry()
    local = wire.sender.topics[GROUP]
    name = local.image.manifest.history[0].name
    for position in (1 << 30, (1 << 63) - 1):
        request = ImageChunkRequest(
            group=GROUP, sender=HERE, to=SOURCE, name=name, position=position, length=10
        )
        wire.source.asked(local, request)
        wire.source.go_on()
        wire.driver.run()
        (answer,) = wire.driver.wire
        wire.driver.wire.clear()
        assert isinstance(answer, ImageChunk)
        assert (answer.data, answer.gone) == (b"", False)
    assert not wire.damaged


def test_no_name_from_the_wire_is_opened_that_the_manifest_does_not_have() -> None:
    wire = Wire()
    wire.begin()
    wire.carry(steps=2)
    wire.driver.wire.clear()
    for name in ("manifest", "image.1", "../deletions", "00000000000000000001.log"):
        request = ImageChunkRequest(
            group=GROUP, sender=HERE, to=SOURCE, name=name, position=0, length=50
        )
        wire.source.asked(wire.sender.topics[GROUP], request)
        wire.source.go_on()
        (answer,) = wire.driver.wire
        assert isinstance(answer, ImageChunk)
        assert (answer.gone, answer.data) == (True, b"")
        wire.driver.wire.clear()


def test_requests_for_manifests_are_answered_in_turns_within_the_budget() -> None:
    """Each took a read, and the reads had no bound."""
    wire = Wire()
    local = wire.sender.topics[GROUP]
    name = local.image.manifest.history[0].name
    for refused in ("", name):
        for _ in range(300):
            for _ in range(3):
                wire.source.asked(
                    local, ImageRequest(group=GROUP, sender=HERE, to=SOURCE, refused=refused)
                )
            wire.source.go_on()
        reads = RESTING.catch_up.peer_bytes_max // 4096
        assert len(wire.driver.asked) == reads + bool(refused), "and one check of the file"
        wire.driver.run()
        wire.source.go_on()
        wire.driver.run()
        assert len(wire.driver.wire) == reads + 1, "the latest request has waited for its turn"
        wire.driver.wire.clear()


def test_a_peer_has_one_file_checked_at_a_time() -> None:
    wire = Wire()
    local = wire.sender.topics[GROUP]
    request = ImageRequest(
        group=GROUP, sender=HERE, to=SOURCE, refused=local.image.manifest.history[0].name
    )
    begun = []
    for ticks in (0, 0, 100, 100):
        for _ in range(ticks):
            wire.source.tick()
        wire.source.asked(local, request)
        wire.source.go_on()
        begun.append(len(wire.driver.asked))
        wire.driver.run()
    assert begun == [2, 1, 1, 2], "each has the read of the manifest"


def test_a_replica_needs_an_image_only_if_its_log_cannot_bring_it_there() -> None:
    """Where its log has the entry in the same term, it agrees with the leader's up to there. An
    entry of another term was never committed, however much follows on it."""
    scene = Sender()
    scene.write(2)
    local = scene.topics[GROUP]
    raft, applied, term = local.raft, local.replica.applied_index, local.raft.term
    command = SnapshotPoint(keep_from=LogIndex(1))
    raft.propose([Payload(encode_command(command, None), b"")] * 3)
    assert raft.log.last_index == applied + 3
    assert not local.needs_image(applied, term)
    assert not local.needs_image(applied, Term(term + 1)), "what is applied is as good"
    assert not local.needs_image(LogIndex(applied + 1), term)
    assert local.needs_image(LogIndex(applied + 1), Term(term + 1))
    assert local.needs_image(LogIndex(applied + 4), term)


# ---------------------------------------------------------------- pins


def gone_on(wire: Wire, points: int) -> None:
    """Let the source compact so many more points."""
    for _ in range(points):
        wire.sender.write(EVERY + 1)
        wire.sender.compact_all()
        wire.sender.tick(1)
        wire.sender.compact_all()


def test_the_files_of_a_pinned_image_and_the_log_after_it_stay_while_its_source_compacts() -> None:
    wire = Wire()
    local = wire.sender.topics[GROUP]
    pinned = local.image.manifest
    wire.begin()
    wire.carry(steps=5)
    gone_on(wire, 6)
    assert pinned.names() - local.image.manifest.names(), "the present image does without some"
    assert pinned.names() <= set(wire.sender.files())
    assert local.replica.log.base_index <= pinned.index
    wire.carry()
    assert wire.is_whole()
    assert wire.whole[0].index == pinned.index


def test_a_pin_lapses_and_the_next_fetch_keeps_what_both_images_have() -> None:
    wire = Wire(small_file_bytes=0)
    local = wire.sender.topics[GROUP]
    pinned = local.image.manifest
    wire.begin()
    wire.carry(steps=30)
    gone_on(wire, 6)
    for _ in range(PIN_TICKS + 1):
        wire.sender.pins.tick(disk_full=False)
    wire.sender.tick(1)
    wire.sender.compact_all()
    obsolete = pinned.names() - local.image.manifest.names()
    assert obsolete
    assert not obsolete & set(wire.sender.files()), "they are removed now"
    gone_on(wire, 1)
    assert local.replica.log.base_index > pinned.index
    wire.carry()
    assert not wire.whole, "the source said that the files are gone"
    before = len(wire.asked)
    wire.begin()
    wire.carry()
    assert wire.is_whole()
    assert wire.whole[0].index == local.image.manifest.index
    assert pinned.history[0].name not in {each.name for each in wire.asked[before:]}


def requests_of(wire: Wire, name: str, position: int, length: int = 1) -> None:
    """Another node than the one that fetches asks, and gets its answer."""
    request = ImageChunkRequest(
        group=GROUP, sender=ANOTHER, to=SOURCE, name=name, position=position, length=length
    )
    wire.source.asked(wire.sender.topics[GROUP], request)
    wire.source.go_on()
    wire.driver.run()
    wire.driver.wire.clear()


@pytest.mark.parametrize(
    ("is_pinned", "position", "length"),
    [(False, 0, 1), (True, 0, 1), (True, 5, 0), (True, 1 << 40, 1)],
    ids=["unknown", "again", "empty", "behind the end"],
)
def test_what_gives_nothing_new_renews_no_pin(
    *, is_pinned: bool, position: int, length: int
) -> None:
    """An observer that was added and never started kept the log of every node with it."""
    wire = Wire()
    local = wire.sender.topics[GROUP]
    wire.source.asked(local, ImageRequest(group=GROUP, sender=ANOTHER, to=SOURCE))
    wire.source.go_on()
    name = local.image.manifest.snapshots[-1].name
    requests_of(wire, name, 0)
    gone_on(wire, 3)
    for _ in range(PIN_TICKS):
        wire.sender.pins.tick(disk_full=False)
        assert wire.sender.pins.index(GROUP) is not None
        requests_of(wire, name if is_pinned else "x", position, length)
    wire.sender.pins.tick(disk_full=False)
    assert wire.sender.pins.index(GROUP) is None


def test_a_slow_fetch_ends_while_its_source_compacts_also_after_a_break() -> None:
    wire = Wire()
    pinned = wire.sender.topics[GROUP].image.manifest
    wire.begin()
    for step in range(1_000):
        if wire.whole:
            break
        wire.carry(steps=2)
        if step == 8:  # the connection breaks, and what was on its way is lost
            wire.driver.run()
            wire.driver.wire.clear()
            wire.tick(LIMITS.resend_ticks)
        for _ in range(PIN_TICKS // 2):
            wire.sender.pins.tick(disk_full=False)
        gone_on(wire, step % 2)
    assert wire.is_whole()
    assert wire.whole[0].index == pinned.index


def test_a_full_disk_ends_all_pins() -> None:
    wire = Wire()
    wire.begin()
    wire.carry(steps=5)
    assert wire.sender.pins.index(GROUP) is not None
    wire.sender.pins.tick(disk_full=True)
    assert wire.sender.pins.index(GROUP) is None
    assert not wire.sender.pins.names(GROUP)


def test_an_image_comes_although_several_slow_nodes_offer_theirs_all_the_time() -> None:
    """As to an observer. Each answer takes as long as it takes until another offer counts."""
    wire = Wire()
    offers = itertools.islice(itertools.cycle((SOURCE, ANOTHER)), 100)
    while not wire.whole:
        wire.peer = next(offers)
        wire.begin()
        wire.carry(steps=3)
        for _ in range(LIMITS.switch_ticks):
            wire.fetches.tick()
    assert wire.is_whole()

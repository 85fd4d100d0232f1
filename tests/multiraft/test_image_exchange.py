"""An image that another node offers: installed, found damaged after that, or left half received."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from raftlog.core.messages import Heartbeat, ImageChunkRequest, ImageOffer, ImageRequest
from raftlog.core.types import GroupId, LogIndex, NodeId, RaftTiming, Term
from raftlog.image.incoming import INCOMING_PREFIX
from raftlog.machines.group_info import CONTROLLER
from raftlog.multiraft.effects import GroupQuarantined, GroupRefilling, ImageInstalled
from raftlog.multiraft.groups import GroupStore
from raftlog.multiraft.image_fetch import ImageLimits
from raftlog.multiraft.multiraft import MultiRaft
from raftlog.storage.limits import LogLimits
from tests.multiraft.compaction_scene import topic_of
from tests.multiraft.leading import disk_of_topics, first_entries
from tests.multiraft.test_image_fetch import Wire
from tests.multiraft.test_quarantine import flip
from tests.multiraft.test_refused_messages import NODES, Driver, follower, started
from tests.storage.memory import MemoryFileSystem
from tests.stores import opened_folder

GROUP, HERE, SOURCE = GroupId(1), NodeId(1), NodeId(2)
FOLDER = "groups/1"
LEFT = f"{FOLDER}/{INCOMING_PREFIX}history-1"
ROUND_TICKS = ImageLimits().pin_ticks


def disk_of_an_empty_topic() -> MemoryFileSystem:
    disk = MemoryFileSystem(Random(1))
    folder = opened_folder(disk, HERE, NODES)
    store = GroupStore(
        folder=folder,
        timing=RaftTiming(),
        log_limits=LogLimits(preallocate_bytes=0),
        random=Random(1),
        tell=lambda _: None,
    )
    store.make_group(CONTROLLER).log.close()
    store.make_group(replace(topic_of(1), voters=NODES)).log.close()
    store.close([])
    return disk


def received(disk: MemoryFileSystem) -> list[str]:
    return [name for name in disk.list(FOLDER) if name.startswith(INCOMING_PREFIX)]


def leads(term: Term) -> Heartbeat:
    """The source leads the group."""
    return Heartbeat(
        group=GROUP,
        sender=SOURCE,
        to=HERE,
        term=term,
        commit_index=LogIndex(0),
        read_round=0,
        quiesce_round=0,
    )


def offer(multiraft: MultiRaft, driver: Driver, wire: Wire) -> None:
    """Let the wire's source offer its image, and carry everything until nothing is asked."""
    image = wire.sender.topics[GROUP].image.manifest
    multiraft.receive(SOURCE, [leads(image.snapshots[-1].term)])
    driver.run()
    driver.sent.clear()
    multiraft.receive(SOURCE, [ImageOffer(group=GROUP, sender=SOURCE, to=HERE, index=image.index)])
    driver.run()
    while driver.sent:
        asked, driver.sent = driver.sent, []
        for message in asked:
            match message:
                case ImageRequest() | ImageChunkRequest():
                    wire.source.asked(wire.sender.topics[GROUP], message)
                    wire.source.go_on()
        wire.driver.run()
        answers = [replace(each, sender=SOURCE, to=HERE) for each in wire.driver.wire]
        wire.driver.wire.clear()
        multiraft.receive(SOURCE, answers)
        driver.run()


@pytest.mark.parametrize("damaged", [False, True])
def test_an_image_that_cannot_be_read_back_quarantines_its_replica_and_no_more(
    damaged: bool,
) -> None:
    disk = disk_of_an_empty_topic()
    multiraft, driver = follower(disk)

    def flip_a_snapshot(operation: str, path: str) -> None:
        """It was checked when it came; now it gets its name."""
        if operation == "rename" and path.startswith(f"{FOLDER}/snapshot-"):
            disk.interrupt = None
            flip(disk, f"{FOLDER}/{INCOMING_PREFIX}{path.rpartition('/')[2]}", 100)

    if damaged:
        disk.interrupt = flip_a_snapshot
    offer(multiraft, driver, Wire())
    assert disk.interrupt is None
    kinds = [type(event) for event in driver.told]
    assert (GroupQuarantined in kinds) == damaged
    assert (ImageInstalled in kinds) != damaged
    assert (GroupRefilling in kinds) == damaged
    assert not multiraft.replicas[GROUP].raft.recovering, "its log was empty: nothing is lost"
    multiraft.tick()
    driver.run()


def test_what_a_fetch_received_that_nobody_goes_on_with_is_removed() -> None:
    """Not while something is fetched, nor soon after: another fetch goes on with it."""
    disk = disk_of_an_empty_topic()
    disk.open(LEFT, create=True).close()
    multiraft, driver = follower(disk)

    def tick(count: int) -> None:
        for _ in range(count):
            multiraft.tick()
            driver.run()

    tick(ROUND_TICKS - 10)
    image_offer = ImageOffer(group=GROUP, sender=SOURCE, to=HERE, index=1_000)
    multiraft.receive(SOURCE, [leads(Term(1)), image_offer])
    tick(ROUND_TICKS + 20)
    assert received(disk), "the fetch had ended since the round before"
    tick(ROUND_TICKS)
    assert not received(disk)


def test_a_replica_needs_no_image_of_what_it_has_applied_or_its_log_holds() -> None:
    """Only time is missing then: by an image it would lose what it has beyond."""
    multiraft, driver = started(disk_of_topics(1))
    local = multiraft.replicas[GROUP]
    multiraft.receive(SOURCE, [first_entries(GROUP, SOURCE, count=3, commit_index=1)])
    driver.run()
    assert (local.replica.applied_index, local.raft.log.last_index) == (1, 3)
    needed = {
        (index, term): local.needs_image(LogIndex(index), Term(term))
        for index, term in [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2), (4, 1)]
    }
    assert {what for what, needs in needed.items() if needs} == {(3, 2), (4, 1)}

"""A node's writes: which wait for room, which are slow, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from raftlog.core.messages import PeerMessage
from raftlog.core.types import GroupId, HardState, NodeId, Term
from raftlog.errors import DiskFull, LimitReached
from raftlog.machines.commands import ReportPlacement
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.disk_watch import DiskWatch
from raftlog.multiraft.effects import DiskChanged, MultiRaftEvent, ReserveUnusable
from raftlog.storage.hard_state import HardStateJournal
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.storage.read import LogRead
from raftlog.storage.reserve import RESERVE_NAME, Reserve
from raftlog.storage.write import LogWrite
from tests.storage.disks import BARE, FOLDER, GROUP, SMALL, entries, new_disk
from tests.storage.memory import MemoryFileSystem

SLOW = 5
RETRY = 3


class Driver:
    """Effects that run what was asked when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Callable[[], None]] = []
        self.told: list[MultiRaftEvent] = []

    def soon(self, turn: Callable[[], None]) -> None:
        turn()

    def later(self, delay_us: int, turn: Callable[[], None]) -> None:
        raise AssertionError("a disk waits for no time")

    def monotonic_us(self) -> int:
        return 0

    def boottime_us(self) -> int:
        return 0

    def clock_us(self) -> int:
        return 1

    def work_us(self) -> int:
        raise AssertionError("a disk has no turns")

    def send(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        raise AssertionError("a disk sends nothing")

    def queued_bytes(self, peer: NodeId) -> int:
        return 0

    def follow_nodes(self, nodes: Mapping[NodeId, str]) -> None:
        pass

    def report(self, report: ReportPlacement) -> None:
        raise AssertionError("no group is moved")

    def read_positions(self, done: Any) -> None:
        raise AssertionError("a disk waits for no reader")

    def run_read(self, read: LogRead, ran: Callable[[], None]) -> None:
        raise AssertionError("a disk reads nothing")

    def run_write(self, write: LogWrite, ran: Callable[[], None]) -> None:
        self.asked.append(lambda: (write.run(), ran()))

    def run_job(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.asked.append(lambda: done(work()))

    def tell(self, event: MultiRaftEvent) -> None:
        self.told.append(event)

    def run(self) -> None:
        """Everything asked so far."""
        asked, self.asked = self.asked, []
        for each in asked:
            each()


class Scene:
    """A log on a disk in memory, with or without room."""

    def __init__(self, reserve_bytes: int = 0, limits: LogLimits = SMALL) -> None:
        self.fs: MemoryFileSystem = new_disk()
        self.log = GroupLog.create(self.fs, FOLDER, GROUP, limits)
        self.driver = Driver()
        self.reserve = Reserve(self.fs, reserve_bytes)
        self.disk = NodeDisk(self.driver, self.reserve, slow_ticks=SLOW, full_ticks=RETRY)
        self.ended: list[bool] = []
        self.wanted = True

    def fill(self) -> None:
        def refuse(operation: str, path: str) -> None:
            if operation == "write":
                raise DiskFull(file=path)

        self.fs.interrupt = refuse

    def make_room(self) -> None:
        self.fs.interrupt = None

    def write(self) -> LogWrite:
        last = self.log.last_index
        self.log.append(entries(last + 1, last + 1))
        write = self.log.take_write()
        assert write is not None

        def ended() -> None:
            self.ended.append(write.done)
            if write.done:
                self.log.written(write)

        self.disk.run(GroupId(GROUP), write, ended, no_room=lambda _: self.wanted)
        return write

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.disk.tick()
            self.driver.run()


def test_a_write_without_room_is_tried_again_from_time_to_time_until_it_is_done() -> None:
    scene = Scene()
    scene.fill()
    scene.write()
    scene.driver.run()
    assert scene.disk.full(GroupId(GROUP), has_body=True) is not None
    scene.tick(3 * RETRY)
    assert scene.ended == []
    assert not scene.disk.keeps_up, "others should lead"
    scene.make_room()
    scene.tick(RETRY)
    assert scene.ended == [True]
    assert scene.disk.full(GroupId(GROUP), has_body=True) is None
    scene.tick()
    assert scene.disk.keeps_up
    assert [
        (e.keeps_up, e.full is None) for e in scene.driver.told if isinstance(e, DiskChanged)
    ] == [
        (False, False),
        (True, True),
    ]


def test_a_group_that_waits_for_room_stops_no_other_group() -> None:
    scene = Scene()
    scene.fill()
    scene.write()
    scene.driver.run()
    assert scene.disk.full(GroupId(GROUP + 1), has_body=True) is None
    assert scene.disk.full(None, has_body=False) is None


@pytest.mark.parametrize("in_flight", [True, False])
def test_what_a_deleted_topic_has_to_write_waits_for_no_room(in_flight: bool) -> None:
    scene = Scene()
    scene.fill()
    write = scene.write()
    scene.driver.run()
    if in_flight:
        for _ in range(RETRY):
            scene.disk.tick()
    scene.wanted = False
    scene.disk.give_up(GroupId(GROUP))
    scene.driver.run()
    assert scene.ended == [False]
    assert not write.done
    assert scene.disk.full(GroupId(GROUP), has_body=True) is None


def test_a_job_without_room_starts_again_and_lets_others_go_first() -> None:
    scene = Scene()
    done: list[str] = []
    room = [False]

    def make() -> str:
        if not room[0]:
            raise DiskFull(file="groups/7")
        return "made"

    scene.disk.queue_job(make, done.append)
    scene.disk.queue_job(lambda: "removed", done.append)
    scene.driver.run()
    scene.driver.run()
    assert done == ["removed"]
    scene.tick(RETRY)
    assert done == ["removed"]
    room[0] = True
    scene.tick(RETRY)
    scene.driver.run()
    assert done == ["removed", "made"]


def test_a_job_that_goes_ahead_waits_only_for_the_one_that_runs() -> None:
    scene = Scene()
    done: list[str] = []
    for name in ("first", "second", "third"):
        scene.disk.queue_job(lambda name=name: name, done.append)
    scene.disk.queue_job(lambda: "ahead", done.append, ahead=True)
    for _ in range(4):
        scene.driver.run()
    assert done == ["first", "ahead", "second", "third"]


def test_a_disk_that_is_full_for_a_job_is_told_until_that_job_is_done() -> None:
    """What an image needs, say, while logs have room enough in their segments."""
    scene = Scene()
    full = DiskFull(file="groups/7/incoming-history")
    answers = iter([full, full, full, None])

    def make() -> None:
        if (error := next(answers)) is not None:
            raise error

    scene.disk.queue_job(make, lambda _: None)
    scene.driver.run()
    for _ in range(2):
        scene.tick(RETRY)
        assert scene.disk.told == DiskChanged(keeps_up=False, full=full, limit=None)
    for _ in range(RETRY):
        scene.disk.tick()
        assert scene.disk.told.full is full, "it may be tried at this moment"
    scene.driver.run()
    scene.tick()
    assert scene.disk.told == DiskChanged(keeps_up=True, full=None, limit=None)
    assert scene.driver.told == [
        DiskChanged(keeps_up=False, full=full, limit=None),
        DiskChanged(keeps_up=True, full=None, limit=None),
    ]


def test_nothing_is_tried_again_once_the_node_stops() -> None:
    scene = Scene()
    scene.fill()
    scene.write()
    scene.driver.run()
    scene.disk.stop()
    scene.make_room()
    scene.tick(5 * RETRY)
    assert scene.ended == []
    scene.log.close()


def test_a_write_in_flight_for_too_long_is_slow() -> None:
    scene = Scene()
    scene.write()
    for _ in range(SLOW - 1):
        scene.disk.tick()
    assert scene.disk.keeps_up
    scene.disk.tick()
    assert not scene.disk.keeps_up
    scene.driver.run()
    scene.tick()
    assert not scene.disk.keeps_up, "one slow write is followed by the next"
    scene.write()
    scene.driver.run()
    scene.tick()
    assert scene.disk.keeps_up


def test_a_disk_with_nothing_to_do_is_trusted_again_after_a_while() -> None:
    watch = DiskWatch(SLOW)
    number = watch.begun()
    for _ in range(SLOW):
        watch.tick()
    watch.ended(number)
    assert not watch.keeps_up
    for _ in range(4 * SLOW):
        watch.tick()
    assert watch.keeps_up


def test_many_quick_writes_are_not_slow() -> None:
    watch = DiskWatch(SLOW)
    for _ in range(10 * SLOW):
        numbers = [watch.begun() for _ in range(3)]
        watch.tick()
        for number in numbers:
            watch.ended(number)
        assert watch.keeps_up


RESERVE = 10_000


def full_with_a_reserve(limits: LogLimits = BARE) -> Scene:
    """A disk whose last room is the reserve, and a write with records that has found it full."""
    scene = Scene(RESERVE, limits)
    scene.tick(RETRY)
    scene.driver.run()
    assert scene.fs.exists(RESERVE_NAME)

    def refuse(operation: str, path: str) -> None:
        if operation == "write" and scene.fs.exists(RESERVE_NAME):
            raise DiskFull(file=path)

    scene.fs.interrupt = refuse
    scene.fs.room = 0
    scene.write()
    scene.driver.run()
    return scene


def test_records_leave_an_eighth_of_the_reserve_alone_and_what_has_none_does_not_wait() -> None:
    scene = full_with_a_reserve()
    scene.fs.room = RESERVE // 8
    scene.tick(2 * RETRY)
    assert not scene.fs.exists(RESERVE_NAME)
    assert scene.ended == [], "a write with records would have taken of the rest"
    assert scene.disk.full(GroupId(GROUP), has_body=True) is not None
    assert scene.disk.full(GroupId(GROUP + 1), has_body=True) is not None, "no client's records"
    assert scene.disk.full(GroupId(GROUP), has_body=False) is None
    assert scene.disk.spare_bytes == RESERVE // 16
    journal = HardStateJournal.open(scene.fs, "")
    journal.put(GroupId(1), HardState(Term(1), NodeId(1)))
    vote = journal.take_write()
    assert vote is not None
    scene.disk.run(None, vote, lambda: scene.ended.append(vote.done))
    scene.driver.run()
    assert scene.ended == [True]


def test_records_that_have_their_room_already_need_none_of_the_reserve() -> None:
    """What was reserved ahead, or written by an earlier try, does not count again: a write of more
    than most of the reserve would wait for ever, and with it the trims behind it."""
    scene = full_with_a_reserve(SMALL)
    scene.fs.room = 0
    scene.tick(2 * RETRY)
    assert scene.ended == [True]


def test_a_node_that_starts_on_a_full_disk_uses_the_reserve_of_its_last_run() -> None:
    scene = Scene(RESERVE, BARE)
    assert scene.reserve.make()

    def refuse(operation: str, path: str) -> None:
        if operation == "write" and scene.fs.exists(RESERVE_NAME):
            raise DiskFull(file=path)

    scene.fs.interrupt = refuse
    scene.fs.room = RESERVE
    scene.write()
    scene.driver.run()
    assert scene.ended == []
    scene.tick(3 * RETRY)
    assert not scene.fs.exists(RESERVE_NAME)
    assert scene.ended == [True]


def test_the_reserve_comes_back_with_the_room_and_then_records_are_accepted_again() -> None:
    scene = full_with_a_reserve()
    scene.fs.room = RESERVE
    scene.tick(2 * RETRY)
    assert scene.ended == [True], "what was in flight may have the first half"
    assert scene.disk.full(GroupId(GROUP), has_body=True) is not None
    assert not scene.disk.keeps_up
    scene.fs.room = 2 * RESERVE
    scene.tick(2 * RETRY)
    assert scene.fs.exists(RESERVE_NAME)
    assert scene.disk.full(GroupId(GROUP), has_body=True) is None
    scene.tick()
    assert scene.disk.keeps_up


def test_without_a_place_for_a_reserve_the_node_runs_without_and_says_so_once() -> None:
    scene = full_with_a_reserve()
    scene.tick()
    assert not scene.fs.exists(RESERVE_NAME), "it is in use"
    scene.fs.make_folder(RESERVE_NAME)
    scene.make_room()
    scene.fs.room = 2 * RESERVE
    scene.tick(4 * RETRY)
    assert scene.ended == [True]
    assert scene.disk.full(GroupId(GROUP), has_body=True) is None
    (told,) = (event for event in scene.driver.told if isinstance(event, ReserveUnusable))
    assert told.cause == "reserve is damaged at byte 0: a folder is in its place."
    assert scene.fs.exists(RESERVE_NAME), "it stays"


@pytest.mark.parametrize("shortage", [LimitReached(file="f", limit="open files"), MemoryError()])
def test_a_job_waits_for_a_file_or_memory_and_leaves_the_reserve(shortage: Exception) -> None:
    scene = Scene(reserve_bytes=RESERVE)
    scene.tick(RETRY)
    assert scene.fs.exists(RESERVE_NAME)
    tries = iter([shortage, shortage, None])
    done: list[None] = []

    def make() -> None:
        if (error := next(tries)) is not None:
            raise error

    scene.disk.queue_job(make, done.append)
    scene.driver.run()
    scene.tick(RETRY)
    assert not scene.disk.keeps_up, "others should lead"
    assert isinstance(scene.disk.told.limit, LimitReached)
    assert scene.disk.told.full is None
    assert scene.fs.exists(RESERVE_NAME), "its room would not help"
    scene.tick(RETRY)
    scene.tick()
    assert done == [None]
    assert scene.disk.told == DiskChanged(keeps_up=True, full=None, limit=None)


def test_a_write_waits_for_a_file_and_leaves_the_reserve() -> None:
    scene = Scene(reserve_bytes=RESERVE)
    scene.tick(RETRY)

    def refuse(operation: str, path: str) -> None:
        if operation == "write":
            raise LimitReached(file=path, limit="memory")

    scene.fs.interrupt = refuse
    scene.write()
    scene.driver.run()
    scene.tick()
    assert scene.ended == []
    assert isinstance(scene.disk.told.limit, LimitReached)
    assert scene.fs.exists(RESERVE_NAME), "its room would not help"
    scene.make_room()
    scene.tick(RETRY)
    assert scene.ended == [True]


def test_an_owner_whose_file_could_not_be_opened_is_asked_again() -> None:
    scene = Scene()
    short = LimitReached(file="f", limit="open files")
    again: list[int] = []
    scene.disk.wait(GroupId(GROUP), short, lambda: again.append(1))
    scene.tick()
    assert scene.disk.full(GroupId(GROUP), has_body=False) is short
    assert scene.disk.told.limit is short
    scene.tick(RETRY)
    assert again == [1]
    assert scene.disk.full(GroupId(GROUP), has_body=True) is None

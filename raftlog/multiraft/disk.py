"""A node's writes and jobs on its disk, again once there is room, and whether the disk keeps up.

A write that finds no room waits and is tried again (`LogWrite.run` says why that is safe). So is a
job, and what gets no open file or memory. Any other failure ends the node in the host loop and
never comes back here.

A reserve is kept for a full disk (`raftlog.storage.reserve`). The first write without room frees
it. From then on the node accepts no records from clients. What it had accepted, and what leaders
elsewhere send, may take seven eighths of the reserve, and entries without records all but a 64th.
That is for hard states and small compactions, without which no trim would free anything and the
node could not start again. When the reserve is there again, all is as before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from raftlog.core.types import GroupId
from raftlog.errors import CorruptFile, DiskFull, LimitReached, ResourceShortage, shortage_of
from raftlog.multiraft.disk_watch import DiskWatch
from raftlog.multiraft.effects import DiskChanged, Effects, ReserveUnusable
from raftlog.storage.reserve import Reserve
from raftlog.storage.write import LogWrite

T = TypeVar("T")

Owner = GroupId | None
"""Whose write: a group's log, or (None) the journal of hard states."""


NoRoom = Callable[[ResourceShortage], bool]
"""Told each time that a write finds no room: should it wait for some?"""


class _Write(NamedTuple):
    write: LogWrite
    ended: Callable[[], None]
    no_room: NoRoom


@dataclass(slots=True, eq=False)
class _Job:
    work: Callable[[], Any]
    done: Callable[[Any], None]


class NodeDisk:
    """The way of a `MultiRaft` to its disk, through its `Effects`. For its thread only."""

    def __init__(
        self, effects: Effects, reserve: Reserve, *, slow_ticks: int, full_ticks: int
    ) -> None:
        """A write that takes `slow_ticks` is slow; what finds no room is tried again every
        `full_ticks`."""
        assert full_ticks > 0, "what waits for room is not tried all the time"
        self._effects = effects
        self._watch = DiskWatch(slow_ticks)
        self._full_ticks = full_ticks
        self._ticks = 0
        self._without_room: dict[Owner, _Write] = {}
        self._short: dict[Owner, ResourceShortage] = {}
        """What each owner's write waits for."""
        self._unplanned: dict[Owner, Callable[[], None]] = {}
        """Of those whose files could not be opened: how to go on."""
        self._jobs: deque[_Job] = deque()
        self._waiting_jobs: list[_Job] = []
        self._jobs_short: dict[_Job, ResourceShortage] = {}
        """What each job that is not done was short of last."""
        self._job_running = False
        self._reserve = reserve
        self._reserve_made = False
        self._freed_for: DiskFull | None = None
        """What found no room, while the reserve is free because of it."""
        self._reserve_asked = False
        self.times_full = 0
        """How often the reserve was freed."""
        self._stopped = False
        self.told = DiskChanged(keeps_up=True, full=None, limit=None)
        """What was last told; it changes only at ticks."""

    @property
    def keeps_up(self) -> bool:
        """Whether this node should lead: writes end in time, and there is room for them."""
        return self.told.keeps_up

    def full(self, owner: Owner, *, has_body: bool) -> ResourceShortage | None:
        """Why the owner must not be given more to write. What has no body may still be: there is
        room for it in the reserve."""
        if self._freed_for is None:
            return self._short.get(owner)
        return self._freed_for if has_body else None

    @property
    def spare_bytes(self) -> int | None:
        """How much a job may write while the reserve is in use; None: it is not."""
        return None if self._freed_for is None else self._reserve.byte_count // 16

    def tick(self) -> bool:
        """One tick has passed: try again what is due. True if `keeps_up` is another now."""
        if self._stopped:
            return False
        self._watch.tick()
        self._ticks += 1
        if self._ticks % self._full_ticks == 0:
            self._keep_reserve()
            self._try_again()
        before = self.told
        short = (*self._short.values(), *self._jobs_short.values())
        full = next((each for each in short if isinstance(each, DiskFull)), self._freed_for)
        limit = next((each for each in short if isinstance(each, LimitReached)), None)
        keeps_up = full is None and limit is None and self._watch.keeps_up
        now = DiskChanged(keeps_up=keeps_up, full=full, limit=limit)
        if _kind(now) == _kind(before):
            return False
        self.told = now
        self._effects.tell(self.told)
        return now.keeps_up is not before.keeps_up

    def stop(self) -> None:
        """Start no write or job from now on; those in flight end as usual."""
        self._stopped = True

    # ------------------------------------------------------------ writes

    def run(
        self,
        owner: Owner,
        write: LogWrite,
        ended: Callable[[], None],
        *,
        no_room: NoRoom = lambda _: True,
    ) -> None:
        """Run the write until it is done, then call `ended`.

        It is called without the write being done where `no_room` answered not to wait; see also
        `give_up`. An owner has one write at a time.
        """
        assert owner not in self._without_room, "one write at a time"
        self._run(owner, _Write(write, ended, no_room))

    def wait(self, owner: Owner, short: ResourceShortage, again: Callable[[], None]) -> None:
        """A file of the owner could not be opened, to plan a write or to read: call `again` when it
        is time to try that again."""
        self._short[owner] = short
        self._unplanned[owner] = again

    def give_up(self, owner: Owner) -> None:
        """A write that waits for room is not wanted any more. Nothing if none waits."""
        waiting = self._without_room.pop(owner, None)
        if waiting is not None:
            self._short.pop(owner, None)
            waiting.ended()

    def _run(self, owner: Owner, asked: _Write) -> None:
        number = self._watch.begun()
        asked.write.leave_bytes = self._left_by(owner, asked.write)

        def ran() -> None:
            self._watch.ended(number)
            short = asked.write.short
            if short is not None and asked.no_room(short):
                self._short[owner] = short
                self._without_room[owner] = asked
                if isinstance(short, DiskFull):
                    self._free_reserve(short)
            else:
                self._short.pop(owner, None)
                asked.ended()

        self._effects.run_write(asked.write, ran)

    # ------------------------------------------------------------ the reserve

    def _left_by(self, owner: Owner, write: LogWrite) -> int | None:
        if self._freed_for is None:
            return None
        if owner is None:
            return 0
        return self._reserve.byte_count // (8 if write.has_body else 64)

    def _free_reserve(self, full: DiskFull) -> None:
        """The disk is full: let what is waiting, and what is small, have the reserve."""
        if not self._reserve_made:
            return
        self._reserve_made = False
        self._freed_for = full
        self.times_full += 1
        self.queue_job(self._reserve.free, lambda _: self._try_again())

    def _keep_reserve(self) -> None:
        """Make the reserve, at the start and once there is room again. A node that starts on a full
        disk may find there the one of its last run."""
        if self._reserve_made or self._reserve_asked or not self._reserve.byte_count:
            return
        if self._short and self._freed_for is not None:
            return  # what waits goes first
        self._reserve_asked = True

        def make() -> bool | CorruptFile:
            try:
                return self._reserve.make()
            except CorruptFile as damage:
                return damage

        def made(is_there: bool | CorruptFile) -> None:
            if isinstance(is_there, CorruptFile):
                self._freed_for = None
                self._effects.tell(ReserveUnusable(cause=is_there.cause))
                return
            self._reserve_asked = False
            if is_there:
                self._reserve_made = True
                self._freed_for = None

        self.queue_job(make, made)

    def _try_again(self) -> None:
        """Run what waits for room, or for an open file or memory."""
        unplanned, self._unplanned = self._unplanned, {}
        for owner, again in unplanned.items():
            self._short.pop(owner, None)
            again()
        waiting, self._without_room = self._without_room, {}
        for owner, write in waiting.items():
            self._run(owner, write)
        self._jobs.extend(self._waiting_jobs)
        self._waiting_jobs.clear()
        self._start_job()

    # ------------------------------------------------------------ jobs

    def queue_job(
        self, work: Callable[[], T], done: Callable[[T], None], *, ahead: bool = False
    ) -> None:
        """Run `work`, which may find no room and then starts again later; then call `done`.

        One at a time: a hundred new topics do not keep a hundred threads from syncs, and two
        removals never note their deletions at the same time. In order, but for those that wait.

        `ahead`: before all that wait to begin, which may be more than a slow disk ever gets done.
        For jobs that come one after another with other work between them, so that the others have
        their turns as well.
        """
        job = _Job(work, done)
        if ahead:
            self._jobs.appendleft(job)
        else:
            self._jobs.append(job)
        self._start_job()

    def _start_job(self) -> None:
        if self._job_running or self._stopped or not self._jobs:
            return
        self._job_running = True
        job = self._jobs.popleft()

        def work_or_full() -> Any:
            try:
                return job.work()
            except (ResourceShortage, MemoryError) as error:
                return shortage_of(error, "a file of the node")

        def ran(value: Any) -> None:
            self._job_running = False
            if isinstance(value, ResourceShortage):
                # A removal behind it may be what makes room.
                self._waiting_jobs.append(job)
                self._jobs_short[job] = value
            else:
                self._jobs_short.pop(job, None)
                job.done(value)
            self._start_job()

        self._effects.run_job(work_or_full, ran)


def _kind(told: DiskChanged) -> tuple[bool, bool, bool]:
    """What must differ to be told again."""
    return told.keeps_up, told.full is None, told.limit is None

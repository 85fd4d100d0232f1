"""The key-value store at an index that its machine does not keep: made again, or refused."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.core.types import GroupId, LogIndex, NodeId, Payload
from raftlog.errors import (
    CorruptFile,
    IndexOverflow,
    IndexUnderflow,
    NotLeader,
    RaftlogError,
)
from raftlog.machines import kv
from raftlog.machines.commands import KvCommand
from raftlog.machines.group_info import KvInfo
from raftlog.machines.kv import KvMachine
from raftlog.machines.kv_commands import ANY_VERSION, DeleteKey, KeyValue, OpenSession, PutKey
from raftlog.machines.rules import RULES_LATEST
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.past_states import PastStates
from raftlog.wire.codec import encode_command
from tests.multiraft.compaction_scene import EVERY, Scene
from tests.storage.disks import flipped

GROUP = GroupId(1)
INFO = KvInfo(group=GROUP, voters=(NodeId(1),), created_us=1, rules=RULES_LATEST)
SESSION = "5" * 32
IDLE_TICKS = 3
CHANGES = 4
KEYS = 6


@pytest.fixture(autouse=True)
def few_changes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv, "CHANGES_KEPT", CHANGES)


class Store(Scene):
    """The store of a node that is the only one, what it held after each entry, and past states."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(topics=0)
        self.chance = Random(seed)
        self.then: dict[int, list[KeyValue]] = {0: []}
        self.sequence = 0
        self.over: list[GroupId] = []
        self.add(self.store.replica(INFO, self.store.make_group(INFO)))
        self.do(OpenSession(session=SESSION, owner="", ends=""))
        self.begin()

    def begin(self) -> None:
        self.past = PastStates(
            fs=self.fs,
            effects=self.driver,
            idle_ticks_max=IDLE_TICKS,
            damaged=lambda local, damage: self.damaged.append(damage),
            ended=lambda local: self.over.append(local.group),
        )

    @property
    def local(self) -> LocalReplica:
        return self.topics[GROUP]

    def do(self, command: KvCommand) -> LogIndex:
        local = self.local
        index = local.raft.propose([Payload(encode_command(command, None), b"")]).first
        held = list(local.kv_machine.pairs("", "", "", local.replica.applied_index))
        before = max(self.then)
        self.settle(local)
        self.then |= dict.fromkeys(range(before + 1, index), held)
        self.then[index] = list(local.kv_machine.pairs("", "", "", index))
        return index

    def write(self, entries: int) -> None:  # type: ignore[override]
        for _ in range(entries):
            self.sequence += 1
            key = f"key-{self.chance.randrange(KEYS)}"
            which = {"session": SESSION, "owner": "", "sequence": self.sequence, "key": key}
            if self.chance.random() < 0.3:
                self.do(DeleteKey(**which, expected=ANY_VERSION))
            else:
                self.do(PutKey(**which, value=b"%d" % self.sequence, expected=ANY_VERSION))

    def ask(self, index: int) -> list[KvMachine | RaftlogError]:
        """Ask for the state after entry `index`; where the answer comes."""
        known = self.past.known(self.local, LogIndex(index))
        if known is not None:
            return [known]
        found: list[KvMachine | RaftlogError] = []
        self.past.make(self.local, LogIndex(index), found.append)
        return found

    def at(self, index: int) -> list[KeyValue]:
        """The state after entry `index`, as a reader is told it."""
        machine: KvMachine | RaftlogError = self.local.kv_machine
        if not self.local.kv_machine.knows(LogIndex(index)):
            found = self.ask(index)
            self.driver.run()
            (machine,) = found
        if isinstance(machine, RaftlogError):
            raise machine
        return list(machine.pairs("", "", "", LogIndex(index)))

    def first_with_log(self) -> int:
        """The first snapshot after which the log has all entries."""
        base = self.local.replica.log.base_index
        return next(each for each in self.snapshots() if each >= base)

    def snapshots(self) -> list[int]:
        return [each.index for each in self.local.image.manifest.snapshots]


def a_compacted_store(seed: int = 1, points: int = 6) -> Store:
    store = Store(seed)
    for _ in range(points):
        store.write(EVERY)
        store.compact_all()
    store.write(CHANGES)
    return store


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("restarts", [False, True])
def test_the_state_at_each_index_is_that_of_a_snapshot_and_replay_or_refused(
    seed: int, restarts: bool
) -> None:
    """It is what the store was then, from the first snapshot that the log goes on from, and at each
    one before it."""
    store = a_compacted_store(seed)
    if restarts:
        store.restart()
        store.begin()
    snapshots, first = store.snapshots(), store.first_with_log()
    assert snapshots[0] < first, "older ones are left"
    refused = 0
    for index in range(1, max(store.then) + 1):
        if index >= first or index in snapshots:
            assert store.at(index) == store.then[index], index
            continue
        refused += 1
        with pytest.raises(IndexUnderflow) as underflow:
            store.at(index)
        assert underflow.value.earliest == min(each for each in snapshots if each > index)
    assert refused > 0
    assert not store.local.reads_out


def test_without_a_snapshot_the_log_is_replayed_from_its_first_entry() -> None:
    store = Store()
    store.write(EVERY - 1)
    store.write(3 * CHANGES)  # its points are never compacted
    assert store.snapshots() == []
    assert not store.local.kv_machine.knows(LogIndex(1))
    for index in range(1, max(store.then) + 1):
        assert store.at(index) == store.then[index]


def test_the_last_state_answers_again_for_a_while() -> None:
    store = a_compacted_store()
    base = store.first_with_log()
    first = store.ask(base + 2)
    assert first == []
    store.driver.run()
    (machine,) = first
    assert store.ask(base + 2) == store.ask(base + 1) == [machine], "it was passed on the way"
    assert store.driver.asked == [], "nothing is read for it"
    for _ in range(IDLE_TICKS):
        store.past.tick()
    assert store.ask(base + 2) == [machine]
    for _ in range(IDLE_TICKS + 1):
        store.past.tick()
    assert store.ask(base + 2) == [], "it was forgotten, and is made again"


def test_files_stay_until_the_state_is_made() -> None:
    store = a_compacted_store()
    base = store.first_with_log()
    found = store.ask(base + 1)
    reading, store.driver.asked = store.driver.asked, []
    for _ in range(3):
        store.write(EVERY + 1)
        store.compact_all()
    assert store.first_with_log() > base + 1, "the log goes on from a later snapshot"
    for each in reading:
        each()
    (machine,) = found
    assert isinstance(machine, KvMachine), machine
    assert list(machine.pairs("", "", "", LogIndex(base + 1))) == store.then[base + 1]
    assert store.over == [GROUP], "those who wait for the files are told"


def test_damage_on_the_way_is_told_and_the_node_goes_on() -> None:
    store = a_compacted_store()
    base = store.first_with_log()
    (name,) = [name for name in store.files() if name == f"snapshot-{base:020}"]
    path = f"{store.store.folder_of(GROUP)}/{name}"
    file = store.fs.open(path, create=False)
    content = file.read_at(0, file.size())
    file.write_at(0, [flipped(content, len(content) - 3, 1)])
    with pytest.raises(CorruptFile, match=name):
        store.at(base + 1)
    assert [name in each.file for each in store.damaged] == [True]
    store.local.damaged_files = frozenset([name])
    with pytest.raises(IndexUnderflow):
        store.at(base + 1)
    assert store.at(max(store.then)) == store.then[max(store.then)]


def test_what_is_not_durable_here_and_what_is_being_mended_is_for_others_to_tell() -> None:
    store = a_compacted_store()
    beyond = store.local.replica.log.durable_index + 1
    with pytest.raises(IndexOverflow):
        store.ask(beyond)
    store.local.mending = True
    with pytest.raises(NotLeader):
        store.ask(store.first_with_log() + 1)


def test_a_store_that_goes_away_is_not_waited_for_and_not_remembered() -> None:
    store = a_compacted_store()
    base = store.first_with_log()
    found = store.ask(base + 1)
    store.past.forget()
    store.driver.run()
    assert isinstance(found[0], NotLeader)
    assert store.at(base + 1) == store.then[base + 1]
    store.past.forget()
    assert store.ask(base + 1) == [], "it is made again"


def test_a_state_of_a_replica_that_was_replaced_is_not_told() -> None:
    store = a_compacted_store()
    base = store.first_with_log()
    assert store.at(base + 1) == store.then[base + 1]
    store.restart()
    assert store.ask(base + 1) == [], "another replica's is made again"

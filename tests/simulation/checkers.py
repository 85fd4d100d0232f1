"""What must hold between all replicas at every moment, kept outside of them (Raft figure 3).

The checker sees every entry that enters a log, every event of a replica, every message before it
leaves, and what each simulated disk holds durably. From only these it knows the truth:

- Election Safety: one leader per term. Leader Append-Only: `tests.core.invariants`.
- Log Matching: an entry (index, term) has one content and one predecessor everywhere; by
  induction, two logs that share an entry share all before it.
- Leader Completeness: a new leader holds every entry that was committed in earlier terms.
- State Machine Safety: one command and one outcome per index on every node and in every boot.
- An index becomes committed by a leader of the entry's own term, when a majority of *disks* has it;
  followers learn only what a leader had committed before.
- An image holds the state, the open stages and the records of its index (`images`): when it was
  made, when a log is dropped behind it, and whenever it is opened again.
- An acknowledgement or a vote leaves only when the sender's disk holds what it promises; a node
  votes once per term whatever crashes; what a disk held is still there after a crash.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from raftlog.compaction.compact import info_of
from raftlog.comparison import Trust
from raftlog.core.log_view import LogView
from raftlog.core.membership import Membership
from raftlog.core.messages import (
    AppendReply,
    AppendRequest,
    PeerMessage,
    VoteReply,
    VoteRequest,
)
from raftlog.core.raft import Raft
from raftlog.core.ready import Role
from raftlog.core.status import RaftStatus
from raftlog.core.types import Entry, EntryKind, GroupId, HardState, NodeId
from raftlog.image.job import CompactionJob
from raftlog.image.manifest import Image, read_image
from raftlog.machines.commands import AlterSchema, CommitEpoch
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.group_info import CONTROLLER
from raftlog.machines.outcomes import Appended, EpochCommitted, TopicCreated, Trimmed
from raftlog.machines.schema import Schema
from raftlog.machines.state import MachineState
from raftlog.machines.topic import TopicMachine
from raftlog.multiraft.effects import HistoryCompared, ReplicaRebuilt, StateCompared
from raftlog.multiraft.groups import OpenedGroup
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.replica import Output, Replica
from raftlog.storage.log import GroupLog
from raftlog.wire.codec import decode_command
from tests.core import invariants
from tests.simulation.disk import DurableLog, durable_log, durable_state
from tests.simulation.images import ImageCheck, Read, TopicRecords
from tests.simulation.promises import Promise, Violation
from tests.simulation.retention import Retention
from tests.simulation.schemas import Columns
from tests.simulation.simulator import Simulator

if TYPE_CHECKING:
    from tests.simulation.node import SimulatedNode
    from tests.simulation.watched import ReplicaView

DEEP_CHECK_EVERY = 200
"""Acknowledgements per one for which the log is read back from the durable disk."""


class WitnessedLog(GroupLog):
    """The real log; the checker is told of every entry that enters it."""

    witness: GroupChecker | None = None

    def append(self, entries: Sequence[Entry]) -> None:
        if self.witness is not None:
            prev_term = self.last_term
            for entry in entries:
                self.witness.entered(entry, prev_term)
                prev_term = entry.term
        super().append(entries)


def same_states(one: Replica, other: Replica) -> bool:
    """Have two replicas that applied the same entries the same state, also in what neither hash
    nor fingerprint covers?"""
    return (
        one.state_hash == other.state_hash
        and one.machine.fingerprint() == other.machine.fingerprint()
        and one.machine.state() == other.machine.state()
    )


class Committed(NamedTuple):
    term: int
    known_in: int
    """The term of the leader that committed it."""


class _Content(NamedTuple):
    prev_term: int
    crc: int


class GroupChecker:
    """The truth about one group."""

    def __init__(self, group: GroupId, voters: int, confirmed_us: Callable[[], int]) -> None:
        self.group = group
        self.founders: frozenset[int] = frozenset(range(1, voters + 1))
        """Those that the group was made with."""
        self.leaders: dict[int, NodeId] = {}
        self.contents: dict[tuple[int, int], _Content] = {}
        self.memberships: dict[tuple[int, int], list[frozenset[int]]] = {}
        """Of entries that bring one, by index and term: those of which a majority each decides."""
        self.committed: list[Committed] = []
        self.applied: list[tuple[int, int]] = []
        self.hashes: dict[int, bytes] = {}
        self.mark = 0
        """The first offset that no committed entry has made visible."""
        self.log_start = 0
        """The first offset that no committed entry has trimmed or overwritten."""
        self.overwrites: list[tuple[int, int]] = []
        """Offsets of epochs that overwrote the topic, [start, end), rising."""
        self.bounds: list[tuple[int, int, Schema]] = []
        """The log start, the mark and the schema after each entry that was applied."""
        self.columns = Columns()
        """Of a topic: those that it has by the committed entries."""
        self.records = TopicRecords(group, self.columns)
        self.read: dict[int, Read] = {}
        self.snapshots: dict[int, int] = {}
        """The CRC of the machine's state at each snapshot point."""
        self.fingerprints: dict[int, bytes] = {}
        """Of the machine at snapshot points."""
        self.states: dict[int, MachineState | None] = {}
        """The machine's whole state at snapshot points, with what the fingerprint leaves out."""
        self.retention = Retention(confirmed_us)
        self.disks: dict[NodeId, DurableLog] = {}
        self.lost: dict[NodeId, DurableLog] = {}
        """What a recovering replica held durably before its log was damaged. It votes as if it had
        it, or not at all."""
        self.promised: dict[NodeId, HardState] = {}
        self.votes: dict[tuple[NodeId, int], NodeId] = {}
        self.voters_known: dict[NodeId, int] = {}
        self.acknowledgements = 0
        self.changed: set[NodeId] = set()
        """Where a test has changed the state in memory: replicas must doubt it; it is not
        compared."""
        self.wrong_history: set[NodeId] = set()
        """Where a test makes compactions write other records: replicas must doubt that history."""
        self.other_borders: set[NodeId] = set()
        """Where a compaction went past damage to a later point: its row groups are cut elsewhere
        until another replica's history takes their place."""

    def fail(self, promise: Promise, what: str) -> None:
        raise Violation(promise, f"group {self.group}: {what}")

    def overwritten(self, outcome: EpochCommitted) -> None:
        """A committed epoch has taken the place of all records before it."""
        self.log_start = outcome.start
        self.overwrites.append((outcome.start, outcome.end))

    def overwritten_to(self, mark: int) -> int:
        """What no replica shows any more once it has this mark. An epoch without records does not
        move the mark, so that by its mark nobody knows whether it was applied."""
        starts = [start for start, end in self.overwrites if start < end <= mark]
        return max(starts, default=0)

    def check_bounds(self, replica: Replica) -> None:
        """The replica shows exactly the offsets that the entries it has applied came to."""
        machine, index = replica.machine, replica.applied_index
        if isinstance(machine, TopicMachine) and index:
            shown = (machine.log_start_offset, machine.high_water_mark, machine.info.schema)
            if shown != self.bounds[index - 1]:
                self.fail(
                    Promise.BOUNDS,
                    f"node {replica.node} shows {shown} after {index}, where "
                    f"{self.bounds[index - 1]} is due",
                )

    def entered(self, entry: Entry, prev_term: int) -> None:
        """Log Matching."""
        at = (entry.index, entry.term)
        content = _Content(prev_term, zlib.crc32(b"".join(entry.payload)))
        if self.contents.setdefault(at, content) != content:
            self.fail(
                Promise.LOG_MATCHING,
                f"entry {entry.index} of term {entry.term} differs between two logs",
            )
        if entry.kind is EntryKind.CONFIGURATION:
            told = json.loads(entry.payload.command)
            sets = (told["voters"], told["outgoing"])
            self.memberships[at] = [frozenset(voters) for voters in sets if voters]

    def decided(self, index: int, term: int, membership: Membership) -> None:
        """A leader has written this in a turn whose entries are not in its log yet."""
        sets = (membership.voters, membership.outgoing)
        self.memberships.setdefault((index, term), [frozenset(each) for each in sets if each])

    def deciding(self, log: LogView, last_index: int) -> list[frozenset[int]]:
        """The sets of which a majority each decides, by the latest membership among the first
        `last_index` entries of a member's log."""
        for (index, term), sets in sorted(self.memberships.items(), reverse=True):
            dropped = index <= log.base_index
            if dropped and self.committed[index - 1].term == term:
                return sets
            if not dropped and index <= last_index and log.term_at(index) == term:
                return sets
        return [self.founders]

    def disk(self, node: NodeId) -> DurableLog:
        return self.disks.setdefault(node, DurableLog())

    def holds(self, disk: DurableLog, index: int, term: int) -> bool:
        """Whether the entry is on the disk. Of what it has dropped it held what was committed."""
        if index > disk.base_index:
            return disk.term_at(index) == term
        return index <= len(self.committed) and self.committed[index - 1].term == term

    def lacks(self, now: DurableLog, was: DurableLog) -> bool:
        """Whether a disk has lost entries that it held. What it had in place of another node's
        image was never committed, or is in that image."""
        base = now.base_index
        if base > was.base_index and was.term_at(base) != now.term_at(base):
            return False
        return now.last_index < was.last_index or not self.holds(
            now, was.last_index, was.term_at(was.last_index)
        )

    def holders(self, index: int, term: int) -> set[NodeId]:
        return {
            node
            for disks in (self.disks, self.lost)
            for node, disk in disks.items()
            if self.holds(disk, index, term)
        }


class _Seen:
    """What was last seen of one replica in this boot of its process."""

    __slots__ = ("applied", "commit_index", "glance", "moment", "role", "term")

    def __init__(self, moment: RaftStatus) -> None:
        self.moment = moment
        self.glance: tuple[object, ...] = ()
        self.applied = 0
        self.commit_index = 0
        self.role = Role.FOLLOWER
        self.term = 0


def _glance(raft: Raft) -> tuple[object, ...]:
    """Everything that `invariants.check` looks at, to see whether any of it changed. Cheaper than a
    whole `status`, because it is read after every event of a simulation.
    """
    glance = (
        raft.role,
        raft.term,
        raft.vote,
        raft.leader,
        raft.durable_index,
        raft.commit_index,
        raft.last_applied,
        raft.log.last_index,
        raft.log.term_at(raft.log.last_index),
    )
    if raft.leadership is None:
        return glance
    return (*glance, *[each.match_index for each in raft.leadership.followers.values()])


class Checker:
    """All groups of a simulation."""

    def __init__(self, simulator: Simulator, nodes: int, confirmed_us: Callable[[], int]) -> None:
        """`confirmed_us`: what the clocks of a majority of nodes have shown, at the highest."""
        self._simulator = simulator
        self._nodes = nodes
        self._confirmed_us = confirmed_us
        self._groups: dict[GroupId, GroupChecker] = {}
        self._topics: dict[str, GroupChecker] = {}
        """By name."""

    def group(self, group: GroupId) -> GroupChecker:
        found = self._groups.get(group)
        if found is None:
            found = self._groups[group] = GroupChecker(group, self._nodes, self._confirmed_us)
        return found

    # ------------------------------------------------------------ disks

    def on_disk(self, node: NodeId, group: GroupId, log: DurableLog) -> None:
        """A write has run whose plan ended with this log."""
        self.group(group).disks[node] = log

    def half_written(self, node: NodeId, group: GroupId, planned: DurableLog) -> None:
        """The process ended while this was being written: what both logs have is still there."""
        truth = self.group(group)
        truth.disks[node] = truth.disk(node).shared_with(planned)

    def opened(self, node: SimulatedNode, view: ReplicaView, log: WitnessedLog) -> None:
        """A replica was opened from the disk, or made."""
        truth = self.group(view.group)
        raft, machine = view.replica.raft, view.replica.machine
        if not isinstance(machine, ControllerMachine):
            truth.founders = frozenset(machine.info.voters)
        log.witness = truth
        self._opened_at_snapshot(truth, view, log)
        prev_term: int = log.base_term
        first = log.base_index + 1
        for entry in log.entries(first, log.last_index, 1 << 60) if log.last_index >= first else ():
            truth.entered(entry, prev_term)
            prev_term = entry.term
        was = truth.disk(node.node)
        if raft.recovering:
            truth.lost.setdefault(node.node, was)
        elif was.last_index and truth.lacks(DurableLog.of(log), was):
            truth.fail(
                Promise.SYNCED_STAYS, f"node {node.node} lost synced entries up to {was.last_index}"
            )
        truth.disks[node.node] = DurableLog.of(log)
        promised = truth.promised.get(node.node)
        if promised is not None:
            if raft.term < promised.term:
                truth.fail(
                    Promise.SYNCED_STAYS,
                    f"node {node.node} fell from term {promised.term} to {raft.term}",
                )
            if raft.term == promised.term and promised.vote not in (0, raft.vote):
                truth.fail(
                    Promise.SYNCED_STAYS, f"node {node.node} forgot its vote in term {raft.term}"
                )
        view.seen = _Seen(raft.status())
        view.seen.applied = view.replica.applied_index
        view.seen.commit_index = raft.commit_index

    def _opened_at_snapshot(
        self, truth: GroupChecker, view: ReplicaView, log: WitnessedLog
    ) -> None:
        """What a replica takes for applied without a replay was applied, and what its log does
        without was committed."""
        replica = view.replica
        index = replica.applied_index
        if index > len(truth.applied):
            truth.fail(
                Promise.STATE_MACHINE_SAFETY,
                f"node {replica.node} opened a snapshot of {index}, which nobody has applied",
            )
        if index and truth.hashes.setdefault(index, replica.state_hash) != replica.state_hash:
            truth.fail(Promise.STATE_MACHINE_SAFETY, f"the snapshot of {index} has another state")
        if replica.node not in truth.changed:
            truth.check_bounds(replica)
        base = log.base_index
        if base > index or (base and truth.committed[base - 1].term != log.base_term):
            truth.fail(Promise.SYNCED_STAYS, f"node {replica.node}: entries up to {base} are gone")

    def image_opened(self, node: SimulatedNode, found: OpenedGroup | LocalReplica) -> None:
        """A node has opened a group: whatever its log goes without is in its image."""
        truth, image = self.group(found.replica.group), found.image.manifest
        folder = node.log_folder(truth.group)
        if node.node not in truth.wrong_history:
            check = ImageCheck(truth, node.disk.fs, folder, image, damaged=node.damaged)
            check.run(found.info)

    def image_whole(self, node: SimulatedNode, local: LocalReplica) -> None:
        """All files of the replica's image are whole, and hold what they should."""
        truth, folder = self.group(local.group), node.log_folder(local.group)
        if node.node not in truth.wrong_history:
            ImageCheck(truth, node.disk.fs, folder, local.image.manifest).run(local.info)

    def compacted(self, node: SimulatedNode, job: CompactionJob, image: Image) -> None:
        """A compaction has made the files of an image, or made its newest snapshot again."""
        truth = self.group(job.group)
        if node.node in truth.wrong_history:
            return
        check = ImageCheck(truth, node.disk.fs, job.folder, image, damaged=node.damaged)
        check.run(info_of(node.disk.fs, job), former=job.image)
        local = node.local(job.group)
        if node.damaged and local and any(p.index < job.index for p in local.replica.points):
            self._simulator.counts["points left out past damage"] += 1
            truth.other_borders.add(node.node)

    def wiped(self, node: NodeId) -> None:
        """Nothing of the node is left. What it held counts as far as others were told of it."""
        for truth in self._groups.values():
            truth.lost[node] = truth.disks.pop(node, DurableLog())

    # ------------------------------------------------------------ events

    def stepped(self, view: ReplicaView) -> None:
        """One event has happened to the replica."""
        seen, raft = view.seen, view.replica.raft
        if not raft.recovering:
            self.group(view.group).lost.pop(raft.node, None)
        glance = _glance(raft)
        if glance == seen.glance:
            return  # most ticks and heartbeats change nothing that is checked
        seen.glance = glance
        before, seen.moment = seen.moment, invariants.check(seen.moment, raft)
        written = raft.memberships.latest_index
        if view.replica.log.last_index < written <= raft.log.last_index:
            latest = raft.memberships.latest
            self.group(view.group).decided(written, raft.log.term_at(written), latest)
        # With a commit a change may have been completed: what decided was there before.
        last_index = min(before.last_index, raft.log.last_index)
        deciding = self.group(view.group).deciding(raft.log, last_index)
        if raft.role is Role.LEADER and (seen.role is not Role.LEADER or seen.term != raft.term):
            self._leads(view, deciding)
        seen.role, seen.term = raft.role, raft.term
        if raft.commit_index > seen.commit_index:
            self._commits(view, seen.commit_index, deciding)
            seen.commit_index = raft.commit_index

    def advanced(self, view: ReplicaView, output: Output) -> None:
        """The replica has advanced; none of its output has been carried out yet."""
        seen, replica = view.seen, view.replica
        raft = replica.raft
        if raft.role is not seen.role or raft.commit_index != seen.commit_index:
            self.stepped(view)  # its own vote has come back to it
        if not output.applied:
            return
        truth = self.group(view.group)
        for applied in output.applied:
            index, term, outcome = applied.index, applied.term, applied.outcome
            if index != seen.applied + 1:
                truth.fail(
                    Promise.APPLIED_IN_ORDER,
                    f"node {replica.node} applied {index} after {seen.applied}",
                )
            seen.applied = index
            if index > len(truth.committed) or truth.committed[index - 1].term != term:
                truth.fail(
                    Promise.APPLIED_IN_ORDER,
                    f"node {replica.node} applied {index}, which is not committed",
                )
            if replica.node in truth.changed:
                continue
            command = replica.log.command(index)[2]
            fact = (zlib.crc32(command), zlib.crc32(repr(outcome).encode()))
            if index <= len(truth.applied):
                if truth.applied[index - 1] != fact:
                    truth.fail(
                        Promise.STATE_MACHINE_SAFETY, f"outcomes differ at {index}: {outcome}"
                    )
            else:
                truth.applied.append(fact)
                self._see_outcome(truth, command, outcome)
                truth.bounds.append((truth.log_start, truth.mark, truth.columns.known))
        if replica.node in truth.changed:
            return
        truth.check_bounds(replica)
        truth.records.published(replica, truth.committed)
        self._reached_points(truth, replica)
        known = truth.hashes.setdefault(seen.applied, replica.state_hash)
        if known != replica.state_hash:
            truth.fail(Promise.STATE_MACHINE_SAFETY, f"state hashes differ at {seen.applied}")

    def _reached_points(self, truth: GroupChecker, replica: Replica) -> None:
        """What a compaction up to these points must come to."""
        for point in replica.points:
            if truth.hashes.setdefault(point.index, point.state_hash) != point.state_hash:
                truth.fail(Promise.STATE_MACHINE_SAFETY, f"state hashes differ at {point.index}")
            if point.index == replica.applied_index:
                fingerprint = replica.machine.fingerprint()
                state = replica.machine.state()
                if (
                    truth.fingerprints.setdefault(point.index, fingerprint) != fingerprint
                    or truth.states.setdefault(point.index, state) != state
                ):
                    truth.fail(Promise.STATE_MACHINE_SAFETY, f"states differ at {point.index}")

    def dropped(self, node: SimulatedNode, view: ReplicaView) -> None:
        """The replica's log has dropped its beginning: a durable image stands in for it."""
        truth, replica = self.group(view.group), view.replica
        base = replica.log.base_index
        if base > replica.applied_index:
            truth.fail(Promise.SYNCED_STAYS, f"node {replica.node} dropped {base} unapplied")
        if any(truth.disk(voter).last_index < base for voter in replica.raft.membership.voters):
            self._simulator.counts["logs whose beginning was dropped though a node lacked it"] += 1
        folder = node.log_folder(view.group)
        durable = node.disk.image(folder)
        image = read_image(durable, folder).image
        if image.base[0] < base:
            truth.fail(
                Promise.COMPLETE_IMAGES,
                f"node {replica.node} dropped entries up to {base}, its manifest says {image.base}",
            )
        machine = replica.machine
        info = CONTROLLER if isinstance(machine, ControllerMachine) else machine.info
        if node.node not in truth.wrong_history:
            ImageCheck(truth, durable, folder, image, damaged=node.damaged).run(info)
        truth.disks[replica.node] = truth.disk(replica.node).dropped_to(base)
        self._simulator.counts["logs whose beginning was dropped"] += 1

    def trust_changed(self, node: NodeId, event: StateCompared | HistoryCompared) -> None:
        """A replica trusts or doubts its state or history now: it may doubt only what a test has
        changed."""
        truth, trust = self.group(event.group), event.trust
        if isinstance(event, StateCompared):
            promise, changed = Promise.STATE_MACHINE_SAFETY, truth.changed
        else:
            promise = Promise.EQUAL_HISTORIES
            changed = truth.wrong_history | truth.other_borders
        if trust is not Trust.TRUSTED and not changed:
            truth.fail(promise, f"node {node}: {type(event).__name__}, {trust.value}")

    def replica_rebuilt(self, node: SimulatedNode, event: ReplicaRebuilt) -> None:
        """A replica stands at another node's image: its history must be right again."""
        self._simulator.counts["replicas rebuilt"] += 1
        truth, local = self.group(event.group), node.local(event.group)
        truth.wrong_history.discard(node.node)
        truth.other_borders.discard(node.node)
        truth.changed.discard(node.node)
        assert local is not None
        self.image_opened(node, local)

    def _see_outcome(self, truth: GroupChecker, command: bytes, outcome: object) -> None:
        if outcome is None:
            return
        decoded = decode_command(command)
        problem = truth.retention.problem_of_time(decoded)
        if problem is not None:
            truth.fail(Promise.CONFIRMED_TIME, f"{decoded} is {problem}")
        of = self._topics[decoded.name] if isinstance(decoded, AlterSchema) else truth
        problem = of.columns.problem_of(decoded, outcome)
        if problem is not None:
            truth.fail(Promise.ALTERATIONS, problem)
        truth.retention.staged(decoded, outcome)
        match outcome:
            case Appended(repeated=False) | EpochCommitted(replayed=False):
                if outcome.start != truth.mark:
                    truth.fail(Promise.DENSE_OFFSETS, f"{outcome} at mark {truth.mark}")
                if isinstance(decoded, CommitEpoch) and decoded.overwrite:
                    self._simulator.counts["records overwritten"] += truth.mark - truth.log_start
                    truth.overwritten(outcome)
                truth.mark = outcome.end
                truth.retention.published(outcome.end, decoded)
            case TopicCreated(topic=topic):
                self._topics[topic.name] = self.group(topic.group)
            case Trimmed(log_start_offset=start):
                if not truth.log_start <= start <= truth.mark:
                    truth.fail(
                        Promise.TRIMS, f"{outcome} with [{truth.log_start}, {truth.mark}) readable"
                    )
                limit = truth.retention.limit(truth.mark)
                if start > max(truth.log_start, limit):
                    truth.fail(Promise.TRIMS, f"{outcome}, but what is above {limit} is kept")
                self._simulator.counts["records removed by retention"] += max(
                    0, start - max(truth.log_start, truth.retention.trim_asked)
                )
                truth.log_start = start

    def _leads(self, view: ReplicaView, deciding: list[frozenset[int]]) -> None:
        replica, truth = view.replica, self.group(view.group)
        term = replica.raft.term
        self._simulator.counts["elections won"] += 1
        known = truth.leaders.setdefault(term, replica.node)
        if known != replica.node:
            truth.fail(Promise.ELECTION_SAFETY, f"{known} and {replica.node} lead term {term}")
        members = frozenset[int]().union(*deciding)
        votes = {node for node in sorted(members) if self._voted(truth, node, view)}
        if any(2 * len(votes & voters) <= len(voters) for voters in deciding):
            truth.fail(
                Promise.ELECTION_SAFETY, f"{replica.node} leads term {term} by votes of {votes}"
            )
        log = replica.log
        for index, entry in enumerate(truth.committed, 1):
            if entry.known_in >= term:
                break
            if index < log.base_index:
                continue  # committed before it was dropped
            if index > log.last_index or log.term_at(index) != entry.term:
                truth.fail(
                    Promise.LEADER_COMPLETENESS,
                    f"node {replica.node} leads term {term} without entry "
                    f"{index} of term {entry.term}",
                )

    def _voted(self, truth: GroupChecker, voter: int, view: ReplicaView) -> bool:
        """Whether the voter has sent its vote for this leader. A candidate votes for itself."""
        replica = view.replica
        own = voter == replica.node and truth.founders == {voter}
        return own or truth.votes.get((NodeId(voter), replica.raft.term)) == replica.node

    def _commits(self, view: ReplicaView, before: int, deciding: list[frozenset[int]]) -> None:
        raft, truth = view.replica.raft, self.group(view.group)
        index = raft.commit_index
        if index > len(truth.committed):
            if truth.leaders.get(raft.term) != raft.node:
                truth.fail(
                    Promise.COMMITTED_BY_MAJORITY,
                    f"node {raft.node} takes {index} for committed before any leader does",
                )
            if raft.log.term_at(index) != raft.term:
                truth.fail(
                    Promise.COMMITTED_BY_MAJORITY,
                    f"an entry of an older term at {index} was committed by counting",
                )
            holders = truth.holders(index, raft.term)
            if any(2 * len(holders & voters) <= len(voters) for voters in deciding):
                truth.fail(
                    Promise.COMMITTED_BY_MAJORITY,
                    f"{index} is committed without a majority of disks that hold it",
                )
            for each in range(len(truth.committed) + 1, index + 1):
                truth.committed.append(Committed(raft.log.term_at(each), raft.term))
                if (each, raft.log.term_at(each)) in truth.memberships:
                    self._simulator.counts["memberships committed"] += 1
        for each in range(before + 1, index + 1):
            if raft.log.term_at(each) != truth.committed[each - 1].term:
                truth.fail(
                    Promise.COMMITTED_BY_MAJORITY,
                    f"node {raft.node} takes another entry {each} for committed",
                )

    # ------------------------------------------------------------ messages

    def sent(self, node: SimulatedNode, view: ReplicaView, message: PeerMessage) -> None:
        """`message` is about to leave."""
        match message:
            case VoteReply(granted=True, pre=False):
                self._votes(node, view, HardState(message.term, message.to))
            case VoteRequest(pre=False):
                self._votes(node, view, HardState(message.term, node.node))
            case AppendReply(accepted=True):
                self._acknowledges(node, view, message)
            case AppendRequest():
                self._replicates(node, view, message)

    def _replicates(self, node: SimulatedNode, view: ReplicaView, request: AppendRequest) -> None:
        """Only the term's leader may send it, with exactly the entries that it has."""
        truth = self.group(view.group)
        if truth.leaders.get(request.term) != node.node:
            truth.fail(
                Promise.ELECTION_SAFETY, f"node {node.node} sends entries in term {request.term}"
            )
        prev_term = request.prev_term
        for entry in request.entries:
            known = truth.contents.get((entry.index, entry.term))
            if known != _Content(prev_term, zlib.crc32(b"".join(entry.payload))):
                truth.fail(
                    Promise.LOG_MATCHING, f"node {node.node} sends another entry {entry.index}"
                )
            prev_term = entry.term

    def _votes(self, node: SimulatedNode, view: ReplicaView, promise: HardState) -> None:
        truth = self.group(view.group)
        known = truth.votes.get((node.node, promise.term))
        if known is not None and known != promise.vote:
            truth.fail(
                Promise.DURABLE_VOTES,
                f"node {node.node} votes for {known} and {promise.vote} in term {promise.term}",
            )
        if known is None:
            truth.votes[(node.node, promise.term)] = promise.vote
            state = durable_state(node.disk, view.group)
            durable = state._replace(recovery=0, lost=None, voters=None)
            if durable < promise or (durable.term == promise.term and durable != promise):
                truth.fail(
                    Promise.DURABLE_VOTES,
                    f"node {node.node} promises {promise}, its disk says {durable}",
                )
        truth.promised[node.node] = max(promise, truth.promised.get(node.node, promise))

    def _acknowledges(self, node: SimulatedNode, view: ReplicaView, reply: AppendReply) -> None:
        truth = self.group(view.group)
        index = reply.match_index
        if index == 0 or reply.term != view.replica.raft.term:
            # A promise of a term that the node has left: the entry may be truncated by now, because
            # a leader whose election took this node's log, or its own leader's, into account said
            # so.
            return
        truth.acknowledgements += 1
        disk = truth.disk(node.node)
        if truth.acknowledgements % DEEP_CHECK_EVERY == 1 and not node.damaged:
            disk = durable_log(node.disk, node.log_folder(view.group), view.group)
        log = view.replica.log
        dropped = index < log.base_index
        term = truth.committed[index - 1].term if dropped else log.term_at(index)
        if not truth.holds(disk, index, term):
            truth.fail(
                Promise.DURABLE_ACKNOWLEDGEMENTS,
                f"node {node.node} acknowledges {index}, its disk ends at {disk.last_index}",
            )
        self._knows_voters(node, view, index)

    def _knows_voters(self, node: SimulatedNode, view: ReplicaView, index: int) -> None:
        """Does the node that acknowledges `index` know who decides, should it lose the log?"""
        truth, memberships = self.group(view.group), view.replica.raft.memberships
        since = memberships.latest_index
        if since > index or truth.voters_known.get(node.node) == since:
            return
        truth.voters_known[node.node] = since
        voters, expected = durable_state(node.disk, view.group).voters, memberships.voters_at
        if (voters and voters[:3]) != (expected and expected[:3]):
            truth.fail(Promise.DURABLE_ACKNOWLEDGEMENTS, f"node {node.node} knows {voters}")

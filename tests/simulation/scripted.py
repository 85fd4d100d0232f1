"""Cases that are too rare to leave to chance, step by step; each breaks under one planted bug.

Most are dialogues of a few cores, with the messages between them as values; one is a cluster of
simulated nodes without faults, two are logs on a simulated disk, one is a table of writers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random

from raftlog.core.membership import Membership, MembershipAt, Memberships
from raftlog.core.messages import AppendRequest, Heartbeat, HeartbeatReply
from raftlog.core.ready import Role
from raftlog.core.types import (
    CONTROLLER_GROUP,
    NO_INDEX,
    GroupId,
    LogIndex,
    NodeId,
    Payload,
    Term,
)
from raftlog.errors import PeerProtocolViolation
from raftlog.machines.ages import LogClock
from raftlog.machines.commands import DeleteTopic, EpochKey, Stage, TopicInfo
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.limits import TopicLimits
from raftlog.machines.outcomes import Refused
from raftlog.machines.writers import WriterTable
from raftlog.replica import Replica
from raftlog.storage.contract import ROOT
from raftlog.storage.hard_state import HardStateJournal
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from tests.core.member import (
    GROUP,
    TIMING,
    Member,
    Shortest,
    acceptance,
    entries_of,
    heartbeat_reply,
    vote_reply,
)
from tests.core.network import Network
from tests.simulation.cluster import Simulation
from tests.simulation.diverged import state_changed_in_memory
from tests.simulation.diverged_history import other_records_in_history
from tests.simulation.node import SimulatedNode
from tests.simulation.planted_history import HISTORY_BUGS
from tests.simulation.planted_leases import LEASE_SCRIPTS
from tests.simulation.planted_quiescence import QUIESCENCE_SCRIPTS
from tests.simulation.planted_recovery import RECOVERY_SCRIPTS
from tests.simulation.planted_repairs import REPAIR_SCRIPTS
from tests.simulation.records import Label, batch_of
from tests.simulation.repairs import GROUP as DAMAGED
from tests.simulation.repairs import DamagedCluster, leader_and_followers
from tests.simulation.swarm import SECOND, draw
from tests.simulation.tasks import Sleep, Task
from tests.storage.memory import MemoryFileSystem


def stale_acknowledgement() -> None:
    """A follower acknowledged an entry, lost it to another leader, and the acknowledgement comes
    late.

    S1 led term 2 and wrote index 2, which S5 acknowledged; S4 led term 3, and only S5 took its
    entry at index 2 instead. S1 leads term 4 when the acknowledgement of term 2 arrives.
    """
    network = Network.of(5, logs=[[1, 2], [1], [1], [1], [1, 3]], term=3)
    network.isolate(5)
    leader = network.elect(1)
    assert leader.terms == [1, 2, 4]
    assert leader.raft.commit_index == 3
    leader.step(acceptance(leader, 5, 2, term=2))
    network.heal()
    network.tick(4 * leader.timing.election_ticks_min)
    assert network[5].log == leader.log
    assert network[5].raft.commit_index >= 3


def read_after_the_heartbeats_left() -> None:
    """A strong read comes while a round of heartbeats is in flight, answered before it was asked.

    S2 has answered S1's round, and its answer is in flight. Then S2 makes S3 the leader, which
    commits an entry; then S1 is asked; then the answer arrives.
    """
    network = Network.of(3)
    deposed = network.elect(1)
    network.tick(2)
    deposed.read_index(1)
    network.collect()
    network.waiting = [each for each in network.waiting if each.to == 2]
    for message in network.waiting:
        network.deliver(message)
    network.waiting = []
    answers = network[2].take(HeartbeatReply)
    assert answers, "S2 has answered the round"
    network.isolate(1)
    for node in (2, 3):  # their connections to S1 are reset
        network[node].leader_lost(1, deposed.raft.term)
    winner = network.elect(3)
    winner.propose("news")
    network.settle()
    assert winner.raft.commit_index > deposed.raft.commit_index
    deposed.read_index(2)
    deposed.step(*answers)
    assert [read.request_id for read in deposed.reads] == [1], "linearizable: the news came first"


def deleted_group_in_a_replay() -> None:
    """A node that removed a group starts again, and so far learns only of the topic's creation,
    from an old heartbeat. If the group were made again, it would have forgotten its votes.
    """
    drawn = draw(Random(1))
    settings = replace(
        drawn,
        nodes=3,
        topics=0,
        compaction=replace(drawn.compaction, entries_max=1 << 30, age_ticks=1 << 30),
        tick_drift=0.0,
        weights=(),
        spike_share=0.0,
        loss=0.0,
        duplication=0.0,
        reordering=0.0,
        crash_in_recovery=0.0,
    )
    simulation = Simulation(1, settings)
    simulator, clients = simulation.simulator, simulation.clients
    for node in simulation.nodes.values():
        node.start()
    made: list[TopicInfo] = []

    def come_and_go() -> Task:
        topic = yield from clients.create_topic("gone")
        made.append(topic)
        while not all(_has_applied(node, topic) for node in simulation.nodes.values()):
            yield Sleep(SECOND)
        yield from clients.write(
            CONTROLLER_GROUP,
            lambda _: DeleteTopic(name=topic.name, incarnation=topic.incarnation),
        )

    def removed() -> bool:
        if clients.unfinished or not made:
            return False
        return not any(
            node.local(made[0].group) or node.disk.fs.exists(node.log_folder(made[0].group))
            for node in simulation.nodes.values()
        )

    clients.spawn("come and go", come_and_go())
    assert simulator.run_until(60 * SECOND, removed), "the topic came and went"
    simulator.run_until(simulator.now_us + SECOND)

    leader = next(node for node in simulation.nodes.values() if node.leads(CONTROLLER_GROUP))
    raft = leader.local(CONTROLLER_GROUP).replica.raft
    sleeper = simulation.nodes[NodeId(leader.node % 3 + 1)]
    sleeper.end(power=True)
    for node in simulation.nodes.values():
        node.pause()
    sleeper.start()
    word = Heartbeat(
        group=CONTROLLER_GROUP,
        sender=leader.node,
        to=sleeper.node,
        term=raft.term,
        commit_index=LogIndex(raft.commit_index - 1),
        commit_term=raft.log.term_at(raft.commit_index - 1),
        read_round=0,
        quiesce_round=0,
    )
    simulation.network.send(leader.node, sleeper.node, [word])
    simulator.run_until(simulator.now_us + SECOND)
    known = sleeper.local(CONTROLLER_GROUP)
    assert known.replica.applied_index == raft.commit_index - 1
    assert sleeper.local(made[0].group) is None, "a deleted group came into being again"


def _has_applied(node: SimulatedNode, topic: TopicInfo) -> bool:
    """Whether it has applied something of the group: it has voted, and its log is not empty."""
    local = node.local(topic.group)
    return local is not None and local.replica.applied_index > 0


def read_at_a_deposed_leader() -> None:
    """A leader that is cut off and has not noticed is asked for a strong read."""
    network = Network.of(3)
    deposed = network.elect(1)
    network.tick(2)
    network.isolate(1)
    for node in (2, 3):
        network[node].leader_lost(1, deposed.raft.term)
    winner = network.elect(3)
    winner.propose("news")
    network.settle()
    assert winner.raft.commit_index > deposed.raft.commit_index
    deposed.read_index(1)
    assert deposed.reads == [], "linearizable: the news came first"


def read_of_a_new_leader() -> None:
    """A leader whose own first entry is not committed yet does not know what is."""
    leader = Member(1, terms=[1, 1]).lead()
    leader.read_index(1)
    leader.tick(leader.timing.heartbeat_ticks)
    with suppress(PeerProtocolViolation):  # it has not even asked
        leader.step(heartbeat_reply(leader, 2, read_round=1, last_index=2))
    assert leader.raft.commit_index == 0
    assert leader.reads == [], "it answers once it knows what is committed"


def late_votes_of_a_lost_election() -> None:
    """The votes of term 1 reach their candidate when it campaigns for term 2."""
    candidate = Member(1, voters=5)
    for term in (1, 2):
        candidate.tick(2 * candidate.timing.election_ticks_min)
        candidate.step(*[vote_reply(candidate, voter, term=term, pre=True) for voter in (2, 3)])
        assert (candidate.raft.role, candidate.raft.term) == (Role.CANDIDATE, term)
    candidate.step(*[vote_reply(candidate, voter, term=1) for voter in (2, 3)])
    assert candidate.raft.role is Role.CANDIDATE, "votes of another term do not count"


def fenced_run() -> None:
    """A run stages, another run of its query does, and then the first one again."""
    table = WriterTable(topic="t", schema_version=1, limits=TopicLimits(), clock=LogClock())
    batch = batch_of([Label("epoch", "w", 0, 0, "a")], 0).summary
    outcomes = []
    for index, run in enumerate(("first", "second", "first"), 1):
        key = EpochKey(writer="w", query_id="w", run=run, epoch=0, streaming=True)
        stage = Stage(
            key=key, attempt=f"{index}", number=0, timestamp_us=0, batch=batch, create_writer=False
        )
        outcomes.append(table.stage(LogIndex(index), stage))
    assert [isinstance(outcome, Refused) for outcome in outcomes] == [False, False, True]


def stage_after_the_leader_looked() -> None:
    """A leader finds that a lease ran out; a stage enters the log before the leader's entry."""
    table = WriterTable(topic="t", schema_version=1, limits=TopicLimits(), clock=LogClock())
    key = EpochKey(writer="w", query_id="w", run="r", epoch=0, streaming=True)
    batch = batch_of([Label("epoch", "w", 0, 0, "a")], 0).summary

    def stage(number: int) -> Stage:
        return Stage(
            key=key,
            attempt="a",
            number=number,
            timestamp_us=5 * number,
            batch=batch,
            create_writer=False,
        )

    table.stage(LogIndex(1), stage(0))
    table.stage(LogIndex(2), stage(1))
    found = table.expire_epochs_by_age(lease_us=10, now_us=12, count_max=1)
    assert found.number == 0, "the stage renewed the lease"


def shorter_log_after_a_conflict() -> None:
    """A leader's entry replaces three, and the log is opened again."""
    fs, limits = MemoryFileSystem(Random(1)), LogLimits(preallocate_bytes=0)
    fs.make_folder("log")
    log = GroupLog.create(fs, "log", GroupId(1), limits)
    for entries in (entries_of([1, 1, 1, 1]), entries_of([2], first=2)):
        if log.last_index:
            log.truncate_from(LogIndex(2))
        log.append(entries)
        write = log.take_write()
        assert write is not None
        write.run()
        log.written(write)
    reopened = GroupLog.open(fs, "log", GroupId(1), limits)
    assert reopened.terms() == [(1, 1), (2, 2)]
    assert reopened.report.torn_bytes == 0, "nothing of the old end is left"


def truncation_while_a_write_waits() -> None:
    """A follower's write ends a segment and waits for the disk; meanwhile a leader conflicts with
    what it carries. It runs, and the process is killed before the next."""
    fs, limits = MemoryFileSystem(Random(1)), LogLimits(segment_bytes_max=4_096)
    fs.make_folder("log")
    follower = Replica(
        node=NodeId(1),
        group=GROUP,
        memberships=Memberships(
            MembershipAt(NO_INDEX, Membership((NodeId(1), NodeId(2), NodeId(3))))
        ),
        timing=TIMING,
        log=GroupLog.create(fs, "log", GROUP, limits),
        journal=HardStateJournal.open(fs, ROOT),
        machine=ControllerMachine(),
        random=Shortest(),
    )
    _append_from(follower, sender=2, first=1, terms=[1] * 6)
    write = follower.take_write()
    assert write is not None
    write.run()
    follower.written(write)
    _append_from(follower, sender=2, first=7, terms=[1] * 6)
    waiting = follower.take_write()
    assert waiting is not None
    assert len(waiting.segments) == 2, "it ends a segment"
    _append_from(follower, sender=3, first=8, terms=[2])
    waiting.run()
    killed = GroupLog.open(fs, "log", GROUP, limits)
    assert killed.terms() == [(1, 1)]
    assert killed.last_index == 12, "the truncation was not written yet"


def _append_from(follower: Replica, *, sender: int, first: int, terms: list[int]) -> None:
    request = AppendRequest(
        group=follower.group,
        sender=NodeId(sender),
        to=follower.node,
        term=Term(terms[-1]),
        prev_index=LogIndex(first - 1),
        prev_term=Term(1 if first > 1 else 0),
        entries=tuple(
            dataclasses.replace(entry, payload=Payload(b"", bytes(400)))
            for entry in entries_of(terms, first=first)
        ),
        commit_index=LogIndex(0),
    )
    follower.raft.step(request)
    follower.advance()


def damaged_history_file() -> None:
    """A file is damaged at rest again, after a peer gave it: now it has the peer's name for it."""
    cluster = DamagedCluster(1)
    _, node, _ = leader_and_followers(cluster)
    for _ in range(2):
        cluster.flip(node, cluster.local(node, DAMAGED).image.manifest.history[0].name, 100)
        assert cluster.scrubbed(node)
        cluster.wait(cluster.healed, timeouts=100)
        assert cluster.scrubbed(node) == []


SCRIPTS: dict[str, Callable[[], None]] = {
    "stale_acknowledgement_accepted": stale_acknowledgement,
    "strong_read_joins_a_round_in_flight": read_after_the_heartbeats_left,
    "deleted_group_revived": deleted_group_in_a_replay,
    "strong_read_without_a_quorum": read_at_a_deposed_leader,
    "read_before_the_noop": read_of_a_new_leader,
    "fenced_run_goes_on": fenced_run,
    "stale_vote_accepted": late_votes_of_a_lost_election,
    "expiry_overtakes_a_stage": stage_after_the_leader_looked,
    "truncation_not_done_before_the_append": shorter_log_after_a_conflict,
    "sealed_where_the_plan_ends_now": truncation_while_a_write_waits,
    "divergence_unnoticed": state_changed_in_memory,
    "repair_without_its_file": damaged_history_file,
    **LEASE_SCRIPTS,
    **QUIESCENCE_SCRIPTS,
    **RECOVERY_SCRIPTS,
    **REPAIR_SCRIPTS,
    **{bug.__name__: other_records_in_history for bug in HISTORY_BUGS},
}
"""By the planted bug that each makes visible."""

"""A whole chaos test: a scratch cluster, its load, one episode of faults after another, a verdict.

    FOLDER/cluster/        the cluster's folder: data and logs of its nodes
    FOLDER/closed/         tokens and audit logs, if the cluster is closed to strangers
    FOLDER/up.log          the output of `raftlog up`
    FOLDER/orders.json     seed, faults, and which faults could not be made
    FOLDER/history.jsonl   everything that was done and answered
    FOLDER/verdict.json    the verdict

The seed decides which faults happen, in which order and how long, and what the writers write. It
does not decide which node leads at the time, and so is hit: processes cannot be replayed exactly.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from raftlog import LogClient, TopicInfo
from raftlog.chaos import node_logs
from raftlog.chaos.closed import Closed
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.chaos.disks import PROGRAM, ClusterDisks
from raftlog.chaos.faults import Breaker, Broken, dead_nodes
from raftlog.chaos.history import Episode, History, Read, Replica
from raftlog.chaos.links import PeerLinks
from raftlog.chaos.operator import IDS_MAX, Operator
from raftlog.chaos.schedule import DEEDS, Kind, Plan, plans
from raftlog.chaos.small_disk import SmallDisk
from raftlog.chaos.verdict import Verdict, judge
from raftlog.chaos.workload import SCHEMA, Site, Workload, read_range
from raftlog.config_section import MIB
from raftlog.errors import InvalidOption, RaftlogError

TOPICS = ("single", "batches", "epochs")
CONTROLLER = "(controller)"
NODES = 3
FLOOR_PER_S = 100.0
"""A tenth of the rate that the load reaches on two cores shared with others."""

SETTINGS = (
    # Segments so small that they are sealed and opened all the time.
    f"storage.segment_bytes_max={MIB}",
    f"storage.preallocate_bytes={64 * 1024}",
    f"server.entry_bytes_max={512 * 1024}",
    f"client.batch_bytes={128 * 1024}",
    # Snapshot points so close that faults meet compactions, and logs that lose their beginning.
    "storage.snapshot_entries=500",
)
_SMALL_DISK_NODE = 1
_SMALL_DISK_BYTES = 4096 * MIB
_LAG_ENTRIES_MAX = 300
"""A node with at most this lag has caught up, while writes continue."""
_HEAL_TIMEOUT_S = 120.0
_READ_TIMEOUT_S = 120.0
_READ_TIMEOUT_IF_BROKEN_S = 10.0
"""If the replicas never agreed, the test is broken already: read only what comes soon."""
_QUIET_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a chaos test must do: last at least this long, and make at least this many faults."""

    seed: int
    seconds: float
    faults_min: int
    kinds: tuple[Kind, ...]
    floor_per_s: float = FLOOR_PER_S
    settings: tuple[str, ...] = ()
    """Texts `section.key=value` for the nodes, besides those of `SETTINGS`."""
    closed: bool = False
    """Whether the cluster is closed to strangers, and what it shows and trusts is replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosResult:
    """The result of a chaos test. `not_made` has a sentence for each fault that cannot be made."""

    orders: Orders
    verdict: Verdict
    not_made: tuple[str, ...]


Say = Callable[[str], None]
"""Prints a line of progress."""


def require_empty(folder: Path) -> None:
    """Raises `InvalidOption` unless the folder is empty or does not exist."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InvalidOption(
            option="--data",
            problem=f"names {folder}, which is not an empty folder",
            advice="Give a folder that is empty or does not exist: its cluster will be broken.",
        )


def run(orders: Orders, folder: Path, say: Say) -> ChaosResult:
    """Break a new cluster in `folder`, which must be empty or not exist, and judge it.

    Raises `InvalidOption` for another folder, `DeadlineExceeded` if the cluster does not start.
    """
    require_empty(folder)
    folder.mkdir(parents=True, exist_ok=True)
    history = History(began_s=time.monotonic())
    not_made: list[str] = []
    closed = None
    if orders.closed:
        closed = Closed(folder / "closed", folder / "cluster" / "tls", range(1, IDS_MAX))
    try:
        with _cluster(folder / "cluster", orders, closed, not_made) as (cluster, breaker_of):
            wall_ahead_s = time.time() - time.monotonic()
            with cluster.client() as client:
                topics = tuple(client.create_topic(name, SCHEMA) for name in TOPICS)
                site = Site(
                    settings=client.settings,
                    nodes={node: cluster.address(node) for node in sorted(cluster.pids)},
                    topics=topics,
                    history=history,
                    stop=threading.Event(),
                )
                with closed.rotating() if closed is not None else nullcontext():
                    _break(orders, site, client, breaker_of(client, site), say)
                say("all faults are over; reading every replica")
                _look_at_replicas(site, client)
        if closed is not None:
            say(f"certificates, keys and tokens were replaced {closed.rotations} times")
            history.troubles += closed.troubles()
        leaders = node_logs.leaderships(cluster.logs.values())
        history.episodes = [
            replace(each, elections=_elections(leaders, each, wall_ahead_s))
            for each in history.episodes
        ]
    finally:
        _write(folder / "orders.json", {**asdict(orders), "not_made": not_made})
        history.save(folder / "history.jsonl")
    verdict = judge(history, floor_per_s=orders.floor_per_s)
    _write(folder / "verdict.json", asdict(verdict))
    return ChaosResult(orders=orders, verdict=verdict, not_made=tuple(not_made))


def _write(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=1) + "\n")


def _elections(
    leaders: Sequence[node_logs.Leadership], episode: Episode, wall_ahead_s: float
) -> int:
    begin_s, end_s = episode.begin_s + wall_ahead_s, episode.healed_s + wall_ahead_s
    return node_logs.elections(leaders, begin_s, end_s)


# ---------------------------------------------------------------- the cluster

BreakerOf = Callable[[LogClient, Site], Breaker]


@contextmanager
def _cluster(
    folder: Path, orders: Orders, closed: Closed | None, not_made: list[str]
) -> Iterator[tuple[ProcessCluster, BreakerOf]]:
    """Nodes whose wires and disks can be broken. Notes the faults that this machine cannot make."""
    port = free_ports(IDS_MAX if closed is None else closed.ports)
    numbers = range(1, (IDS_MAX if DEEDS & set(orders.kinds) else NODES) + 1)
    # Nodes reach one another at ports of their own, if they have TLS.
    first = port if closed is None else port + closed.peer_port_offset
    addresses = {node: f"127.0.0.1:{first + node - 1}" for node in numbers}
    small_disk = SmallDisk(folder, _SMALL_DISK_NODE, _SMALL_DISK_BYTES)
    with ExitStack() as stack:
        links = stack.enter_context(PeerLinks(addresses))
        settings = (*SETTINGS, f"server.peer_routes={links.routes}", *orders.settings)
        settings += () if closed is None else closed.settings

        def tidy() -> None:
            if small_disk.mounted:
                small_disk.move_out()

        stack.callback(tidy)
        cluster = stack.enter_context(
            ProcessCluster.start(
                folder,
                nodes=NODES,
                port=port,
                settings=settings,
                program=PROGRAM,
                said=folder.parent / "up.log",
                tls=closed is not None,
                token="" if closed is None else closed.token,
            )
        )
        if closed is not None:
            with cluster.client(token=closed.admin_token) as admin, cluster.client() as client:
                closed.begin(admin)
                wait_for(lambda: closed.lets_in(client), "the rights to act", PATIENCE_S)
        if Kind.FULL_DISK in orders.kinds:
            cluster.terminate(_SMALL_DISK_NODE)
            try:
                small_disk.move_in()
            except InvalidOption as error:
                not_made.append(f"{Kind.FULL_DISK.value}: {error.cause}")
            cluster.serve(_SMALL_DISK_NODE)
        disks = ClusterDisks(cluster)

        def breaker_of(client: LogClient, site: Site) -> Breaker:
            operator = Operator(
                cluster=cluster,
                client=client,
                nodes=site.nodes,
                kept=frozenset([_SMALL_DISK_NODE]),
            )
            return Breaker(
                cluster=cluster,
                links=links,
                disks=disks,
                small_disk=small_disk if small_disk.mounted else None,
                client=client,
                topics=tuple(topic.name for topic in site.topics),
                operator=operator,
                wait_healed=lambda: _wait_healed(cluster, client, operator, site.topics),
            )

        yield cluster, breaker_of


def _wait_healed(
    cluster: ProcessCluster, client: LogClient, operator: Operator, topics: Sequence[TopicInfo]
) -> None:
    wait_for(operator.settled, "every group to be where it is wished to be", _HEAL_TIMEOUT_S)
    wait_for(lambda: _observers_follow(client), "the observers to catch up", _HEAL_TIMEOUT_S)
    for topic in topics:
        cluster.wait_caught_up(
            client, topic.name, lag_entries_max=_LAG_ENTRIES_MAX, timeout_s=_HEAL_TIMEOUT_S
        )


def _observers_follow(client: LogClient) -> bool:
    """Does every observer have nearly all that is committed?"""
    try:
        lags = client.members.lags().values()
    except RaftlogError:
        return False
    return all(lag is not None and lag <= _LAG_ENTRIES_MAX for lag in lags)


# ---------------------------------------------------------------- the episodes


def _break(orders: Orders, site: Site, client: LogClient, breaker: Breaker, say: Say) -> None:
    """Load the cluster and break it until the orders are carried out; then end the load."""
    history = site.history
    kinds = [kind for kind in orders.kinds if kind is not Kind.FULL_DISK or breaker.small_disk]
    history.began_s = time.monotonic()
    with Workload(site, orders.seed) as workload:
        faults = 0
        for plan in plans(orders.seed, kinds):
            gone_s = time.monotonic() - history.began_s
            if (gone_s >= orders.seconds and faults >= orders.faults_min) or site.stop.is_set():
                break
            faults += len(plan.faults)
            site.stop.wait(plan.calm_s)
            episode = _episode(plan, breaker, site)
            history.episodes.append(episode)
            say(
                f"{episode.begin_s - history.began_s:7.1f} s  {episode.text}; "
                f"healed after {episode.healed_s - episode.end_s:.1f} s"
            )
        # A node that joined last is judged by what it gave under load, too.
        what = "records of each topic from each node that holds it"
        with _noting_trouble(history):
            wait_for(lambda: _all_are_read(site, client), what, _HEAL_TIMEOUT_S)
        history.ended_s = time.monotonic()
    history.troubles += [f"a worker ended: {error!r}" for error in workload.failures]


def _all_are_read(site: Site, client: LogClient) -> bool:
    """Whether each replica has given records of its topic, or the load is ending anyway."""
    read = {(each.node, each.topic) for each in site.history.reads}
    try:
        held = {(node, each.name) for each in site.topics for node in _holders(client, each)}
    except RaftlogError:
        return site.stop.is_set()
    return site.stop.is_set() or held <= read


def _holders(client: LogClient, topic: TopicInfo) -> set[int]:
    """The nodes that have the topic's records. A node that has just come may have none yet."""
    voters = {each.node for each in client.watermark(topic.name).replicas}
    return voters | {each.node for each in client.members.placements().nodes if each.observer}


def _episode(plan: Plan, breaker: Breaker, site: Site) -> Episode:
    """Begin the faults, let them last, undo them, and wait until everything has healed."""
    history = site.history
    begin_s = time.monotonic()
    begun: list[Broken] = []
    for fault in plan.faults:
        with _noting_trouble(history):
            begun.append(breaker.begin(fault, frozenset(each.node for each in begun)))
    # A deed may have to wait until a fault is undone.
    for broken in sorted(begun, key=lambda each: (each.fault.kind in DEEDS, each.fault.seconds)):
        site.stop.wait(max(0.0, begin_s + broken.fault.seconds - time.monotonic()))
        with _noting_trouble(history):
            breaker.end(broken)
    end_s = time.monotonic()
    kinds = tuple(fault.kind.value for fault in plan.faults)
    text = ", ".join(each.text for each in begun) or f"{' and '.join(kinds)}, which did not begin"
    for node in dead_nodes(breaker.cluster):
        words = _last_words(breaker.cluster.logs[node])
        history.troubles.append(
            f"node {node} ended by itself, during {text}; the end of its log: {words}"
        )
        breaker.cluster.serve(node)
    with _noting_trouble(history):
        breaker.wait_healed()
    return Episode(
        number=plan.number,
        kinds=kinds,
        text=text,
        begin_s=begin_s,
        end_s=end_s,
        healed_s=time.monotonic(),
    )


def _last_words(log: Path) -> str:
    return log.read_text("utf-8", "replace").rstrip().rpartition("\n")[2]


@contextmanager
def _noting_trouble(history: History) -> Iterator[None]:
    """Add what fails, or is late, to the history's troubles, and let the test continue."""
    try:
        yield
    except RaftlogError as error:
        history.troubles.append(error.cause)


# ---------------------------------------------------------------- the end


def _look_at_replicas(site: Site, client: LogClient) -> None:
    """Record every replica's whole log and state, once nothing changes any more."""
    history = site.history
    timeout_s = _READ_TIMEOUT_IF_BROKEN_S
    with _noting_trouble(history):
        wait_for(
            lambda: _is_quiet(client),
            "all replicas to have applied all that is in the log",
            _QUIET_TIMEOUT_S,
        )
        timeout_s = _READ_TIMEOUT_S
    for topic in site.topics:
        with _noting_trouble(history):
            mark = client.read_high_water_mark(topic).high_water_mark
            for node in sorted(_holders(client, topic)):
                with _noting_trouble(history):
                    log = _whole_log(site, topic, node, mark, timeout_s)
                    history.logs.setdefault(topic.name, {})[node] = log
    with _noting_trouble(history):
        for node, _, answer in client.views():
            if isinstance(answer, RaftlogError):
                history.troubles.append(f"node {node} does not answer at the end: {answer.cause}")
                continue
            for view in answer.groups:
                history.replicas.setdefault(view.topic or CONTROLLER, []).append(
                    Replica(node=node, applied_index=view.applied_index, state_hash=view.state_hash)
                )


def _is_quiet(client: LogClient) -> bool:
    """Whether all nodes answer and have applied the whole log of each of their groups."""
    indexes: dict[int, set[int]] = {}
    try:
        answers = client.views()
    except RaftlogError:
        return False
    for _, _, answer in answers:
        if isinstance(answer, RaftlogError):
            return False
        for view in answer.groups:
            indexes.setdefault(view.group, set()).update((view.last_index, view.applied_index))
    return all(len(each) == 1 for each in indexes.values())


def _whole_log(site: Site, topic: TopicInfo, node: int, mark: int, timeout_s: float) -> list[Read]:
    """The records [0, mark) as the node gives them. Raises `DeadlineExceeded`."""
    reads: list[Read] = []
    offset = 0

    def read_on() -> bool:
        nonlocal offset
        for read in read_range(client, topic, node, offset, mark):
            reads.append(read)
            offset = read.start + len(read.numbers)
        return offset >= mark

    with site.client_of(node) as client:
        wait_for(read_on, f"node {node} to give all of {topic.name!r}", timeout_s)
    return reads

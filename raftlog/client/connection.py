"""Calls to a cluster's nodes: channels, the leader cache, retries within one total deadline.

Every call of the protocol may be sent twice without harm: reads change nothing, and writes carry a
producer's sequence, an attempt's stage number or an incarnation. So every retriable error is
retried, even if it is not known whether the call was done.

Channels are opened on first use and belong to one process. A forked child opens its own, because
Spark forks its workers. Thread-safe.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

import grpc
import tenacity

from raftlog.client.forks import in_each_child, leave_alone
from raftlog.client.servers import parse_servers
from raftlog.client.zookeeper_servers import Found, ZooKeeperServers
from raftlog.config import ClientSettings
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import (
    DeadlineExceeded,
    DiskFull,
    IndexUnderflow,
    Internal,
    InvalidOption,
    NodeStopping,
    NodeUnreachable,
    NoSnapshot,
    NotLeader,
    Overloaded,
    RaftlogError,
    ReplicaQuarantined,
    TooLarge,
    UnknownWriter,
    ZooKeeperUnavailable,
)
from raftlog.wire.calls import (
    DESCRIBE_CLUSTER,
    SERVICE,
    Call,
    ClusterDescription,
    DescribeCluster,
    Reply,
    Request,
    StreamedCall,
    UnaryCall,
)
from raftlog.wire.codec import (
    ERROR_METADATA_KEY,
    decode_error,
    decode_reply,
    encode_request,
)

_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A connection whose packets are lost is given up, even while a long read waits on it.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # The client retries by itself: grpc would resend to the same node.
    ("grpc.enable_retries", 0),
)
"""No settings: they decide only how soon a lost connection is noticed and opened again. A call
waits for `client.try_timeout_s`, then another node is asked."""

_AVOIDED_S = 5.0
"""How long a node that gave no answer, or stops, is not asked if there are others. A node that
hangs costs a request a whole try, and only the keepalive gives its connection up. No setting: only
which node is asked first."""

_LOOK_AGAIN_S = 5.0
"""While none of the known nodes answers, ZooKeeper is asked this often. No setting: an ensemble
must not be flooded by the clients of a cluster that is down."""

_BOOTSTRAP_MAX = 100
"""So many addresses are remembered while ZooKeeper names others. No setting: it bounds memory."""

_NODES_KEPT_S = 30.0
"""How long a client keeps what the cluster said of its nodes. No setting: asking costs one small
call, and until then reads find what has moved by trying."""

_ASK_S = 1.0
"""How long a node that has just answered may take to name the others."""

_DOUBTED_KEPT_S = 1.0
"""The same, where a node is wanted that the cluster did not name, or nobody knows who leads."""

_HINTS_MAX = 3
"""So many hints in a row are followed almost at once, the first without a pause. Then the pauses
grow: the nodes may name one another in a circle. No setting: an election settles it."""

_NO_NODE = {
    "Connection refused": "nothing listens there (connection refused)",
    "Failed parsing HTTP/2": "what listens there is no raftlog node",
    "http1.x server": "what listens there is no raftlog node",
    "address lookup failed": "its host name has no address",
}
"""What grpc says of an address where no node can be, in its words and in ours."""

_LOST = {
    "Deadline Exceeded": "it did not answer in time",
    "Connection reset by peer": "the connection was reset",
    "Socket closed": "the connection was closed",
    "GOAWAY": "the connection was closed",
    "keepalive": "the connection was silent for too long",
}
"""The same of a node that may be there."""

_OVER_MESSAGE_LIMIT = re.compile(r"larger than max \((\d+) vs\. (\d+)\)")
"""What the server's grpc says of a frame that it drops unread. It sends no typed error then."""

T = TypeVar("T")


class Deadline:
    """The total time of one request, which begins when this is made. Monotonic."""

    def __init__(self, what: str, seconds: float) -> None:
        self.what = what
        self.seconds = seconds
        self._end_s = time.monotonic() + seconds

    def remaining_s(self) -> float:
        """The seconds that are left; 0 when it has passed."""
        return max(0.0, self._end_s - time.monotonic())

    def error(self, last: BaseException | str | None) -> DeadlineExceeded:
        """The error of a request that missed this deadline; `last` is what its last try raised."""
        return DeadlineExceeded(
            what=self.what, seconds=f"{self.seconds:.4g}", last=str(last) if last else ""
        )


class Sent(NamedTuple, Generic[Reply]):
    """A call in flight: grpc's future, and the node that it went to."""

    call: Call[Any, Reply]
    address: str
    future: Any


class Connection:
    """What a `LogClient` shares with its producers and readers."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._zookeeper: ZooKeeperServers | None = None
        self._bootstrap: tuple[str, ...] = ()
        """The nodes to ask first. Empty until ZooKeeper has named them, if it is to."""
        given = "bootstrap_servers" in settings.model_fields_set and settings.bootstrap_servers
        if settings.zookeeper:
            self._zookeeper = ZooKeeperServers(settings, _describe)
        if given or not settings.zookeeper:  # given besides ZooKeeper: it named them before
            self._bootstrap = parse_servers(settings.bootstrap_servers)
        self._look_again_at_s = 0.0
        self._lock = threading.Lock()
        self._finding = threading.Lock()
        self._closed = False
        in_each_child(self, Connection._begin_again)
        self._channels: dict[str, grpc.Channel] = {}
        self._stubs: dict[tuple[str, str], grpc.UnaryUnaryMultiCallable[bytes, bytes]] = {}
        """By address and method; they belong to these channels."""
        self._leaders: dict[GroupId, str] = {}
        self._avoided_until_s: dict[str, float] = {}
        self._answered = False
        """Whether any node ever answered."""
        self._nodes: dict[NodeId, str] = {}
        self._addresses: tuple[str, ...] = ()
        """Of all nodes, once the cluster has told them."""
        self._nodes_told_at_s = -_NODES_KEPT_S
        self.observers: frozenset[str] = frozenset()
        """The addresses of nodes that never vote, and hold every group."""
        self._of_rack: frozenset[str] = frozenset()
        """Those of the nodes that stand where this client stands."""
        self._turn = random.randrange(1 << 16)

    @property
    def servers(self) -> str:
        """How the cluster is found, in words for messages."""
        if self._zookeeper is None:
            return self.settings.bootstrap_servers
        return f"{', '.join(self._bootstrap)} by ZooKeeper at {self.settings.zookeeper}"

    def close(self) -> None:
        """Close the channels of this process, for good."""
        with self._lock:
            self._closed = True
            channels, self._channels = self._channels, {}
            self._stubs = {}
        for channel in channels.values():
            channel.close()

    def _begin_again(self) -> None:
        """In a forked child: the channels belong to the parent."""
        leave_alone(self._channels, self._stubs)
        self._lock = threading.Lock()
        self._finding = threading.Lock()
        self._channels, self._stubs = {}, {}

    # ------------------------------------------------------------ calls

    def deadline(self, what: str) -> Deadline:
        """A deadline of `client.request_timeout_s` from now."""
        return Deadline(what, self.settings.request_timeout_s)

    def call_leader(
        self,
        group: GroupId,
        call: UnaryCall[Request, Reply],
        request: Request,
        body: bytes = b"",
        deadline: Deadline | None = None,
        earlier: RaftlogError | None = None,
    ) -> Reply:
        """The reply of the group's leader, which hints help to find. Retries until the deadline.

        `earlier` is what a try of the same request by `send_leader` raised.
        """
        data = encode_request(call, request, body)
        return self.retry(
            lambda try_s: self._call(self.leader(group), call, data, try_s, group),
            deadline or self.deadline(call.name),
            earlier,
        )

    def call_any(
        self,
        call: UnaryCall[Request, Reply],
        request: Request,
        deadline: Deadline | None = None,
    ) -> Reply:
        """The reply of the first node that answers. Asks one after another until the deadline."""
        data = encode_request(call, request)
        return self.retry(
            lambda try_s: self._call(self.next_address(), call, data, try_s, None),
            deadline or self.deadline(call.name),
        )

    def call_that_has(self, call: UnaryCall[Request, Reply], request: Request) -> Reply:
        """The reply of a node that keeps what is asked for: where one does not any more, or not
        yet, another may. Raises `IndexUnderflow` or `NoSnapshot` once all have been asked."""
        refusals = 0
        while True:
            try:
                return self.call_any(call, request)
            except (IndexUnderflow, NoSnapshot):
                refusals += 1
                if refusals >= len(self.addresses()):
                    raise

    def send_leader(
        self,
        group: GroupId,
        call: UnaryCall[Request, Reply],
        request: Request,
        body: bytes,
        deadline: Deadline,
    ) -> Sent[Reply] | None:
        """Start a call to the known leader. None if no leader is known: use `call_leader`."""
        address = self._leaders.get(group)
        if address is None:
            return None
        data = encode_request(call, request, body)
        try_s = _try_s(deadline, self.settings.try_timeout_s)
        return Sent(call, address, self._stub(address, call.name).future(data, try_s))

    def receive(self, sent: Sent[Reply], group: GroupId) -> Reply:
        """The reply to a call that `send_leader` started. Raises its typed error."""
        return self._reply(sent.call, sent.address, sent.future.result, group)

    def ask(
        self, address: str, call: UnaryCall[Request, Reply], request: Request, timeout_s: float
    ) -> Reply:
        """One try at one node, for views of every node. Raises its typed error, or
        `NodeUnreachable`.
        """
        return self._call(address, call, encode_request(call, request), timeout_s, None)

    def stream(
        self, address: str, call: StreamedCall[Request, Reply], request: Request, timeout_s: float
    ) -> Iterator[tuple[Reply, memoryview]]:
        """The streamed replies of one node with their bodies. Raises typed errors."""
        with self._lock:
            channel = self._channel(address)
        stub: grpc.UnaryStreamMultiCallable[bytes, bytes]
        stub = channel.unary_stream(f"/{SERVICE}/{call.name}")
        replies = stub(encode_request(call, request), timeout=timeout_s)
        try:
            for data in replies:
                yield decode_reply(call, data)
        except grpc.RpcError as error:
            raise self._typed(address, error) from None
        finally:
            replies.cancel()

    def retry(
        self,
        once: Callable[[float], T],
        deadline: Deadline,
        earlier: RaftlogError | None = None,
    ) -> T:
        """Call `once(seconds for this try)` until it succeeds, fails for good, or the deadline
        passes. `earlier` is what a try before these raised.

        A try that ends by its own time is followed by one of twice the time. On slow disks, a write
        would otherwise be proposed again and again and never be answered. Raises `NodeUnreachable`
        with all addresses if no node listens at any of them.
        """
        failures = _Failures()
        if earlier is not None:
            failures.add(earlier)
        longest_s = self.settings.try_timeout_s

        def once_timed() -> T:
            nonlocal longest_s
            given_s, began_s = _try_s(deadline, longest_s), time.monotonic()
            try:
                self._find_nodes(given_s)
                return once(given_s)
            except RaftlogError as error:
                if time.monotonic() - began_s > 0.9 * given_s:  # grpc's clock is another one
                    longest_s *= 2
                if failures.reason is None or deadline.remaining_s() > 0:
                    failures.add(error)  # a try that the deadline ended says nothing
                raise

        def give_up(_: tenacity.RetryCallState) -> T:
            if deadline.remaining_s() > 0:
                if isinstance(failures.reason, ZooKeeperUnavailable):
                    raise failures.reason
                raise NodeUnreachable(
                    address=", ".join(self._bootstrap),
                    problem="no raftlog node listens there",
                )
            raise deadline.error(failures.text)

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_is_retriable),
            wait=lambda state: self._pause(state, failures.hints),
            stop=lambda _: deadline.remaining_s() <= 0 or self._nobody_listens(failures),
            retry_error_callback=give_up,
        )
        return retrying(once_timed)

    # ------------------------------------------------------------ nodes

    def leader(self, group: GroupId) -> str:
        """The group's leader as last heard of, or else a node that may give a hint."""
        return self._leaders.get(group) or self.next_address()

    def next_address(self, among: Sequence[str] = ()) -> str:
        """The nodes in turn, or those of `among`. Starts anywhere, so that clients spread.

        Leaves out a node that just gave no answer; if there is no other among these, any that the
        client knows may have an answer.
        """
        known = self._addresses or self._bootstrap
        if not (among or known):
            assert self._zookeeper is not None, "other bootstrap servers are known from the start"
            raise self._zookeeper.unknown("it was not asked yet")
        now_s = time.monotonic()
        for choice in (among, known):
            answering = [each for each in choice if self._avoided_until_s.get(each, 0.0) <= now_s]
            if answering:
                break
        choice = answering or among or known
        with self._lock:
            self._turn += 1
            return choice[self._turn % len(choice)]

    def near(self, among: Sequence[str]) -> Sequence[str]:
        """Those of them in `client.rack`, or all, if none is."""
        return [each for each in among if each in self._of_rack] or among

    def addresses(self, nodes: Collection[NodeId] = (), doubted: bool = False) -> tuple[str, ...]:
        """Where these nodes of the cluster listen, or all of them if none of these is known; the
        bootstrap servers while none answers. Nodes come and go: it asks, soon if `doubted`.

        Raises `NodeUnreachable` if nothing listens at any of these.
        """
        if self._asks_nodes(doubted=doubted or not self._nodes.keys() >= set(nodes)):
            patience_s = self.settings.try_timeout_s + self.settings.refused_timeout_s
            try:
                description = self.call_any(
                    DESCRIBE_CLUSTER,
                    DescribeCluster(),
                    Deadline(
                        DESCRIBE_CLUSTER.name, min(patience_s, self.settings.request_timeout_s)
                    ),
                )
            except DeadlineExceeded:
                if not (self._addresses or self._bootstrap):
                    raise
                return self._addresses or self._bootstrap
            self._note_nodes(description)
        return tuple(self._nodes[each] for each in nodes if each in self._nodes) or self._addresses

    def _ask_nodes(self, address: str) -> None:
        """Ask a node that has just answered which nodes there are."""
        with suppress(RaftlogError):
            self._note_nodes(self.ask(address, DESCRIBE_CLUSTER, DescribeCluster(), _ASK_S))

    def _asks_nodes(self, *, doubted: bool) -> bool:
        """Is it time to ask the cluster again which nodes there are?"""
        kept_s = _DOUBTED_KEPT_S if doubted else _NODES_KEPT_S
        return time.monotonic() >= self._nodes_told_at_s + kept_s

    def _note_nodes(self, description: ClusterDescription) -> None:
        self._nodes = dict(description.nodes)
        self._addresses = tuple(self._nodes.values())
        observers = {self._nodes[each] for each in description.observers if each in self._nodes}
        self.observers = frozenset(observers)
        racks = zip(description.nodes, description.racks, strict=False)
        rack = self.settings.rack
        self._of_rack = frozenset(each.address for each, its in racks if rack and its == rack)
        self._nodes_told_at_s = time.monotonic()

    def _find_nodes(self, timeout_s: float) -> None:
        """Ask ZooKeeper, if no node is known yet. One thread does, and the others wait for it."""
        if self._bootstrap or not self._finding.acquire(timeout=timeout_s):
            return
        try:
            if not self._bootstrap:
                assert self._zookeeper is not None, "nodes are known, or ZooKeeper knows them"
                self._take(self._zookeeper.find(timeout_s))
        finally:
            self._finding.release()

    def _look_again(self) -> None:
        """Ask ZooKeeper again, in the background, if none of the known nodes has answered.

        A cluster that one node of which is known never depends on what ZooKeeper says.
        """
        now_s = time.monotonic()
        known = self._addresses or self._bootstrap
        if self._zookeeper is None or not known or now_s < self._look_again_at_s:
            return
        if all(self._avoided_until_s.get(each, 0.0) > now_s for each in known):
            self._look_again_at_s = now_s + _LOOK_AGAIN_S
            threading.Thread(target=self._find_others, name="zookeeper", daemon=True).start()

    def _find_others(self) -> None:
        if not self._finding.acquire(blocking=False):
            return
        try:
            assert self._zookeeper is not None, "only then it is asked again"
            self._take(self._zookeeper.find(self.settings.try_timeout_s))
        except RaftlogError:
            pass  # the known nodes are tried on, and their errors are told
        finally:
            self._finding.release()

    def _take(self, found: Found) -> None:
        """Nodes that said that they are of this cluster. Those known before stay known."""
        addresses = dict.fromkeys((*found.addresses, *self._bootstrap))
        self._bootstrap = tuple(addresses)[:_BOOTSTRAP_MAX]
        self._addresses = found.addresses
        self._leaders = found.leaders | self._leaders

    # ------------------------------------------------------------ parts

    def _call(
        self,
        address: str,
        call: Call[Any, Reply],
        data: bytes,
        timeout_s: float,
        group: GroupId | None,
    ) -> Reply:
        # It blocks, because grpc starts a thread for the first future of an idle channel.
        stub = self._stub(address, call.name)
        return self._reply(call, address, lambda: stub(data, timeout_s), group)

    def _reply(
        self,
        call: Call[Any, Reply],
        address: str,
        wait: Callable[[], bytes],
        group: GroupId | None,
    ) -> Reply:
        """The decoded reply, or the typed error. Updates the leader cache of `group`."""
        try:
            reply, _ = decode_reply(call, wait())
        except grpc.RpcError as error:
            typed = self._typed(address, error)
            if group is not None:
                self._learn(group, address, typed)
            raise typed from None
        self._avoided_until_s.pop(address, None)
        self._answered = True
        if group is not None:
            self._leaders[group] = address
            if self._asks_nodes(doubted=False):
                # One who asks only leaders would else know the bootstrap servers for ever.
                self._ask_nodes(address)
        return reply

    def _typed(self, address: str, error: grpc.RpcError) -> RaftlogError:
        typed = typed_error(address, error)
        if isinstance(typed, NodeUnreachable | NodeStopping):
            self._avoided_until_s[address] = time.monotonic() + _AVOIDED_S
            self._look_again()
        self._answered |= not isinstance(typed, NodeUnreachable)
        if isinstance(typed, UnknownWriter):
            typed.servers = self.servers
        return typed

    def _nobody_listens(self, failures: _Failures) -> bool:
        """Whether the addresses may be wrong: no node was ever heard at any of them, or ZooKeeper
        named none."""
        patience_s = self.settings.refused_timeout_s
        if not self._bootstrap:
            return failures.unnamed_for_s() >= patience_s
        return not self._answered and all(
            failures.refused_for_s(address) >= patience_s for address in self._bootstrap
        )

    def _stub(self, address: str, method: str) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]:
        with self._lock:
            channel = self._channel(address)
            stub = self._stubs.get((address, method))
            if stub is None:
                stub = channel.unary_unary(f"/{SERVICE}/{method}")
                self._stubs[address, method] = stub
            return stub

    def _channel(self, address: str) -> grpc.Channel:
        """The channel to the address. Call it with the lock held."""
        if self._closed:
            raise InvalidOption(
                option="the client",
                problem="was closed",
                advice="Make another with `raftlog.connect`, and close it last.",
            )
        channel = self._channels.get(address)
        if channel is None:
            channel = grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)
            self._channels[address] = channel
        return channel

    def _learn(self, group: GroupId, asked: str, error: RaftlogError) -> None:
        """A hint names the leader. Any other retriable error makes the known leader doubtful."""
        unknown = isinstance(error, NotLeader) and error.address not in self._addresses
        if unknown and self._asks_nodes(doubted=True):
            # There are other nodes than before: later none of those may be left that are known.
            self._ask_nodes(asked)
        if isinstance(error, NotLeader) and error.address and error.address != asked:
            self._leaders[group] = error.address
        elif error.retriable and self._leaders.get(group) == asked:
            self._leaders.pop(group, None)

    def _pause(self, state: tenacity.RetryCallState, hints: int) -> float:
        """Exponential with jitter. A new hint of the leader is followed almost at once; these were
        given in a row."""
        least = self.settings.retry_delay_min_s
        if 1 <= hints <= _HINTS_MAX:
            return 0.0 if hints == 1 else least
        exponential = tenacity.wait_random_exponential(
            multiplier=least, max=self.settings.retry_delay_max_s
        )
        return exponential(state)


def _describe(address: str, timeout_s: float) -> ClusterDescription:
    """What a node says of itself that ZooKeeper names. Nothing is remembered of the address."""
    request = encode_request(DESCRIBE_CLUSTER, DescribeCluster())
    with grpc.insecure_channel(address, options=_CHANNEL_OPTIONS) as channel:
        stub: grpc.UnaryUnaryMultiCallable[bytes, bytes]
        stub = channel.unary_unary(f"/{SERVICE}/{DESCRIBE_CLUSTER.name}")
        try:
            reply, _ = decode_reply(DESCRIBE_CLUSTER, stub(request, timeout_s))
        except grpc.RpcError as error:
            raise typed_error(address, error) from None
    return reply


def _try_s(deadline: Deadline, longest_s: float) -> float:
    """Seconds for the next try; never 0, with which grpc would not even send it."""
    return max(0.001, min(deadline.remaining_s(), longest_s))


class _Failures:
    """What the tries of one request raised. Patience is each request's own: nodes may have been
    started since an earlier one gave up."""

    def __init__(self) -> None:
        self.hints = 0
        """How many in a row named a leader, up to the last one."""
        self._last: RaftlogError | None = None
        self._full: DiskFull | Overloaded | None = None
        self._quarantined: dict[int, ReplicaQuarantined] = {}
        """By node."""
        self._unnamed_since_s: float | None = None
        """Since when ZooKeeper named no node."""
        self._refused_since_s: dict[str, float] = {}
        """Addresses where no node listened in any try so far: since when."""

    def add(self, error: RaftlogError) -> None:
        """A try has failed."""
        self._last = error
        self.hints = self.hints + 1 if isinstance(error, NotLeader) and error.address else 0
        if isinstance(error, DiskFull | Overloaded):
            self._full = error
        if isinstance(error, ReplicaQuarantined):
            self._quarantined[error.node] = error
        if isinstance(error, ZooKeeperUnavailable) and self._unnamed_since_s is None:
            self._unnamed_since_s = time.monotonic()
        if isinstance(error, NodeUnreachable):
            if error.problem in _NO_NODE.values():
                self._refused_since_s.setdefault(error.address, time.monotonic())
            else:
                self._refused_since_s.pop(error.address, None)

    @property
    def reason(self) -> RaftlogError | None:
        """The error to report when the deadline passes; None: no try has failed.

        It is the last one. But whom to ask is no reason if a node said that its disk or a queue is
        full.
        """
        return (self._full or self._last) if isinstance(self._last, NotLeader) else self._last

    @property
    def text(self) -> str:
        """The same in words. If nobody leads, and nodes said that their replicas are damaged, that
        is why: all of them are named."""
        reason = self.reason
        nobody_leads = isinstance(reason, NotLeader) and not reason.leader
        if self._quarantined and (nobody_leads or isinstance(reason, ReplicaQuarantined)):
            *others, last = (each for _, each in sorted(self._quarantined.items()))
            return " ".join([*(each.cause for each in others), str(last)])
        return str(reason) if reason is not None else ""

    def unnamed_for_s(self) -> float:
        """For how many seconds did ZooKeeper name no node? -1: it was not asked."""
        since_s = self._unnamed_since_s
        return -1.0 if since_s is None else time.monotonic() - since_s

    def refused_for_s(self, address: str) -> float:
        """For how many seconds did nobody listen there? -1: somebody may, for all that is known."""
        since_s = self._refused_since_s.get(address)
        return -1.0 if since_s is None else time.monotonic() - since_s


def _is_retriable(error: BaseException) -> bool:
    return isinstance(error, RaftlogError) and error.retriable


def _in_our_words(details: str) -> str:
    """What happened on the way to a node. grpc's texts begin with its own parts, and end with the
    operating system's reason."""
    for theirs, ours in {**_NO_NODE, **_LOST}.items():
        if theirs in details:
            return ours
    reason = details.rpartition(": ")[2]
    return f"the call did not get there or back ({reason})" if reason else "the call was ended"


def typed_error(address: str, error: grpc.RpcError) -> RaftlogError:
    """The error that a node answered, or what happened on the way to it."""
    for each in error.trailing_metadata() or ():
        if each.key == ERROR_METADATA_KEY and isinstance(each.value, bytes):
            return decode_error(each.value)
    code = error.code()
    if code in (
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
    ):
        return NodeUnreachable(address=address, problem=_in_our_words(error.details() or ""))
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return InvalidOption(
            option="client.bootstrap_servers",
            problem=f"names {address}, which does not know this call",
            advice="Give nodes of raftlog, and of this version (--servers; in Spark "
            "raftlog.bootstrap.servers).",
        )
    sizes = _OVER_MESSAGE_LIMIT.search(error.details() or "")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and sizes is not None:
        return TooLarge(
            what="A request",
            size=int(sizes[1]),
            limit=int(sizes[2]),
            option="server.entry_bytes_max",
        )
    return Internal(what=f"{address} answered {code.name}: {error.details()}")

"""Calls to a cluster's nodes: channels, the leader cache, retries within one total deadline.

Every call of the protocol may be sent twice without harm: reads change nothing, and writes carry a
producer's sequence, an attempt's stage number or an incarnation. So every retriable error is
retried, even if it is not known whether the call was done.

`channels` holds the channels, `call_errors` says what a failed call means, `retries` how long a
request is tried. Thread-safe, and usable in a forked child, because Spark forks its workers.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import grpc
import tenacity
from pydantic import SecretStr

from raftlog.client.call_errors import typed_error
from raftlog.client.channels import Channels
from raftlog.client.forks import in_each_child
from raftlog.client.retries import Deadline, Failures, is_retriable, pause_s, try_seconds
from raftlog.client.servers import parse_servers
from raftlog.client.token import Token, metadata_of
from raftlog.client.traces import Traces
from raftlog.client.zookeeper_servers import Found, ZooKeeperServers
from raftlog.config import ClientSettings
from raftlog.config_secrets import refuse_bare_token
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import (
    DeadlineExceeded,
    IndexUnderflow,
    InvalidOption,
    MalformedRequest,
    NodeStopping,
    NodeUnreachable,
    NoSnapshot,
    NotLeader,
    RaftlogError,
    TokenReplaced,
    Unauthenticated,
    UnknownWriter,
)
from raftlog.wire.calls import (
    CLUSTER_METADATA_KEY,
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
from raftlog.wire.codec import decode_reply, encode_request

if TYPE_CHECKING:
    from raftlog.tracing import Span

LOGGER = "raftlog.client"
"""Says at the level INFO what a request waits for that takes long."""

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
"""The same, where a node is wanted that the cluster did not name, or the leader is not known."""

log = logging.getLogger(LOGGER)

T = TypeVar("T")

Judge = Callable[[RaftlogError], RaftlogError | None]
"""Tells the error to raise at once in place of this one; None: it may help to try again."""


class Sent(NamedTuple, Generic[Reply]):
    """A call in flight: grpc's future, the node that it went to, the token that it shows, and its
    span, if it is traced."""

    call: Call[Any, Reply]
    address: str
    future: Any
    shown: SecretStr
    span: Span | None

    def cancel(self) -> None:
        """Give it up. What it asked for may be done all the same."""
        self.future.cancel()
        if self.span is not None:
            self.span.end()


class Connection:
    """What a `LogClient` shares with its producers and readers."""

    def __init__(self, settings: ClientSettings, channels: Channels | None = None) -> None:
        """`channels` lead to the nodes; by default those of the settings."""
        self.settings = settings
        self._zookeeper: ZooKeeperServers | None = None
        self._bootstrap: tuple[str, ...] = ()
        """The nodes to ask first. Empty until ZooKeeper has named them, if it is to."""
        given = "bootstrap_servers" in settings.model_fields_set and settings.bootstrap_servers
        if settings.zookeeper:
            self._zookeeper = ZooKeeperServers(settings, self._describe)
        if given or not settings.zookeeper:  # given besides ZooKeeper: it named them before
            self._bootstrap = parse_servers(settings.bootstrap_servers)
        self._look_again_at_s = 0.0
        self._lock = threading.Lock()
        self._finding = threading.Lock()
        in_each_child(self, Connection._begin_again)
        self._channels = channels or Channels(settings)
        self.traces = Traces(settings)
        """The spans of its requests."""
        refuse_bare_token(settings.token, settings.tls_ca_file)
        self._token = Token(settings.token)
        self._leaders: dict[GroupId, str] = {}
        self._avoided_until_s: dict[str, float] = {}
        self._answered = False
        """Whether any node ever answered."""
        self._cluster: tuple[tuple[str, str], ...] = ()
        """Sent with every call, so that a node of another cluster refuses it: it may listen where
        one of this cluster did. Empty until a node has said which cluster this is."""
        self._nodes: dict[NodeId, str] = {}
        self._addresses: tuple[str, ...] = ()
        """Of all nodes, once the cluster has told them."""
        self._nodes_told_at_s = -_NODES_KEPT_S
        self.observers: frozenset[str] = frozenset()
        """The addresses of nodes that never vote, and hold every group."""
        self._of_rack: frozenset[str] = frozenset()
        """Those of the nodes that stand where this client stands."""
        self._turn = 0
        self._asked_at_turn: dict[str, int] = {}

    @property
    def servers(self) -> str:
        """How the cluster is found, in words for messages."""
        if self._zookeeper is None:
            return self.settings.bootstrap_servers
        return f"{', '.join(self._bootstrap)} by ZooKeeper at {self.settings.zookeeper}"

    def close(self) -> None:
        """Close the channels of this process, for good."""
        self._channels.close()
        self.traces.close()

    def _begin_again(self) -> None:
        """In a forked child: another thread of the parent may have held the locks."""
        self._lock = threading.Lock()
        self._finding = threading.Lock()
        self.traces.begin_again()

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
        judge: Judge | None = None,
    ) -> Reply:
        """The reply of the group's leader, which hints help to find. Retries until the deadline.

        `earlier` is what a try of the same request by `send_leader` raised; `judge` as in `retry`.
        """
        data = encode_request(call, request, body)
        with self.traces.request(call.name, group, len(data)):
            return self.retry(
                lambda try_s: self._call(self.leader(group), call, data, try_s, group),
                deadline or self.deadline(call.name),
                earlier,
                judge,
            )

    def call_any(
        self,
        call: UnaryCall[Request, Reply],
        request: Request,
        deadline: Deadline | None = None,
        judge: Judge | None = None,
    ) -> Reply:
        """The reply of the first node that answers. Asks one after another until the deadline."""
        data = encode_request(call, request)
        with self.traces.request(call.name, None, len(data)):
            return self.retry(
                lambda try_s: self._call(self.next_address(), call, data, try_s, None),
                deadline or self.deadline(call.name),
                judge=judge,
            )

    def call_that_has(
        self, call: UnaryCall[Request, Reply], request: Request, judge: Judge | None = None
    ) -> Reply:
        """The reply of a node that keeps what is asked for: where one does not any more, or not
        yet, another may. Raises `IndexUnderflow` or `NoSnapshot` once all have been asked."""
        refusals = 0
        while True:
            try:
                return self.call_any(call, request, judge=judge)
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
        *,
        guess: bool = False,
    ) -> Sent[Reply] | None:
        """Start a call to the known leader. None if no leader is known: use `call_leader`.

        With `guess` any node is asked then, which may be or name the leader; None if no node is
        known.
        """
        address = self._leaders.get(group)
        if address is None and guess and (self._addresses or self._bootstrap):
            address = self.next_address()
        if address is None:
            return None
        try_s = try_seconds(deadline, self.settings.try_timeout_s)
        return self.start(address, call, request, try_s, body, group)

    def start(
        self,
        address: str,
        call: UnaryCall[Request, Reply],
        request: Request,
        try_s: float,
        body: bytes = b"",
        group: GroupId | None = None,
    ) -> Sent[Reply]:
        """Start one try at one node, which another thread can cancel; `receive` has its reply."""
        data = encode_request(call, request, body)
        stub = self._channels.unary(address, call.name)
        shown = self._token.shown()
        span = self.traces.begin(call.name, group, len(data))
        carried = self.traces.metadata(span)
        future = stub.future(data, try_s, metadata=(*self._cluster, *metadata_of(shown), *carried))
        return Sent(call, address, future, shown, span)

    def receive(self, sent: Sent[Reply], group: GroupId | None = None) -> Reply:
        """The reply to a call that was started, to the leader of `group` if that is given. Raises
        its typed error, and `NodeUnreachable` if it was cancelled."""
        with self.traces.until_end(sent.span):
            return self._reply(sent.call, sent.address, sent.shown, sent.future.result, group)

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
        stub = self._channels.streamed(address, call.name)
        data = encode_request(call, request)
        shown = self._token.shown()
        span = self.traces.begin(call.name, getattr(request, "group", None))
        carried = self.traces.metadata(span)
        replies = stub(
            data, timeout=timeout_s, metadata=(*self._cluster, *metadata_of(shown), *carried)
        )
        try:
            with self.traces.until_end(span):
                for data in replies:
                    yield decode_reply(call, data)
        except (grpc.RpcError, MalformedRequest) as error:
            raise self._typed(address, shown, error) from None
        finally:
            replies.cancel()

    def retry(
        self,
        once: Callable[[float], T],
        deadline: Deadline,
        earlier: RaftlogError | None = None,
        judge: Judge | None = None,
    ) -> T:
        """Call `once(seconds for this try)` until it succeeds, fails for good, or the deadline
        passes. `earlier` is what a try before these raised. `judge` is shown each error, and may
        know that it is final.

        A try that ends by its own time is followed by one of twice the time. On slow disks, a write
        would otherwise be proposed again and again and never be answered. Raises `NodeUnreachable`
        with all addresses if no node listens at any of them, and `InvalidOption` if none of the
        services that listen there knows the call.
        """
        failures = Failures()
        if earlier is not None:
            failures.add(earlier)
        longest_s = self.settings.try_timeout_s
        final: RaftlogError | None = None

        def once_timed() -> T:
            nonlocal longest_s, final
            given_s, began_s = try_seconds(deadline, longest_s), time.monotonic()
            try:
                self._find_nodes(given_s)
                return once(given_s)
            except RaftlogError as error:
                if time.monotonic() - began_s > 0.9 * given_s:  # grpc's clock is another one
                    longest_s *= 2
                if failures.reason is None or deadline.remaining_s() > 0:
                    failures.add(error)  # a try that the deadline ended says nothing
                if (notice := failures.notice(deadline.what)) is not None:
                    log.info(notice)
                final = judge(error) if judge is not None else None
                if final is None:
                    raise
                raise final from error

        def give_up(_: tenacity.RetryCallState) -> T:
            hopeless = self._hopeless(failures) if deadline.remaining_s() > 0 else None
            raise hopeless or deadline.error(failures.text)

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(
                lambda error: is_retriable(error) and error is not final
            ),
            wait=lambda state: pause_s(self.settings, state, failures.hints),
            stop=lambda _: deadline.remaining_s() <= 0 or self._hopeless(failures) is not None,
            retry_error_callback=give_up,
        )
        return retrying(once_timed)

    # ------------------------------------------------------------ nodes

    def leader(self, group: GroupId) -> str:
        """The group's leader as last heard of, or else a node that may give a hint."""
        return self._leaders.get(group) or self.next_address()

    def next_address(self, among: Sequence[str] = ()) -> str:
        """The node, of `among` if given, that was asked least recently. Chooses at random among
        those not asked yet, so that clients spread.

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
            # Calls that choose among different nodes alternate, so a turn for each list of nodes
            # would skip some of them.
            chosen = min(choice, key=lambda each: self._asked_at_turn.get(each, random.random()))
            self._asked_at_turn[chosen] = self._turn
            return chosen

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
        cluster = ((CLUSTER_METADATA_KEY, description.cluster_id),)
        if self._cluster not in ((), cluster):
            return  # two threads asked at first, nodes of different clusters
        self._cluster = cluster
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
        stub = self._channels.unary(address, call.name)
        shown = self._token.shown()
        metadata = (*self._cluster, *metadata_of(shown), *self.traces.metadata())
        wait = partial(stub, data, timeout_s, metadata=metadata)
        return self._reply(call, address, shown, wait, group)

    def _reply(
        self,
        call: Call[Any, Reply],
        address: str,
        shown: SecretStr,
        wait: Callable[[], bytes],
        group: GroupId | None,
    ) -> Reply:
        """The decoded reply, or the typed error. Updates the leader cache of `group`."""
        try:
            reply, _ = decode_reply(call, wait())
        except grpc.FutureCancelledError:
            raise NodeUnreachable(address=address, problem="the call was cancelled") from None
        except (grpc.RpcError, MalformedRequest) as error:
            typed = self._typed(address, shown, error)
            if group is not None:
                self._learn(group, address, typed)
            raise typed from None
        self._avoided_until_s.pop(address, None)
        self._answered = True
        if group is not None:
            self._leaders[group] = address
            if self._asks_nodes(doubted=False):
                # A client that asks only leaders would else keep to the bootstrap servers.
                self._ask_nodes(address)
        return reply

    def _typed(
        self, address: str, shown: SecretStr, error: grpc.RpcError | MalformedRequest
    ) -> RaftlogError:
        typed = typed_error(address, error)
        if isinstance(typed, Unauthenticated) and self._token.changed_since(shown):
            typed = TokenReplaced(problem=typed.problem)
        if isinstance(typed, NodeUnreachable | NodeStopping):
            self._avoided_until_s[address] = time.monotonic() + _AVOIDED_S
            self._look_again()
        self._answered |= not isinstance(typed, NodeUnreachable)
        if isinstance(typed, UnknownWriter):
            typed.servers = self.servers
        return typed

    def _hopeless(self, failures: Failures) -> RaftlogError | None:
        """Why the rest of the deadline would be in vain, because the addresses may be wrong: no
        node was ever heard at any of them, ZooKeeper named none, or all that listens there does not
        know the call. None: it may help to try again."""
        patience_s = self.settings.refused_timeout_s
        if not self._bootstrap:
            waited = failures.unnamed_for_s() >= patience_s
            return failures.reason if waited else None
        known = self._addresses or self._bootstrap
        if failures.call_unknown_at_all(known):
            given = "bootstrap_servers" if self._zookeeper is None else "zookeeper"
            return InvalidOption(
                option=f"client.{given}",
                problem=f"leads to {', '.join(known)}, where nothing knows this call",
                advice="Give nodes of raftlog, and of this version (commands: --servers).",
            )
        if self._answered or not all(
            failures.refused_for_s(address) >= patience_s for address in self._bootstrap
        ):
            return None
        return failures.refused_at_all(self._bootstrap)

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

    def _describe(self, address: str, timeout_s: float) -> ClusterDescription:
        """What a node says of itself that ZooKeeper names. Nothing is remembered of the address.

        It is shown the token as any node is: only over TLS, if its certificate names the host."""
        request = encode_request(DESCRIBE_CLUSTER, DescribeCluster())
        shown = self._token.shown()
        with self._channels.own(address) as channel:
            stub: grpc.UnaryUnaryMultiCallable[bytes, bytes]
            stub = channel.unary_unary(f"/{SERVICE}/{DESCRIBE_CLUSTER.name}")
            try:
                reply, _ = decode_reply(
                    DESCRIBE_CLUSTER, stub(request, timeout_s, metadata=metadata_of(shown))
                )
            except (grpc.RpcError, MalformedRequest) as error:
                typed = typed_error(address, error)
                if isinstance(typed, Unauthenticated) and self._token.changed_since(shown):
                    typed = TokenReplaced(problem=typed.problem)
                raise typed from None
        return reply

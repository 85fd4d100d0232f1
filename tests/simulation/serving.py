"""Calls of the real client in a simulation: its frames go over the simulated network to nodes.

A node answers as the server's services do: with their checks of a batch, and their errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import grpc

from raftlog.client.channels import Channels
from raftlog.config import ClientSettings
from raftlog.core.ready import Role
from raftlog.core.types import NodeId
from raftlog.errors import NotLeader, RaftlogError
from raftlog.machines.commands import AlterSchema, Append, Command, TopicInfo
from raftlog.machines.outcomes import Appended, Outcome, Refused, TopicAltered
from raftlog.machines.rules import RULES_LATEST
from raftlog.multiraft.admission import RoomUse
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.server.record_batches import checked_summary
from raftlog.server.refused import accepted, error_of
from raftlog.wire.batch import BatchHeader
from raftlog.wire.calls import (
    ALTER_SCHEMA,
    APPEND,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
    AppendCall,
    Call,
    ClusterDescription,
    DescribeCluster,
    DescribeTopic,
    NodeAddress,
    TopicReply,
)
from raftlog.wire.codec import (
    ERROR_METADATA_KEY,
    decode_request,
    encode_error,
    encode_reply,
)
from tests.simulation.network import Network
from tests.simulation.node import CLUSTER_ID, SimulatedNode
from tests.simulation.swarm import SECOND
from tests.simulation.threads import SimulatedThread, Threads

CALLS: Mapping[str, Call[Any, Any]] = {
    call.name: call for call in (DESCRIBE_CLUSTER, DESCRIBE_TOPIC, ALTER_SCHEMA, APPEND)
}

Answer = Callable[[object], None]
"""Takes a reply, or the error that is raised in its place."""


def address_of(node: NodeId) -> str:
    """Where clients find the node."""
    return f"node-{node}:1"


# ------------------------------------------------------------ nodes


class Service:
    """Answers calls as one node."""

    def __init__(self, node: SimulatedNode, nodes: Sequence[NodeId]) -> None:
        self._node = node
        self._nodes = nodes

    def serve(self, call: Call[Any, Any], data: bytes, answer: Answer) -> None:
        """Answer some time, unless the process ends before."""
        request, body = decode_request(call, data)
        try:
            match request:
                case DescribeCluster():
                    answer(self._described())
                case DescribeTopic(name=name):
                    self._describe(name, answer)
                case AlterSchema():
                    controller = self._node.multiraft.replicas.of_controller
                    self._propose(controller, request, TopicAltered, answer)
                case AppendCall():
                    self._append(request, body, answer)
                case _:
                    raise AssertionError(f"{call.name} is not served here")
        except RaftlogError as error:
            answer(self._hinted(error))

    def _described(self) -> ClusterDescription:
        raft = self._node.multiraft.replicas.of_controller.raft
        return ClusterDescription(
            cluster_id=CLUSTER_ID,
            node=self._node.node,
            store_uuid=self._node.store,
            leader=raft.leader,
            term=raft.term,
            nodes=tuple(NodeAddress(each, address_of(each)) for each in self._nodes),
            version="",
            registered=True,
            disk_keeps_up=True,
            disk_full="",
            rules=RULES_LATEST,
            rules_known=RULES_LATEST,
            behind_rules=(),
        )

    def _describe(self, name: str, answer: Answer) -> None:
        replicas = self._node.multiraft.replicas

        def confirmed(error: RaftlogError | None) -> None:
            if error is not None:
                answer(self._hinted(error))
                return
            found = replicas.controller.topic(name)
            answer(error_of(found) if isinstance(found, Refused) else TopicReply(topic=found))

        self._node.multiraft.read_barrier(replicas.of_controller, confirmed)

    def _append(self, call: AppendCall, body: bytes, answer: Answer) -> None:
        replicas = self._node.multiraft.replicas
        local = replicas.of_topic(call.group, call.incarnation)
        if local is None or local.raft.role is not Role.LEADER:
            leader = 0 if local is None else local.raft.leader
            raise NotLeader(group=call.group, node=self._node.node, leader=leader)
        info = local.topic_machine.info
        known = replicas.controller.info_of(call.group)
        latest = info.schema
        if isinstance(known, TopicInfo) and known.schema.version > latest.version:
            latest = known.schema
        command = Append(
            producer=call.producer,
            sequence=call.sequence,
            timestamp_us=self._node.multiraft.now_us(local),
            batch=checked_summary(info, call.batch, call.crc, body, latest=latest),
        )
        self._propose(local, command, Appended, answer, call.batch, body)

    def _propose(
        self,
        local: LocalReplica,
        command: Command,
        kind: type[Outcome],
        answer: Answer,
        batch: BatchHeader | None = None,
        body: bytes = b"",
    ) -> None:
        def reply(outcome: Outcome | RaftlogError) -> None:
            try:
                if isinstance(outcome, RaftlogError):
                    raise outcome
                answer(accepted(kind, outcome))
            except RaftlogError as error:
                answer(self._hinted(error))

        payload = local.payload(command, batch, body)
        self._node.multiraft.propose(local, payload, reply, RoomUse(grows=True))

    def _hinted(self, error: RaftlogError) -> RaftlogError:
        if isinstance(error, NotLeader) and error.leader in self._nodes:
            error.address = address_of(NodeId(error.leader))
        return error


# ------------------------------------------------------------ the way to them


class SimulatedChannels(Channels):
    """Channels of a client whose threads are simulated."""

    def __init__(
        self,
        settings: ClientSettings,
        threads: Threads,
        network: Network,
        nodes: Mapping[NodeId, SimulatedNode],
    ) -> None:
        super().__init__(settings)
        self.threads = threads
        self.network = network
        self.nodes = nodes

    def unary(self, address: str, method: str) -> Any:
        return _Stub(self, address, CALLS[method])


class _Stub:
    def __init__(self, channels: SimulatedChannels, address: str, call: Call[Any, Any]) -> None:
        self._channels = channels
        self._address = address
        self._call = call

    def __call__(self, data: bytes, timeout: float, *, metadata: object) -> bytes:
        return self.future(data, timeout, metadata=metadata).result()

    def future(self, data: bytes, timeout: float, *, metadata: object) -> _Sent:
        return _Sent(self._channels, self._address, self._call, data, int(timeout * SECOND))


class _Sent:
    """A call on its way, as grpc's future of it."""

    def __init__(
        self,
        channels: SimulatedChannels,
        address: str,
        call: Call[Any, Any],
        data: bytes,
        timeout_us: int,
    ) -> None:
        self._threads = channels.threads
        self._result: bytes | CallFailed | None = None
        self._waiter: SimulatedThread | None = None

        def arrive() -> None:
            found = [each for each in channels.nodes.values() if address_of(each.node) == address]
            if not found or not found[0].running:
                self._refused(channels.network)
                return
            node = found[0]
            service = Service(node, list(channels.nodes))
            node.serve(lambda: service.serve(call, data, answer))

        def answer(value: object) -> None:
            failed = isinstance(value, RaftlogError)
            done = CallFailed.of(value) if failed else encode_reply(call, value)
            channels.network.call(lambda: self._done(done))

        channels.network.call(arrive)
        late = CallFailed(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        self._threads.simulator.at(timeout_us, lambda: self._done(late))

    def _refused(self, network: Network) -> None:
        details = "failed to connect to all addresses; last error: UNKNOWN: Connection refused"
        failed = CallFailed(grpc.StatusCode.UNAVAILABLE, details)
        network.call(lambda: self._done(failed))

    def _done(self, result: bytes | CallFailed) -> None:
        if self._result is None:
            self._result = result
            if self._waiter is not None:
                self._threads.wake(self._waiter)

    def result(self) -> bytes:
        """The reply's frame. Raises `CallFailed`."""
        if self._result is None:
            self._waiter = self._threads.running()
            self._threads.wait()
        assert self._result is not None, "it is woken with a result"
        if isinstance(self._result, CallFailed):
            raise self._result
        return self._result

    def cancel(self) -> None:
        """What it asked for may be done all the same."""
        self._done(CallFailed(grpc.StatusCode.CANCELLED, "Locally cancelled"))


class _Metadatum(NamedTuple):
    key: str
    value: bytes


class CallFailed(grpc.RpcError):
    """As grpc raises it."""

    def __init__(self, code: grpc.StatusCode, details: str, error: bytes | None = None) -> None:
        self._code = code
        self._details = details
        self._error = error

    @classmethod
    def of(cls, error: Any) -> CallFailed:
        return cls(grpc.StatusCode.UNKNOWN, str(error), encode_error(error))

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> tuple[_Metadatum, ...]:
        return () if self._error is None else (_Metadatum(ERROR_METADATA_KEY, self._error),)

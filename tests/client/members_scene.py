"""The nodes of a cluster as `client.members` meets them: ports that answer from a real controller.

There are no replicas. A group is where it is wished to be some looks later, as if its leader had
moved it meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import replace
from typing import Any

import grpc

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.client.cluster_members import ClusterMembers
from raftlog.client.connection import Connection
from raftlog.config import ClientSettings
from raftlog.core.types import CONTROLLER_GROUP, GroupId, LogIndex, NodeId, Term
from raftlog.errors import RaftlogError
from raftlog.machines.commands import (
    AddNode,
    CreateTopic,
    PlaceGroup,
    RegisterNode,
    ReportPlacement,
    Rules,
)
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.outcomes import Refused
from raftlog.machines.placements import Placement
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.schema import Field, Schema
from raftlog.server.refused import error_of
from raftlog.wire import calls as c
from raftlog.wire.codec import ERROR_METADATA_KEY, decode_request, encode_error, encode_reply
from raftlog.wire.group_calls import NodeAddress
from raftlog.wire.placing_calls import GroupPlace, NodePlaces, PlacementsReply
from tests.cli.test_status import view
from tests.stores import founders

SCHEMA = Schema(version=1, fields=(Field(id=1, name="id", type="long", nullable=True),))
FOUNDERS = (NodeId(1), NodeId(2), NodeId(3))
COMMITTED = 10
"""Entries of group 1."""


class MembersScene:
    """A cluster of three nodes whose controller's state is the real one."""

    def __init__(self, ports: int) -> None:
        self.machine = ControllerMachine()
        self.applied: dict[NodeId, int] = {}
        """How far a node has applied group 1, of its `COMMITTED` entries; by default all."""
        self.looks_to_move = 2
        self.comes_when_added = False
        self.after_looks: list[Callable[[], Any]] = []
        """What happens after each of the next looks at what is where."""
        self.unregistered: set[NodeId] = set()
        self.full: set[NodeId] = set()
        """The nodes whose disks have no room."""
        self._index = 0
        self._lock = threading.Lock()
        self._looks: dict[GroupId, int] = {}
        self._servers: dict[NodeId, grpc.Server] = {}
        self.addresses: dict[NodeId, str] = {}
        for number in range(1, ports + 1):
            self._serve(NodeId(number))
        for node in FOUNDERS:
            self.come(node)
        self.apply(Rules(version=RULES_LATEST))

    def close(self) -> None:
        for server in self._servers.values():
            server.stop(None).wait()

    def apply(self, command: Any) -> Any:
        self._index += 1
        return self.machine.apply(LogIndex(self._index), command)

    def come(self, node: int) -> None:
        """The node is started, which is added or a founder."""
        address = self.addresses[NodeId(node)]
        self.apply(
            RegisterNode(
                node=NodeId(node), store_uuid=f"s{node}", address=address, rules=RULES_LATEST
            )
        )

    def topic(self, name: str, *voters: int) -> None:
        command = CreateTopic(
            name=name, incarnation=name, schema=SCHEMA, voters=tuple(map(NodeId, voters)),
            if_not_exists=False, timestamp_us=1,
        )  # fmt: skip
        self.apply(command)

    def lose(self, node: int) -> None:
        """The node's process is gone."""
        self._servers[NodeId(node)].stop(None).wait()

    def places(self) -> dict[str, tuple[int, ...]]:
        """The nodes of each group, by topic."""
        return {each.topic: each.voters for each in self._placements().groups}

    @property
    def servers(self) -> str:
        """Where the founders listen."""
        return ",".join(self.addresses[node] for node in FOUNDERS)

    @contextlib.contextmanager
    def members(self) -> Iterator[ClusterMembers]:
        """What a client asks of the cluster."""
        connection = Connection(ClientSettings(bootstrap_servers=self.servers))
        with contextlib.closing(connection):
            yield ClusterMembers(connection, view_timeout_s=PATIENCE_S)

    # ------------------------------------------------------------ the nodes' answers

    def _serve(self, node: NodeId) -> None:
        answers: dict[c.PlainCall[Any, Any], Callable[[Any], Any]] = {
            c.DESCRIBE_CLUSTER: lambda _: self._describe(node),
            c.DESCRIBE_PLACEMENTS: lambda _: self._look(),
            c.PLACE_GROUP: self._place,
            c.WATCH_GROUPS: lambda _: self._view(node),
        }
        for call in (c.ADD_NODE, c.SET_PARENTS, c.SET_DUTY, c.RETIRE_NODE):
            answers[call] = self._command
        server = grpc.server(futures.ThreadPoolExecutor(4))
        handlers = {call.name: self._handler(call, its) for call, its in answers.items()}
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(c.SERVICE, handlers),)
        )
        self.addresses[node] = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        self._servers[node] = server
        server.start()

    def _handler(self, call: c.PlainCall[Any, Any], answer: Callable[[Any], Any]) -> Any:
        def serve(data: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                with self._lock:
                    return encode_reply(call, answer(decode_request(call, data)[0]))
            except RaftlogError as error:
                context.set_trailing_metadata(((ERROR_METADATA_KEY, encode_error(error)),))
                context.abort(grpc.StatusCode[error.grpc_status], error.cause)

        return grpc.unary_unary_rpc_method_handler(serve)

    def _command(self, command: Any) -> Any:
        outcome = self.apply(command)
        if isinstance(outcome, Refused):
            raise error_of(outcome)
        if self.comes_when_added and isinstance(command, AddNode):
            self.come(command.node)
        return outcome

    def _place(self, call: Any) -> Any:
        former = self._made()[call.group][1]
        return self._command(
            PlaceGroup(
                group=call.group, voters=call.voters, generation=call.generation, former=former
            )
        )

    def _look(self) -> PlacementsReply:
        reply = self._placements()
        if self.after_looks:
            self.after_looks.pop(0)()
        for group in list(self.machine.placements.under_way()):
            self._looks[group] = self._looks.get(group, 0) + 1
            if self._looks[group] >= self.looks_to_move:
                del self._looks[group]
                generation = self.machine.placements[group].generation
                self.apply(ReportPlacement(group=group, generation=generation))
        return reply

    def _made(self) -> dict[GroupId, tuple[str, tuple[NodeId, ...]]]:
        created = {each.group: (each.name, each.voters) for each in self.machine.topics()}
        return {CONTROLLER_GROUP: ("", FOUNDERS), **created}

    def _placements(self) -> PlacementsReply:
        groups = []
        for group, (name, voters) in sorted(self._made().items()):
            now = self.machine.placements.get(group, Placement(voters, 0, 0, voters))
            groups.append(
                GroupPlace(
                    group=group, topic=name, voters=now.voters, former=now.former,
                    generation=now.generation, reached=now.is_reached,
                )
            )  # fmt: skip
        nodes = [
            NodePlaces(
                node=node, address=its.address, rack="", registered=bool(its.store_uuid),
                draining=its.draining, leaving=its.leaving, observer=its.observer,
                parents=its.parents, level=self.machine.nodes.level_of(node),
            )
            for node, its in sorted(self.machine.nodes.items())
        ]  # fmt: skip
        return PlacementsReply(
            nodes=tuple(nodes), groups=tuple(groups), founders=founders(FOUNDERS),
            removed=tuple(sorted(self.machine.nodes.retired)),
        )  # fmt: skip

    def _describe(self, node: NodeId) -> c.ClusterDescription:
        known = sorted(self.machine.nodes.items())
        return c.ClusterDescription(
            cluster_id="c", node=node, store_uuid=f"s{node}", leader=NodeId(1), term=Term(1),
            nodes=tuple(NodeAddress(each, its.address) for each, its in known), version="1",
            registered=node not in self.unregistered, disk_keeps_up=True,
            disk_full="groups/1/log" if node in self.full else "",
            rules=RULES_LATEST, rules_known=RULES_LATEST, behind_rules=(),
        )  # fmt: skip

    def _view(self, node: NodeId) -> c.NodeView:
        applied = LogIndex(self.applied.get(node, COMMITTED))
        shown = replace(view(node, 1, "t", 1), commit_index=applied, applied_index=applied)
        return c.NodeView(node=node, groups=(shown,))


@contextlib.contextmanager
def scene(ports: int) -> Iterator[MembersScene]:
    """Three nodes, and ports for so many."""
    found = MembersScene(ports)
    with contextlib.closing(found):
        yield found

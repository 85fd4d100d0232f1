"""Many observers in one process, for the bench: `python -m tests.bench.many_observers`.

Each is the node that `raftlog serve` runs, with a folder and a port of its own. They share a loop,
so that twenty fit on a small machine.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from pathlib import Path

import grpc.aio

from raftlog.config import Settings, load
from raftlog.core.types import NodeId
from raftlog.server.compactor import Compactor
from raftlog.server.meters import Meters
from raftlog.server.node import Node
from raftlog.server.registration import register
from raftlog.server.rights import Rights
from raftlog.server.rpc import CallGate, client_handlers
from raftlog.server.services import Services
from raftlog.storage.folder import DataFolder
from raftlog.storage.posix import PosixFileSystem
from raftlog.transport.inbound import PeerStreams
from raftlog.transport.peer_channels import PeerChannels


async def observe(
    folder: Path, cluster_id: str, addresses: dict[NodeId, str], first: int, last: int
) -> None:
    """Run the nodes `first` to `last` until the process is ended."""
    settings = load()
    running = [
        await _start(settings, folder / f"{number}", cluster_id, addresses, NodeId(number))
        for number in range(first, last + 1)
    ]
    print(len(running), "observers run", flush=True)
    await asyncio.Event().wait()


async def _start(
    settings: Settings, data: Path, cluster_id: str, addresses: dict[NodeId, str], node_id: NodeId
) -> tuple[Node, grpc.aio.Server]:
    data.mkdir(parents=True, exist_ok=True)
    opened = DataFolder.open(
        PosixFileSystem(data),
        cluster_id=cluster_id,
        node=node_id,
        new_store_uuid=uuid.uuid4().hex,
    )
    node = Node(
        settings=settings,
        folder=opened,
        compactor=Compactor(data, settings.storage.compaction_share_max),
        addresses=addresses,
        founders=(),
        channels=PeerChannels(cluster_id, None, settings.tls.peer_port_offset),
        boot_id=uuid.uuid4().hex,
        fail=_fail,
    )
    meters = Meters(settings.auth, node.counts.quotas, requests_max=settings.server.requests_max)
    services = Services(node, Rights(settings.auth, asked=False), meters)
    server = grpc.aio.server()
    gate = CallGate(
        settings.server,
        node.identity.cluster_id,
        node.counts,
        services.allowed,
        meters,
    )
    handlers = (client_handlers(services, gate), PeerStreams(node, proven=False).handlers())
    server.add_generic_rpc_handlers(handlers)
    server.add_insecure_port(addresses[node_id])
    await node.start()
    await server.start()
    node.spawn(register(node, services))
    return node, server


def _fail(error: BaseException) -> None:
    print("an observer ends:", error, file=sys.stderr)
    sys.exit(1)


def main() -> None:
    """Arguments: the folder, the cluster's id, its addresses by commas, the first and last node."""
    folder, cluster_id, listed, first, last = sys.argv[1:]
    addresses = {NodeId(node): each for node, each in enumerate(listed.split(","), 1)}
    asyncio.run(observe(Path(folder), cluster_id, addresses, int(first), int(last)))


if __name__ == "__main__":
    main()

"""Many observers in one process, for the bench: `python -m tests.bench.many_observers`.

Each is the node that `raftlog serve` runs, with a folder and ports of its own. They share a loop,
so that twenty fit on a small machine.
"""

from __future__ import annotations

import argparse
import asyncio
import uuid
from pathlib import Path

from raftlog.config import Settings, load
from raftlog.core.types import NodeId
from raftlog.server import main as server
from raftlog.server.compactor import Compactor
from raftlog.storage.posix import PosixFileSystem
from tests.stores import opened_folder


async def observe(
    settings: Settings, folder: Path, cluster_id: str, addresses: dict[NodeId, str], first: int
) -> None:
    """Run the nodes from `first` on until the process is ended."""
    async with asyncio.TaskGroup() as nodes:
        for node in (each for each in addresses if each >= first):
            data = folder / f"{node}"
            data.mkdir()
            opened = opened_folder(
                PosixFileSystem(data), node, (), cluster_id=cluster_id, store_uuid=uuid.uuid4().hex
            )
            compactor = Compactor(data, settings.storage.compaction_share_max)
            serving = server._serve(settings, opened, compactor, node, addresses, data)
            nodes.create_task(serving)
            await _listens(addresses[node])


async def _listens(address: str) -> None:
    """Wait for the node: each must find its own server among the loop's new tasks."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("cluster_id")
    parser.add_argument("addresses", help="of all nodes, by commas")
    parser.add_argument("first", type=int, help="the first observer")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    asked = parser.parse_args()
    addresses = {NodeId(node): each for node, each in enumerate(asked.addresses.split(","), 1)}
    settings = load(flags=asked.settings)
    asyncio.run(observe(settings, asked.folder, asked.cluster_id, addresses, asked.first))


if __name__ == "__main__":
    main()

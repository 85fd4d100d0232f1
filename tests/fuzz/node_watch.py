"""Did the input hurt the node? Its process, memory, open files, and whether it still serves."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.machines.commands import TopicInfo

GROWTH_BYTES_MAX = 50 * 1024 * 1024
OPEN_FILES_MORE_MAX = 20
"""Room for the watcher's own connections and for files in rotation."""
_GRPC_LOOP = "_server_main_loop"
"""What grpc logs when a path is no text and its server ends; a node starts another:
`raftlog.server.listener`."""


@dataclass(slots=True)
class NodeWatch:
    """One node that gets broken input. `client` is a client of its cluster; `topic` is the
    watcher's own."""

    cluster: ProcessCluster
    client: LogClient
    topic: TopicInfo
    node: int = 1
    _pid: int = field(init=False)
    _rss_bytes: int = field(init=False, default=0)
    _open_files: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._pid = self.cluster.pids[self.node]

    @property
    def address(self) -> str:
        return self.cluster.servers.split(",")[self.node - 1]

    def begin(self) -> None:
        """Remember memory and open files as they are now, after a warm-up."""
        self.serves()
        self._rss_bytes = self.rss_bytes()
        self._open_files = self.open_files()

    def serves(self) -> None:
        """Assert that it appends and reads, and holds what was written before, once and in
        order."""
        mark = self.client.read_high_water_mark(self.topic).high_water_mark
        reply = self.client.append(self.topic.name, [{"id": mark, "text": "still here"}])
        assert (reply.start, reply.end) == (mark, mark + 1), "a record came from elsewhere"
        first = max(0, mark - 100)
        found = [
            each
            for batch in self.client.read(self.topic, first, mark + 1, columns=["id"])
            for each in batch.column(0).to_pylist()
        ]
        assert found == list(range(first, mark + 1))

    def end(self, more_bytes: int = 0) -> str:
        """Assert that the same process serves and grew within bounds, with so many bytes more;
        return its figures as text."""
        self.serves()
        os.kill(self._pid, 0)
        assert self.said_nothing_bad() == []
        growth = self.rss_bytes() - self._rss_bytes
        figures = f"memory grew by {growth / 2**20:.1f} MiB to {self.rss_bytes() / 2**20:.0f} MiB"
        print(figures)
        assert growth < GROWTH_BYTES_MAX + more_bytes, figures
        most = self._open_files + OPEN_FILES_MORE_MAX
        wait_for(lambda: self.open_files() <= most, f"at most {most} open files", PATIENCE_S)
        return figures

    def rss_bytes(self) -> int:
        """Resident memory without file pages, from /proc."""
        for line in Path(f"/proc/{self._pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the kernel tells RssAnon")

    def open_files(self) -> int:
        """How many files and sockets the node holds."""
        return len(list(Path(f"/proc/{self._pid}/fd").iterdir()))

    def said_nothing_bad(self) -> list[str]:
        """Assert that every line of the node's log is its own and none reports a defect."""
        bad = ("Traceback", '"level": "critical"', '"level": "error"')
        text = self.cluster.logs[self.node].read_text(errors="replace")
        return [
            line[:2000]
            for line in text.splitlines()
            if not line.startswith("{")
            or (any(word in line for word in bad) and _GRPC_LOOP not in line)
        ]

"""Bytes flipped on a running node of real processes heal from the other nodes, without a person."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.core.types import LogIndex
from raftlog.image.damage import DamagedFile
from raftlog.image.manifest import Image, read_image
from raftlog.image.scrub import scrub
from raftlog.storage.posix import PosixFileSystem
from tests.cluster.test_damage import flip
from tests.cluster.waiting import leader_of

_BYTES = 1024 * 1024
SETTINGS = [
    "storage.snapshot_entries=20",
    f"storage.segment_bytes_max={_BYTES}",
    f"server.entry_bytes_max={_BYTES}",
    f"client.batch_bytes={_BYTES // 4}",
    "storage.payload_cache_bytes_max=0",
]


class Scene:
    """A topic with history, and one follower whose files are damaged while it runs."""

    def __init__(self, cluster: ProcessCluster, client: LogClient) -> None:
        self.cluster = cluster
        self.client = client
        self.topic = client.create_topic("t", "text string")
        self.texts: list[str] = []
        for _ in range(50):
            self.append(20_000)
        cluster.wait_caught_up(client, "t")
        self.node = leader_of(client, "t") % 3 + 1
        data = cluster.data / f"node-{self.node}"
        self.fs, self.group_folder = PosixFileSystem(data), f"groups/{self.topic.group}"
        self.folder = data / self.group_folder
        wait_for(lambda: bool(self.image().history), "a history file", PATIENCE_S)

    def append(self, byte_count: int) -> str:
        self.texts.append(os.urandom(byte_count).hex())
        self.client.append("t", [{"text": self.texts[-1]}])
        return self.texts[-1]

    def image(self) -> Image:
        return read_image(self.fs, self.group_folder).image

    def read_all(self) -> None:
        """The records are as they were, from whichever node."""
        with self.cluster.client() as reader:  # one begins anywhere, and so comes to each node
            rows = pa.Table.from_batches(reader.read("t")).to_pylist()
        assert rows == [{"text": text} for text in self.texts]

    def times_healed(self) -> int:
        """What the node has said, after another append and read."""
        self.append(1_000)
        self.read_all()
        return self.cluster.logs[self.node].read_text().count('"damage was healed"')

    def damaged(self) -> list[DamagedFile]:
        """The files of the node's image that a scrub from outside finds damaged now."""
        pieces = scrub(self.fs, self.group_folder, self.topic.group, LogIndex(0), self.image())
        return [each.damage for each in pieces if isinstance(each.damage, DamagedFile)]

    def flip_history(self) -> None:
        """The first file that the manifest names; it may be written again meanwhile."""
        with suppress(FileNotFoundError):
            flip(self.folder / self.image().history[0].name, 1_000)

    def flip_in_log(self, text: str) -> bool:
        """Flip the text's first byte where the log has it; whether it does."""
        for path in self.folder.glob("*.log"):
            with suppress(FileNotFoundError):
                place = path.read_bytes().find(text.encode())
                if place >= 0:
                    flip(path, place)
                    return True
        return False


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with (
        ProcessCluster.start(tmp_path / "data", settings=SETTINGS) as cluster,
        cluster.client() as client,
    ):
        yield Scene(cluster, client)


def test_a_history_file_and_a_body_heal_while_the_topic_is_written(scene: Scene) -> None:
    """Found by reads and by compaction."""

    def history_healed() -> bool:
        if not scene.damaged():
            scene.flip_history()
        return scene.times_healed() > 0

    wait_for(history_healed, "the history file to heal", PATIENCE_S)
    at = (0, LogIndex(0))

    def body_flipped() -> bool:
        """Unless a compaction was faster, and the log has dropped it."""
        nonlocal at
        text = scene.append(20_000)[100:200]
        scene.cluster.wait_caught_up(scene.client, "t")
        at = scene.times_healed(), scene.image().index
        return scene.flip_in_log(text)

    wait_for(body_flipped, "a body in the log", PATIENCE_S)

    def body_healed() -> bool:
        """Or a compaction had read it before, and nobody needs it any more."""
        return scene.times_healed() > at[0] or scene.image().index > at[1]

    wait_for(body_healed, "the body to heal", PATIENCE_S)


def test_a_node_runs_on_without_files_that_somebody_removed(scene: Scene) -> None:
    """Compactions do without a snapshot, and have a history file healed first. The file is missing
    again when it is to be removed, because another one has taken its place."""
    history, snapshot = scene.image().history[0].name, scene.image().snapshots[-1].name
    for name in (history, snapshot):
        (scene.folder / name).unlink(missing_ok=True)
    index = scene.image().index

    def went_on() -> bool:
        scene.append(20_000)
        scene.read_all()
        return history not in scene.image().names() and scene.image().index > index + 100

    wait_for(went_on, "some compactions", PATIENCE_S)
    assert "the node exits" not in scene.cluster.logs[scene.node].read_text()


def test_a_node_that_is_killed_while_it_heals_is_whole_in_the_end(scene: Scene) -> None:
    for _ in range(3):
        scene.flip_history()
        scene.read_all()
        scene.cluster.kill(scene.node)
        scene.cluster.serve(scene.node)

        def is_whole() -> bool:
            scene.read_all()
            return not scene.damaged()

        wait_for(is_whole, "all to heal", PATIENCE_S)

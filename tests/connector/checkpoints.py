"""Checkpoints as Spark writes them, in a folder of a test."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

QUERY = "5a0d2b8e-0f52-4b55-8a0a-1c2d3e4f5a6b"
CLUSTER = "cluster-1"
CHECKSUM_PIECE_BYTES = 512

FILES = '{"logOffset":3}'
KAFKA = '{"flights":{"0":23,"1":-2}}'
RATE = "17"
NONE = "-"


def ours(topic: str = "flights", *, end: int, first: int | None = None, **given: Any) -> str:
    """The position of a raftlog source that reads one topic."""
    entry: dict[str, Any] = {"end": end, "incarnation": given.get("incarnation", "i1")}
    if first is not None:
        entry["from"] = first
    value = {"cluster": given.get("cluster", CLUSTER), "topics": {topic: entry}, "v": 1}
    return json.dumps(value, sort_keys=True)


class Folder:
    """A checkpoint that grows batch by batch, with the checksums of Hadoop's local file system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "offsets").mkdir(parents=True)
        (path / "commits").mkdir()
        self.write("metadata", json.dumps({"id": QUERY}))

    def plan(self, batch: int, *sources: str, time_ms: int = 1, version: str = "v1") -> None:
        """Write `offsets/N`, whose time makes it another plan."""
        settings = json.dumps({"batchTimestampMs": time_ms})
        self.write(f"offsets/{batch}", "\n".join((version, settings, *sources)))

    def finish(self, batch: int) -> None:
        """Write `commits/N`."""
        self.write(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')

    def write(self, name: str, text: str) -> None:
        """A file, and the checksums of its pieces."""
        data = text.encode()
        (self.path / name).write_bytes(data)
        starts = range(0, len(data), CHECKSUM_PIECE_BYTES)
        pieces = [data[start : start + CHECKSUM_PIECE_BYTES] for start in starts]
        sums = b"".join(zlib.crc32(piece).to_bytes(4, "big") for piece in pieces)
        head = b"crc\0" + CHECKSUM_PIECE_BYTES.to_bytes(4, "big")
        self.checksums(name).write_bytes(head + sums)

    def checksums(self, name: str) -> Path:
        """Where a file's checksums are."""
        file = self.path / name
        return file.with_name(f".{file.name}.crc")

    def damage(self, name: str, text: str) -> None:
        """Other content without checksums, as on a storage that has none."""
        self.checksums(name).unlink(missing_ok=True)
        (self.path / name).write_text(text)

    def remove(self, name: str) -> None:
        self.checksums(name).unlink()
        (self.path / name).unlink()


def grown(path: Path, *, batches: int, done: int | None = None) -> Folder:
    """A checkpoint of so many batches of ten records each, all done or so many of them."""
    folder = Folder(path)
    for batch in range(batches):
        first = 0 if batch == 0 else None
        folder.plan(batch, ours(end=10 * (batch + 1), first=first))
        if batch < (batches if done is None else done):
            folder.finish(batch)
    return folder

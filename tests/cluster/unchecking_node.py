"""`python -m tests.cluster.unchecking_node`: `raftlog` whose leaders take any batch, as those of an
earlier version did."""

from __future__ import annotations

from typing import Any

from raftlog.cli import main as raftlog
from raftlog.machines.commands import BatchSummary, TopicInfo
from raftlog.server import services
from raftlog.wire.batch import BatchHeader


def unchecked(
    topic: TopicInfo, batch: BatchHeader, crc: int, body: bytes, **_: Any
) -> BatchSummary:
    """What a client says of its batch."""
    return BatchSummary(
        record_count=batch.record_count,
        schema_version=batch.schema_version,
        body_bytes=len(body),
        crc=crc,
    )


def main() -> None:
    """Do what the arguments say."""
    services.checked_summary = unchecked  # type: ignore[attr-defined]
    raftlog.main()


if __name__ == "__main__":
    main()

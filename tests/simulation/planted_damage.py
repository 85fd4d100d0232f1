"""Bugs to plant in scrubs and repairs, which seeds with damage at rest notice; see `planted`."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import Any

from raftlog.core.types import Entry, LogIndex, Payload
from raftlog.image.scrub import Piece, scrub
from raftlog.image.stages_file import StagesFile
from raftlog.multiraft import scrubs
from raftlog.multiraft.image_exchange import ImageExchange
from raftlog.multiraft.repair import Repairs
from tests.simulation.planting import replaced

_PIECES = 2
"""So many a hurried scrub reads: the log comes first."""


def stage_copied_unchecked() -> Any:
    """A compaction takes the body of a carried stage as it finds it."""

    def entry(self: StagesFile, index: LogIndex) -> Entry:
        term, kind, command = self.command(index)
        (body,) = self.body_slices(index, [(0, self._place(index).frame.body_length)])
        return Entry(index, term, kind, Payload(command, body))

    return replaced(StagesFile, "entry", entry)


def scrub_of_the_beginning() -> Any:
    """A scrub ends after its first pieces, and counts as one of the whole replica."""

    def hurried(*parts: Any) -> Generator[Piece]:
        yield from islice(scrub(*parts), _PIECES)

    return replaced(scrubs, "scrub", hurried)


def repair_without_its_file() -> Any:
    """What is damaged counts as whole when files for it are named: none is fetched."""
    original = ImageExchange.fetch

    def fetch(self: ImageExchange, local: Any, peer: Any, **parts: Any) -> bool:
        parts["here"] = local.image.manifest.names
        return original(self, local, peer, **parts)

    return replaced(ImageExchange, "fetch", fetch)


def damage_taken_for_healed() -> Any:
    """Damage is told and counted as healed, and that is all."""

    def heal(self: Repairs, local: Any, key: Any, item: Any) -> None:
        self._close(local, key)

    return replaced(Repairs, "_heal", heal)


DAMAGE_BUGS = (
    stage_copied_unchecked,
    scrub_of_the_beginning,
    repair_without_its_file,
    damage_taken_for_healed,
)

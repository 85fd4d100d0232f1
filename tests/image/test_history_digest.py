"""The digest of a history: it tells records and their places apart, and nothing else."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from raftlog.core.types import GroupId, Offset
from raftlog.image.history_digest import NO_RECORDS, digest_sum, row_group_digest
from raftlog.image.history_file import HistoryFile, RowGroup, write_history_file
from raftlog.image.manifest import Image
from tests.image.images import snapshot
from tests.image.row_groups import START, row_group, row_groups
from tests.storage.disks import FOLDER, new_disk

GROUP = GroupId(7)


def digest_of(group: RowGroup) -> bytes:
    return row_group_digest(group.start, group.record_bytes, group.runs, group.digest)


def written(parts: Sequence[Sequence[RowGroup]]) -> bytes | None:
    """The digest of a history with these row groups in one file each."""
    disk = new_disk()
    infos = tuple(write_history_file(disk, FOLDER, GROUP, part) for part in parts)
    for info in infos:
        file = HistoryFile(disk, FOLDER, GROUP, info)
        assert file.digest() == info.digest, "what was written is what is read"
        file.close()
    last = infos[-1]
    return Image(generation=1, snapshots=(snapshot(9, last.end),), history=infos).history_digest


def test_where_files_begin_and_how_chunks_are_compressed_does_not_matter() -> None:
    groups = list(row_groups())
    whole = written([groups])
    assert whole is not None
    for cut in range(1, len(groups)):
        assert written([groups[:cut], groups[cut:]]) == whole
    (first, *others) = groups
    body = b"compressed otherwise"
    (column, _) = first.header.columns
    only = column._replace(length=len(body))
    other = replace(first, header=replace(first.header, columns=(only,)), body=body)
    assert written([[other, *others]]) == whole


CHANGES: dict[str, Any] = {
    "another offset": {"start": Offset(START + 1)},
    "other bytes in the log": {"record_bytes": 5},
    "other records": {"digest": b"another"},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_a_row_group_changes_it(change: dict[str, Any]) -> None:
    group = row_group(START, 3)
    assert digest_of(replace(group, **change)) != digest_of(group)


@pytest.mark.parametrize("column", ["counts", "timestamps_us", "terms", "epochs", "writers"])
def test_what_readers_are_told_of_records_is_in_it(column: str) -> None:
    group = row_group(START, 3)
    values = array("q", getattr(group.runs, column))
    values[1] += 1
    assert digest_of(replace(group, runs=replace(group.runs, **{column: values}))) != digest_of(
        group
    )
    renamed = replace(group.runs, names=("query", "other"))
    assert digest_of(replace(group, runs=renamed)) != digest_of(group)


def test_places_of_row_groups_are_in_it() -> None:
    """The same records, the other way round."""
    one, other = row_group(START, 3), row_group(START + 3, 3)
    moved = [replace(other, start=one.start), replace(one, start=other.start)]
    assert digest_sum(map(digest_of, moved)) != digest_sum(map(digest_of, [one, other]))


def test_a_history_without_records_has_one() -> None:
    assert Image().history_digest == NO_RECORDS

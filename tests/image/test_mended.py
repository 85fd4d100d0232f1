"""An image in which files of another node take the places of damaged ones."""

from __future__ import annotations

from dataclasses import replace

from raftlog.image.incoming import mended_image
from tests.image.images import history, image, snapshot, stages

OWN = replace(image(3), history=(history(0, 200), history(200, 300)))


def test_a_repaired_image_is_the_next_of_its_group_with_files_of_the_same_records() -> None:
    """An image of no later generation would be taken for an older copy of the damaged one."""
    newest, carried, first = OWN.snapshots[-1], OWN.stages[0], OWN.history[0]
    theirs = replace(
        OWN,
        generation=1,
        stages=(replace(carried, chain=99),),
        history=(replace(first, file_id=77), OWN.history[1]),
    )
    damaged = {newest.name, carried.name, first.name}
    assert mended_image(theirs, OWN, damaged) == replace(theirs, generation=OWN.generation + 1)
    assert mended_image(theirs, OWN, set()) == replace(OWN, generation=OWN.generation + 1)


def test_an_older_snapshot_that_is_damaged_is_done_without() -> None:
    first, *others = OWN.snapshots
    mended = mended_image(OWN, OWN, {first.name})
    assert mended is not None
    assert mended.snapshots == tuple(others)


def test_an_image_cannot_be_repaired_from_one_that_lacks_the_records() -> None:
    newest = replace(OWN, snapshots=(snapshot(40, 400),), history=(*OWN.history, history(300, 400)))
    assert mended_image(newest, OWN, {OWN.snapshots[-1].name}) is None
    assert mended_image(newest, OWN, {OWN.history[0].name}) is not None
    for theirs, damaged in (
        (replace(OWN, history=(history(0, 300),)), OWN.history[0]),
        (replace(OWN, stages=(stages(1, 20),)), OWN.stages[0]),
    ):
        assert mended_image(theirs, OWN, {damaged.name}) is None

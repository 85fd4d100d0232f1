"""The files of an image that readers use: few are open at a time, and each is the right one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raftlog.core.types import GroupId, Offset
from raftlog.errors import CorruptFile
from raftlog.storage.open_files import OpenFiles
from tests.multiraft.compaction_scene import EVERY, Scene

OPEN_MAX = 4
FILES = OPEN_MAX + 3


def test_few_history_files_are_open_and_those_used_last_stay() -> None:
    scene = Scene()
    scene.small_file_bytes = 0
    while len(scene.topics[GroupId(1)].image.manifest.history) < FILES:
        scene.write(EVERY)
        scene.compact_all()
    image = scene.topics[GroupId(1)].image
    image.close()
    before = scene.fs.open_files
    starts = [each.start for each in image.manifest.history]
    for order in (starts, starts[::-1]):
        for start in order:
            file = image.history_file_with(start)
            assert list(file.row_groups_between(start, file.info.end))
            assert scene.fs.open_files <= before + OPEN_MAX
    image.close()
    first = image.history_file_with(starts[0])
    for start in starts[1:OPEN_MAX]:
        image.history_file_with(start)
    assert image.history_file_with(starts[0]) is first
    image.history_file_with(starts[OPEN_MAX])
    assert image.history_file_with(starts[0]) is first, "it was used since the others"
    image.close()
    assert scene.fs.open_files == before


def several_files() -> Scene:
    """A topic whose image has several history files."""
    scene = Scene()
    scene.small_file_bytes = 0
    scene.write(4 * EVERY)
    scene.compact_all()
    return scene


def test_the_files_of_images_count_among_the_nodes_open_files() -> None:
    scene = several_files()
    image = scene.topics[GroupId(1)].image
    image.close()
    first, second, *_ = image.manifest.history
    bound = OpenFiles(1)
    image._open_files = bound
    before = scene.fs.open_files
    for info in (first, second):
        file = image.history_file_with(info.start)
        assert list(file.row_groups_between(info.start, info.end))
        assert (len(bound), scene.fs.open_files) == (1, before + 1)
    image.close()
    assert (len(bound), scene.fs.open_files) == (0, before)


def test_another_image_keeps_the_files_that_both_have_open() -> None:
    scene = several_files()
    image = scene.topics[GroupId(1)].image
    first, *others = image.manifest.history
    files = {each: image.history_file_with(each.start) for each in (first, others[0])}
    for info, file in files.items():
        assert list(file.row_groups_between(info.start, info.end))
    before = scene.fs.open_files
    trimmed = replace(
        image.manifest, generation=image.manifest.generation + 1, history=tuple(others)
    )
    assert image.take(trimmed) == {first.name}
    assert scene.fs.open_files == before - 1
    assert image.history_file_with(others[0].start) is files[others[0]]
    assert image.take(trimmed, frozenset({others[0].name})) == set()
    assert image.history_file_with(others[0].start) is not files[others[0]], "it is another file"


def test_a_record_is_read_from_the_file_that_holds_it() -> None:
    scene = Scene()
    scene.small_file_bytes = 0
    scene.write(4 * EVERY)
    scene.compact_all()
    image = scene.topics[GroupId(1)].image
    assert len(image.manifest.history) > 1
    for info in image.manifest.history:
        for offset in (info.start, Offset(info.end - 1)):
            assert image.history_file_with(offset).info == info
    for offset in (image.manifest.history_end, Offset(1 << 61)):
        with pytest.raises(CorruptFile, match="in no history file"):
            image.history_file_with(offset)

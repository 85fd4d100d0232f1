"""The manifest of an image: whole, in two copies, the old one or the new after any crash."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from raftlog.core.types import COUNT_MAX, LogIndex
from raftlog.errors import CorruptFile, FormatUnsupported
from raftlog.image.limits import RECEIVED_MANIFEST_BYTES_MAX, RECEIVED_SNAPSHOT_BYTES_MAX
from raftlog.image.manifest import (
    MANIFEST_COPIES,
    NO_IMAGE,
    Image,
    SnapshotInfo,
    _Text,
    decode_image,
    encode_image,
    kept_snapshots,
    leftovers,
    read_image,
    received_image,
    write_image,
)
from tests.image.images import image, snapshot, stages
from tests.storage.disks import FOLDER, disk_of, files_of, flipped, new_disk


def test_an_image_is_read_as_it_was_written() -> None:
    disk = new_disk()
    assert read_image(disk, FOLDER) == (NO_IMAGE, None)
    for generation in (1, 2, 3):
        write_image(disk, FOLDER, image(generation))
        assert read_image(disk, FOLDER) == (image(generation), None)


@pytest.mark.parametrize("wrong", ["1e999", "-1", "1.5", "true", "null", '"1"', "{}", "9" * 5000])
@pytest.mark.parametrize("place", ["generation", "base", "snapshots", "history", "agreed_mark"])
def test_a_number_that_is_none_is_damage_wherever_it_stands(place: str, wrong: str) -> None:
    table = json.loads(encode_image(image(2)))
    inner = table[place]
    while isinstance(inner, list) and isinstance(inner[0], list):
        inner = inner[0]
    if isinstance(inner, list):
        inner[0] = "PLACE"
    else:
        table[place] = "PLACE"
    with pytest.raises(CorruptFile) as raised:
        decode_image(json.dumps(table).replace('"PLACE"', wrong).encode(), "node 2")
    assert len(str(raised.value)) < 1_000


@pytest.mark.parametrize("text", [b"", b"\xff", b"[" * 100_000, b'{"base":' * 100_000])
def test_what_is_no_manifest_at_all_is_damage(text: bytes) -> None:
    with pytest.raises(CorruptFile, match="not the manifest of an image"):
        decode_image(text, "node 2")


@pytest.mark.parametrize("digest", [None, "no hex", "00", "00" * 17])
def test_a_history_file_without_its_digest_is_damage(digest: str | None) -> None:
    table = json.loads(encode_image(image(2)))
    (row,) = table["history"]
    assert row.pop() == image(2).history[0].digest.hex()
    if digest is not None:
        row.append(digest)
    with pytest.raises(CorruptFile, match="not the manifest of an image"):
        decode_image(json.dumps(table).encode(), "")


@pytest.mark.parametrize("state_hash", ["", "00" * 7, "00" * 9, "0" * 14 + "  ", " " * 16])
def test_a_state_hash_has_exactly_its_length(state_hash: str) -> None:
    table = json.loads(encode_image(image(2)))
    table["snapshots"][1][3] = state_hash
    with pytest.raises(CorruptFile, match="not the manifest of an image"):
        decode_image(json.dumps(table).encode(), "")


class Killed(BaseException):
    """The process died here."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_crash_anywhere_leaves_the_old_image_or_the_new(seed: int, written: int) -> None:
    number = 0
    finished = False
    found: set[int] = set()
    while not finished:
        disk = new_disk(1000 * seed + number)
        for generation in range(1, written + 1):
            write_image(disk, FOLDER, image(generation))
        left = [number]

        def count(operation: str, path: str, left: list[int] = left) -> None:
            if left[0] == 0:
                raise Killed
            left[0] -= 1

        disk.interrupt = count
        try:
            write_image(disk, FOLDER, image(written + 1))
            finished = True
        except Killed:
            number += 1
        disk.interrupt = None
        disk.crash()
        read, damaged = read_image(disk, FOLDER)
        assert damaged is None, "a crash is no damage"
        expected = [image(written) if written else NO_IMAGE, image(written + 1)]
        assert read in expected[finished:]
        found.add(read.generation)
        write_image(disk, FOLDER, image(written + 2))
        assert read_image(disk, FOLDER) == (image(written + 2), None)
    assert found == {written, written + 1}


@pytest.mark.parametrize("copy", MANIFEST_COPIES)
def test_damage_to_one_copy_is_healed_by_the_other(copy: str) -> None:
    """Every byte flipped, every length cut, and the copy gone."""
    disk = new_disk()
    write_image(disk, FOLDER, image(2))
    files = files_of(disk)
    data = files[copy]
    for bad in (
        *(flipped(data, position) for position in range(len(data))),
        *(data[:length] for length in range(len(data))),
        bytes(len(data)),
        None,
    ):
        damaged = {**files, copy: bad} if bad is not None else dict(files)
        if bad is None:
            del damaged[copy]
        found = read_image(disk_of(damaged), FOLDER)
        assert found.image == image(2)
        assert found.damaged is not None


def test_damage_to_both_copies_is_an_error_and_not_a_missing_image() -> None:
    disk = new_disk()
    write_image(disk, FOLDER, image(2))
    files = {name: flipped(data, 60) for name, data in files_of(disk).items()}
    with pytest.raises(CorruptFile):
        read_image(disk_of(files), FOLDER)
    other = {name: data.replace(b"text 1 ", b"text 9 ") for name, data in files_of(disk).items()}
    with pytest.raises(FormatUnsupported):
        read_image(disk_of(other), FOLDER)


def test_files_that_no_manifest_names_are_left_over() -> None:
    mine = image(2)
    names = dict.fromkeys((*mine.names(), "history-7", "snapshot-9", "1.log", "manifest"), b"x")
    disk = disk_of(names)
    assert leftovers(disk, FOLDER, mine) == [f"{FOLDER}/history-7", f"{FOLDER}/snapshot-9"]
    assert set(leftovers(disk, FOLDER, NO_IMAGE)) == {
        f"{FOLDER}/{name}" for name in names if "-" in name
    }


def test_snapshots_get_sparse_with_their_age() -> None:
    kept: tuple[SnapshotInfo, ...] = ()
    for index in range(1, 2001):
        kept = kept_snapshots([*kept, snapshot(index)])
        ages = [index - each.index for each in kept]
        assert ages[-2:] == [1, 0][-index:], "the two newest stay"
        assert ages == sorted(ages, reverse=True)
        assert len(kept) <= index.bit_length() + 2
    assert all(older <= 3 * newer for older, newer in pairwise(ages[:-1])), "no wide gap"
    assert ages[0] > 1000, "old ones are among them"


@pytest.mark.parametrize(
    "change",
    [
        {"generation": 0},
        {"snapshots": (snapshot(20, 200), snapshot(10, 100))},
        {"snapshots": (snapshot(20, 150),)},
        {"stages": (stages(1, 21),)},
    ],
)
def test_an_image_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    good = image(2)
    fields = {
        name: getattr(good, name)
        for name in ("generation", "base", "snapshots", "stages", "history")
    }
    with pytest.raises(AssertionError):
        Image(**{**fields, **change})


def test_what_another_node_sends_has_a_snapshot_and_a_bounded_length() -> None:
    sound = image(2)
    most = RECEIVED_SNAPSHOT_BYTES_MAX
    assert received_image(encode_image(sound), most, "it", of_topic=True) == sound
    (file,) = sound.history
    (opened,) = sound.stages
    beyond = LogIndex(COUNT_MAX + 1)
    for text, snapshot_bytes, problem in (
        (encode_image(NO_IMAGE), 1, "no snapshot"),
        (bytes(RECEIVED_MANIFEST_BYTES_MAX + 1), 1, "bytes"),
        (b"[" * 400_001, 1, r"more than 400000 times '\['"),
        (b"," * 2_800_001, 1, "more than 2800000 times ','"),
        (encode_image(sound)[:-1] + b',"another":0}', 1, "more than 7 times ':'"),
        (encode_image(sound), most + 1, "its snapshot has"),
        (encode_image(replace(sound, history=(replace(file, byte_count=95),))), 1, "fewer than 96"),
        (encode_image(replace(sound, stages=(replace(opened, byte_count=0),))), 1, "fewer than 96"),
        (encode_image(replace(sound, snapshots=(snapshot(beyond, 200),))), 1, "it is at entry"),
        (
            encode_image(replace(sound, history=(replace(file, record_bytes=COUNT_MAX + 1),))),
            1,
            "bytes of records",
        ),
    ):
        with pytest.raises(CorruptFile, match=problem):
            received_image(text, snapshot_bytes, "it", of_topic=True)


@pytest.mark.parametrize(
    "more", [{"stages": (stages(1, 10),)}, {"snapshots": (snapshot(10, mark=1),)}]
)
def test_the_image_of_a_group_that_is_no_topics_is_a_snapshot_alone(more: dict[str, Any]) -> None:
    """One that claims to be of the controller's group made a node fetch any history for it."""
    alone = Image(generation=1, snapshots=(snapshot(10),))
    assert received_image(encode_image(alone), 1, "it", of_topic=False) == alone
    text = encode_image(replace(alone, **more))
    assert received_image(text, 1, "it", of_topic=True)
    with pytest.raises(CorruptFile, match="is no topic's"):
        received_image(text, 1, "it", of_topic=False)


def test_the_first_bad_row_of_a_manifest_ends_its_decoding() -> None:
    """An error for each would fill the memory."""
    text = encode_image(image(2)).replace(b'"stages":[', b'"stages":[' + b"[]," * 1_000)
    with pytest.raises(ValidationError) as caught:
        _Text.model_validate_json(text)
    assert caught.value.error_count() == 4
    with pytest.raises(CorruptFile, match="Field required"):
        decode_image(text, "it")

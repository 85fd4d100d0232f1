"""What a scrub reads: every byte at rest, while the replica goes on, and nothing that is gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from raftlog.core.types import GroupId, LogIndex
from raftlog.image.damage import Damage, DamagedEntry, DamagedFile, DamagedLog
from raftlog.image.manifest import MANIFEST_COPIES
from raftlog.image.scrub import DamagedCopy, Piece, scrub
from tests.multiraft.compaction_scene import EVERY, Scene
from tests.storage.disks import flipped
from tests.storage.memory import MemoryFile, MemoryFileSystem

GROUP = GroupId(1)
SAMPLES = 25
"""Bytes of each file in the short test; the long one takes every byte."""


def compacted() -> Scene:
    """A topic with older snapshots, several history files, carried stages, a log of some segments
    whose beginning is gone, and entries with and without a body."""
    scene = Scene()
    scene.small_file_bytes = 0
    scene.stage(range(100, 103))
    scene.write(4 * EVERY + 2)
    scene.compact_all()
    image = scene.topics[1].image.manifest
    assert len(image.snapshots) > 2
    assert len(image.history) > 1
    assert image.stages
    return scene


def folder(scene: Scene) -> str:
    return scene.store.folder_of(GROUP)


def pieces(scene: Scene) -> Iterator[Piece]:
    return scrub_to(scene, scene.topics[1].replica.applied_index)


def scrub_to(scene: Scene, last: LogIndex) -> Iterator[Piece]:
    return scrub(scene.fs, folder(scene), GROUP, last, scene.topics[1].image.manifest)


def found(scene: Scene) -> list[Damage | DamagedCopy]:
    return [piece.damage for piece in pieces(scene) if piece.damage is not None]


def overwrite(fs: MemoryFileSystem, path: str, data: bytes) -> None:
    file = fs.open(path, create=False)
    file.truncate(0)
    file.write_at(0, [data])
    file.sync()
    file.close()


def content(scene: Scene, name: str) -> bytes:
    file = scene.fs.open(f"{folder(scene)}/{name}", create=False)
    return file.read_at(0, file.size())


def names(scene: Scene) -> list[str]:
    return scene.files()


def check(scene: Scene, name: str, position: int) -> None:
    """Flip a byte of the file: the scrub finds this, tells the file, and finds no more."""
    data = content(scene, name)
    overwrite(scene.fs, f"{folder(scene)}/{name}", flipped(data, position))
    damages = found(scene)
    overwrite(scene.fs, f"{folder(scene)}/{name}", data)
    assert len(damages) == 1, f"byte {position} of {name}: {damages}"
    (damage,) = damages
    assert damage.cause.file.endswith(name), damage
    match damage:
        case DamagedCopy():
            assert name in (*MANIFEST_COPIES, "manifest", "manifest.2")
        case DamagedFile():
            assert damage.name == name
        case DamagedEntry() | DamagedLog():
            assert name.endswith(".log")


@pytest.mark.slow
def test_some_flipped_bytes_of_every_file_are_found() -> None:
    scene = compacted()
    assert found(scene) == []
    for name in names(scene):
        size = len(content(scene, name))
        for position in {*range(0, size, max(1, size // SAMPLES)), size - 1}:
            check(scene, name, position)


@pytest.mark.soak
def test_every_flipped_byte_of_every_file_is_found() -> None:
    scene = compacted()
    for name in names(scene):
        for position in range(len(content(scene, name))):
            check(scene, name, position)


@pytest.mark.slow
def test_what_is_written_dropped_and_replaced_meanwhile_is_no_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At some step the topic gets entries, is compacted, and drops its log."""
    monkeypatch.setattr("raftlog.image.scrub.PIECE_BYTES", 1)
    steps = len(list(pieces(compacted())))
    assert steps > 50
    for at in range(0, steps, 16):
        scene = compacted()
        before = set(names(scene))
        for number, piece in enumerate(pieces(scene)):
            assert piece.damage is None, f"step {number}, after a compaction at {at}"
            if number == at:
                scene.write(2 * EVERY)
                scene.compact_all()
                assert before - set(names(scene)), "something is gone"


def test_an_entry_that_a_repair_replaced_meanwhile_is_no_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("raftlog.image.scrub.PIECE_BYTES", 1)
    scene = compacted()
    name = next(name for name in names(scene) if name.endswith(".log"))
    data = content(scene, name)
    path = f"{folder(scene)}/{name}"
    overwrite(scene.fs, path, flipped(data, len(data) - 1))
    (damage,) = found(scene)
    assert isinstance(damage, DamagedEntry)
    reading = pieces(scene)
    assert next(reading).damage is None, "its file is open now"
    new = scene.fs.open(f"{path}.new", create=True)
    new.write_at(0, [data])
    scene.fs.rename(f"{path}.new", path)
    assert [piece.damage for piece in reading if piece.damage] == []


def test_a_missing_segment_is_damage() -> None:
    scene = compacted()
    logs = [name for name in names(scene) if name.endswith(".log")]
    for name in (logs[0], logs[3], logs[-1]):
        data = content(scene, name)
        scene.fs.remove(f"{folder(scene)}/{name}")
        (damage,) = found(scene)
        assert isinstance(damage, DamagedLog)
        file = scene.fs.open(f"{folder(scene)}/{name}", create=True)
        file.write_at(0, [data])


def test_two_damaged_copies_of_the_manifest_are_damage_of_the_log() -> None:
    """Nothing tells then where the log begins."""
    scene = compacted()
    for name in MANIFEST_COPIES:
        overwrite(scene.fs, f"{folder(scene)}/{name}", b"")
    (piece,) = [piece for piece in pieces(scene) if piece.damage is not None]
    assert isinstance(piece.damage, DamagedLog)
    assert piece.byte_count == 0, "nothing that is whole was read"


def test_a_large_body_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftlog.image.scrub.PIECE_BYTES", 40)
    monkeypatch.setattr("raftlog.image.scrub.CHECK_BYTES", 0)
    scene = Scene()
    scene.write(3)
    read: list[int] = []
    usual = MemoryFile.read_at

    def noted(file: MemoryFile, position: int, length: int) -> bytes:
        if file._path.endswith(".log"):
            read.append(length)
        return usual(file, position, length)

    monkeypatch.setattr(MemoryFile, "read_at", noted)
    sizes = [piece.byte_count for piece in pieces(scene)]
    entries = scene.topics[1].replica.log.sizes()
    monkeypatch.setattr(MemoryFile, "read_at", usual)
    assert max(entries) > 100
    assert max(sizes) < 100
    held = sum(len(content(scene, name)) for name in names(scene) if name.endswith(".log"))
    assert sum(read) < 1.2 * held, "only an entry that is damaged is read twice"
    assert sum(sizes) >= sum(entries)
    for name in names(scene):
        if name.endswith(".log"):
            check(scene, name, len(content(scene, name)) - 1)


def test_every_file_is_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = compacted()
    opened: list[MemoryFile] = []
    usual = MemoryFileSystem.open

    def noted(fs: MemoryFileSystem, path: str, **how: bool) -> MemoryFile:
        opened.append(usual(fs, path, **how))
        return opened[-1]

    monkeypatch.setattr(MemoryFileSystem, "open", noted)
    assert found(scene) == []
    kinds = {file._path.rpartition("/")[2].partition("-")[0] for file in opened}
    assert {"snapshot", "stages", "history"} <= kinds
    assert [file._path for file in opened if not file._closed] == []


def test_files_are_read_as_the_node_knows_them_where_no_copy_of_the_manifest_can_be() -> None:
    scene = compacted()
    history = scene.topics[1].image.manifest.history[0].name
    for name in (*MANIFEST_COPIES, history):
        path = f"{folder(scene)}/{name}"
        overwrite(scene.fs, path, flipped(content(scene, name), 50))
    manifest, file = found(scene)
    assert isinstance(manifest, DamagedLog)
    assert isinstance(file, DamagedFile)
    assert file.name == history


def test_only_what_is_durable_and_applied_at_the_beginning_is_read() -> None:
    scene = compacted()
    last = max(name for name in names(scene) if name.endswith(".log"))
    data = content(scene, last)
    overwrite(scene.fs, f"{folder(scene)}/{last}", flipped(data, len(data) - 1))
    assert len(found(scene)) == 1
    before = LogIndex(scene.topics[1].replica.applied_index - 1)
    assert [piece.damage for piece in scrub_to(scene, before) if piece.damage] == []

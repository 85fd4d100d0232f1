"""A disk that is full on command, and machines that cannot have one."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path

import pytest

from raftlog.chaos.small_disk import SmallDisk
from raftlog.errors import InvalidOption

NODE = 2
BYTES_MAX = 4 * 1024 * 1024


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A cluster's folder in which node 2 has some data."""
    (tmp_path / "node-2" / "groups").mkdir(parents=True)
    (tmp_path / "node-2" / "groups" / "log").write_bytes(b"precious")
    return tmp_path


@pytest.fixture
def disk(cluster: Path) -> Iterator[SmallDisk]:
    small = SmallDisk(cluster, NODE, BYTES_MAX)
    try:
        small.move_in()
    except InvalidOption as error:
        pytest.skip(f"not made here: full disk: {error.cause}")
    yield small
    small.move_out()


def fill_up(file: RawIOBase) -> None:
    for _ in range(BYTES_MAX // 4096):
        file.write(b"x" * 4096)


def test_a_full_disk_takes_no_more_until_there_is_room(cluster: Path, disk: SmallDisk) -> None:
    log = cluster / "node-2" / "groups" / "log"
    assert log.read_bytes() == b"precious"
    disk.fill()
    assert disk.is_full(), "also where nothing is written any more"
    with (cluster / "node-2" / "more").open("wb", buffering=0) as more:
        with pytest.raises(OSError) as caught:
            fill_up(more)
        assert caught.value.errno == errno.ENOSPC
        disk.make_room()
        assert more.write(b"y" * 4096) == 4096
    assert log.read_bytes() == b"precious"


def test_what_was_on_the_small_disk_is_kept(cluster: Path) -> None:
    small = SmallDisk(cluster, NODE, BYTES_MAX)
    try:
        small.move_in()
    except InvalidOption as error:
        pytest.skip(f"not made here: full disk: {error.cause}")
    (cluster / "node-2" / "later").write_bytes(b"as well")
    small.move_out()
    assert not (cluster / "node-2").is_symlink()
    assert (cluster / "node-2" / "groups" / "log").read_bytes() == b"precious"
    assert (cluster / "node-2" / "later").read_bytes() == b"as well"


def test_where_nothing_may_be_mounted_it_says_why_and_leaves_the_data(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(cluster))
    with pytest.raises(InvalidOption) as caught:
        SmallDisk(cluster, NODE, BYTES_MAX).move_in()
    assert "mount is not installed" in caught.value.cause
    assert (cluster / "node-2" / "groups" / "log").read_bytes() == b"precious"
    assert not (cluster / "small-disk-1").exists()

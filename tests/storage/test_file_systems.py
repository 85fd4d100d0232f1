"""The contract of files and folders, on a real disk and in memory; and a power loss in memory."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from raftlog.errors import CorruptFile, DataFolderLocked, DiskFailed, DiskFull
from raftlog.storage.contract import DIRECT_BLOCK_BYTES, File, FileSystem
from raftlog.storage.direct import DirectFile
from raftlog.storage.posix import PosixFileSystem
from raftlog.storage.posix_file import PosixFile, _after
from raftlog.storage.read import FileRead
from tests.storage.disks import files_of
from tests.storage.memory import MemoryFileSystem


def new_file(disk: FileSystem, path: str, data: bytes = b"") -> File:
    file = disk.open(path, create=True)
    file.write_at(0, [data])
    return file


def read_all(disk: FileSystem, path: str) -> bytes:
    file = disk.open(path, create=False)
    return file.read_at(0, file.size())


def test_bytes_are_read_where_they_were_written(empty_disk: FileSystem) -> None:
    file = new_file(empty_disk, "a", b"0123456789")
    file.write_at(8, [b"ab", b"", b"cd"])
    assert file.size() == 12
    assert file.read_at(7, 3) == b"7ab"
    assert file.read_at(10, 100) == b"cd"
    assert file.read_at(12, 1) == b""
    assert read_all(empty_disk, "a") == b"01234567abcd"


def test_a_write_of_more_buffers_than_one_call_takes_is_whole(empty_disk: FileSystem) -> None:
    buffers = [b"%d," % number for number in range(3000)]
    file = new_file(empty_disk, "a")
    file.write_at(5, buffers)
    assert file.read_at(5, file.size()) == b"".join(buffers)


def test_a_write_that_the_system_did_in_part_continues_where_it_stopped() -> None:
    buffers = [b"abc", b"defg", b"h"]
    for written in range(9):
        assert b"".join(_after(buffers, written)) == b"abcdefgh"[written:]


def test_files_grow_with_zeros_and_are_truncated(empty_disk: FileSystem) -> None:
    file = new_file(empty_disk, "a", b"abcdef")
    file.reserve(10)
    assert file.read_at(0, 20) == b"abcdef\0\0\0\0"
    file.reserve(3)
    assert file.size() == 10, "reserving never truncates"
    file.truncate(2)
    file.truncate(4)
    assert file.read_at(0, 20) == b"ab\0\0"


def test_a_new_file_is_not_there_yet_and_an_old_one_is(empty_disk: FileSystem) -> None:
    with pytest.raises(FileNotFoundError):
        empty_disk.open("a", create=False)
    new_file(empty_disk, "a")
    with pytest.raises(FileExistsError):
        empty_disk.open("a", create=True)


def test_folders_hold_names(empty_disk: FileSystem) -> None:
    disk = empty_disk
    disk.make_folder("f")
    disk.make_folder("f")
    new_file(disk, "f/b", b"old").close()
    new_file(disk, "f/a", b"new").close()
    disk.sync_folder("f")
    assert disk.list("f") == ["a", "b"]
    disk.rename("f/a", "f/b")
    assert disk.list("f") == ["b"]
    assert read_all(disk, "f/b") == b"new"
    disk.rename("f", "g")
    assert (disk.exists("f"), disk.exists("g/b"), disk.exists("g")) == (False, True, True)
    disk.remove("g")
    assert disk.list("") == []


def test_a_folder_in_the_place_of_a_file_is_damage_and_so_is_the_reverse(
    empty_disk: FileSystem,
) -> None:
    empty_disk.make_folder("folder")
    new_file(empty_disk, "file").close()
    with pytest.raises(CorruptFile, match="a folder is in its place"):
        empty_disk.open("folder", create=False)
    for call in (empty_disk.list, empty_disk.make_folder):
        with pytest.raises(CorruptFile, match="it is a file, not a folder"):
            call("file")
    with pytest.raises(CorruptFile, match="it is missing"):
        empty_disk.list("none")


def test_ids_differ(empty_disk: FileSystem) -> None:
    ids = {empty_disk.new_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(0 <= number < 1 << 64 for number in ids)


def test_one_holder_has_the_lock(empty_disk: FileSystem) -> None:
    lock = empty_disk.lock("lock")
    with pytest.raises(DataFolderLocked):
        empty_disk.lock("lock")
    lock.release()
    empty_disk.lock("lock").release()


def test_the_lock_names_its_holder_and_is_released_with_it(tmp_path: Path) -> None:
    code = (
        "import sys; from raftlog.storage.posix import PosixFileSystem;"
        "lock = PosixFileSystem(sys.argv[1]).lock('lock'); print('held', flush=True);"
        "sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DataFolderLocked) as caught:
            PosixFileSystem(tmp_path).lock("lock")
        assert caught.value.holder == str(holder.pid)
        assert caught.value.folder == str(tmp_path)
        holder.kill()
        holder.wait()
    PosixFileSystem(tmp_path).lock("lock").release()


def test_only_their_owner_may_read_files_and_folders(tmp_path: Path) -> None:
    disk = PosixFileSystem(tmp_path / "new" / "data")
    disk.make_folder("")
    disk.make_folder("f")
    new_file(disk, "f/a")
    for path, mode in (("", 0o700), ("f", 0o700), ("f/a", 0o600)):
        assert (tmp_path / "new" / "data" / path).stat().st_mode & 0o777 == mode


def test_no_path_leaves_the_root(tmp_path: Path) -> None:
    for path in ("../a", "/a", "a//b", "a/./b"):
        with pytest.raises(AssertionError):
            PosixFileSystem(tmp_path).open(path, create=True)


def test_a_read_for_a_peer_behind_the_end_finds_nothing_wherever_it_begins(
    empty_disk: FileSystem,
) -> None:
    new_file(empty_disk, "a", b"0123456789")
    for position, wanted in ((8, b"89"), (10, b""), ((1 << 63) - 1, b"")):
        read = FileRead(empty_disk, "a", position, 5)
        read.run()
        assert (read.data, read.file_bytes, read.damage) == (wanted, 10, None)


# ---------------------------------------------------------------- past the page cache


@pytest.mark.slow
def test_a_direct_file_is_written_and_read_as_any_other(empty_disk: FileSystem) -> None:
    random = Random(1)
    direct = empty_disk.open("a", create=True, direct=True)
    cached = empty_disk.open("a", create=False)
    wanted = bytearray()
    for number in range(40):
        position = random.choice(
            [0, DIRECT_BLOCK_BYTES * random.randrange(30), random.randrange(9**6)]
        )
        data = random.randbytes(random.choice([1, 4095, 4096, 8192, 9**5, 1 << 20, (1 << 20) + 5]))
        random.choice([direct, direct, cached]).write_at(position, [data[:7], data[7:]])
        wanted.extend(bytes(max(0, position + len(data) - len(wanted))))
        wanted[position : position + len(data)] = data
        start, length = random.randrange(len(wanted) + 9), random.randrange(2 << 20)
        for file in (direct, cached):
            assert file.size() == len(wanted), number
            assert file.read_at(start, length) == wanted[start : start + length], number
    direct.sync()
    direct.close()
    cached.close()


def direct_file(path: Path) -> PosixFile:
    probe = path / "probe"
    probe.touch()
    try:
        os.close(os.open(probe, os.O_RDWR | os.O_DIRECT))
    except OSError:
        pytest.skip(f"the file system of {path} has no way past its cache")
    file = PosixFileSystem(path).open("a", create=True, direct=True)
    assert isinstance(file, DirectFile)
    return file


def in_cache(path: Path, position: int) -> bool:
    """Whether the kernel has the byte in memory."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(fd, [bytearray(1)], position, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            pytest.skip(f"the file system of {path} does not say what is in its cache")
        raise
    finally:
        os.close(fd)


def test_whole_blocks_of_a_direct_file_leave_nothing_in_the_cache(tmp_path: Path) -> None:
    file = direct_file(tmp_path)
    file.write_at(0, [bytes(DIRECT_BLOCK_BYTES), b"the rest"])
    file.sync()
    assert file.read_at(5, DIRECT_BLOCK_BYTES) == bytes(DIRECT_BLOCK_BYTES - 5) + b"the r"
    assert not in_cache(tmp_path / "a", 0)
    PosixFileSystem(tmp_path).open("a", create=False).read_at(0, 1)
    assert in_cache(tmp_path / "a", 0), "a test of this test"


Call = Callable[..., int]


def direct_calls(
    monkeypatch: pytest.MonkeyPatch, name: str, answer: Callable[[Call, Any, int], int]
) -> None:
    """Let `answer` stand for the system's call where a file is open past the cache."""
    call: Call = getattr(os, name)

    def instead(fd: int, buffers: Any, position: int) -> int:
        direct = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT
        if not direct:
            return call(fd, buffers, position)
        return answer(lambda some: call(fd, some, position), buffers[0], position)

    monkeypatch.setattr(os, name, instead)


def refuse(number: int) -> Callable[[Call, Any, int], int]:
    def answer(call: Call, buffer: Any, position: int) -> int:
        raise OSError(number, os.strerror(number))

    return answer


BLOCKS = bytes(range(256)) * 48


def test_a_disk_of_larger_blocks_is_written_and_read_through_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = direct_file(tmp_path)
    for name in ("pwritev", "preadv"):
        direct_calls(monkeypatch, name, refuse(errno.EINVAL))
    file.write_at(0, [BLOCKS])
    assert file.read_at(3, 9000) == BLOCKS[3:9003]


def test_a_direct_write_that_the_system_did_in_part_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = direct_file(tmp_path)
    for part in (DIRECT_BLOCK_BYTES, 512):
        direct_calls(
            monkeypatch,
            "pwritev",
            lambda call, buffer, position, part=part: call([buffer[:part]]),  # type: ignore[misc]
        )
        file.write_at(0, [BLOCKS])
        monkeypatch.undo()
        assert file.read_at(0, len(BLOCKS) + 1) == BLOCKS


def test_a_direct_write_without_room_may_be_tried_again_and_one_that_fails_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = direct_file(tmp_path)
    direct_calls(monkeypatch, "pwritev", refuse(errno.ENOSPC))
    with pytest.raises(DiskFull):
        file.write_at(0, [BLOCKS])
    monkeypatch.undo()
    file.write_at(0, [BLOCKS])
    direct_calls(monkeypatch, "preadv", refuse(errno.EIO))
    with pytest.raises(CorruptFile):
        file.read_at(0, 1)
    direct_calls(monkeypatch, "pwritev", refuse(errno.EIO))
    with pytest.raises(DiskFailed):
        file.write_at(0, [BLOCKS])
    monkeypatch.undo()
    with pytest.raises(DiskFailed):
        file.sync()


# ---------------------------------------------------------------- failures


def test_a_real_write_that_fails_ends_the_file() -> None:
    file = PosixFile("read-only", os.open("/dev/null", os.O_RDONLY))
    with pytest.raises(DiskFailed) as caught:
        file.write_at(0, [b"a"])
    assert "Bad file descriptor" in caught.value.problem
    with pytest.raises(DiskFailed):
        file.sync()
    file.close()


def test_a_real_write_without_room_is_refused_and_may_be_tried_again() -> None:
    file = PosixFile("/dev/full", os.open("/dev/full", os.O_RDWR))
    for _ in range(2):
        with pytest.raises(DiskFull) as caught:
            file.write_at(0, [b"a"])
        assert "no room for /dev/full" in str(caught.value)
    file.close()


def test_a_real_sync_that_fails_is_not_tried_again() -> None:
    reading, writing = os.pipe()  # the kernel syncs no pipes
    file = PosixFile("pipe", writing)
    with pytest.raises(DiskFailed):
        file.sync()
    with pytest.raises(DiskFailed) as caught:
        file.sync()
    assert "earlier" in caught.value.problem
    file.close()
    os.close(reading)


# ---------------------------------------------------------------- power loss, in memory


def crashed(seed: int) -> MemoryFileSystem:
    """A disk after the power failed: "kept" was synced, and then overwritten without a sync."""
    disk = MemoryFileSystem(Random(seed))
    file = new_file(disk, "kept", b"synced")
    file.sync()
    disk.sync_folder("")
    file.write_at(6, [b"-loose-"])
    new_file(disk, "new", b"n").sync()
    disk.rename("new", "named")
    disk.crash()
    return disk


def test_power_loss_keeps_what_was_synced_and_by_chance_some_of_the_rest() -> None:
    seen = set()
    names = set()
    for seed in range(200):
        data = read_all(crashed(seed), "kept")
        assert data.startswith(b"synced")
        seen.add(data[6:])
        names.add(tuple(crashed(seed).list("")))
    assert {b"", b"-loose-", bytes(7), b"-lo"} <= seen
    assert names == {("kept",), ("kept", "new"), ("kept", "named")}


def test_equal_seeds_give_equal_disks() -> None:
    for seed in range(20):
        assert files_of(crashed(seed), "") == files_of(crashed(seed), "")


def test_open_files_do_not_outlive_power() -> None:
    disk = MemoryFileSystem(Random(1))
    file = new_file(disk, "a")
    disk.lock("lock")
    disk.crash()
    with pytest.raises(AssertionError):
        file.read_at(0, 1)
    disk.lock("lock").release()


def test_what_a_failed_sync_left_is_readable_but_never_durable() -> None:
    def fail(operation: str, path: str) -> None:
        if operation == "sync":
            raise DiskFailed(file=path, problem="injected")

    disk = MemoryFileSystem(Random(1))
    file = new_file(disk, "a")
    disk.sync_folder("")
    file.sync()
    file.write_at(0, [b"lost"])
    disk.interrupt = fail
    with pytest.raises(DiskFailed):
        file.sync()
    disk.interrupt = None
    with pytest.raises(DiskFailed):
        file.sync()
    assert read_all(disk, "a") == b"lost"
    disk.crash()
    assert read_all(disk, "a") == b""


def test_a_full_disk_refuses_space_ahead_without_failing_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reserving only saves time; the write that follows may still fit."""

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    file = PosixFileSystem(tmp_path).open("log", create=True)
    file.reserve(1024)
    file.write_at(0, [b"entry"])
    file.sync()
    assert file.read_at(0, 5) == b"entry"
    file.close()

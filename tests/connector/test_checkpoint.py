"""Reading a checkpoint: what it says, where it is, and that damage is never taken for absence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.errors import InvalidOption
from raftlog.spark.checkpoint import read_checkpoint
from raftlog.spark.checkpoint_files import FILE_BYTES_MAX
from raftlog.spark.plan import plan_digest
from tests.connector.checkpoints import FILES, KAFKA, NONE, QUERY, RATE, Folder, grown, ours


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Three batches, in a folder whose name would need escapes in a URI."""
    return grown(tmp_path / "a check%20point", batches=3)


def damaged(folder: Folder) -> dict[str, str]:
    return {each.file: each.problem for each in read_checkpoint(str(folder.path)).damages}


@pytest.mark.parametrize("form", ["{}", "{}/", "file:{}", "file://{}", "file:{}/"])
def test_a_checkpoint_is_read_in_each_of_hadoops_spellings(folder, form):
    found = read_checkpoint(form.format(folder.path))
    assert (found.exists, found.query_id, found.damages) == (True, QUERY, ())
    assert (found.last_planned, found.last_done, found.replays, found.next_batch) == (
        2,
        2,
        False,
        3,
    )
    assert found.last is not None
    assert found.before is not None
    assert (found.last.batch, found.before.batch) == (2, 1)
    assert [source.ours for source in found.last.sources] == [json.loads(ours(end=30))]


def test_an_error_shows_no_secret_of_the_location():
    with pytest.raises(InvalidOption) as caught:
        read_checkpoint("nosuch://KEY:planted@bucket/a?sas_token=planted")
    assert "nosuch://KEY:***@bucket/a?sas_token=***" in str(caught.value)
    assert "planted" not in str(caught.value)


def test_its_plan_is_the_one_that_the_sink_tells_the_log(folder):
    last = read_checkpoint(str(folder.path)).last
    assert last is not None
    assert last.plan == plan_digest(str(folder.path), QUERY, 2, PATIENCE_S) != ""


def test_a_batch_that_is_planned_and_not_done_is_repeated(folder):
    folder.plan(3, ours(end=35))
    found = read_checkpoint(str(folder.path))
    assert (found.replays, found.next_batch) == (True, 3)
    first = grown(folder.path.with_name("first"), batches=1, done=0)
    found = read_checkpoint(str(first.path))
    assert (found.replays, found.next_batch, found.last_done, found.before) == (True, 0, -1, None)


def test_batches_are_compared_as_numbers(folder):
    for batch in range(3, 12):
        folder.plan(batch, ours(end=10 * batch))
        folder.finish(batch)
    assert read_checkpoint(str(folder.path)).last_planned == 11


def test_each_source_is_told_from_the_others(tmp_path):
    folder = Folder(tmp_path / "several")
    folder.plan(0, FILES, ours(end=5, first=0), KAFKA, RATE, NONE)
    assert [
        (source.name, source.ours is not None)
        for source in read_checkpoint(str(folder.path)).last.sources
    ] == [("0", False), ("1", True), ("2", False), ("3", False), ("4", False)]


def test_sources_with_names_are_read_as_well(tmp_path):
    folder = Folder(tmp_path / "named")
    folder.plan(0, f"left:{ours(end=5, first=0)}", "right:-", version="v2")
    sources = read_checkpoint(str(folder.path)).last.sources
    assert [(source.name, source.ours is not None) for source in sources] == [
        ("left", True),
        ("right", False),
    ]


# ---------------------------------------------------------------- nothing there


def test_a_folder_that_is_missing_or_empty_is_no_checkpoint(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        found = read_checkpoint(str(tmp_path / name))
        assert (found.exists, found.damages, found.checkpoints_below) == (False, (), ())


def test_a_folder_of_checkpoints_is_none_and_names_them(tmp_path):
    grown(tmp_path / "b", batches=1)
    grown(tmp_path / "a", batches=1)
    (tmp_path / "other").mkdir()
    found = read_checkpoint(str(tmp_path))
    assert (found.exists, found.checkpoints_below) == (False, ("a", "b"))


def test_a_query_that_has_only_its_id_has_not_begun(tmp_path):
    folder = Folder(tmp_path / "begun")
    found = read_checkpoint(str(folder.path))
    assert (found.exists, found.last, found.next_batch, found.damages) == (True, None, 0, ())


@pytest.mark.slow
@pytest.mark.parametrize("location", ["nonsense://host/folder", "s3://", "{}/offsets/0"])
def test_a_place_that_cannot_be_read_is_an_error_that_names_it(folder, location):
    with pytest.raises(InvalidOption, match="which cannot be read"):
        read_checkpoint(location.format(folder.path))


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("file", ["metadata", "offsets/0", "commits/0"])
def test_a_fifo_and_a_deep_text_are_damage_that_has_a_name(tmp_path, file):
    folder = grown(tmp_path / "hostile", batches=1)
    path = folder.path / file
    lines = path.read_text().splitlines()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.write_text("\n".join([*lines[:-1], '{"id":' * 100_000]))
    assert "is too deeply nested" in damaged(folder)[file]
    path.unlink()
    os.mkfifo(path)
    assert damaged(folder)[file] == f"{str(path)!r} is not a regular file"


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "{}", '{"id":', '{"id":7}', '{"id":""}', r'{"id":"\ud800"}']
)
def test_a_damaged_metadata_is_damage_and_no_new_query(folder, text):
    folder.damage("metadata", text)
    assert list(damaged(folder)) == ["metadata"]


def test_a_missing_metadata_beside_batches_is_damage(folder):
    folder.remove("metadata")
    assert damaged(folder) == {"metadata": "it is missing, and batches are there"}


WHOLE = ours(end=30)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is empty"),
        ("v1", "ends after 1 of at least 3 lines"),
        ("v1\n{}", "ends after 2 of at least 3 lines"),
        ("v1\n{", "ends after 2"),
        ('v1\n{"conf":\n7', "no whole JSON text"),
        ("v1\n7\n7", "no settings"),
        (f"v1\n{{}}\n{WHOLE[: len(WHOLE) // 2]}", "no whole JSON text"),
        ("v1\n{}\n", "ends after 2"),
        ("v1\n{}\n\n7", "a source's line is empty"),
        (f"v1\n{{}}\n{WHOLE}\n7", "it has the positions of 2 sources, and offsets/1 1"),
        ("v1\n{}" + "\n7" * 1001, "the positions of more than 1000 sources"),
        ("v9\n{}\n7", "begins with 'v9'"),
        ("v2\n{}\n7", "line 3 names no source"),
        ('v1\n{}\n{"topics": {"flights": {}}, "v": 1}', "no offset of raftlog's"),
        ('v1\n{}\n{"topics": {"flights": 7}, "v": 1}', "no offset of raftlog's"),
    ],
)
def test_half_a_file_of_the_last_batch_is_damage_that_is_named(folder, text, problem):
    folder.damage("offsets/2", text)
    found = damaged(folder)
    assert list(found) == ["offsets/2"]
    assert problem in found["offsets/2"]


def test_bytes_that_are_no_text_are_damage(folder):
    folder.checksums("offsets/2").unlink()
    (folder.path / "offsets" / "2").write_bytes(b"v1\n{}\n\xff\xfe")
    assert damaged(folder) == {"offsets/2": "it is no UTF-8 text"}


def test_the_batch_before_the_last_is_needed_too(folder):
    folder.remove("offsets/1")
    assert damaged(folder) == {"offsets/1": "it is missing, and Spark needs it"}


def test_a_batch_that_is_done_without_a_plan_is_damage(folder):
    folder.finish(3)
    assert damaged(folder) == {"offsets/3": "it is missing, and commits/3 is there"}


@pytest.mark.parametrize("text", ["", "v1", "v1\n{", "7\n{}", "v1\n7"])
def test_a_damaged_file_of_what_is_done_is_damage(folder, text):
    folder.damage("commits/2", text)
    assert list(damaged(folder)) == ["commits/2"]


@pytest.mark.parametrize("file", ["metadata", "offsets/2", "offsets/1", "commits/2"])
def test_a_file_that_was_changed_under_its_checksums_is_damage_as_it_is_for_spark(folder, file):
    path = folder.path / file
    path.write_text(path.read_text().replace("1", "2").replace("0", "4"))
    found = damaged(folder)
    assert list(found) == [file]
    assert "it does not fit its checksums" in found[file]


@pytest.mark.parametrize("piece_bytes", [1, 7, 512, 1 << 20])
def test_checksums_of_pieces_of_any_length_are_compared(folder, piece_bytes):
    data = (folder.path / "offsets" / "2").read_bytes()
    starts = range(0, len(data), piece_bytes)
    sums = [zlib.crc32(data[start : start + piece_bytes]).to_bytes(4, "big") for start in starts]
    whole = b"".join((b"crc\0", piece_bytes.to_bytes(4, "big"), *sums))
    folder.checksums("offsets/2").write_bytes(whole)
    assert damaged(folder) == {}
    for other in (whole[:-1], whole + b"\0", whole[:-1] + bytes([whole[-1] ^ 1]), whole[:8]):
        folder.checksums("offsets/2").write_bytes(other)
        assert "it does not fit its checksums" in damaged(folder)["offsets/2"]


def test_the_offsets_of_100_000_topics_are_read(folder):
    topics = {
        f"a-topic-of-this-cluster-{n}": {"end": 10**9, "from": 10**9, "incarnation": "i" * 32}
        for n in range(100_000)
    }
    folder.write("offsets/2", "v1\n{}\n" + json.dumps({"topics": topics, "v": 1}))
    [source] = read_checkpoint(str(folder.path)).last.sources
    assert len(source.ours["topics"]) == 100_000


@pytest.mark.parametrize(
    ("text", "checksums"),
    [
        ("v1\n{}\n" + "1\n" * 1_000_000, b""),
        ("v1\n{}\n" + "1\x0c" * 1_000_000, b""),
        ('v1\n{}\n{"v":1,"topics":{},"x":[' + "[]," * 1_000_000 + "0]}", b""),
        ("\0" * 1_000_000, b"crc\0" + (1).to_bytes(4, "big")),
    ],
    ids=["lines", "line breaks of other kinds", "lists", "checksums of single bytes"],
)
def test_a_small_hostile_file_takes_little_memory(folder, text, checksums):
    folder.damage("offsets/2", text)
    if checksums:
        folder.checksums("offsets/2").write_bytes(checksums)
    tracemalloc.start()
    try:
        found = read_checkpoint(str(folder.path))
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {each.file for each in found.damages} <= {"offsets/2"}
    assert most_bytes < FILE_BYTES_MAX + 8 * len(text), "the buffer that it is read into, and more"


def test_files_that_were_never_finished_and_foreign_ones_are_passed_over(folder):
    (folder.path / "offsets" / ".3.4c8b.tmp").write_text("v")
    (folder.path / "offsets" / "9").mkdir()
    (folder.path / "commits" / "_SUCCESS").write_text("")
    (folder.path / "commits" / "\uff19").write_text("v")
    (folder.path / "offsets" / "007").write_text("v")
    found = read_checkpoint(str(folder.path))
    assert (found.next_batch, found.damages) == (3, ())


@pytest.mark.slow
def test_reading_a_checkpoint_needs_no_spark():
    program = (
        "import sys; import raftlog.cli.main, raftlog.spark.doctor as d\n"
        "d.read_checkpoint('/nowhere')\n"
        "print([m for m in ('pyspark', 'py4j', 'pandas') if m in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"

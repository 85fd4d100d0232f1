"""Reading a batch's plan: where a checkpoint is, what is read, and what is reported if that
fails."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.spark import checkpoint_files, plan
from raftlog.spark.checkpoint_files import FILE_BYTES_MAX, Unread, ask
from raftlog.spark.plan import IN_FOREACH_BATCH, location_of, plan_digest

QUERY = "5a0d2b8e-0f52-4b55-8a0a-1c2d3e4f5a6b"


@pytest.fixture(autouse=True)
def silent_process(monkeypatch):
    """A process that has warned of nothing yet."""
    monkeypatch.setattr(plan, "_unread_said", set())
    monkeypatch.setattr(checkpoint_files, "_unanswered", {})


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """As Spark makes one, in a folder whose name would need escapes in a URI."""
    folder = tmp_path / "a check%20point"
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": QUERY}))
    write_offsets(folder, 3, timestamp=1)
    return folder


def write_offsets(folder: Path, batch: int, *, timestamp: int) -> None:
    (folder / "offsets" / str(batch)).write_text(f'v1\n{{"batchTimestampMs":{timestamp}}}\n7\n')


def test_a_plan_stays_the_same_until_the_batch_is_planned_again(checkpoint):
    first = plan_digest(str(checkpoint), QUERY, 3, PATIENCE_S)
    assert len(first) == 32
    assert int(first, 16) >= 0
    assert plan_digest(str(checkpoint), QUERY, 3, PATIENCE_S) == first
    write_offsets(checkpoint, 3, timestamp=2)
    again = plan_digest(str(checkpoint), QUERY, 3, PATIENCE_S)
    assert again not in (first, "")


@pytest.mark.parametrize("form", ["{}", "{}/", "file:{}", "file://{}", "file:{}/"])
def test_a_local_folder_is_read_in_each_of_hadoops_spellings(checkpoint, form):
    plain = plan_digest(str(checkpoint), QUERY, 3, PATIENCE_S)
    assert plan_digest(form.format(checkpoint), QUERY, 3, PATIENCE_S) == plain != ""


def test_a_write_in_foreach_batch_is_told_which_option_it_lacks(caplog):
    assert plan_digest("", QUERY, 4, PATIENCE_S) == ""
    for _ in range(2):
        assert plan_digest("", QUERY, 4, PATIENCE_S, IN_FOREACH_BATCH) == ""
    assert len(caplog.records) == 2, "a stream's warning does not replace the other"
    assert "The checkpoint of query" in caplog.text
    assert "has no option checkpointLocation" in caplog.text
    assert "Give that write the query's checkpointLocation as an option" in caplog.text


def test_the_warning_shows_no_secret_of_the_location(caplog):
    location = "nosuch://KEY:planted@bucket/a?client_secret=planted"
    assert plan_digest(location, QUERY, 3, PATIENCE_S) == ""
    assert "nosuch://KEY:***@bucket/a?client_secret=***" in caplog.text
    assert "planted" not in caplog.text


def test_what_cannot_be_read_is_no_plan_and_is_reported_once_in_a_process(checkpoint, caplog):
    assert plan_digest(str(checkpoint), QUERY, 4, PATIENCE_S) == ""
    assert "known only by the record count" in caplog.text
    assert "FileNotFoundError" in caplog.text
    assert "Give checkpointLocation as an option and with its scheme" in caplog.text
    assert plan_digest("", QUERY, 4, PATIENCE_S) == ""
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("", "neither the option checkpointLocation nor a query's name"),
        ("nonsense://host/folder", "nonsense"),
        ("/nowhere", "FileNotFoundError"),
    ],
)
def test_the_reason_is_reported(location, problem, caplog):
    assert plan_digest(location, QUERY, 0, PATIENCE_S) == ""
    assert problem in caplog.text


def test_the_checkpoint_of_another_query_is_no_plan_of_this_one(checkpoint, caplog):
    assert plan_digest(str(checkpoint), "another", 3, PATIENCE_S) == ""
    assert f"it belongs to query {QUERY!r}" in caplog.text


@pytest.mark.parametrize("metadata", ["", "[]", "3", "{}", "{"])
def test_a_checkpoint_without_a_query_is_no_error(checkpoint, metadata):
    (checkpoint / "metadata").write_text(metadata)
    assert plan_digest(str(checkpoint), QUERY, 3, PATIENCE_S) == ""


def test_a_storage_that_does_not_answer_is_given_up_in_time_and_asked_again_later(
    checkpoint, caplog
):
    answers = threading.Event()
    outcome = ask(str(checkpoint), lambda files, folder: answers.wait(), timeout_s=0.05)
    assert outcome == Unread("it did not answer within 0.05 s")
    assert plan_digest(str(checkpoint), QUERY, 3, timeout_s=1e9) == "", "it would wait for ever"
    assert "has not answered yet" in caplog.text
    [asking] = asking_threads()
    answers.set()
    asking.join(PATIENCE_S)
    assert not asking.is_alive()
    assert plan_digest(str(checkpoint), QUERY, 3, PATIENCE_S) != "", "it answers again"


def asking_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "raftlog-checkpoint"]


@pytest.mark.parametrize("file", ["metadata", "offsets/3"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_file_without_an_end_is_not_read(checkpoint, file, make, caplog):
    (checkpoint / file).unlink()
    make(checkpoint / file)
    assert plan_digest(str(checkpoint), QUERY, 3, PATIENCE_S) == ""
    assert f"{file}' is not a regular file" in caplog.text
    assert asking_threads() == []


def test_a_plan_that_is_far_too_long_is_not_read(checkpoint, caplog):
    os.truncate(checkpoint / "offsets" / "3", FILE_BYTES_MAX)
    assert plan_digest(str(checkpoint), QUERY, 3, PATIENCE_S) != ""
    os.truncate(checkpoint / "offsets" / "3", FILE_BYTES_MAX + 1)
    assert plan_digest(str(checkpoint), QUERY, 3, PATIENCE_S) == ""
    assert f"has more than {FILE_BYTES_MAX} bytes" in caplog.text


def test_a_checkpoint_is_where_the_option_says_or_in_the_sessions_folder_under_its_name():
    assert location_of("s3a://bucket/c", "/session", "name") == "s3a://bucket/c"
    assert location_of("", "/session/", "name") == "/session/name"
    assert location_of("", "/session", "") == "", "Spark gives it a random name"
    assert location_of("", "", "name") == ""

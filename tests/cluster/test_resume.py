"""`raftlog produce --resume`: each row of a file once, whenever its runs are killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raftlog import LogClient
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster
from raftlog.cli import text_blocks
from raftlog.cli.resume import FileWriter, Place
from raftlog.cli.row_files import SUFFIXES, Part, RowFile
from raftlog.errors import ExitCode, InvalidOption, RunFenced
from raftlog.records.arrow_types import arrow_schema
from raftlog.records.conform import conform

DDL = "id bigint, text string"
TEXT = "line one\nline two"
COUNT = 1_000
KILLS = {
    ".csv": [("before", 1), ("after", 1), ("before", 3), ("during", 3), ("after", 4)],
    ".parquet": [("after", 3), ("staged", 2)],
}
"""Where the runs of one file die, one after the other. The first commit of a run only fences."""


@pytest.fixture(scope="module")
def cluster(lone: ProcessCluster) -> ProcessCluster:
    return lone


@pytest.fixture
def client(cluster: ProcessCluster) -> Iterator[LogClient]:
    with cluster.client() as made:
        yield made


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 2_048)


def write(file: Path, count: int) -> None:
    ids = list(range(count))
    if file.suffix == ".parquet":
        table = pa.table({"id": ids, "text": [TEXT] * count})
        pq.write_table(table, file, row_group_size=50)
    elif file.suffix == ".csv":
        rows = [f'{number},"{TEXT}"\n' for number in ids]
        file.write_text("id,text\n" + "".join(rows), encoding="utf-8")
    else:
        lines = [json.dumps({"id": number, "text": TEXT}) + "\n" for number in ids]
        file.write_text("".join(lines), encoding="utf-8")


def held(client: LogClient, topic: str) -> list[int]:
    batches = client.read(topic, columns=["id"])
    return [each for batch in batches for each in batch.column("id").to_pylist()]


class Run:
    """One run with --resume, step by step."""

    def __init__(self, client: LogClient, topic: str, file: Path) -> None:
        info = client.describe_topic(topic)
        self._source = file.open("rb")
        rows = RowFile(self._source, str(file), SUFFIXES[file.suffix])
        self.writer = FileWriter(client, info, file, self._source, whole=rows.is_whole)
        self.start: Place = self.writer.begin()
        rows.skip(self.start.end, self.writer.lines)
        schema = info.schema
        self._parts = rows.parts(arrow_schema(schema), lambda each: conform(each, schema, topic))

    def step(self) -> bool:
        part = next(self._parts, None)
        if part is not None:
            self.writer.append(part)
        return part is not None

    def finish(self) -> int:
        """The records that this run appended."""
        with self._source:
            while self.step():
                pass
        return self.writer.place.records - self.start.records


@pytest.mark.parametrize("suffix", KILLS)
def test_a_file_whose_runs_are_killed_is_in_the_topic_once(
    cluster: ProcessCluster, client: LogClient, tmp_path: Path, suffix: str
) -> None:
    topic = f"killed{suffix}"
    client.create_topic(topic, DDL)
    file = tmp_path / f"rows{suffix}"
    write(file, COUNT)
    words = ["--servers", cluster.servers, "produce", topic, str(file), "--resume", "-o", "json"]
    counts = []
    for point, number in KILLS[suffix]:
        command = [sys.executable, "-m", "tests.cluster.killed_produce", point, str(number), *words]
        killed = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        counts.append(len(held(client, topic)))
        assert held(client, topic) == list(range(counts[-1]))
    assert sorted(counts) == counts
    assert len({0, *counts}) > 2, "some of the runs got on"
    assert counts[-1] < COUNT
    command = [sys.executable, "-m", "raftlog", *words]
    last = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert last.returncode == ExitCode.OK, last.stderr
    told = json.loads(last.stdout)
    assert (told["records_before"], told["records"]) == (counts[-1], COUNT - counts[-1])
    assert held(client, topic) == list(range(COUNT))
    assert Run(client, topic, file).finish() == 0
    assert held(client, topic) == list(range(COUNT))


@pytest.mark.usefixtures("_small_blocks")
def test_what_was_added_to_a_file_or_corrected_in_its_rest_is_appended(
    client: LogClient, tmp_path: Path
) -> None:
    client.create_topic("grown", DDL)
    file = tmp_path / "rows.jsonl"
    write(file, 100)
    good = file.read_text(encoding="utf-8")
    file.write_text(good + '{"id": "x"}\n', encoding="utf-8")
    broken = Run(client, "grown", file)
    with pytest.raises(InvalidOption, match="line 101"):
        broken.finish()
    count = broken.writer.place.records
    assert 0 < count <= 100
    again = Run(client, "grown", file)
    with pytest.raises(InvalidOption, match="line 101"):
        again.finish()
    write(file, 100)
    assert Run(client, "grown", file).finish() == 100 - count
    write(file, 150)
    assert Run(client, "grown", file).finish() == 50
    assert held(client, "grown") == list(range(150))


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("change", ["first", "shorter", "line"])
def test_a_file_that_was_changed_before_its_place_is_refused(
    client: LogClient, tmp_path: Path, change: str
) -> None:
    topic = f"changed-{change}"
    client.create_topic(topic, DDL)
    file = tmp_path / "rows.jsonl"
    write(file, 100)
    if change == "line":
        file.write_text(file.read_text(encoding="utf-8").rstrip("\n"), encoding="utf-8")
    Run(client, topic, file).finish()
    text = file.read_text(encoding="utf-8")
    changes = {"first": text.replace("0", "9", 1), "shorter": text[:3_000], "line": text + "  {}"}
    file.write_text(changes[change], encoding="utf-8")
    with pytest.raises(InvalidOption) as caught:
        Run(client, topic, file)
    assert "raftlog writers remove" in caught.value.remedy
    client.writers.remove(topic, f"produce:{file.resolve()}")
    write(file, 3)
    assert Run(client, topic, file).finish() == 3


@pytest.mark.usefixtures("_small_blocks")
def test_a_later_run_fences_an_earlier_one(client: LogClient, tmp_path: Path) -> None:
    client.create_topic("fenced", DDL)
    file = tmp_path / "rows.jsonl"
    write(file, COUNT)
    earlier = Run(client, "fenced", file)
    assert earlier.step()
    later = Run(client, "fenced", file)
    with pytest.raises(RunFenced):
        earlier.step()
    assert later.finish() == COUNT - later.start.records
    assert held(client, "fenced") == list(range(COUNT))


@pytest.mark.usefixtures("_small_blocks")
def test_a_part_of_an_earlier_run_that_arrives_late_is_not_appended_again(
    client: LogClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It becomes visible after the later run has asked where to go on, and before it fences."""
    client.create_topic("late", DDL)
    file = tmp_path / "rows.jsonl"
    write(file, COUNT)
    earlier = Run(client, "late", file)
    commit = LogClient.commit_epoch
    steps = [earlier.step]

    def step_first(self: LogClient, *words: object, **named: object) -> object:
        if steps:
            steps.pop()()
        return commit(self, *words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(LogClient, "commit_epoch", step_first)
    later = Run(client, "late", file)
    assert later.start.records > 0
    assert later.finish() == COUNT - later.start.records
    assert held(client, "late") == list(range(COUNT))


@pytest.mark.parametrize("end", [2**63, 2**80, -1, 1.5, True, "1", None, [1]])
def test_a_plan_of_somebody_else_is_no_place(end: object) -> None:
    """Who may write to the topic may have begun the writer."""
    assert Place.of_plan(json.dumps([5, 5, "digest"])) == Place(end=5, records=5, digest="digest")
    assert Place.of_plan(json.dumps([end, 5, "digest"])) is None
    assert Place.of_plan(json.dumps([5, end, "digest"])) is None


def test_a_part_names_where_it_ends(client: LogClient, tmp_path: Path) -> None:
    """What a run writes into its plan is what the next one reads there."""
    client.create_topic("places", DDL)
    file = tmp_path / "rows.csv"
    write(file, 5)
    assert Run(client, "places", file).finish() == 5
    row = client.writers.describe("places", f"produce:{file.resolve()}")
    assert json.loads(row.plan)[:2] == [file.stat().st_size, 5]
    assert Part._fields == ("batch", "end")

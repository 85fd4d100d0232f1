"""Users of raftlog see its types: the markers and stubs are installed, and checkers use them.

What raftlog's own code does with its types is checked by scripts/lint.sh.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import raftlog
from raftlog.chaos.cluster import PATIENCE_S

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
import pyarrow as pa

import raftlog


def main() -> None:
    with raftlog.connect("127.0.0.1:7401", request_timeout_s=5.0) as client:
        topic: raftlog.TopicInfo = client.create_topic("words", "id bigint", if_not_exists=True)
        client.append(topic.name, [{"id": 1}, {"id": 2}])
        with client.producer("words") as producer:
            producer.append(pa.table({"id": [3]}))
        rows = 0
        for batch in client.read("words", 0, columns=["id", "_offset"]):
            rows += batch.num_rows
        try:
            client.delete_topic("words")
        except raftlog.RaftlogError as error:
            print(error.retriable, rows)
"""

MISTAKES = """
import raftlog

raftlog.conect()
with raftlog.connect() as client:
    client.apend("words", [])
    client.read(7)
    schema: str = client.describe_topic("words").schema
"""


def test_the_package_is_marked_as_typed():
    assert resources.files("raftlog").joinpath("py.typed").is_file()


@pytest.mark.slow
def test_what_is_built_to_be_installed_has_the_types_and_two_names_at_the_top(tmp_path: Path):
    pytest.importorskip("setuptools", reason="the build needs it")
    subprocess.run(
        [
            *(sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(tmp_path)),
            *("build_py", "--build-lib", str(tmp_path / "lib")),
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    wanted = (
        *("raftlog/py.typed", "raftlog/wire/raftlog_pb2.pyi"),
        *("raftlog/spark/datasource.py", "raftlog/spark_jobs/demo.py"),
    )
    assert [name for name in wanted if not (tmp_path / "lib" / name).is_file()] == []
    top = sorted(path.name for path in (tmp_path / "lib").iterdir())
    assert top == ["pyspark_raftlog.py", "raftlog"], "other names could be a user's own"
    program = "import pyspark_raftlog, raftlog.spark.writer as of; print(of.__file__)"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "lib",
        check=True,
        capture_output=True,
        text=True,
    )
    assert ended.stdout.strip() == str(tmp_path / "lib" / "raftlog" / "spark" / "writer.py")


@pytest.mark.slow
@pytest.mark.timeout(300)  # without the cache that lint leaves, mypy reads every library again
def test_a_users_program_is_checked_strictly_against_the_public_names(tmp_path: Path):
    pytest.importorskip("mypy", reason="the checker comes with the extra dev")
    program, mistakes = tmp_path / "program.py", tmp_path / "mistakes.py"
    program.write_text(PROGRAM)
    mistakes.write_text(MISTAKES)
    said = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--no-pretty", "--no-error-summary"),
            *("--config-file", str(ROOT / "pyproject.toml"), str(program), str(mistakes)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert said.stderr == ""
    found = [line.removeprefix(str(tmp_path)).split(":") for line in said.stdout.splitlines()]
    codes = [(Path(parts[0]).name, int(parts[1]), parts[-1][-1]) for parts in found]
    assert codes == [("mistakes.py", line, "]") for line in (4, 6, 7, 8)], said.stdout


def test_what_checkers_see_is_what_there_is():
    assert [name for name in raftlog.__all__ if not hasattr(raftlog, name)] == []
    assert sorted(raftlog._HOMES) == sorted({*raftlog.__all__} - {"__version__"})

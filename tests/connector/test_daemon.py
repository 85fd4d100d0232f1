"""Spark's Python daemon takes pyspark from its folder only if that is the same pyspark."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from raftlog.spark.daemon import COMPARED, path_without_zip

FOLDER = Path(pyspark.__file__).parent


def zip_of(folder: Path, **changed: str) -> str:
    """A `pyspark.zip` with the installed pyspark's files, some of them changed."""
    path = folder / "pyspark.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name in COMPARED:
            text = changed.get(name.removesuffix(".py"), (FOLDER / name).read_text())
            file.writestr(f"pyspark/{name}", text)
    return str(path)


def test_the_zip_goes_if_the_folder_is_the_same(tmp_path: Path) -> None:
    archive, rest = zip_of(tmp_path), ["/users/own", str(FOLDER.parent)]
    assert path_without_zip([archive, *rest]) == rest
    assert path_without_zip(["/users/own", archive, str(FOLDER.parent)]) == rest


@pytest.mark.parametrize("name", COMPARED)
def test_the_zip_stays_if_a_file_that_speaks_to_the_jvm_differs(tmp_path: Path, name: str) -> None:
    path = [zip_of(tmp_path, **{name.removesuffix(".py"): "VERSION = 0\n"}), str(FOLDER.parent)]
    assert path_without_zip(path) == path


def test_the_zip_stays_if_there_is_no_folder_or_it_cannot_be_read(tmp_path: Path) -> None:
    path = [zip_of(tmp_path), str(tmp_path)]
    assert path_without_zip(path) == path
    (tmp_path / "pyspark.zip").write_bytes(b"no zip")
    path = [str(tmp_path / "pyspark.zip"), str(FOLDER.parent)]
    assert path_without_zip(path) == path
    assert path_without_zip(["/users/own"]) == ["/users/own"]


def test_nothing_of_pyspark_is_imported_before_the_path_is_right() -> None:
    code = "import sys, raftlog.spark.daemon; print([n for n in sys.modules if 'pyspark' in n])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

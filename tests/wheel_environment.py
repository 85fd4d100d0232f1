"""A wheel of this tree, and virtual environments that have it installed but see no checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "scripts" / "dist.py"
DEADLINE_S = 400.0
"""For anything that runs to its end: far more than it takes, because machines are shared."""

Ended = subprocess.CompletedProcess[str]


def build_tree(out: Path) -> Path:
    """Build the wheel of the files that git tracks, as they are now. Returns its path."""
    run(sys.executable, str(DIST), "--out", str(out), _commit_of_tree(out))
    [wheel] = out.glob("*.whl")
    return wheel


def _commit_of_tree(scratch: Path) -> str:
    """A commit of the tracked files as they are, which is on no branch. The index is left alone:
    git would lock it, and this runs beside tests and people."""
    index = scratch / "index"
    shutil.copy(ROOT / run("git", "rev-parse", "--git-path", "index").stdout.strip(), index)
    names = [f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
    git = partial(run, "git", GIT_INDEX_FILE=str(index), **dict.fromkeys(names, "tests"))
    git("add", "--update")
    tree = git("write-tree").stdout.strip()
    return git("commit-tree", tree, "-p", "HEAD", "-m", "The tree as it is").stdout.strip()


def run(*words: str, cwd: Path = ROOT, timeout_s: float = DEADLINE_S, **variables: str) -> Ended:
    """Run a program to its end, and see it end well."""
    ended = subprocess.run(
        words, cwd=cwd, env=os.environ | variables, capture_output=True, text=True,
        timeout=timeout_s, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, f"{words}: {ended.stdout[-5_000:]}{ended.stderr[-20_000:]}"
    return ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment. Its programs run in `elsewhere`, a folder outside the checkout."""

    folder: Path
    elsewhere: Path

    @classmethod
    def make(cls, folder: Path) -> Environment:
        """An empty environment in a new folder."""
        made = cls(folder=folder / "venv", elsewhere=folder / "elsewhere")
        made.elsewhere.mkdir(parents=True)
        run(sys.executable, "-m", "venv", "--without-pip", str(made.folder))
        return made

    def see_packages_of_tests(self) -> None:
        """Let it import what the tests' Python has installed. Its .pth files are not followed, so
        an editable raftlog among them is not seen."""
        packages = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
        links = self.site_packages / "packages_of_tests.pth"
        links.write_text("".join(f"{path}\n" for path in sorted(packages)))

    @property
    def site_packages(self) -> Path:
        [found] = self.folder.glob("lib/python*/site-packages")
        return found

    def install(self, *words: str, timeout_s: float = DEADLINE_S) -> None:
        """Run `pip install WORDS...` for it, with the pip of the tests."""
        pip = (sys.executable, "-m", "pip", "--python", str(self.folder), "--quiet")
        run(*pip, "--disable-pip-version-check", "install", *words, timeout_s=timeout_s)

    def program(self, name: str) -> str:
        """The path of one of its programs, such as python or raftlog."""
        return str(self.folder / "bin" / name)

    def variables(self) -> dict[str, str]:
        """What its programs run with: nothing that leads to the checkout, Spark on loopback. The
        environment is not activated."""
        left_out = ("PYTHONPATH", "PYSPARK_PYTHON")
        kept = {name: value for name, value in os.environ.items() if name not in left_out}
        return kept | {"SPARK_LOCAL_IP": "127.0.0.1"}

    def ran(self, name: str, *words: str, text: str = "") -> Ended:
        """Run one of its programs to its end, however it ends."""
        return subprocess.run(
            [self.program(name), *words], cwd=self.elsewhere, env=self.variables(), input=text,
            capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip

    def output(self, name: str, *words: str, text: str = "") -> str:
        """What one of its programs prints, which ends well."""
        ended = self.ran(name, *words, text=text)
        assert ended.returncode == 0, f"{words}: {ended.stdout[-5_000:]}{ended.stderr[-20_000:]}"
        return ended.stdout

"""The trees that are measured: this one, and others beside it as worktrees of their commits."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from raftlog.chaos.cluster import signals_deferred
from tests.bench.place import THIS_TREE

ROOT = Path(__file__).resolve().parents[2]


class UnknownRevision(Exception):
    """Git has no commit of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One checkout of the project."""

    name: str
    root: Path
    commit: str
    """Its short id, with `+` if files differ from it."""

    @property
    def environment(self) -> Mapping[str, str]:
        """For processes of this tree: they import `raftlog` from it, wherever they are started.

        The checkout of this program comes second, for `tests` alone. Without PYTHONSAFEPATH the
        working directory would come first. With a hash seed for each process, two processes of one
        tree would differ by some percent of their processor time as long as they run.
        """
        path = os.pathsep.join(map(str, dict.fromkeys((self.root, ROOT))))
        only = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PYTHONHASHSEED": "0"}
        return {**os.environ, **only}


def this_tree() -> Tree:
    """The checkout that this program belongs to, with what is not committed."""
    changed = bool(_git("status", "--porcelain", "--untracked-files=no"))
    commit = _git("rev-parse", "--short", "HEAD")
    return Tree(name=THIS_TREE, root=ROOT, commit=commit + "+" * changed)


@contextmanager
def tree_of(revision: str) -> Iterator[Tree]:
    """A worktree of the revision, which is removed afterwards, also if a signal ends the program.

    Raises `UnknownRevision`.
    """
    try:
        commit = _git("rev-parse", "--short", "--verify", f"{revision}^{{commit}}")
    except subprocess.CalledProcessError as error:
        raise UnknownRevision(f"{revision!r}: {error.stderr.strip()}") from None
    folder = Path(tempfile.mkdtemp(prefix="raftlog-worktree-"))
    root = folder / commit
    try:
        _git("worktree", "add", "--detach", str(root), commit)
        # `tests` is a namespace package: the pieces are this tree's, and must not mix with others.
        shutil.rmtree(root / "tests")
        yield Tree(name=revision, root=root, commit=commit)
    finally:
        with signals_deferred():
            shutil.rmtree(folder)
            _git("worktree", "prune")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()

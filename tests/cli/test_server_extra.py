"""A client's installation: verbs that run nodes say what is missing before they do anything."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.cli.server_extra import PARTS, require_server_extra
from raftlog.errors import ExitCode, ExtraMissing
from raftlog.extras import pip_line

ROOT = Path(__file__).resolve().parents[2]

WITHOUT_THE_EXTRA = """
import sys
for module in sys.argv.pop(1).split(","):
    sys.modules[module] = None  # an import of it fails as if it were not installed
from raftlog.cli.main import main
main()
"""


def as_a_client(*words: object) -> subprocess.CompletedProcess[str]:
    """Run `raftlog WORDS...` where none of the server's parts can be imported."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA, ",".join(PARTS), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["up"], ["serve", "--node", "1"], ["chaos", "--minutes", "0.01"]]
)
def test_a_verb_that_runs_nodes_says_what_is_missing_and_starts_nothing(
    words: list[str], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    finished = as_a_client(*words, "--data", data)
    assert finished.returncode == ExitCode.USAGE
    assert finished.stdout == ""
    assert finished.stderr.splitlines() == [
        f"error: ExtraMissing: `raftlog {words[0]}` needs a server's parts, and this installation "
        "lacks uvloop, structlog, grpcio-health-checking, prometheus-client, cryptography, PyJWT, "
        "cachetools.",
        f"  Install them: {pip_line('server')}",
    ]
    assert not data.exists()


@pytest.mark.slow
def test_a_client_s_verb_needs_none_of_them() -> None:
    finished = as_a_client("--set=client.refused_timeout_s=0", "--servers=127.0.0.1:1", "bench")
    assert finished.returncode == ExitCode.UNAVAILABLE
    assert "nothing listens there (connection refused)" in finished.stderr


@pytest.mark.parametrize("module", PARTS)
def test_one_missing_part_is_enough(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_server_extra("up")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ExtraMissing, match=f"lacks {PARTS[module]}\\."):
        require_server_extra("up")


def test_the_parts_are_those_of_the_extra() -> None:
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    [listed] = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SERVER"
    ]
    assert sorted(each.split(">=")[0] for each in listed) == sorted(PARTS.values())

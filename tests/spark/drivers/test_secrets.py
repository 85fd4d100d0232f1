"""No secret that a program has shows in what Spark and the connector write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.conftest import need_streams, run_program

SECRET = "planted-7c1e"
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.soak
def test_no_planted_secret_shows_in_logs_plans_event_log_or_checkpoint(cluster, client, tmp_path):
    need_streams()
    client.create_topic("secrets", "id bigint")
    (tmp_path / "events").mkdir()
    words = [cluster.servers, "secrets", str(tmp_path), SECRET]
    module = ("-m", "tests.spark.secrets_run")
    done = run_program(*module, *words, cwd=ROOT)
    assert "COPIED 10 10" in done.stdout
    assert "== Optimized Logical Plan ==" in done.stdout
    assert done.stdout.count("REFUSED") == 12
    assert "NOT REFUSED" not in done.stdout
    written = {
        str(path.relative_to(tmp_path)): path.read_bytes().decode(errors="replace")
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    events = [name for name in written if name.startswith("events")]
    assert any("SparkListenerEnvironmentUpdate" in written[name] for name in events), events
    assert "spark.jobs.database.password" in "".join(written[name] for name in events)
    assert any(name.startswith("checkpoint/offsets") for name in written)
    told = written | {"standard output": done.stdout, "standard error": done.stderr}
    found = {name: _around(text) for name, text in told.items() if SECRET in text}
    assert not found


def _around(text: str) -> list[str]:
    """What stands before each place of the secret."""
    return [part[-200:] + SECRET for part in text.split(SECRET)[:-1]]

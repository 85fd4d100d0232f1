"""Planted secrets of a closed cluster show nowhere in what Spark writes about its queries."""

from __future__ import annotations

import json
from pathlib import Path

from raftlog.auth.rights import Right, topic_named
from tests.cluster.canaries import JWT_VARIABLE, WRONG_TOKEN, Planted, planted
from tests.cluster.closed import client_by
from tests.spark import worker_python
from tests.spark.conftest import need_streams, run_program

ROOT = Path(__file__).resolve().parents[3]
MISTAKES = 3 * 4 + 2


def test_no_secret_of_a_closed_cluster_shows_in_what_spark_writes(tmp_path: Path) -> None:
    """Neither in its logs, plans, progress, event log and checkpoints, nor in a process list."""
    need_streams()
    with planted(tmp_path) as scene:
        with client_by(scene.cluster, f"file:{scene.operator}") as client:
            for topic in ("came", "went"):
                client.create_topic(topic, "id bigint")
                client.acl.grant("oidc:corp:ada", [Right.READ, Right.WRITE], topic_named(topic))
        done = run_program(
            *("-m", "tests.spark.canaries_run", str(plan_of(scene))),
            cwd=ROOT,
            **worker_python.variables(),
            **{JWT_VARIABLE: scene.jwt},
            **credentials_of(scene),
        )
        scene.told["standard output"], scene.told["standard error"] = done.stdout, done.stderr
        assert "READ 10" in done.stdout
        assert "NOT REFUSED" not in done.stdout
        assert done.stdout.count("\nREFUSED") == MISTAKES
        files = {
            str(file.relative_to(tmp_path)): file for file in tmp_path.rglob("*") if file.is_file()
        }
        assert any(name.endswith("offsets/0") for name in files)
        events = "".join(f.read_text() for n, f in files.items() if n.startswith("spark/events/"))
        assert "SparkListenerSQLExecutionStart" in events
        assert "Epoch" in {span.name for span in scene.traces.spans}
        assert not scene.leaks()


def credentials_of(scene: Planted) -> dict[str, str]:
    """Variables that say where the program's secrets are: `canary` is ada, `wrong` is nobody."""
    wrong = scene.folder / "wrong"
    wrong.write_text(scene.canaries.plant("the wrong token", WRONG_TOKEN, wrong))
    tls = scene.cluster.data / "tls"
    defined = {
        "_SERVERS": scene.cluster.servers,
        "_CA": str(tls / "ca.pem"),
        "_CERT": str(tls / "client.pem"),
        "_KEY": str(tls / "client.key"),
    }
    tokens = {"CANARY": f"env:{JWT_VARIABLE}", "WRONG": f"file:{wrong}"}
    return {
        f"RAFTLOG_CREDENTIAL_{name}{end}": value
        for name, token in tokens.items()
        for end, value in {"": token, **defined}.items()
    }


def plan_of(scene: Planted) -> Path:
    """The file that tells the program what to do: none of its secrets."""
    folder = scene.folder / "spark"
    (folder / "events").mkdir(parents=True)
    options = {
        "raftlog.auth.credential": "canary",
        "raftlog.tracing.endpoint": scene.traces.endpoint,
    }
    plan = {
        "folder": str(folder),
        "options": options,
        "token": str(scene.operator),
        "key": str(scene.cluster.data / "tls" / "client.key"),
    }
    file = scene.folder / "plan.json"
    file.write_text(json.dumps(plan))
    return file

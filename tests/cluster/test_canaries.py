"""Planted secrets show nowhere: not in what nodes and commands write, nor in the process list.

What Spark writes is searched by tests/spark/drivers/test_canaries.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from raftlog.chaos.cluster import PATIENCE_S, wait_for
from raftlog.errors import ExitCode, RaftlogError
from raftlog.wire.calls import SERVICE
from tests.cluster.canaries import (
    JWT_VARIABLE,
    METRICS_OFFSET,
    METRICS_TOKEN,
    METRICS_VARIABLE,
    OWN,
    WRONG_TOKEN,
    ZOOKEEPER_PASSWORD,
    Planted,
    planted,
)
from tests.cluster.closed import NODES, channel_to, client_by, made

ROWS = '{"id": 1}\n{"id": 2}\n'

pytestmark = pytest.mark.slow


class Command(NamedTuple):
    """A command of `raftlog`, run to its end."""

    code: int
    out: str
    err: str
    pid: int


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    with planted(tmp_path_factory.mktemp("canaries")) as found:
        yield found


def command(scene: Planted, *words: str, given: str = "", **variables: str) -> Command:
    """Run it as the operator, or as the variables say; what it says is searched."""
    home = {"HOME": str(scene.folder), "XDG_CONFIG_HOME": str(scene.folder / "config")}
    with subprocess.Popen(
        [sys.executable, "-m", "raftlog", *words],
        env=os.environ | home | scene.client_settings | variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, err = process.communicate(given, timeout=PATIENCE_S)
        finally:
            process.kill()
    scene.told[f"{len(scene.told)}: {' '.join(words)[:40]}"] = out + err
    return Command(process.returncode, out, err, process.pid)


def done(scene: Planted, *words: str, given: str = "", **variables: str) -> str:
    """The output of a command that must succeed."""
    ended = command(scene, *words, given=given, **variables)
    assert ended.code == 0, (words, ended.err)
    return ended.out


def wait_healthy(scene: Planted, **variables: str) -> None:
    """Ask for the status until it finds nothing wrong: an election may come at any time."""
    wait_for(
        lambda: command(scene, "status", **variables).code == ExitCode.OK,
        "a status without problems",
        PATIENCE_S,
    )


# ---------------------------------------------------------------- what users do


def test_what_users_do_and_are_refused_shows_no_secret(scene: Planted) -> None:
    use_everything(scene)
    be_refused(scene)
    scrape(scene)
    assert not scene.leaks()
    own = (*scene.cluster.data.rglob("*"), *scene.folder.glob("audit-*"), scene.tokens_file)
    assert not scene.canaries.exposed(*own)
    files = {path.name for path in scene.folder.rglob("*") if path.is_file()}
    assert {"audit-1.jsonl", "node-1.log", "tokens.json"} <= files, "these were searched"
    assert "sha256" in scene.tokens_file.read_text()


def use_everything(scene: Planted) -> None:
    """What an operator does, by a token from a file, and another by a token from a variable."""
    done(scene, "login", given=scene.operator.read_text(), RAFTLOG_CLIENT__TOKEN="")
    [kept] = (scene.folder / "config").rglob("token-*")
    scene.canaries.plant("the operator's token", scene.operator.read_text().strip(), kept)
    assert "token:operator" in done(scene, "whoami", RAFTLOG_CLIENT__TOKEN="")
    done(scene, "topic", "create", "flights", "--schema", "id bigint")
    done(scene, "produce", "flights", given=ROWS)
    assert '"id": 2' in done(scene, "tail", "flights", "-n", "2", "-o", "json")
    done(scene, "topic", "describe", "flights")
    wait_healthy(scene)
    for words in ("topic list", "watermark", "events -n 1", "lag"):
        done(scene, *words.split())
    done(scene, "kv", "put", "a/b", "value")
    done(scene, "acl", "grant", "token:operator", "admin", "--all")
    done(scene, "quota", "set", "oidc:corp:ada", "--requests-per-s", "1000")
    done(scene, "acl", "list", "-o", "json")
    known = done(scene, "whoami", RAFTLOG_CLIENT__TOKEN=f"env:{JWT_VARIABLE}")
    assert "oidc:corp:ada" in known
    by_zookeeper = {"RAFTLOG_CLIENT__ZOOKEEPER": scene.zookeeper}
    wait_healthy(scene, RAFTLOG_CLIENT__BOOTSTRAP_SERVERS="", **by_zookeeper)
    assert not scene.canaries.exposed()
    done(scene, "logout", RAFTLOG_CLIENT__TOKEN="")


def be_refused(scene: Planted) -> None:
    """By a token of nobody, by one that has ended, for want of a right, by a wrong password."""
    wrong = scene.folder / "wrong"
    by_wrong = {"RAFTLOG_CLIENT__TOKEN": f"file:{wrong}"}
    ended = made(scene.tokens_file, "etl", ends=datetime.now(UTC) - timedelta(seconds=1))
    for token in (WRONG_TOKEN, ended, scene.jwt[:-4] + "AAAA"):
        scene.canaries.plant("a wrong token", token, wrong)
        wrong.write_text(token)
        wrong.chmod(0o600)
        for words in ("status", "status -o json", "topic delete flights --yes", "tail flights"):
            assert command(scene, *words.split(), **by_wrong).code != 0
    found = {"RAFTLOG_CLIENT__BOOTSTRAP_SERVERS": "", "RAFTLOG_CLIENT__ZOOKEEPER": scene.zookeeper}
    assert command(scene, "status", **by_wrong, **found).code == ExitCode.REFUSED
    login = command(scene, "login", given=WRONG_TOKEN, RAFTLOG_CLIENT__TOKEN="")
    assert login.code == ExitCode.REFUSED
    of_ada = {"RAFTLOG_CLIENT__TOKEN": f"env:{JWT_VARIABLE}"}
    for words in (
        "topic delete flights --yes",
        "scrub flights",
        "topic create own --schema id:bigint",
    ):
        assert command(scene, *words.split(), **of_ada).code != 0
    guess = scene.canaries.plant("a wrong password", f"canary-of-a-guess-{OWN}")
    init = command(
        scene,
        *("--set", f"discovery.zookeeper={scene.zookeeper}"),
        *("--set", "discovery.zookeeper_credentials=env:GUESS"),
        *("init", "--node", "9", "--address", "127.0.0.1:1"),
        *("--data", str(scene.folder / "other")),
        GUESS=f"raftlog:{guess}",
    )
    assert init.code != 0


def scrape(scene: Planted) -> None:
    """With the token and with wrong ones."""
    for node in range(1, NODES + 1):
        where = f"http://127.0.0.1:{scene.cluster.port + node - 1 + METRICS_OFFSET}/metrics"
        for token in (METRICS_TOKEN, scene.operator.read_text().strip(), WRONG_TOKEN):
            asked = urllib.request.Request(where, headers={"Authorization": f"Bearer {token}"})
            try:
                with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
                    scene.told[f"metrics of node {node}"] = answer.read().decode()
            except urllib.error.HTTPError as error:
                assert token != METRICS_TOKEN
                scene.told[f"refused scrape of node {node}"] = str(error) + error.read().decode()
        assert "raftlog_calls" in scene.told[f"metrics of node {node}"]


# ---------------------------------------------------------------- what is given in a wrong place


def test_secrets_given_in_wrong_places_are_refused_and_not_shown(scene: Planted) -> None:
    """The command line of the user's own process has them, and no other one."""
    token = scene.operator.read_text().strip()
    key = (scene.cluster.data / "tls" / "client.key").read_text()
    new = str(scene.folder / "new")
    for words in (
        ("login", token),
        (token,),
        ("status", token),
        ("status", "-o", token),
        ("--token", token, "status"),
        (f"--token={token}", "status"),
        ("--set", token, "status"),
        ("--set", f"client.token={token}", "status"),
        ("--set", f"client.token={scene.jwt}", "status"),
        ("--set", f"client.token=Bearer {token}", "status"),
        ("--set", f"client.tokens={token}", "status"),
        ("--set", f"client.tls_key_file={key}", "status"),
        ("--set", f"auth.tokens_file={token}", "tokens", "list"),
        ("--set", f"metrics.token={METRICS_TOKEN}", "up", "--data", new),
        ("--set", f"discovery.zookeeper={scene.zookeeper}", "--set",
         f"discovery.zookeeper_credentials=raftlog:{ZOOKEEPER_PASSWORD}", "up", "--data", new),
        ("--zookeeper", f"raftlog:{ZOOKEEPER_PASSWORD}@{scene.zookeeper}", "status"),
        ("--servers", f"{token}@{scene.cluster.servers}", "status"),
        ("topic", "create", token, "--schema", "id bigint"),
        ("topic", "delete", token, "--yes"),
        ("tokens", "add", token, "--file", new),
        ("acl", "grant", token, "read", "--all"),
        ("quota", "set", scene.jwt, "--streams", "1"),
        ("tail", token),
    ):  # fmt: skip
        for more in ((), ("-o", "json")) if words[-1] == "status" else ((),):
            ended = command(scene, *words, *more)
            scene.careless.append(ended.pid)
            assert ended.code == ExitCode.USAGE, (words, ended)
    for variable, secret in (
        ("RAFTLOG_CLIENT__TOKEN", token),
        ("RAFTLOG_METRICS__TOKEN", METRICS_TOKEN),
        ("RAFTLOG_DISCOVERY__ZOOKEEPER_CREDENTIALS", f"raftlog:{ZOOKEEPER_PASSWORD}"),
        ("RAFTLOG_TOKEN", token),
    ):
        ended = command(scene, "status", **{variable: secret})
        assert ended.code == ExitCode.USAGE, (variable, ended.err)
    assert not scene.leaks()


def test_a_program_s_errors_show_no_secret(scene: Planted) -> None:
    token = scene.operator.read_text().strip()
    for given in (token, f"Bearer {token}", scene.jwt):
        with pytest.raises(RaftlogError) as refused:
            client_by(scene.cluster, given)
        scene.told[f"error {len(scene.told)}"] = f"{refused.value!r} {refused.value}"
    with channel_to(scene.cluster, 1) as channel:
        for path in (f"/{SERVICE}/{token}", f"/{token}/ListTopics", f"/{SERVICE}/ListTopics"):
            for scheme in ("Bearer ", "Basic ", "", f"Bearer {WRONG_TOKEN} "):
                metadata = (("authorization", scheme + token), ("x-other", token))
                method = channel.unary_unary(path)
                try:
                    method(b"", timeout=PATIENCE_S, metadata=metadata)
                except grpc.RpcError as error:
                    said = f"{error.details()} {error.trailing_metadata()}"
                    scene.told[f"error {len(scene.told)}"] = said
    assert not scene.leaks()


def test_files_that_are_replaced_by_others_show_no_secret(scene: Planted) -> None:
    """A token in place of its hash, another key in place of the certificate's."""
    token = scene.operator.read_text().strip()
    hashes = scene.tokens_file.read_text()
    tls = scene.cluster.data / "tls"
    node_key = tls / "node-1.key"
    key = node_key.read_text()
    in_place = f'{{"tokens": [{{"identity": "x", "made": "{token}", "sha256": "{token}"}}]}}'
    for content in (token, in_place):
        scene.tokens_file.write_text(content)
        wait_told(scene, "new file of tokens refused")
        scene.tokens_file.write_text(hashes)
    for content in ((tls / "client.key").read_text(), token):
        node_key.write_text(content)
        wait_told(scene, "new certificate refused")
        node_key.write_text(key)
    wait_healthy(scene)
    assert not scene.leaks()


def wait_told(scene: Planted, event: str) -> None:
    """Until node 1 has told it once more."""
    log: Path = scene.cluster.logs[1]
    before = log.read_text().count(event)

    def is_told() -> bool:
        command(scene, "whoami", "--servers", scene.cluster.address(1))
        return log.read_text().count(event) > before

    wait_for(is_told, f"node 1 to say {event!r}", PATIENCE_S)


def test_a_new_token_is_printed_once_and_kept_as_a_hash(scene: Planted) -> None:
    file = scene.folder / "more-tokens.json"
    own = command(scene, "tokens", "add", "grace", "--file", str(file))
    *_, last = scene.told
    scene.told[last] = own.err  # standard output is the one place where it stands
    scene.canaries.plant("grace's token", own.out.strip())
    assert own.out.startswith("raftlog_")
    assert "grace" in done(scene, "tokens", "list", "--file", str(file))
    assert not scene.leaks()
    assert file.stat().st_mode & 0o077 == 0


# ---------------------------------------------------------------- the search itself


def test_a_secret_would_be_found_wherever_it_stands(scene: Planted) -> None:
    secret = scene.canaries.plant("a found one", f"canary-to-be-found-{OWN}")
    found = scene.folder / "found.log"
    found.write_bytes(b"\0\xff" + secret.encode() + b"\n")
    assert scene.leaks() == {str(found): {"a found one"}}
    found.unlink()
    scene.told["a box"] = f"| {secret[:9]} |\n│ {secret[9:]} │"
    assert scene.leaks() == {"a box": {"a found one"}}
    del scene.told["a box"]
    program = "import sys; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program, secret], stdin=subprocess.PIPE) as own:
        wait_for(lambda: bool(scene.leaks()), "the process to be seen", PATIENCE_S)
        assert scene.leaks() == {"the process list": {"a found one"}}
        scene.careless.append(own.pid)
        assert not scene.leaks()
    environment = os.environ | {METRICS_VARIABLE: METRICS_TOKEN}
    assert not scene.canaries.in_text(" ".join(environment))

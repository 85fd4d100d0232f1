"""Planted secrets, and where to look for them: a closed cluster, all that it writes, processes."""

from __future__ import annotations

import base64
import json
import re
import secrets
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster
from raftlog.chaos.ensemble import EnsembleProcesses
from tests.cluster.closed import NODES, started
from tests.tracing.collector import Collector, collecting

ISSUER, AUDIENCE = "https://login.example.com/", "raftlog"
METRICS_VARIABLE, JWT_VARIABLE = "CANARY_METRICS", "CANARY_JWT"
OWN = secrets.token_hex(4)
"""In every secret: another test process may show its own in the list of processes."""
METRICS_TOKEN = f"canary-of-metrics-{OWN}"
ZOOKEEPER_PASSWORD = f"canary-of-zookeeper-{OWN}"
WRONG_TOKEN = f"raftlog_canary-of-a-stranger-{OWN}"
METRICS_OFFSET = 2 * NODES
_LOOK_S = 0.02
_KEY_LINE_MIN = 32
"""Characters: a shorter line of a key's text could stand anywhere."""
_LAYOUT = re.compile(r"[\s│|]+|\\n")
"""What breaks a secret into lines of a terminal, in a box, or in JSON."""


def forms(secret: str) -> Iterator[str]:
    """The texts by which it can be read: as it is, in a URL, and inside of any base64."""
    yield secret
    yield quote(secret, safe="")
    raw = secret.encode()
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        # The first characters depend on what stands before, the last on what follows.
        yield text[-(-before * 8 // 6) : len(text) - 1]


class Canaries:
    """Secrets by what they are, which may stand in their own files only."""

    def __init__(self) -> None:
        self._forms: dict[str, str] = {}
        self._files: set[Path] = set()

    def plant(self, what: str, secret: str, file: Path | None = None) -> str:
        """Look for it from now on, except in the file where it belongs."""
        assert len(secret) >= 16, f"{what}: it could be found by chance"
        self._forms.update(dict.fromkeys(forms(secret), what))
        if file is not None:
            self._files.add(file)
        return secret

    def plant_key(self, file: Path) -> None:
        """The lines of a private key's PEM file, but for those of the public key in it."""
        public = "".join(file.with_suffix(".pem").read_text().split())
        lines = [line for line in file.read_text().splitlines() if len(line) >= _KEY_LINE_MIN]
        private = [line for line in lines if line not in public and not line.startswith("-----")]
        assert private
        for line in private:
            self.plant(f"the key {file.name}", line, file)

    def in_text(self, text: str) -> set[str]:
        """Which of them stand in it, also broken into lines."""
        joined = _LAYOUT.sub("", text)
        return {what for form, what in self._forms.items() if form in text or form in joined}

    def in_folder(self, folder: Path) -> dict[str, set[str]]:
        """Which of them stand in which files, whatever these hold."""
        found = {}
        for file in folder.rglob("*"):
            if file.is_file() and not file.is_symlink() and file not in self._files:
                with suppress(FileNotFoundError):  # a node has just removed it
                    found[str(file)] = self.in_text(file.read_bytes().decode("latin-1"))
        return {name: whats for name, whats in found.items() if whats}

    def exposed(self, *files: Path) -> list[Path]:
        """Of their own files, and of these, those that others than the owner may read or write."""
        found = (file for file in (*self._files, *files) if file.is_file())
        return [file for file in found if stat.S_IMODE(file.stat().st_mode) & 0o077]


class ProcessList:
    """The command lines of all processes of the machine while this runs, as anybody sees them."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], None] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.looks = 0

    def others_than(self, *own: int) -> str:
        """The command lines of all but these processes."""
        return "\n".join(line for pid, line in list(self._seen) if pid not in own)

    def _look(self) -> None:
        while not self._end.wait(_LOOK_S):
            for folder in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    self._seen[int(folder.name), line.decode(errors="replace")] = None
            self.looks += 1

    def __enter__(self) -> ProcessList:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(PATIENCE_S)


@dataclass(slots=True)
class Planted:
    """A closed cluster that knows secrets of all kinds, as do its users."""

    folder: Path
    """All that anybody writes here."""
    cluster: ProcessCluster
    canaries: Canaries
    processes: ProcessList
    traces: Collector
    tokens_file: Path
    operator: Path
    """The file with the operator's token."""
    jwt: str
    zookeeper: str
    told: dict[str, str] = field(default_factory=dict)
    """What programs and errors said, by what it was."""
    careless: list[int] = field(default_factory=list)
    """Processes whose own command lines have secrets, because their users gave them there."""

    @property
    def client_settings(self) -> dict[str, str]:
        """Variables by which the command line reaches the cluster as the operator."""
        return {
            "RAFTLOG_CLIENT__BOOTSTRAP_SERVERS": self.cluster.servers,
            "RAFTLOG_CLIENT__TLS_CA_FILE": str(self.cluster.data / "tls" / "ca.pem"),
            "RAFTLOG_CLIENT__TOKEN": f"file:{self.operator}",
            "RAFTLOG_CLIENT__TRACING_ENDPOINT": self.traces.endpoint,
            "RAFTLOG_CLIENT__TRACING_SAMPLE_RATIO": "1",
        }

    def leaks(self) -> dict[str, set[str]]:
        """Where secrets stand that belong there not."""
        told = {what: self.canaries.in_text(text) for what, text in self.told.items()}
        spans = b"".join(self.traces.raw).decode("latin-1")
        told["traces"] = self.canaries.in_text(spans)
        told["the process list"] = self.canaries.in_text(self.processes.others_than(*self.careless))
        return {what: found for what, found in told.items() if found} | self.canaries.in_folder(
            self.folder
        )


@contextmanager
def planted(folder: Path) -> Iterator[Planted]:
    """Three nodes with TLS, tokens, access tokens, an audit log, metrics behind a token, and
    ZooKeeper by a password, all at their most talkative."""
    canaries = Canaries()
    password = folder / "zookeeper-password"
    _write(password, "raftlog:" + canaries.plant("password", ZOOKEEPER_PASSWORD, password))
    canaries.plant("the wrong token", WRONG_TOKEN)
    canaries.plant("token of the metrics", METRICS_TOKEN)
    access_token = _access_token(folder, canaries)
    tokens_file, operator = folder / "tokens.json", folder / "operator"
    with (
        ProcessList() as processes,
        collecting() as traces,
        EnsembleProcesses(folder, servers=1) as ensemble,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setenv(METRICS_VARIABLE, METRICS_TOKEN)
        patched.setenv(JWT_VARIABLE, access_token)
        where = f"{ensemble.hosts}/raftlog/canaries"
        settings = {**_settings(folder, where, password), "tracing.endpoint": traces.endpoint}
        with started(folder, tokens_file, settings, ports=3) as cluster:
            operator.chmod(0o600)
            canaries.plant("the operator's token", operator.read_text(), operator)
            for key in sorted((cluster.data / "tls").glob("*.key")):
                canaries.plant_key(key)
            yield Planted(
                folder=folder,
                cluster=cluster,
                canaries=canaries,
                processes=processes,
                traces=traces,
                tokens_file=tokens_file,
                operator=operator,
                jwt=access_token,
                zookeeper=where,
            )
    assert processes.looks > 1
    assert traces.spans


def _write(file: Path, text: str) -> None:
    file.touch(0o600)
    file.write_text(text)


def _access_token(folder: Path, canaries: Canaries) -> str:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(private.public_key()))
    public |= {"kid": "first", "use": "sig"}
    (folder / "keys.json").write_text(json.dumps({"keys": [public]}))
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": time.time() + 3600}
    token = jwt.encode(claims, private, "RS256", headers={"kid": "first"})
    canaries.plant("the signature of the access token", token.rpartition(".")[2])
    canaries.plant("the claims of the access token", token.split(".")[1])
    return token


def _settings(folder: Path, zookeeper: str, password: Path) -> Mapping[str, str]:
    return {
        "server.log_level": "debug",
        "storage.full_disk_reserve_bytes": "0",
        "auth.oidc_issuer": ISSUER,
        "auth.oidc_alias": "corp",
        "auth.oidc_audience": AUDIENCE,
        "auth.oidc_jwks": f"file:{folder / 'keys.json'}",
        "metrics.listen": f"127.0.0.1:+{METRICS_OFFSET}",
        "metrics.token": f"env:{METRICS_VARIABLE}",
        "discovery.zookeeper": zookeeper,
        "discovery.zookeeper_credentials": f"file:{password}",
    }

"""Where a piece measures: in a folder of its own, with nodes of one tree, open or closed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.errors import DeadlineExceeded

THIS_TREE = "this tree"
"""The name of the checkout that this program belongs to."""

_IDENTITY = "bench"
_ADMIN = "bench-admin"
"""Grants the other one its rights, which are looked at as everybody's are."""
_FAR = {"requests-per-s": 10**9, "in-bytes-per-s": 10**15, "out-bytes-per-s": 10**15}
"""Quotas that throttle no client here."""
_RIGHTS = "read,write,create,alter,delete,admin,cluster"
_COMMAND_S = 120.0


class CannotRun(Exception):
    """A tree lacks what a piece needs, or what the piece needs is not installed; says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Starts the clusters of one piece."""

    name: str
    """Of what is measured, as tables show it."""
    folder: Path
    closed: bool = False
    """With TLS, tokens, grants, quotas, an audit log and metrics."""
    environment: Mapping[str, str] | None = None
    """That of the tree whose `raftlog` runs. Default: that of this process."""
    clusters: list[ProcessCluster] = field(default_factory=list)
    """All that were started here."""

    def cluster(
        self,
        name: str = "",
        *,
        nodes: int = 3,
        settings: Sequence[str] = (),
        spare: int = 0,
    ) -> ProcessCluster:
        """A cluster of the tree in the folder of this name, or in the piece's own folder, with
        the addresses of `spare` more nodes, which may join later. The other arguments are those of
        `ProcessCluster.start`. Raises `CannotRun`."""
        data = self.folder / name if name else self.folder / "data"
        # The `ProcessCluster` of an older tree may lack parameters that are not needed there.
        given: dict[str, Any] = {"nodes": nodes, "settings": settings}
        if self.environment is not None:
            given["environment"] = self.environment
        if self.closed:
            return self._closed(data, given, spare)
        return self._started(data, {**given, "port": free_ports(nodes + spare)})

    def joining(self, cluster: ProcessCluster, spare: int) -> list[str]:
        """The settings of the nodes for which the cluster was started with `spare` addresses."""
        if not self.closed:
            return []
        tls = cluster.data / "tls"
        return [
            f"tls.ca_file={_authority(cluster)}",
            f"tls.cert_file={tls / 'node-{node}.pem'}",
            f"tls.key_file={tls / 'node-{node}.key'}",
            f"client.tls_ca_file={_authority(cluster)}",
            f"client.token={cluster.token}",
            *self._closing(self.folder / f"secrets-{cluster.data.name}", len(cluster.pids) + spare),
        ]

    def _started(self, data: Path, given: Mapping[str, Any]) -> ProcessCluster:
        try:
            started = ProcessCluster.start(data, **given)
        except DeadlineExceeded as error:
            if self.name == THIS_TREE:
                raise
            raise CannotRun(f"{self.name}: {error}") from error
        self.clusters.append(started)
        return started

    def _closed(self, data: Path, given: Mapping[str, Any], spare: int) -> ProcessCluster:
        most = given["nodes"] + spare
        secrets = self.folder / f"secrets-{data.name}"
        is_new = not secrets.exists()
        if is_new:
            self._make_token(secrets)
        settings = (*given["settings"], *self._closing(secrets, most))
        closing = {
            "settings": settings,
            "port": free_ports(3 * most),
            "tls": True,
            "token": _token(secrets),
        }
        cluster = self._started(data, {**given, **closing})
        if is_new:
            self._grant(cluster, secrets)
        if spare:
            others = range(given["nodes"] + 1, most + 1)
            words = (word for node in others for word in ("--node", f"{node}=127.0.0.1"))
            self._command("certs", "--data", str(data), *words)
        return cluster

    def client_environment(self, cluster: ProcessCluster) -> dict[str, str]:
        """For a client in a process of its own: what it trusts, and the token that it shows."""
        environment = dict(os.environ if self.environment is None else self.environment)
        if self.closed:
            environment["RAFTLOG_CLIENT__TLS_CA_FILE"] = str(_authority(cluster))
            environment["RAFTLOG_CLIENT__TOKEN"] = cluster.token
        return environment

    def spark_options(self, cluster: ProcessCluster) -> dict[str, str]:
        """The options of a source or sink of the cluster. Who a query is the environment of its
        processes says, which are started later."""
        if self.closed:
            os.environ["RAFTLOG_CLIENT__BOOTSTRAP_SERVERS"] = cluster.servers
            os.environ["RAFTLOG_CLIENT__TLS_CA_FILE"] = str(_authority(cluster))
            os.environ["RAFTLOG_CLIENT__TOKEN"] = cluster.token
        return {"raftlog.bootstrap.servers": cluster.servers}

    # ------------------------------------------------------------ closed

    def _make_token(self, secrets: Path) -> None:
        secrets.mkdir(parents=True)
        for identity in (_IDENTITY, _ADMIN):
            token = self._command("tokens", "add", identity, "--file", str(secrets / "tokens"))
            (secrets / identity).write_text(token)

    def _grant(self, cluster: ProcessCluster, secrets: Path) -> None:
        """Rights and quotas, which the tree's own program sets. Former versions asked before they
        made the first grant."""
        own = self.client_environment(cluster)
        environment = {**own, "RAFTLOG_CLIENT__TOKEN": _token(secrets, _ADMIN)}
        servers = ("--servers", cluster.servers)
        far = [text for limit, most in _FAR.items() for text in (f"--{limit}", str(most))]
        grant = ("acl", "grant", self._principal(_IDENTITY), _RIGHTS, "--all", *servers)
        self._command(*grant, environment=environment)
        self._command(
            "quota", "set", self._principal(_IDENTITY), *far, *servers, environment=environment
        )

        def is_allowed() -> bool:
            try:
                self._command("scrub", *servers, environment=own)
            except CannotRun:
                return False
            return True

        wait_for(is_allowed, "all nodes to take up the rights", PATIENCE_S)

    def _closing(self, secrets: Path, nodes: int) -> list[str]:
        return [
            f"tls.peer_port_offset={nodes}",
            f"auth.tokens_file={secrets / 'tokens'}",
            f"auth.admins={self._principal(_ADMIN)}",
            f"audit.file={secrets / 'audit-{node}.jsonl'}",
            f"metrics.listen=127.0.0.1:+{2 * nodes}",
            f"metrics.token={_token(secrets)}",
        ]

    def _principal(self, identity: str) -> str:
        """The principal of the token. Versions without types of principals have its name alone."""
        typed = "PRINCIPAL" in self._command("acl", "grant", "--help")
        return f"token:{identity}" if typed else identity

    def _command(self, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
        """What `raftlog` prints. Raises `CannotRun`."""
        done = subprocess.run(
            [sys.executable, "-m", "raftlog", *arguments],
            env=environment or self.environment,
            input="y\n",
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
        )
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise CannotRun(f"{self.name}: raftlog {' '.join(arguments[:2])}: {' '.join(said)}")
        return done.stdout


def _token(secrets: Path, identity: str = _IDENTITY) -> str:
    return f"file:{secrets / identity}"


def _authority(cluster: ProcessCluster) -> Path:
    return cluster.data / "tls" / "ca.pem"

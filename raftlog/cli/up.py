"""`raftlog up`: a cluster of durable nodes on this machine, in the foreground."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli import cluster_folder
from raftlog.cli.certs import make_in
from raftlog.cli.cluster_folder import ClusterFolder
from raftlog.cli.output import Format, FormatOption, say, show_json, show_table
from raftlog.cli.server_extra import require_server_extra
from raftlog.cli.session import DATA_FOLDER_DEFAULT, Session, session_of
from raftlog.cli.signals import Stop, on_signals
from raftlog.config_hosts import PORT_MAX, moved
from raftlog.errors import (
    AddressInUse,
    DataFolderLocked,
    ExitCode,
    InvalidOption,
    NodesNotReady,
    RaftlogError,
    Unauthenticated,
)

if TYPE_CHECKING:
    from raftlog.client.cluster_members import ClusterMembers
    from raftlog.client.log_client import ClusterDescription

LOOK_INTERVAL_S = 0.1
LAST_WORDS_LINES = 5


def up(
    context: typer.Context,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, max=7, help="Nodes of a new cluster (3).", show_default=False),
    ] = None,
    data: Annotated[
        Path, typer.Option(help="The cluster's folder; a new cluster, or the one in it.")
    ] = DATA_FOLDER_DEFAULT,
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=PORT_MAX, help="Node 1's port in a new cluster (7401).", show_default=False
        ),
    ] = None,
    tls: Annotated[
        bool,
        typer.Option(
            "--tls",
            help="Make certificates for nodes and clients, if the folder has none, and encrypt "
            "everything. A cluster that has them uses them without this flag.",
        ),
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Start the nodes of a cluster on this machine, and stay until Ctrl-C stops them all.

    Their data is durable and stays. A node that dies is not started again: this command says so,
    and how to bring it back. With -o json it prints pids, ports and files on one line when all
    nodes are ready.
    """
    require_server_extra("up")
    session = session_of(context)
    os.umask(0o077)
    stop = Stop()
    folder = data.absolute()
    _cluster_in(folder, nodes, port, tls, session)  # what cannot be started leaves nothing behind
    with (
        on_signals(stop.tell, signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
        cluster_folder.only_up_in(folder),
    ):
        # Again: another `up` may have been faster.
        cluster = _cluster_in(folder, nodes, port, tls, session)
        if not cluster_folder.exists(folder):
            cluster = _founded(cluster, tls=tls)
        elif tls and not cluster.ca_file.exists():
            make_in(cluster, {})
        session = replace(session, settings=cluster.with_certificates(session.settings))
        running = Running(cluster=cluster, children={}, log_starts={}, stop=stop)
        try:
            running.start(session)
            running.wait_until_ready(session)
            running.show(output, session.settings.client.bootstrap_servers)
            running.watch(session)
        finally:
            running.end(session.settings.up.stop_timeout_s)


def _cluster_in(
    folder: Path, nodes: int | None, port: int | None, tls: bool, session: Session
) -> ClusterFolder:
    """The folder's cluster, or a new one to record. Checks that its ports are free."""
    if cluster_folder.exists(folder):
        cluster = _recorded_cluster(folder, nodes, port)
        _refuse_running(cluster)
        option = f"[nodes] in {folder / cluster_folder.CLUSTER_FILE}"
    else:
        defaults = session.settings.up
        cluster = _new_cluster(folder, nodes or defaults.nodes, port or defaults.port)
        option = "--port"
    _refuse_busy_ports(cluster.addresses.values(), option)
    if tls or cluster.with_certificates(session.settings).tls.cert_file:
        offset = session.settings.tls.peer_port_offset
        peers = [moved(address, offset) for address in cluster.addresses.values()]
        _refuse_busy_ports(peers, "tls.peer_port_offset")
    return cluster


def _founded(cluster: ClusterFolder, *, tls: bool) -> ClusterFolder:
    """The new cluster with its id. Its nodes' stores are made, and it is recorded."""
    from raftlog.cli.stores import complete, made_store
    from raftlog.founders import cluster_id_of

    founders = [made_store(cluster, node) for node in cluster.addresses]
    cluster = replace(cluster, cluster_id=cluster_id_of(founders))
    if tls:
        make_in(cluster, {})  # before the cluster: it never runs without them
    for node in cluster.addresses:
        complete(cluster, node, founders)
    cluster_folder.record(cluster)
    return cluster


def _new_cluster(folder: Path, nodes: int, port: int) -> ClusterFolder:
    if port + nodes - 1 > PORT_MAX:
        raise InvalidOption(
            option="--port",
            problem=f"is {port}, which with {nodes} nodes goes beyond port {PORT_MAX}",
            advice="Give a lower one: every node has a port of its own.",
        )
    addresses = {number + 1: f"127.0.0.1:{port + number}" for number in range(nodes)}
    return cluster_folder.new_cluster(folder, addresses=addresses)


def _recorded_cluster(folder: Path, nodes: int | None, port: int | None) -> ClusterFolder:
    """The cluster in the folder, which must be as asked."""
    cluster = cluster_folder.open_folder(folder)
    recorded = len(cluster.addresses)
    if nodes is not None and nodes != recorded:
        raise InvalidOption(
            option="--nodes",
            problem=f"is {nodes}, and the cluster in {folder} has {recorded}",
            advice=f"Leave --nodes out, or give another --data for a cluster of {nodes}.",
        )
    first_address = cluster.addresses[min(cluster.addresses)]
    if port is not None and first_address.rpartition(":")[2] != str(port):
        raise InvalidOption(
            option="--port",
            problem=f"is {port}, and node 1 of the cluster in {folder} has {first_address}",
            advice="Leave --port out, or give another --data for another cluster.",
        )
    return cluster


def _refuse_running(cluster: ClusterFolder) -> None:
    cluster_folder.wait_until(lambda: not cluster.running(), cluster_folder.KILLED_PATIENCE_S)
    for node, pid in cluster.running().items():
        raise DataFolderLocked(folder=str(cluster.data(node)), holder=str(pid))


def _refuse_busy_ports(addresses: Iterable[str], option: str) -> None:
    """Check the ports before anything is started or written. `option` is what to change."""
    for address in addresses:
        host, _, port = address.rpartition(":")
        if int(port) > PORT_MAX:
            raise InvalidOption(
                option=option,
                problem=f"leads to {address}, beyond port {PORT_MAX}",
                advice="Give a lower one.",
            )
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            # As the nodes do: a port with only lingering connections is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host.strip("[]"), int(port)))
            except OSError as error:
                raise AddressInUse(address=address, option=option) from error


@dataclass(slots=True, kw_only=True)
class Running:
    """The child processes of one `raftlog up`, from their start to their end."""

    cluster: ClusterFolder
    children: dict[int, subprocess.Popen[bytes]]
    log_starts: dict[int, int]
    """The length of each node's log file at its start: what follows is from this start."""
    stop: Stop

    def start(self, session: Session) -> None:
        """Start every node as a process outside this one's process group: Ctrl-C then reaches only
        this process, which stops the nodes in order."""
        for node in self.cluster.addresses:
            log_file = self.cluster.log_file(node)
            log_file.parent.mkdir(parents=True, exist_ok=True)
            with open(log_file, "ab", opener=cluster_folder.not_followed) as log:
                self.log_starts[node] = log.tell()
                self.children[node] = subprocess.Popen(
                    [sys.executable, "-P", "-m", *self._serve(session, node)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=0,
                )

    def wait_until_ready(self, session: Session) -> None:
        """Wait until every node answers, is registered and knows a leader, or Ctrl-C is pressed.

        Only the nodes of this folder are waited for: others of the cluster may run elsewhere. If a
        node exits instead, prints the end of its log and raises `typer.Exit` with its exit code,
        unless the cluster says that it was removed. Raises `NodesNotReady` when the time is over.
        """
        from raftlog.client.connect import connect

        limit_s = session.settings.up.ready_timeout_s
        deadline_s = time.monotonic() + limit_s
        client_settings = session.settings.client.model_copy(
            update={
                "bootstrap_servers": ",".join(self.cluster.addresses.values()),
                "zookeeper": "",
                "try_timeout_s": 1.0,
                "refused_timeout_s": 0.0,  # so that the loop can look after the children
            }
        )
        with connect(settings=client_settings) as client:
            while not self.stop.is_told():
                refused = self._refused()
                answers: list[ClusterDescription | RaftlogError] = []
                try:
                    answers = [answer for _, answer in client.describe_cluster()]
                except Unauthenticated:
                    raise  # to wait changes nothing
                except RaftlogError:
                    pass  # no node answers
                missing = self._missing(answers, {*self.children} - {*refused})
                if not missing:
                    self._leave_out(refused, client.members)
                    return
                if time.monotonic() >= deadline_s:
                    for node in refused:
                        raise self._ended_early(node)
                    raise self._not_ready(missing, limit_s)
                self.stop.wait(LOOK_INTERVAL_S)

    def _refused(self) -> list[int]:
        """The nodes that ended because they must not serve. It may be that they were removed while
        they were down: what the others answer as soon as they start is older than that."""
        ended = [node for node, child in self.children.items() if child.poll() is not None]
        for node in ended:
            refused = self.children[node].returncode == ExitCode.NODE_REFUSED
            if not refused or len(ended) == len(self.children):
                raise self._ended_early(node)
        return ended

    def _leave_out(self, refused: list[int], members: ClusterMembers) -> None:
        """Start those that were removed no more. The others must not be left out."""
        for node in refused:
            if not members.was_removed(node):
                raise self._ended_early(node)
            cluster_folder.forget(self.cluster.folder, node)
            del self.children[node]
            say(f"node {node} was removed from the cluster: it is left out")

    def _missing(
        self, answers: Sequence[ClusterDescription | RaftlogError], nodes: Collection[int]
    ) -> dict[int, str]:
        """Those of the nodes that are not ready, and why."""
        missing = dict.fromkeys(nodes, "no answer")
        for each in answers:
            if isinstance(each, RaftlogError) or each.node not in missing:
                continue
            if not each.leader:
                missing[each.node] = "it knows no leader"
            elif not each.registered:
                missing[each.node] = "it is not registered with the controller"
            elif each.rules < each.rules_known:
                missing[each.node] = f"rules version {each.rules_known} is not permitted yet"
            else:
                del missing[each.node]
        return missing

    def _not_ready(self, missing: dict[int, str], limit_s: float) -> NodesNotReady:
        return NodesNotReady(
            seconds=f"{limit_s:g}",
            nodes=", ".join(f"node {node} ({why})" for node, why in sorted(missing.items())),
            logs=", ".join(str(self.cluster.log_file(node)) for node in sorted(missing)),
        )

    def show(self, output: Format, default_servers: str) -> None:
        """Print each node's pid, address, data folder and log file."""
        if self.stop.is_told():
            return
        rows = [
            {
                "node": node,
                "pid": child.pid,
                "address": self.cluster.addresses[node],
                "data": str(self.cluster.data(node)),
                "log": str(self.cluster.log_file(node)),
            }
            for node, child in self.children.items()
        ]
        if output is Format.JSON:
            show_json({"cluster_id": self.cluster.cluster_id, "nodes": rows})
            return
        show_table(["NODE", "PID", "ADDRESS", "DATA", "LOG"], [list(row.values()) for row in rows])
        servers = ",".join(self.cluster.addresses[node] for node in self.children)
        if servers != default_servers:
            say("clients find these nodes by --servers, or by")
            say(f"  export RAFTLOG_CLIENT__BOOTSTRAP_SERVERS={shlex.quote(servers)}")
        if self.cluster.ca_file.exists():
            say("clients trust these nodes by")
            say(f"  export RAFTLOG_CLIENT__TLS_CA_FILE={shlex.quote(str(self.cluster.ca_file))}")
        say("ready; Ctrl-C stops all nodes, their data stays")

    def _serve(self, session: Session, node: int) -> list[str]:
        """The command line of one node, with the settings that `up` was given."""
        words = ["raftlog", *session.passed_on, "serve"]
        return [*words, "--node", str(node), "--data", str(self.cluster.folder)]

    def watch(self, session: Session) -> None:
        """Return when told to stop, or when no child is left. Report each child that exits."""
        alive = dict(self.children)
        while alive and not self.stop.is_told():
            for node, child in list(alive.items()):
                if child.poll() is not None:
                    del alive[node]
                    say(f"node {node} (pid {child.pid}) exited: {_how(child.returncode)}")
                    if node not in cluster_folder.open_folder(self.cluster.folder).addresses:
                        say("  it was removed from the cluster; its data stays")
                    elif child.returncode != 0:  # 0: it was stopped on purpose
                        say(f"  bring it back: {shlex.join(self._serve(session, node))}")
            self.stop.wait(LOOK_INTERVAL_S)

    def end(self, timeout_s: float) -> None:
        """Stop the children that live. Kill those that do not end within the time."""
        alive = {node: child for node, child in self.children.items() if child.poll() is None}
        for child in alive.values():
            child.send_signal(signal.SIGTERM)
        deadline_s = time.monotonic() + timeout_s
        for node, child in alive.items():
            try:
                child.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                say(f"node {node} (pid {child.pid}) did not stop in {timeout_s:g} s: killed")
                child.kill()
                child.wait()
        if alive:
            say("stopped " + ", ".join(f"node {node}" for node in alive))
        for node, pid in self.cluster.running().items():
            say(f"node {node} (pid {pid}) still runs: `raftlog serve` started it")

    def _ended_early(self, node: int) -> typer.Exit:
        code = self.children[node].returncode
        log_file = self.cluster.log_file(node)
        with log_file.open("rb") as log:
            log.seek(self.log_starts[node])
            lines = log.read().decode("utf-8", "replace").splitlines()
        say(f"error: node {node} ended while it started: {_how(code)}; the end of its log:")
        for line in lines[-LAST_WORDS_LINES:]:
            say(f"  {line}")
        say(f"  The whole log: {log_file}")
        if alive := sorted(other for other, child in self.children.items() if child.poll() is None):
            nodes = ", ".join(map(str, alive))
            command = f"raftlog serve --node N --data {shlex.quote(str(self.cluster.folder))}"
            say(f"  This stops all nodes. Those that could serve ({nodes}) start alone: {command}")
        return typer.Exit(code if code > 0 else int(ExitCode.FAILED))


def _how(code: int) -> str:
    """An exit code in words, such as `killed by SIGKILL`."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    known = {int(member): member.name for member in ExitCode}
    return "stopped" if code == 0 else f"exit code {code} ({known.get(code, 'unknown')})"

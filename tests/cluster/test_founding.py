"""A cluster is founded on three machines without ZooKeeper, as the page says, and only once."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import raftlog
from raftlog.chaos.cluster import PATIENCE_S, free_ports, wait_for
from raftlog.cli.cluster_folder import CLUSTER_FILE, open_folder
from raftlog.errors import ExitCode
from raftlog.founders import Founder, cluster_id_of
from tests.cluster.machines import command, served

PAGE = Path(__file__).parents[2] / "docs" / "OPERATIONS.md"
NODES = (1, 2, 3)


def made(folder: Path, node: int, address: str) -> str:
    """The line of a node's store, which is made if there is none."""
    finished = command("init", "--node", str(node), "--address", address, "--data", str(folder))
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def founded(folder: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    words = [word for line in lines for word in ("--with", line)]
    return command("init", *words, "--data", str(folder))


def status(address: str) -> str:
    """What a health check at the address says."""
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
        except grpc.RpcError as error:
            return error.code().name
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


def test_init_can_be_ended_and_given_again_and_founds_once(tmp_path: Path) -> None:
    folders = {node: tmp_path / f"machine-{node}" for node in NODES}
    addresses = {node: f"127.0.0.1:{7400 + node}" for node in NODES}
    lines = [made(folders[node], node, addresses[node]) for node in NODES]
    assert lines == [made(folders[node], node, addresses[node]) for node in NODES]
    founders = [Founder.of_line(line) for line in lines]
    assert [(each.node, each.address) for each in founders if each] == [*addresses.items()]
    unfinished = command("serve", "--node", "1", "--data", str(folders[1]))
    assert unfinished.returncode == int(ExitCode.USAGE), "its folder has no cluster"

    own, *others = lines
    for wrong, what in (
        (others, "names no store in"),
        ([own, own], "twice"),
        ([own, "2@127.0.0.1#" + 32 * "0"], "not of the form NODE@HOST:PORT#UUID"),
        ([own, f"2@127.0.0.1:7401#{32 * '0'}"], "names one address twice"),
        ([own, *(f"{n}@h:{n}#{n:032x}" for n in range(2, 9))], "7 may vote"),
    ):
        refused = founded(folders[1], *wrong)
        assert refused.returncode == int(ExitCode.USAGE)
        assert what in refused.stderr
        assert not (folders[1] / CLUSTER_FILE).exists()

    for node in NODES:
        assert founded(folders[node], *reversed(lines)).returncode == 0
    recorded = [open_folder(folder) for folder in folders.values()]
    assert {each.cluster_id for each in recorded} == {cluster_id_of(filter(None, founders))}
    assert all(each.addresses == addresses for each in recorded)
    again = founded(folders[1], *lines)
    assert (again.returncode, "nothing is founded" in again.stderr) == (0, True)
    assert made(folders[1], 1, addresses[1]) == own
    other = founded(folders[1], own, lines[1])
    assert other.returncode == int(ExitCode.USAGE)
    assert "names other founders" in other.stderr


def test_a_node_that_waits_for_its_store_is_alive_and_serves_once_it_is_there(
    tmp_path: Path,
) -> None:
    folder, address = tmp_path / "one", f"127.0.0.1:{free_ports(1)}"
    waits = ["--wait", address]
    with served(folder, 1, (), *waits) as process:
        wait_for(lambda: status(address) == "NOT_SERVING", "it to wait", PATIENCE_S)
        assert os.listdir(folder) == []
        assert founded(folder, made(folder, 1, address)).returncode == 0
        wait_for(lambda: status(address) == "SERVING", "it to serve", PATIENCE_S)
        joining = f"127.0.0.1:{free_ports(1)}"
        second = tmp_path / "two"
        asked = ("--servers", address)
        with served(second, 2, asked, "--join", "--wait", joining), raftlog.connect(address) as at:
            wait_for(lambda: status(joining) == "NOT_SERVING", "it to wait", PATIENCE_S)
            assert os.listdir(second) == [], "it was not added"
            at.members.add(2, joining)
            at.members.wait_for(2, PATIENCE_S)
            wait_for(lambda: status(joining) == "SERVING", "it to serve", PATIENCE_S)
        assert process.poll() is None
    with served(folder, 1, (), *waits):
        wait_for(lambda: status(address) == "SERVING", "it to start again", PATIENCE_S)


def test_two_of_three_nodes_that_come_back_at_other_addresses_find_a_leader(tmp_path: Path) -> None:
    """Each knows its own new address alone. They reach node 1, and it learns from them."""
    port = free_ports(5)
    folders = {node: tmp_path / f"machine-{node}" for node in NODES}
    lines = [made(folders[node], node, f"127.0.0.1:{port + node - 1}") for node in NODES]
    for folder in folders.values():
        assert founded(folder, *lines).returncode == 0
    with ExitStack() as first, served(folders[1], 1, ()):
        for node in (2, 3):
            first.enter_context(served(folders[node], node, ()))
        settings = raftlog.config.ClientSettings(
            bootstrap_servers=f"127.0.0.1:{port}", request_timeout_s=PATIENCE_S,
            refused_timeout_s=PATIENCE_S,
        )  # fmt: skip
        with raftlog.connect(settings=settings) as client:
            client.create_topic("t", "a INT", replicas=3)
            assert client.append("t", [{"a": 1}]).start == 0
        first.close()
        for node in (2, 3):
            own = folders[node] / CLUSTER_FILE
            was, now = f"127.0.0.1:{port + node - 1}", f"127.0.0.1:{port + node + 1}"
            own.write_text(own.read_text().replace(was, now))
        with (
            served(folders[2], 2, ()),
            served(folders[3], 3, ()),
            raftlog.connect(settings=settings) as client,
        ):
            assert client.append("t", [{"a": 2}]).start == 1


# ---------------------------------------------------------------- the page


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def three_machines() -> Iterator[list[str]]:
    """The names of three network namespaces, at 10.77.0.1 to 3, that reach one another and this
    process."""
    bridge, names = f"rlb{os.getpid()}", [f"rl{os.getpid()}-{node}" for node in NODES]
    with ExitStack() as stack:
        ip("link", "add", bridge, "type", "bridge")
        stack.callback(ip, "link", "del", bridge)
        ip("addr", "add", "10.77.0.254/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for node, name in zip(NODES, names, strict=True):
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
            out = f"rlv{os.getpid()}{node}"
            ip("link", "add", out, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", out, "master", bridge, "up")
            ip("-n", name, "addr", "add", f"10.77.0.{node}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names


def commands_of_the_page() -> list[list[str]]:
    """The words of each command in the section."""
    section = PAGE.read_text().split("## Found a cluster on several machines")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    found = [shlex.split(line, comments=True) for line in lines]
    assert all(words[0] == "raftlog" for words in found)
    return [words[1:] for words in found]


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_three_machines_become_one_cluster_as_the_page_says(tmp_path: Path) -> None:
    folders = {str(node): tmp_path / f"machine-{node}" for node in NODES}
    page = commands_of_the_page()
    printed: dict[str, str] = {}
    with ExitStack() as stack:
        names = dict(zip(folders, stack.enter_context(three_machines()), strict=True))
        for words in page:
            match words:
                case ["init", "--node", node, "--address", address, "--data", "DIR"]:
                    printed[f"LINE{node}"] = made(folders[node], int(node), address)
                case ["init", "--with", *_, "--data", "DIR"]:
                    given = [printed.get(word, word) for word in words]
                    assert set(printed.values()) <= set(given)
                    for folder in folders.values():
                        run([*given[:-1], str(folder)])
                case ["certs", "--data", "DIR"]:
                    run(["certs", "--data", str(folders["1"])])
                    carry_certificates(folders)
                case ["serve", "--node", node, "--data", "DIR"]:
                    within = ["ip", "netns", "exec", names[node]]
                    stack.enter_context(served(folders[node], int(node), (), within=within))
                case _:
                    raise AssertionError(f"the page has another command: {words}")
        servers = ",".join(f"10.77.0.{node}:7401" for node in NODES)
        ca_file = folders["1"] / "tls" / "ca.pem"
        settings = raftlog.config.ClientSettings(
            bootstrap_servers=servers,
            tls_ca_file=str(ca_file),
            request_timeout_s=PATIENCE_S,
            refused_timeout_s=PATIENCE_S,
        )
        with raftlog.connect(settings=settings) as client:
            assert client.cluster_id() == open_folder(folders["2"]).cluster_id
            client.create_topic("t", "a INT", replicas=3)
            assert client.append("t", [{"a": 1}]).start == 0
            wait_for(lambda: answering(client) == set(NODES), "all nodes to answer", PATIENCE_S)


def answering(client: raftlog.LogClient) -> set[int]:
    answers = [answer for _, answer in client.describe_cluster()]
    return {answer.node for answer in answers if isinstance(answer, raftlog.ClusterDescription)}


def run(words: list[str]) -> None:
    finished = command(*words)
    assert finished.returncode == 0, finished.stderr


def carry_certificates(folders: dict[str, Path]) -> None:
    """To each other machine those of its node, and what it trusts."""
    for node, folder in folders.items():
        (folder / "tls").mkdir(exist_ok=True)
        for name in ("ca.pem", f"node-{node}.pem", f"node-{node}.key"):
            source, target = folders["1"] / "tls" / name, folder / "tls" / name
            if source != target:
                shutil.copy(source, target)

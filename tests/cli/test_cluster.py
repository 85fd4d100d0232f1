"""What `raftlog cluster` says of nodes that come and go, on a real controller without replicas."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from raftlog.client import group_moves
from raftlog.core.types import NodeId
from raftlog.errors import ExitCode
from tests.cli.command import Finished, run
from tests.client.members_scene import MembersScene, scene

Raftlog = Callable[..., Finished]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[MembersScene]:
    """Three nodes that hold topic t, and ports for five more."""
    monkeypatch.setattr(group_moves, "_LOOK_S", 0.01)  # nothing takes time here
    with scene(8) as found:
        found.topic("t", 1, 2, 3)
        yield found


@pytest.fixture
def raftlog(
    cluster: MembersScene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Raftlog:
    """Gives a command `raftlog cluster`, which ends as told."""

    def command(*words: object, code: ExitCode = ExitCode.OK) -> Finished:
        given = ("--servers", cluster.servers, "cluster", *map(str, words))
        finished = run(monkeypatch, capsys, *given)
        assert finished.code == code, finished
        assert "Traceback" not in finished.err
        return finished

    return command


@pytest.mark.parametrize(
    "address", ["::1", "[::1:1", "a", "a:99999", "0.0.0.0:7404", "http://a:1", ""]
)
def test_an_address_that_nobody_can_reach_is_refused_before_anything_is_planned(
    raftlog: Raftlog, address: str
) -> None:
    for words in (("add", 4), ("replace", 3, "--with", 4, "--dry-run")):
        refused = raftlog(*words, "--address", address, code=ExitCode.USAGE)
        assert "10.0.0.4:7401" in refused.err
        assert refused.out == ""


@pytest.mark.parametrize("parents", ["1,,2", ",", " ", "1,", "x", "0"])
def test_what_is_no_list_of_parents_is_refused(raftlog: Raftlog, parents: str) -> None:
    refused = raftlog("parents", 3, parents, code=ExitCode.USAGE)
    assert "is no list of node ids" in refused.err


def states(finished: Finished) -> dict[int, tuple[str, bool, int]]:
    rows: list[dict[str, Any]] = json.loads(finished.out)["nodes"]
    return {row["node"]: (row["state"], row["answers"], row["votes_in"]) for row in rows}


@pytest.mark.slow
def test_status_tells_which_nodes_answer_and_where_they_vote(
    cluster: MembersScene, raftlog: Raftlog
) -> None:
    for node, words in ((4, []), (5, ["--observer"])):
        raftlog("add", node, "--address", cluster.addresses[NodeId(node)], *words)
    cluster.come(5)
    cluster.lose(3)
    shown = raftlog("status", "-o", "json")
    assert states(shown) == {
        1: ("in service", True, 2),
        2: ("in service", True, 2),
        3: ("no answer", False, 2),
        4: ("added, not started", True, 0),
        5: ("in service", True, 0),
    }
    table = raftlog("status").out
    assert "VOTES IN" in table
    assert "no answer" in table
    assert "GROUPS" not in table, "`raftlog status` counts something else"
    drained = raftlog("drain", 3, "--timeout-s", 1, code=ExitCode.UNAVAILABLE)
    assert drained.err.startswith("node 3 may lead groups: ")
    assert states(raftlog("status", "-o", "json"))[3][0] == "draining, no answer"


def test_the_servers_to_ask_are_those_that_may_run(cluster: MembersScene, raftlog: Raftlog) -> None:
    told = raftlog("add", 4, "--address", cluster.addresses[NodeId(4)]).err
    assert f"--servers {cluster.servers} serve --node 4" in told
    again = raftlog("add", 4, "--address", cluster.addresses[NodeId(4)]).err
    assert f"--servers {cluster.servers} serve --node 4" in again
    assert "was added before" in again


def test_a_node_that_runs_is_not_told_to_be_started(
    cluster: MembersScene, raftlog: Raftlog
) -> None:
    words = ("add", 2, "--address", cluster.addresses[NodeId(2)])
    told = raftlog(*words).err
    assert told == f"node 2 is in the cluster already, and runs at {words[-1]}\n"
    cluster.lose(2)
    assert "serve --node 2" in raftlog(*words).err


def test_a_plan_without_moves_says_so(raftlog: Raftlog) -> None:
    finished = raftlog("rebalance", "--dry-run")
    assert (finished.out, finished.err) == ("", "nothing is to be moved\n")
    assert json.loads(raftlog("rebalance", "--dry-run", "-o", "json").out) == {"moves": []}


def test_a_removal_tells_what_it_does(cluster: MembersScene, raftlog: Raftlog) -> None:
    cluster.comes_when_added = True
    raftlog("add", 4, "--address", cluster.addresses[NodeId(4)])
    told = raftlog("remove", 3, "--yes").err.splitlines()
    assert told[0] == "moving 2 groups off node 3, 2 at a time"
    assert [line.split("]")[0] for line in told[1:3]] == ["[1/2", "[2/2"]
    assert told[3:] == ["node 3 is removed"]


@pytest.mark.slow
def test_a_drain_tells_what_it_waits_for(cluster: MembersScene, raftlog: Raftlog) -> None:
    told = raftlog("drain", 1, "--timeout-s", 1, code=ExitCode.UNAVAILABLE).err
    assert told.splitlines()[0] == "node 1 still leads 1 groups"
    assert raftlog("drain", 3).err == "node 3 leads nothing\n"


def test_a_drained_node_is_not_made_a_leader(raftlog: Raftlog) -> None:
    raftlog("drain", 3)
    told = raftlog("transfer", "t", "--to", 3, code=ExitCode.REFUSED).err
    assert "TransferRefused: Node 3 cannot be made leader of group 1 now: it is drained" in told
    assert "`raftlog cluster drain 3 --undo`" in told


def test_an_observer_s_replacement_is_an_observer_and_told_step_by_step(
    cluster: MembersScene, raftlog: Raftlog
) -> None:
    cluster.comes_when_added = True
    for node, parents in ((4, "1,2"), (5, "4")):
        address = cluster.addresses[NodeId(node)]
        raftlog("add", node, "--address", address, "--observer", "--parents", parents)
    words = ("replace", 4, "--with", 7, "--address", cluster.addresses[NodeId(7)])
    assert raftlog(*words, "--dry-run").err == "nothing is to be moved\n"
    told = raftlog(*words, "--yes").err
    assert "waiting for node 7; start it, if it does not run: raftlog --servers" in told
    assert told.splitlines()[-1] == "node 7 has taken node 4's place"
    nodes = cluster.machine.nodes
    found = {node: nodes[NodeId(node)].parents for node in (5, 7)}
    assert found == {5: (7,), 7: (1, 2)}
    assert nodes[NodeId(7)].observer
    assert raftlog(*words, "--yes").err.endswith("node 7 has taken node 4's place\n"), "again"


def test_the_key_value_store_is_named_before_there_is_one(raftlog: Raftlog) -> None:
    refused = raftlog("transfer", "(kv)", "--to", 2, code=ExitCode.USAGE)
    assert "there is no key-value store yet" in refused.err

"""Each duty of a node stalls in turn, for one group: its other duties and groups go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.wire.calls import GroupView, NodeView
from tests.cluster.stalling_node import FOLDER
from tests.cluster.waiting import LEADERS_STAY

STALLED_S = 4.0
"""Several election timeouts."""


@pytest.fixture(scope="module")
def stalls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("stalls")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(FOLDER, str(folder))
        yield folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stalls: Path) -> Iterator[ProcessCluster]:
    data = tmp_path_factory.mktemp("stalling") / "data"
    program = "tests.cluster.stalling_node"
    settings = [LEADERS_STAY]
    with ProcessCluster.start(data, program=program, settings=settings) as running:
        with running.client() as first:
            first.kv.put("first", b"1")
            first.create_topic("t", "number bigint")
            for node in (1, 2, 3):  # `up` runs them without the stalls
                running.kill(node)
                running.serve(node)
                first.append("t", [{"number": node}])
                running.wait_caught_up(first, "t")
            applied_everywhere(first, first.kv.put("first", b"2"))
        yield running


def applied_everywhere(client: LogClient, index: int) -> None:
    """Wait until every node's replica of the key-value store has applied the entry."""
    store = client.kv._store(create=False)
    assert store is not None
    for node in (1, 2, 3):
        wait_for(
            lambda node=node: view_of(client, store, node).applied_index >= index,
            f"node {node} to have applied all",
            PATIENCE_S,
        )


def view_of(client: LogClient, group: int, node: int) -> GroupView:
    """What the node says of its replica, as soon as it says something."""
    found: list[GroupView] = []

    def answers() -> bool:
        views = {each.node: each.answer for each in client.views([group])}
        answer = views.get(node)
        found[:] = answer.groups if isinstance(answer, NodeView) else []
        return bool(found)

    wait_for(answers, f"an answer of node {node}", PATIENCE_S)
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("duty", ["apply", "send", "receive", "heartbeat", "vote", "disk"])
def test_a_duty_that_stalls_does_not_stop_the_others(
    cluster: ProcessCluster, stalls: Path, duty: str
) -> None:
    """CHECKLIST 64. What a leader does not apply or send is not answered, and is when it does."""
    with cluster.client() as client, cluster.client() as writer, cluster.client() as reader:
        store = client.kv._store(create=False)
        assert store is not None
        leader = next(client.groups.events(store)).leader
        nodes = {
            "apply": [leader],
            "send": [leader],
            "heartbeat": [leader],
            "receive": [leader % 3 + 1],
            "disk": [leader % 3 + 1],
            "vote": [1, 2, 3],
        }[duty]
        term = view_of(client, store, leader).term
        begin = client.kv.last_applied()
        for node in nodes:
            (stalls / f"node-{node}").write_text(f"{duty} {store}")
        held = threading.Thread(target=writer.kv.put, args=("held", b"1"), daemon=True)
        held.start()
        appended, end_s = 0, time.monotonic() + STALLED_S
        while time.monotonic() < end_s or appended < 20:
            client.append("t", [{"number": appended}])
            appended += 1
            assert reader.kv.get("first", consistency="sequential") is not None
            if duty not in ("apply", "send"):
                client.kv.put("key", b"%d" % appended)
        waits = held.is_alive()
        views = {node: view_of(client, store, node) for node in (1, 2, 3)}  # all answer
        if all(view.term == term for view in views.values()):  # a busy machine causes elections
            assert waits or duty not in ("apply", "send")
            stalls_here = duty in ("apply", "receive")
            assert not stalls_here or views[nodes[0]].applied_index == begin, "it does stall"
        if duty not in ("apply", "send"):
            held.join(PATIENCE_S)
            assert not held.is_alive()
        for node in nodes:
            (stalls / f"node-{node}").unlink()
        held.join(PATIENCE_S)
        assert not held.is_alive()
        applied_everywhere(client, client.kv.put("key", b"last"))

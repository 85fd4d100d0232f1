"""What `raftlog status` finds in the nodes' answers, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest

from raftlog.cli.output import doubt
from raftlog.cli.status import (
    damaged_replicas,
    folders_set_aside,
    incomplete_replicas,
    latest_of,
    lease_line,
    recovering_replicas,
    replicas_in_doubt,
    rules_of,
    sums_of,
    topics_without_leader,
)
from raftlog.client.watermark import NodeAnswer
from raftlog.core.types import GroupId, LogIndex, NodeId, Offset, Term
from raftlog.errors import ExitCode, NodeUnreachable
from raftlog.wire.calls import (
    DESCRIBE_CLUSTER,
    SERVICE,
    WATCH_GROUPS,
    ClusterDescription,
    GroupView,
    NodeView,
    QuarantineView,
    SetAsideView,
)
from raftlog.wire.codec import encode_reply
from raftlog.wire.group_calls import NodeAddress
from tests.cli.command import run


def view(
    node: int,
    group: int,
    topic: str,
    leader: int,
    *,
    state: str = "trusted",
    history: str = "trusted",
) -> GroupView:
    return GroupView(
        group=GroupId(group),
        topic=topic,
        incarnation=f"{topic}-{group}",
        node=NodeId(node),
        role="leader" if leader == node else "follower",
        leader=NodeId(leader),
        term=Term(1),
        last_index=LogIndex(1),
        commit_index=LogIndex(1),
        applied_index=LogIndex(1),
        log_start_offset=Offset(0),
        high_water_mark=Offset(0),
        open_epochs=0,
        staged_bytes=0,
        dead_bytes=0,
        state=state,
        log_start_index=LogIndex(1),
        log_bytes=64,
        snapshot_index=LogIndex(0),
        history_end=Offset(0),
        history_bytes=0,
        points_behind=0,
        history=history,
        state_hash="",
        followers=(),
    )


def test_a_topic_waits_for_a_leader_while_no_node_that_answers_knows_one() -> None:
    """Node 3 does not answer: a topic that others believe it leads does not count as leaderless."""
    node_1 = [
        view(1, 0, "", 0),
        view(1, 1, "led here", 1),
        view(1, 2, "led there", 3),
        view(1, 3, "waits", 0),
        view(1, 4, "half known", 0),
        view(1, 5, "created again", 2),
    ]
    node_2 = [
        view(2, 3, "waits", 0),
        view(2, 4, "half known", 1),
        view(2, 7, "created again", 0),
    ]
    quarantined = (
        QuarantineView(group=GroupId(2), topic="led there", problem="damaged"),
        QuarantineView(group=GroupId(6), topic="quarantined", problem="damaged"),
        QuarantineView(group=GroupId(9), topic="", problem="damaged"),
    )
    answers = [
        NodeAnswer(
            NodeId(1),
            "a:1",
            NodeView(node=NodeId(1), groups=tuple(node_1), quarantined=quarantined),
        ),
        NodeAnswer(NodeId(2), "a:2", NodeView(node=NodeId(2), groups=tuple(node_2))),
        NodeAnswer(NodeId(3), "a:3", NodeUnreachable(address="a:3", problem="refused")),
    ]
    assert topics_without_leader(answers) == ["created again", "quarantined", "waits"]


def test_what_an_observer_believes_is_no_leader() -> None:
    """It is told of a leader, and not that it is gone."""
    observer = replace(view(4, 1, "t", 3), role="observer")
    answers = [
        NodeAnswer(NodeId(1), "a:1", NodeView(node=NodeId(1), groups=(view(1, 1, "t", 0),))),
        NodeAnswer(NodeId(4), "a:4", NodeView(node=NodeId(4), groups=(observer,))),
    ]
    assert topics_without_leader(answers) == ["t"]


def test_a_node_s_files_are_summed_over_its_topics() -> None:
    views = [
        replace(view(1, 1, "a", 1), log_bytes=5, history_bytes=70, points_behind=2),
        replace(view(1, 2, "b", 2), log_bytes=6, history_bytes=80, points_behind=1),
    ]
    found = sums_of(NodeView(node=NodeId(1), groups=tuple(views)))
    assert found == {
        "groups": 2, "leads": 1, "log_bytes": 11, "history_bytes": 150, "points_behind": 3
    }  # fmt: skip


def test_replicas_whose_state_is_in_doubt_are_named_and_those_of_older_nodes_are_not() -> None:
    views = [
        view(1, 1, "sound", 1),
        view(1, 2, "split", 1, state="disputed"),
        view(1, 3, "odd", 1, state="diverged"),
        view(1, 4, "unknown", 1, state="", history=""),
        view(1, 5, "wrong", 1, history="diverged"),
        view(1, 6, "yours or mine", 1, history="disputed"),
    ]
    answers = [
        NodeAnswer(NodeId(1), "a:1", NodeView(node=NodeId(1), groups=tuple(views))),
        NodeAnswer(NodeId(2), "a:2", NodeUnreachable(address="a:2", problem="refused")),
    ]
    found = replicas_in_doubt(answers)
    assert [row["topic"] for row in found] == ["odd", "split", "wrong", "yours or mine"]
    assert "Restart this node" in doubt(**found[0])
    assert "Start all nodes" in doubt(**found[1])
    assert doubt(**found[2]).startswith("wrong, replica 1 is history diverged: its history differs")
    assert "Start all nodes" in doubt(**found[3])


def test_damage_and_damaged_folders_that_are_kept_are_named() -> None:
    sound = view(1, 1, "sound", 1)
    cause = "groups/2/history-1 is damaged"
    hurt = replace(view(1, 2, "hurt", 1), damage_found=2, damage_healed=1, damage_latest=cause)
    controller = replace(view(1, 0, "", 1), damage_found=1, damage_healed=1)
    kept = SetAsideView(folder="/data/groups/2.damaged-1", byte_count=10)
    shown = NodeView(node=NodeId(1), groups=(sound, hurt, controller), set_aside=(kept,))
    answers = [
        NodeAnswer(NodeId(1), "a:1", shown),
        NodeAnswer(NodeId(2), "a:2", NodeUnreachable(address="a:2", problem="refused")),
    ]
    found = damaged_replicas(answers)
    assert [(row["topic"], row["found"], row["healed"]) for row in found] == [
        ("hurt", 2, 1),
        ("the controller", 1, 1),
    ]
    assert found[0]["latest"] == cause
    assert folders_set_aside(answers) == [
        {"node": 1, "folder": "/data/groups/2.damaged-1", "bytes": 10}
    ]


def description(node: int, rules: int) -> ClusterDescription:
    return ClusterDescription(
        cluster_id="c",
        node=NodeId(node),
        store_uuid="u",
        leader=NodeId(0),
        term=Term(1),
        nodes=(),
        version="1",
        registered=True,
        disk_keeps_up=True,
        disk_full="",
        rules=rules,
        rules_known=3,
        behind_rules=(NodeId(3),),
    )


def test_the_rules_version_is_unknown_unless_a_majority_answers() -> None:
    """A node by itself may not have heard of the version that the others write."""
    down = NodeUnreachable(address="a:3", problem="refused")
    assert rules_of([description(1, 2), down, down], nodes=3)["rules"] is None
    assert rules_of([description(1, 2)], nodes=2)["rules"] is None
    both = rules_of([description(1, 2), description(2, 3), down], nodes=3)
    assert both == {"rules": 3, "behind_rules": [3]}
    assert rules_of([description(1, 2)], nodes=1)["rules"] == 2
    observing = replace(description(4, 2), observers=(NodeId(4),))
    assert rules_of([description(1, 2), observing], nodes=3)["rules"] is None


def test_a_node_whose_program_knows_the_next_rules_is_not_waited_for() -> None:
    """It is about to say so, as while a cluster starts."""
    leads = replace(description(1, 1), rules_known=10, behind_rules=(NodeId(2), NodeId(3)))
    starting = replace(description(2, 1), rules_known=10)
    old = replace(description(3, 1), rules_known=9)
    assert rules_of([leads, starting, old], nodes=3)["behind_rules"] == [3]
    down = NodeUnreachable(address="a:3", problem="refused")
    assert rules_of([leads, starting, down], nodes=3)["behind_rules"] == [3]


def test_the_nodes_that_never_started_are_told_by_who_leads() -> None:
    """Another one may be behind, and know less."""
    behind = replace(description(1, 2), unregistered=(NodeId(2), NodeId(3), NodeId(4)))
    leads = replace(description(2, 2), leader=NodeId(2), unregistered=(NodeId(4),))
    assert latest_of([behind, leads, NodeUnreachable(address="a", problem="")]) is leads


@pytest.mark.parametrize(
    ("lengths", "line"),
    [
        ((0.0, 0.0), "leader leases off (raft.leader_lease)"),
        ((0.7, 0.7), "leader leases on: each lasts 0.7 s"),
        ((0.7, 0.0), "node 1 0.7 s, node 2 off"),
    ],
)
def test_a_line_says_whether_leaders_have_leases(lengths: tuple[float, float], line: str) -> None:
    rows = [{"node": node, "lease_s": length} for node, length in enumerate(lengths, 1)]
    assert lease_line(rows).endswith(line)


@contextmanager
def only_node(
    shown: NodeView,
    never_started: Sequence[int] = (),
    leader: int = 1,
    also: int = 0,
    observers: Sequence[int] = (),
) -> Iterator[str]:
    """A port that answers as the only node of a cluster that ever started, with this view. Gives
    its address. It answers at the address of the node `also` too. Nobody answers for the
    `observers`."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    others = {each: f"127.0.0.1:{each}" for each in (*never_started, *observers)}
    if also:
        others[also] = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    described = replace(
        description(1, 3),
        leader=NodeId(leader),
        nodes=(
            NodeAddress(node=NodeId(1), address=address),
            *(NodeAddress(node=NodeId(each), address=its) for each, its in others.items()),
        ),
        behind_rules=(),
        unregistered=tuple(map(NodeId, never_started)),
        observers=tuple(map(NodeId, observers)),
        lease_us=700_000,
    )
    answers = {
        DESCRIBE_CLUSTER.name: encode_reply(DESCRIBE_CLUSTER, described),
        WATCH_GROUPS.name: encode_reply(WATCH_GROUPS, shown),
    }

    def handler(data: bytes) -> Any:
        return grpc.unary_unary_rpc_method_handler(lambda request, context: data)

    handlers = {name: handler(data) for name, data in answers.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.start()
    try:
        yield address
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize(
    ("healed", "not_healable", "code"),
    [(2, 0, ExitCode.OK), (1, 0, ExitCode.OK), (1, 1, ExitCode.UNAVAILABLE)],
)
def test_it_exits_with_3_while_something_damaged_is_not_healable(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    healed: int,
    not_healable: int,
    code: ExitCode,
) -> None:
    hurt = replace(
        view(1, 1, "hurt", 1),
        damage_found=2,
        damage_healed=healed,
        damage_not_healable=not_healable,
    )
    shown = NodeView(node=NodeId(1), groups=(view(1, 0, "", 1), hurt))
    with only_node(shown) as server:
        ended = run(monkeypatch, capsys, "--servers", server, "status", "-o", "json")
    assert ended.code == code
    (row,) = json.loads(ended.out)["damaged_replicas"]
    assert row["not_healable"] == not_healable


def test_nodes_that_never_started_are_named_as_such_and_count_for_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = NodeView(node=NodeId(1), groups=(view(1, 0, "", 1),))
    with only_node(shown, never_started=(2, 3, 4)) as server:
        ended = run(monkeypatch, capsys, "--servers", server, "status")
        assert ended.code == ExitCode.OK
        assert ended.out.count("never started") == 3
        assert "never started: node 2, node 3, node 4." in ended.err
        assert "gave no answer" not in ended.err
        assert "rules version 3" in ended.err
        assert "leader leases on: each lasts 0.7 s" in ended.err
        ended = run(monkeypatch, capsys, "--servers", server, "status", "-o", "json")
    rows = json.loads(ended.out)["nodes"]
    assert [row["never_started"] for row in rows] == [False, True, True, True]


def test_observers_that_do_not_answer_cost_no_majority(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = NodeView(node=NodeId(1), groups=(view(1, 0, "", 1),))
    with only_node(shown, observers=(4, 5)) as server:
        ended = run(monkeypatch, capsys, "--servers", server, "status")
    assert ended.code == ExitCode.OK
    assert ended.out.count("no answer") == 2
    assert "rules version 3" in ended.err


@pytest.mark.parametrize("never_started", [(), (2,)])
def test_a_node_at_whose_address_another_one_answers_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    never_started: Sequence[int],
) -> None:
    shown = NodeView(node=NodeId(1), groups=(view(1, 0, "", 1),))
    with only_node(shown, never_started, also=2) as server:
        ended = run(monkeypatch, capsys, "--servers", server, "status", "-o", "json")
        first, second = json.loads(ended.out)["nodes"]
        assert (first["address"], first["groups"]) == (server, 1)
        assert second["problem"] == f"node 1 answers at its address, {second['address']}"
        assert (second["never_started"], second["answered_by"]) == (bool(never_started), 1)
        assert "groups" not in second, "the other node's"
        ended = run(monkeypatch, capsys, "--servers", server, "status")
    assert "node 1 answers there" in ended.out
    assert f"node 2: node 1 answers at its address, {second['address']}" in ended.err
    assert ended.code == (ExitCode.OK if never_started else ExitCode.UNAVAILABLE)


def test_a_node_that_hears_no_leader_cannot_tell_which_nodes_never_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = NodeView(node=NodeId(1), groups=(view(1, 0, "", 0),))
    with only_node(shown, never_started=(2, 3), leader=0) as server:
        ended = run(monkeypatch, capsys, "--servers", server, "status")
    assert ended.code == ExitCode.UNAVAILABLE
    assert "never started" not in ended.out + ended.err
    assert ended.out.count("no answer") == 2


def test_replicas_that_lack_what_they_acknowledged_are_named() -> None:
    groups = (view(1, 1, "t", 1), replace(view(2, 1, "t", 1), role="incomplete"))
    answers = [NodeAnswer(NodeId(2), "a:2", NodeView(node=NodeId(2), groups=groups))]
    assert incomplete_replicas(answers) == [{"topic": "t", "node": 2}]


def test_replicas_that_recover_are_named_and_whether_anybody_leads() -> None:
    sound = view(1, 1, "t", 1)
    led = replace(view(2, 1, "t", 1), role="recovering")
    lonely = replace(view(2, 0, "", 0), role="recovering")
    answers = [
        NodeAnswer(NodeId(1), "a:1", NodeView(node=NodeId(1), groups=(sound,))),
        NodeAnswer(NodeId(2), "a:2", NodeView(node=NodeId(2), groups=(led, lonely))),
        NodeAnswer(NodeId(3), "a:3", NodeUnreachable(address="a:3", problem="refused")),
    ]
    assert recovering_replicas(answers) == [
        {"topic": "t", "node": 2, "led": True},
        {"topic": "the controller", "node": 2, "led": False},
    ]

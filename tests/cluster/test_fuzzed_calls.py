"""Frames that no client sends, to every call of a real node: each is answered and does no harm. The
answer is a reply that decodes, or an error with a code of `raftlog.errors`; a status without a code
would be a defect of ours that grpc reported.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator

import grpc
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster
from raftlog.client.call_errors import typed_error
from raftlog.client.log_client import LogClient
from raftlog.errors import Internal, NodeUnreachable
from raftlog.machines.commands import TopicInfo
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.calls import CALLS, SERVICE
from raftlog.wire.codec import decode_reply
from tests.fuzz.inputs import Input, numbered
from tests.fuzz.mutations import broken, changed
from tests.fuzz.node_watch import NodeWatch
from tests.fuzz.samples import DDL, frames, registered_boot

SHORT, LONG = 2_500, 80_000
UNDER_WAY_MAX = 16
CLEAN_EVERY = 500


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """One node that waits only for a short time: these tests are not about waiting."""
    folder = tmp_path_factory.mktemp("calls") / "data"
    quick = ["server.not_yet_wait_max_s=0.01", "server.reorder_wait_max_s=0.001"]
    with ProcessCluster.start(folder, nodes=1, settings=quick) as running:
        yield running


KV_CALLS = "raftlog.wire.kv_calls"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [SHORT, pytest.param(LONG, marks=pytest.mark.soak)])
def test_every_call_with_a_broken_frame_is_answered_and_does_no_harm(
    cluster: ProcessCluster, count: int
) -> None:
    with cluster.client() as client:
        target = topic_with_records(client, f"target-{count}")
        own = client.create_topic(f"own-{count}", DDL)
        watch = NodeWatch(cluster, client, own)
        trimmed = topic_with_records(client, f"trimmed-{count}")
        good = good_frames(cluster, client, target, trimmed)
        answers: Counter[str] = Counter()
        with grpc.insecure_channel(watch.address) as channel:
            said = {method: ask(channel, method, frame) for method, frame in good.items()}
            refused = {method: answer for method, answer in said.items() if answer != "ok"}
            no_kv = {method for method in refused if CALLS[method].request.__module__ == KV_CALLS}
            assert {refused[method] for method in no_kv} == {"NotLeader"}, "there is no store"
            assert {refused[method] for method in refused.keys() - no_kv} <= set(REFUSED_WELL)
            kept = (target.name, own.name, trimmed.name)
            under_fire(channel, good, answers, numbered("calls warm-up", 500), client, kept)
            watch.begin()
            under_fire(channel, good, answers, numbered("calls", count), client, kept)
        print(dict(answers.most_common()))
        watch.end()
        assert answers["ok"] > count / 20, "some broken frames still mean something"
        assert answers["MalformedRequest"] > count / 20


REFUSED_WELL = (
    "TopicNotFound", "EpochIncomplete", "TopicRecreated", "NodeInUse", "NodeUnknown",
    "NoSnapshot", "NotAVoter", "ObserverRefused",
)  # fmt: skip
"""The answers to some good samples, which name what does not exist, or not yet."""


def topic_with_records(client: LogClient, name: str) -> TopicInfo:
    topic = client.create_topic(name, DDL)
    client.append(name, [{"id": 0, "text": "first"}])
    return topic


def good_frames(
    cluster: ProcessCluster, client: LogClient, target: TopicInfo, trimmed: TopicInfo
) -> dict[str, bytes]:
    ((address, described),) = client.describe_cluster()
    assert not isinstance(described, Exception)
    boot_id = registered_boot(cluster.logs[1])
    return frames(target, trimmed, described.store_uuid, address, boot_id)


def under_fire(
    channel: grpc.Channel,
    good: dict[str, bytes],
    answers: Counter[str],
    inputs: Iterator[Input],
    client: LogClient,
    kept: tuple[str, ...],
) -> None:
    """Send the inputs, several at once, and count the answers."""
    waiting: deque[tuple[Input, str, bytes, grpc.Call]] = deque()
    for one in inputs:
        if one.number % CLEAN_EVERY == CLEAN_EVERY - 1:
            while waiting:
                settle(*waiting.popleft(), answers)
            clean(client, kept)
        method = one.random.choice(list(CALLS))
        data = spoiled(good, method, one.random)
        call = channel.unary_stream(f"/{SERVICE}/{method}")(data, timeout=PATIENCE_S)
        waiting.append((one, method, data, call))
        if len(waiting) == UNDER_WAY_MAX:
            settle(*waiting.popleft(), answers)
    for each in waiting:
        settle(*each, answers)
    clean(client, kept)


def spoiled(good: dict[str, bytes], method: str, chance: random.Random) -> bytes:
    frame = good[method]
    if chance.random() < 0.5:
        return changed(frame, getattr(pb, CALLS[method].request.__name__), chance)
    if chance.random() < 0.05:
        frame = good[chance.choice(list(good))]
    return broken(frame, chance)


def settle(one: Input, method: str, data: bytes, call: grpc.Call, answers: Counter[str]) -> None:
    answer = answer_of(method, call)
    assert not answer.startswith(("Internal", "NodeUnreachable")), (
        f"{answer[:500]}; {method} with {data[:200]!r}; replay: {one.replay}"
    )
    answers[answer] += 1


def ask(channel: grpc.Channel, method: str, data: bytes) -> str:
    call = channel.unary_stream(f"/{SERVICE}/{method}")(data, timeout=PATIENCE_S)
    return answer_of(method, call)


def answer_of(method: str, call: grpc.Call) -> str:
    """`ok` for replies that decode, or the error's code, or its text if it has none."""
    try:
        for reply in call:
            decode_reply(CALLS[method], reply)
    except grpc.RpcError as error:
        refusal = typed_error("the node", error)
        if isinstance(refusal, Internal | NodeUnreachable):
            return f"{type(refusal).__name__}: {refusal.cause}"
        return type(refusal).__name__
    return "ok"


def clean(client: LogClient, kept: tuple[str, ...]) -> None:
    """Delete topics that a lucky frame created: they are not the growth that is measured."""
    for topic in client.list_topics():
        if topic.name not in kept:
            client.delete_topic(topic.name)

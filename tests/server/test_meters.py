"""What a node lets callers use: who waits, who is refused, and who is held to nothing."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from raftlog.auth import quota_keys
from raftlog.auth.principals import Caller
from raftlog.auth.quotas import EVERYBODY, Limit, Quota
from raftlog.config_auth import AuthSettings
from raftlog.core.types import GroupId
from raftlog.errors import NoQuorum, Overloaded, QuotaExceeded, WriterBytesExceeded
from raftlog.machines.kv_commands import KeyValue
from raftlog.metrics.quota_counts import OTHERS, QuotaCounts
from raftlog.server.meters import Meter, Meters
from tests.server.following import looking

ADA = Caller(principal="token:ada")
LONG_S = 60.0
GROUP = GroupId(7)


def key_value(to: str, **limits: int) -> KeyValue:
    quota = Quota(to=to, limits={Limit(name): most for name, most in limits.items()})
    return KeyValue(quota_keys.key_of(to), 1, quota_keys.encode(quota))


def meters_of(*keys: KeyValue, wait_max_s: float = LONG_S, requests_max: int = 1000) -> Meters:
    settings = AuthSettings(admins="token:root", quota_wait_max_s=wait_max_s)
    meters = Meters(settings, QuotaCounts(CollectorRegistry()), requests_max=requests_max)
    meters.take(keys)
    return meters


def meter_of(**limits: int) -> tuple[Meters, Meter]:
    meters = meters_of(key_value("token:ada", **limits), wait_max_s=0.5)
    meter = meters.of(ADA)
    assert meter is not None
    return meters, meter


def test_admins_and_those_without_a_quota_are_held_to_none() -> None:
    meters = meters_of(key_value("token:ada", streams=1))
    assert meters.of(ADA) is not None
    assert meters.of(Caller(principal="token:bob")) is None
    meters.take([key_value(EVERYBODY, streams=1)])
    assert meters.of(Caller(principal="token:bob")) is not None
    assert meters.of(Caller(principal="token:root")) is None
    assert meters.of(Caller(principal="token:node 1")) is not None, "an impostor"
    assert meters.of(None) is None


def test_a_call_waits_for_what_came_before_and_is_refused_where_that_takes_too_long() -> None:
    registry = CollectorRegistry()
    meters = Meters(AuthSettings(quota_wait_max_s=0.5), QuotaCounts(registry), requests_max=100)
    meters.take([key_value("token:ada", in_bytes_per_s=1000)])
    meter = meters.of(ADA)
    assert meter is not None

    async def run() -> None:
        loop = asyncio.get_running_loop()
        await meter.admit(1100, LONG_S)
        began_s = loop.time()
        await meter.admit(100_000, LONG_S)
        assert loop.time() - began_s > 0.09
        with pytest.raises(QuotaExceeded, match="in_bytes_per_s: 1000; try again in"):
            await meter.admit(1, LONG_S)

    asyncio.run(run())
    labels = {"principal": "token:ada", "limit": "in_bytes_per_s"}
    assert (
        0.05 < (registry.get_sample_value("raftlog_quota_wait_seconds_total", labels) or 0) <= 0.1
    )
    assert registry.get_sample_value("raftlog_quota_refusals_total", labels) == 1


def test_a_call_that_has_less_time_than_it_would_wait_is_refused_at_once() -> None:
    _, meter = meter_of(requests_per_s=10)

    async def run() -> None:
        for _ in range(12):
            await meter.admit(0, LONG_S)
        with pytest.raises(QuotaExceeded, match="requests_per_s"):
            await meter.admit(0, 0.01)

    asyncio.run(run())


def test_answers_count_for_the_calls_that_come_after_and_hold_back_streams() -> None:
    _, meter = meter_of(out_bytes_per_s=1000)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        meter.answered(1100)
        began_s = loop.time()
        await meter.answer(10)
        assert loop.time() - began_s > 0.09
        meter.answered(10_000)
        with pytest.raises(QuotaExceeded, match="out_bytes_per_s"):
            await meter.admit(0, LONG_S)

    asyncio.run(run())


def test_the_calls_of_one_caller_leave_room_for_others() -> None:
    """Whatever they wait for: their rate, or the caller's share of the loop."""
    meters = meters_of(key_value("token:ada", in_bytes_per_s=1), requests_max=8)
    meter = meters.of(ADA)
    assert meter is not None
    for _ in range(2):
        meter.enter()
    with pytest.raises(Overloaded, match="its limit of 2"):
        meter.enter()
    meter.leave()
    meter.enter()


@pytest.mark.parametrize(("requests_max", "calls"), [(4096, 64), (8, 2)])
def test_a_node_has_few_calls_open_and_no_quota(requests_max: int, calls: int) -> None:
    """Its certificate may be stolen, and its calls can wait for long."""
    for keys in ([], [key_value(EVERYBODY, requests_per_s=1, streams=1)]):
        meters = meters_of(*keys, requests_max=requests_max)
        meter = meters.of(Caller(principal="node:1"))
        assert meter is not None
        assert meter.limits == {}
        for _ in range(calls):
            meter.enter()
        with pytest.raises(Overloaded, match=f"its limit of {calls}"):
            meter.enter()
        other = meters.of(Caller(principal="node:2"))
        assert other is not None
        other.enter()


def test_streams_are_counted_as_long_as_they_are_open() -> None:
    _, meter = meter_of(streams=2)

    async def run() -> None:
        meter.open_stream()
        meter.open_stream()
        with pytest.raises(QuotaExceeded, match="streams: 2"):
            meter.open_stream()
        meter.close_stream()
        meter.open_stream()

    asyncio.run(run())


def test_staged_bytes_are_those_of_all_writers_of_a_caller() -> None:
    _, meter = meter_of(staged_bytes=100)
    staged: dict[tuple[GroupId, str], int] = {}

    def in_topic(group: GroupId) -> int:
        return sum(most for (other, _), most in staged.items() if other == group)

    def stage(writer: str, byte_count: int) -> None:
        before = staged.get((GROUP, writer), 0)
        meter.check_staged(GROUP, writer, before + byte_count, before, in_topic)
        staged[GROUP, writer] = before + byte_count

    async def run() -> None:
        stage("one", 60)
        stage("two", 40)
        with pytest.raises(QuotaExceeded, match="staged_bytes: 100"):
            stage("two", 1)
        with pytest.raises(WriterBytesExceeded, match="quota set token:ada --staged-bytes"):
            stage("two", 61)
        del staged[GROUP, "one"]  # it was committed
        stage("two", 60)

    asyncio.run(run())


def test_what_a_stage_costs_does_not_grow_with_the_callers_writers() -> None:
    _, meter = meter_of(staged_bytes=100_000)
    asked: list[GroupId] = []

    def in_topic(group: GroupId) -> int:
        asked.append(group)
        return 1

    for number in range(100):
        asked.clear()
        meter.check_staged(GROUP, f"w{number}", 1, 0, in_topic)
    assert set(asked) == {GROUP}
    assert len(asked) <= 2


def test_a_quota_that_is_lifted_holds_nobody_back() -> None:
    meters, meter = meter_of(in_bytes_per_s=1)

    async def run() -> None:
        await meter.admit(1000, LONG_S)
        meters.take([key_value("token:ada", requests_per_s=1000)])
        lifted = meters.of(ADA)
        assert lifted is meter
        await lifted.admit(1000, 0.0)

    asyncio.run(run())


def test_quotas_that_cannot_be_read_stay_as_they_were() -> None:
    meters = meters_of()
    looking(meters.look, [[key_value("token:ada", streams=1)], NoQuorum(what="a read")])
    assert meters.of(ADA) is not None


def test_a_quota_of_a_later_version_limits_nobody() -> None:
    later = KeyValue(quota_keys.key_of("token:ada"), 1, b'{"v": 2}')
    meters = meters_of(later, key_value("bob", streams=1))
    assert meters.of(ADA) is None


def test_identities_are_few_in_the_metrics() -> None:
    registry = CollectorRegistry()
    counts = QuotaCounts(registry)
    for number in range(150):
        counts.refused(f"somebody-{number}", Limit.STREAMS)
    found = {
        each.labels["principal"]: each.value
        for family in registry.collect()
        for each in family.samples
        if each.name == "raftlog_quota_refusals_total"
    }
    assert len(found) == 101
    assert found[OTHERS] == 50

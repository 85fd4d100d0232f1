"""Quotas: whose limits count, how they are kept, and how use is spread over time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.auth import quota_keys
from raftlog.auth.principals import Caller
from raftlog.auth.quotas import (
    BURST_S,
    EVERYBODY,
    LIMIT_MAX,
    Allowance,
    Limit,
    Quota,
    Quotas,
    problem_of_quota,
)
from raftlog.errors import StoredValueInvalid
from tests.auth.test_rights import PRINCIPALS

ADA = Caller(principal="token:ada", groups=frozenset({"group:corp:analysts", "group:corp:etl"}))
BOB = Caller(principal="cert:bob")

quotas = st.builds(
    Quota,
    to=PRINCIPALS,
    limits=st.dictionaries(st.sampled_from(Limit), st.integers(1, LIMIT_MAX), min_size=1),
)


def limited(to: str, **limits: int) -> Quota:
    return Quota(to=to, limits={Limit(name): most for name, most in limits.items()})


# ---------------------------------------------------------------- whose


def test_each_limit_is_ones_own_else_the_groups_highest_else_everybodys() -> None:
    found = Quotas(
        [
            limited(EVERYBODY, streams=1, staged_bytes=1, in_bytes_per_s=1),
            limited("group:corp:analysts", streams=2, staged_bytes=2),
            limited("group:corp:etl", streams=3),
            limited("token:ada", streams=1),
        ]
    )
    assert found.of(ADA) == {Limit.STREAMS: 1, Limit.STAGED_BYTES: 2, Limit.IN_BYTES: 1}
    assert found.of(BOB) == {Limit.STREAMS: 1, Limit.STAGED_BYTES: 1, Limit.IN_BYTES: 1}
    assert Quotas([limited("token:ada", streams=1)]).of(BOB) == {}
    assert not Quotas([])


def test_a_principal_whose_name_is_a_group_has_not_the_groups_quota() -> None:
    impostor = Caller(principal="cert:group:corp:analysts")
    found = Quotas([limited("group:corp:analysts", streams=9), limited(EVERYBODY, streams=1)])
    assert found.of(impostor) == {Limit.STREAMS: 1}


# ---------------------------------------------------------------- how they are kept


@given(quotas)
def test_a_quota_is_read_back_from_its_key(quota: Quota) -> None:
    key = quota_keys.key_of(quota.to)
    assert quota_keys.decode(key, quota_keys.encode(quota)) == quota
    assert "/" not in key.removeprefix(quota_keys.KEY_PREFIX)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("token:ada", b'{"v": 2, "limits": {"streams": 1}}'),
        ("token:ada", b'{"v": 1, "limits": {"streams": 0}}'),
        ("token:ada", b'{"v": 1, "limits": {"streams": true}}'),
        ("token:ada", b'{"v": 1, "limits": {"nosuch": 1}}'),
        ("token:ada", b'{"v": 1, "limits": {}}'),
        ("token:ada", b"[]"),
        ("token:ada", b"\xff"),
        ("token:a/b", b'{"v": 1, "limits": {"streams": 1}}'),
        ("", b'{"v": 1, "limits": {"streams": 1}}'),
        ("ada", b'{"v": 1, "limits": {"streams": 1}}'),
        ("group:corp:", b'{"v": 1, "limits": {"streams": 1}}'),
        ("%2A", b'{"v": 1, "limits": {"streams": 1}}'),
    ],
)
def test_what_is_no_quota_is_refused(key: str, value: bytes) -> None:
    with pytest.raises(StoredValueInvalid):
        quota_keys.decode(quota_keys.KEY_PREFIX + key, value)


def test_a_quota_that_limits_nothing_is_none() -> None:
    assert problem_of_quota(Quota(to="token:ada", limits={})) == "it limits nothing"


# ---------------------------------------------------------------- in time


@given(
    st.integers(1, 10**9),
    st.lists(st.tuples(st.integers(0, 10**10), st.floats(0, 100)), min_size=1, max_size=50),
)
def test_who_waits_as_told_uses_the_rate_a_burst_and_one_amount_at_most(
    per_s: int, steps: list[tuple[int, float]]
) -> None:
    allowance, now_s, used = Allowance(), 0.0, 0
    for amount, pause_s in steps:
        now_s += pause_s
        wait_s = allowance.use(amount, per_s, now_s)
        assert wait_s >= 0
        now_s += wait_s
        # Before this amount nobody has used more than the rate and a burst of it.
        assert used <= per_s * (now_s + BURST_S) * (1 + 1e-9) + 1
        used += amount


@given(st.integers(1, 1000), st.integers(1, 200))
def test_who_stays_within_the_rate_never_waits(per_s: int, count: int) -> None:
    allowance = Allowance()
    waits = [allowance.use(1, per_s, number / per_s) for number in range(count)]
    assert max(waits) == 0


def test_what_exceeds_the_rate_is_waited_for_afterwards() -> None:
    allowance = Allowance()
    assert allowance.use(100, 10, 0.0) == 0, "the first of any size"
    assert allowance.wait_s(0.0) == pytest.approx(10 - BURST_S)
    assert allowance.use(1, 10, 4.0) == pytest.approx(6 - BURST_S)
    assert allowance.wait_s(20.0) == 0

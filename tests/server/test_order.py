"""Calls that overtook each other are proposed in their senders' order, and none waits for ever."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.server.order import SenderOrder


async def admitted(order: SenderOrder, calls: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """The calls in the order in which they were let through, begun in the order given."""
    passed: list[tuple[str, int]] = []

    async def call(sender: str, number: int) -> None:
        await order.turn(sender, number)
        passed.append((sender, number))
        order.proposed(sender, number)

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(call(sender, number) for sender, number in calls))
    return passed


def test_shuffled_calls_of_many_senders_pass_in_each_senders_order() -> None:
    calls = [(sender, number) for sender in "abc" for number in range(20)]
    random.Random(7).shuffle(calls)
    order = SenderOrder(wait_max_s=PATIENCE_S, senders_max=10)
    passed = asyncio.run(admitted(order, calls))
    for sender in "abc":
        assert [number for each, number in passed if each == sender] == list(range(20))


def test_a_resend_passes_at_once_and_changes_no_turn() -> None:
    order = SenderOrder(wait_max_s=PATIENCE_S, senders_max=10)
    asyncio.run(admitted(order, [("a", 0), ("a", 1), ("a", 2)]))
    assert asyncio.run(admitted(order, [("a", 1), ("a", 4), ("a", 3)])) == [
        ("a", 1),
        ("a", 3),
        ("a", 4),
    ]


def test_a_call_whose_predecessor_never_comes_proceeds_after_the_wait() -> None:
    order = SenderOrder(wait_max_s=0.01, senders_max=10)
    assert asyncio.run(admitted(order, [("a", 5)])) == [("a", 5)]
    assert asyncio.run(admitted(order, [("a", 6)])) == [("a", 6)]


def test_the_senders_kept_are_bounded_and_the_forgotten_still_pass() -> None:
    order = SenderOrder(wait_max_s=0.01, senders_max=2)
    calls = [(f"sender {each}", 0) for each in range(100)]
    assert asyncio.run(admitted(order, calls)) == calls
    assert asyncio.run(admitted(order, [("sender 0", 1)])) == [("sender 0", 1)]
    assert len(order._due) == 2

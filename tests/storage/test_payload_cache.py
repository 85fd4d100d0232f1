"""The node's budget for payloads in memory."""

from __future__ import annotations

import random
import threading

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.core.types import EMPTY_PAYLOAD, Payload
from raftlog.storage.payload_cache import PAYLOAD_OVERHEAD_BYTES, PayloadCache


def payload(size: int) -> Payload:
    """One that is charged `size` bytes."""
    return Payload(b"", bytes(size - PAYLOAD_OVERHEAD_BYTES))


def test_the_payload_used_least_recently_makes_room_of_whichever_log() -> None:
    cache = PayloadCache(3000)
    one, other = cache.share(), cache.share()
    one.put(1, payload(1000))
    other.put(1, payload(1000))
    one.put(2, payload(1000))
    assert one.get(1) is not None  # used again
    other.put(2, payload(1000))
    assert other.get(1) is None
    assert [one.get(1), one.get(2), other.get(2)] == [payload(1000)] * 3
    assert cache.used_bytes == 3000


def test_one_busy_log_may_take_the_whole_budget_of_idle_ones() -> None:
    cache = PayloadCache(100_000)
    idle = [cache.share() for _ in range(1000)]
    for share in idle:
        share.put(1, payload(1000))
    busy = cache.share()
    for index in range(1, 101):
        busy.put(index, payload(1000))
    assert all(share.get(1) is None for share in idle)
    assert all(busy.get(index) is not None for index in range(1, 101))


def test_a_payload_above_the_budget_is_not_kept_and_evicts_no_other() -> None:
    cache = PayloadCache(1000)
    share = cache.share()
    share.put(1, payload(600))
    share.put(2, payload(1001))
    assert (share.get(1), share.get(2)) == (payload(600), None)
    none = PayloadCache(0).share()
    none.put(1, EMPTY_PAYLOAD)
    assert none.get(1) is None


def test_empty_payloads_are_charged_as_well() -> None:
    cache = PayloadCache(10 * PAYLOAD_OVERHEAD_BYTES)
    share = cache.share()
    for index in range(1, 1001):
        share.put(index, EMPTY_PAYLOAD)
    assert cache.used_bytes == 10 * PAYLOAD_OVERHEAD_BYTES
    assert [index for index in range(1, 1001) if share.get(index)] == list(range(991, 1001))


@pytest.mark.parametrize("seed", range(5))
def test_the_budget_holds_and_is_counted_exactly(seed: int) -> None:
    """Compared with a plain list in the order of use, the last used at its end."""
    chance = random.Random(seed)
    cache = PayloadCache(20_000)
    shares = [cache.share() for _ in range(4)]
    model: list[tuple[int, int, Payload]] = []
    ends = [0] * len(shares)
    for _ in range(5000):
        at = chance.randrange(len(shares))
        index = chance.randint(1, ends[at] + 1)
        match chance.choice(("put", "put", "put", "get", "get", "drop", "release")):
            case "put":
                ends[at] += 1
                new = payload(chance.randint(PAYLOAD_OVERHEAD_BYTES, 2_000))
                shares[at].put(ends[at], new)
                model.append((at, ends[at], new))
                while sum(PAYLOAD_OVERHEAD_BYTES + kept.size for _, _, kept in model) > 20_000:
                    del model[0]
            case "get":
                known = [row for row in model if row[:2] == (at, index)]
                assert shares[at].get(index) is (known[0][2] if known else None)
                if known:
                    model.remove(known[0])
                    model.append(known[0])
            case "drop":
                shares[at].drop_from(index)
                model = [row for row in model if row[0] != at or row[1] < index]
                ends[at] = min(ends[at], index - 1)
            case "release":
                if chance.random() < 0.05:
                    shares[at].release()
                    model = [row for row in model if row[0] != at]
        assert cache.used_bytes == sum(PAYLOAD_OVERHEAD_BYTES + kept.size for _, _, kept in model)


def test_a_log_may_be_released_on_another_thread() -> None:
    cache = PayloadCache(50_000)

    def work(seed: int) -> None:
        for _ in range(200):
            share = cache.share()
            for index in range(1, 31):
                share.put(index, payload(500 + seed))
                share.get(index - 1)
            share.release()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert cache.used_bytes == 0

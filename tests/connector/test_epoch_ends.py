"""The end of an epoch is found by halves, whoever else writes in between."""

from __future__ import annotations

import random

from raftlog.spark.epoch_ends import Found, last_up_to

Log = list[tuple[str, int]]
"""(writer, epoch) of each record."""


def seeking(log: Log, asked: list[tuple[int, int]]):
    def seek(start: int, end: int) -> Found | None:
        asked.append((start, end))
        mine = (at for at in range(start, end) if log[at][0] == "me")
        first = next(mine, None)
        return None if first is None else Found(first, log[first][1])

    return seek


def test_the_last_record_up_to_an_epoch_is_the_one_that_a_scan_finds() -> None:
    for seed in range(20):
        _is_the_one_that_a_scan_finds(seed)


def _is_the_one_that_a_scan_finds(seed: int) -> None:
    rng = random.Random(seed)
    epochs = {"me": 0, "you": 0}
    log: Log = []
    for _ in range(rng.randrange(60)):
        writer = rng.choice(["me", "you", "you"])
        epochs[writer] += rng.randint(1, 3)
        log += [(writer, epochs[writer])] * rng.randint(1, 9)
    for epoch in range(epochs["me"] + 2):
        mine = [Found(at, its) for at, (who, its) in enumerate(log) if who == "me" and its <= epoch]
        expected = mine[-1] if mine else None
        assert last_up_to(epoch, 0, len(log), seeking(log, [])) == expected


def test_with_one_writer_few_records_are_looked_at() -> None:
    asked: list[tuple[int, int]] = []
    log = [("me", at // 10) for at in range(1 << 16)]
    assert last_up_to(77, 0, len(log), seeking(log, asked)) == Found(779, 77)
    assert len(asked) <= 17

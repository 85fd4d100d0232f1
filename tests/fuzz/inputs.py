"""Numbered inputs of one seed: each is made from (seed, kind, number), so it replays by itself.

`FUZZ_SEED` and `FUZZ_FIRST` in the environment choose the seed and the first number.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import NamedTuple

SEED = int(os.environ.get("FUZZ_SEED", "1"))
FIRST = int(os.environ.get("FUZZ_FIRST", "0"))


class Input(NamedTuple):
    """One input's number and the generator that makes it; `replay` goes before pytest's command."""

    number: int
    random: random.Random
    replay: str


def numbered(kind: str, count: int) -> Iterator[Input]:
    """`count` inputs of a kind, and their seed on standard output."""
    print(f"{kind}: {count} inputs; replay: FUZZ_SEED={SEED} FUZZ_FIRST={FIRST}")
    for number in range(FIRST, FIRST + count):
        chance = random.Random(f"{SEED} {kind} {number}")
        yield Input(number, chance, f"FUZZ_SEED={SEED} FUZZ_FIRST={number}")

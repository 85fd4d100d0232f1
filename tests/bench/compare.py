"""Two trees compared: for each figure both medians, their ratio, and how far the rounds differ."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.bench.figures import Figure, is_lower_better

WORSE_MAX = 1.03
"""A ratio above this is no noise if all rounds agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One figure of this tree and of another. Ratios above 1: this tree is worse, also where a
    higher value is better."""

    name: str
    unit: str
    here: float
    """The median of this tree's rounds."""
    there: float
    ratio: float
    """Of the medians."""
    best: float
    """The least ratio of a round."""
    worst: float

    @property
    def is_worse(self) -> bool:
        """Whether this tree is worse in every round, by more than what is allowed."""
        return self.best > WORSE_MAX


def compare(here: Sequence[Figure], there: Sequence[Figure]) -> list[Compared]:
    """Compare the figures of two trees, each with a value for each round. Figures that only one
    tree has are left out."""
    others = _by_name(there)
    return [
        _compared(figures, others[name])
        for name, figures in _by_name(here).items()
        if name in others
    ]


def _compared(here: Sequence[Figure], there: Sequence[Figure]) -> Compared:
    first = here[0]
    rounds = [_ratio(first, one.value, other.value) for one, other in zip(here, there, strict=True)]
    medians = [statistics.median(each.value for each in side) for side in (here, there)]
    return Compared(
        name=first.name,
        unit=first.unit,
        here=medians[0],
        there=medians[1],
        ratio=_ratio(first, *medians),
        best=min(rounds),
        worst=max(rounds),
    )


def _ratio(figure: Figure, here: float, there: float) -> float:
    """How many times as bad as there it is here."""
    worse, better = (here, there) if is_lower_better(figure) else (there, here)
    if worse == better:
        return 1.0  # both may be 0
    return worse / better if better else math.inf


def _by_name(figures: Sequence[Figure]) -> Mapping[str, list[Figure]]:
    found: dict[str, list[Figure]] = {}
    for figure in figures:
        found.setdefault(figure.name, []).append(figure)
    return found

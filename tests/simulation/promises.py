"""The promises that a simulation checks, by name, and what is raised when one is broken."""

from __future__ import annotations

import traceback
from enum import StrEnum
from pathlib import Path

from tests.core import invariants

ROOT = Path(__file__).resolve().parents[2]


class Promise(StrEnum):
    """Raft figure 3 first, then what makes it durable, then what clients may rely on."""

    ELECTION_SAFETY = "Election Safety"
    LEADER_COMPLETENESS = "Leader Completeness"
    LOG_MATCHING = "Log Matching"
    STATE_MACHINE_SAFETY = "State Machine Safety"
    COMMITTED_BY_MAJORITY = "committed by a majority of disks, in the leader's own term"
    APPLIED_IN_ORDER = "applied once, in order, after it was committed"
    DURABLE_VOTES = "votes and terms are on disk before they are told"
    DURABLE_ACKNOWLEDGEMENTS = "entries are on disk before they are acknowledged"
    DAMAGE_FOUND = "a scrub finds what is damaged, and nothing else"
    SYNCED_STAYS = "what was synced is there after a crash"
    DENSE_OFFSETS = "offsets are dense"
    NOTHING_LOST = "what was acknowledged is there, once, in its place"
    EPOCHS_WHOLE = "an epoch is there whole and once, or not at all"
    READS_BELOW_THE_MARK = "reads show what is committed, the same bytes everywhere"
    LINEARIZABLE_MARKS = "strong reads are linearizable"
    COMPLETE_IMAGES = "an image holds what the log goes without"
    DAMAGE_HEALS = "damage at rest is never served, and heals from the other replicas"
    EQUAL_HISTORIES = "all replicas have the same row groups in their history"
    TRIMS = "a trim removes what was asked for, and nothing else"
    BOUNDS = "a replica shows the offsets that its entries came to"
    OVERWRITES = "an epoch that overwrites leaves nothing visible before it"
    ALTERATIONS = "a schema changes once per alteration, and records stay as they were written"
    CONFIRMED_TIME = "no leader stamps a time that a majority's clocks have not reached"
    PROTOCOL_KEPT = "no node sends what another must refuse"
    EXPECTED_OUTCOMES = "a command has an outcome that its client may expect"
    LIVENESS = "healed, it makes progress in time"


class Violation(AssertionError):
    """A promise was broken."""

    def __init__(self, promise: Promise, what: str) -> None:
        super().__init__(f"{promise}: {what}")
        self.promise = promise


def noticed_by(error: BaseException) -> str:
    """Who noticed: a promise's checker, the invariants of the core, or a replica's assertion."""
    if isinstance(error, Violation):
        return f"{error.promise}"
    place = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    if place == Path(invariants.__file__):
        return f"invariants of the core: {error}"
    name = f"{type(error).__name__} in {place.relative_to(ROOT)}"
    return f"{name}: {error}" if isinstance(error, AssertionError) else name

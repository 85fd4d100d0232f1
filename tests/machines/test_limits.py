"""The bounds that decide what is applied are those of each version of the rules, for ever.

A bound that changes needs a version of the rules (`raftlog.machines.rules`), the old value for the
machines below it, and a row of its own here.
"""

from __future__ import annotations

import dataclasses

from raftlog.machines import limits
from raftlog.machines.limits import ControllerLimits, KvLimits, TopicLimits

SINCE_RULES_1 = {
    "INTEGER_MAX": 2**63 - 1,
    "NODE_MAX": 2**31 - 1,
    "BATCH_RECORDS_MAX": 2**31 - 1,
    "BATCH_BYTES_MAX": 2**31 - 1,
    "TEXT_CHARACTERS_MAX": 1024,
    "NAME_CHARACTERS_MAX": 249,
    "STORE_CHARACTERS_MAX": 64,
    "STAGED_ENTRY_CHARGE_BYTES": 1024,
    "PRODUCER_APPENDS_KEPT": 64,
    "FENCED_RUNS_KEPT": 16,
    "EPOCH_COUNTS_KEPT": 1000,
    "EPOCH_COUNT_BYTES": 16,
    "WRITER_BYTES_MIN": 2048,
    "WRITER_NUMBERS_BYTES": 384,
    "OPEN_ATTEMPT_BYTES": 96,
    "STAGED_ENTRY_BYTES": 32,
    "PRODUCER_BYTES": 64,
    "APPEND_BYTES": 24,
    "DELETED_TOPICS_KEPT": 1000,
    "NAMES_COMPARED_MAX": 1000,
    "REPLICAS_MAX": 7,
    "EXPIRED_AT_ONCE_MAX": 1000,
    "PARENTS_MAX": 16,
    "CHANGES_AT_ONCE_MAX": 1000,
    "FORMER_FIELDS_MAX": 4000,
    "SCHEMA_CHARACTERS_MAX": 4 * 1024 * 1024,
    "TYPE_DEPTH_MAX": 128,
    "KEY_CHARACTERS_MAX": 1024,
    "VALUE_BYTES_MAX": 65_536,
    "TopicLimits.staged_entries_per_writer_max": 1_000_000,
    "TopicLimits.attempts_per_writer_max": 100_000,
    "TopicLimits.epochs_per_writer_max": 1_000,
    "TopicLimits.epochs_max": 20_000,
    "EPOCHS_OF_WRITER": 2,
    "TopicLimits.writers_max": 10_000,
    "TopicLimits.transient_writers_max": 10_000,
    "TopicLimits.writer_bytes_max": 64 * 1024 * 1024,
    "TopicLimits.producers_max": 50_000,
    "TopicLimits.producer_bytes_max": 96 * 1024 * 1024,
    "TopicLimits.attempts_per_epoch_max": 20_000,
    "ControllerLimits.nodes_max": 1_000,
    "ControllerLimits.topics_max": 10_000,
    "ControllerLimits.fields_max": 1_000,
    "KvLimits.keys_max": 100_000,
    "KvLimits.bytes_max": 64 * 1024 * 1024,
    "KvLimits.sessions_max": 10_000,
}


def test_every_bound_is_what_it_was_when_its_version_of_the_rules_began() -> None:
    found = {name: value for name, value in vars(limits).items() if name.isupper()}
    for kind in (TopicLimits, ControllerLimits, KvLimits):
        for field in dataclasses.fields(kind):
            found[f"{kind.__name__}.{field.name}"] = field.default
    assert found == SINCE_RULES_1

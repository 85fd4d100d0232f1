"""The bounds of the machines. Refusals depend on them, so they are part of what is applied.

! Two replicas with different numbers apply one log to different states, and so does one replica
that replays its log after a number was changed. So every node of a cluster passes the same values,
and a group keeps the values under which its first entry was applied.
"""

from __future__ import annotations

from dataclasses import dataclass

INTEGER_MAX = 2**63 - 1
"""The largest number that a packed column of the state holds."""

NODE_MAX = 2**31 - 1
"""The highest id of a node: what ZooKeeper's entries hold."""

BATCH_RECORDS_MAX = 2**31 - 1
"""The most records in one batch. A leader takes far fewer (`raftlog.wire.arrow_message`)."""

BATCH_BYTES_MAX = 2**31 - 1
"""The most body bytes in one batch. The server refuses far smaller ones before the log."""

TEXT_CHARACTERS_MAX = 1024
"""The most characters of a name that a client chooses (writer, run, producer, ...)."""

NAME_CHARACTERS_MAX = 249
"""The most characters of a topic's name, and of the ids that clients draw (incarnation, producer,
attempt): replies have room for no more (`raftlog.wire.codec_texts`)."""

STORE_CHARACTERS_MAX = 64
"""The most characters of the id of a node's store, for the same reason."""

STAGED_ENTRY_CHARGE_BYTES = 1024
"""What a staged entry counts besides its body, for its room in the log and in memory. Without it a
writer could stage empty bodies without limit."""

PRODUCER_APPENDS_KEPT = 64
"""Appends of one producer whose offsets are remembered: as many as a client may have in flight."""

FENCED_RUNS_KEPT = 16
"""Fenced runs of one writer that stay refused (docs/EXACTLY_ONCE.md, rule 5)."""

EPOCH_COUNTS_KEPT = 1000
"""Epochs of one writer whose record counts are remembered (docs/EXACTLY_ONCE.md, rule 3)."""

DELETED_TOPICS_KEPT = 1000
"""Deleted incarnations that are remembered, so that a late resend does not revive one."""

EXPIRED_AT_ONCE_MAX = 1000
"""The most epochs, writers and producers that one `Expire` ends: it must not block the loop."""

PARENTS_MAX = 16
"""Nodes that an observer may be told to pull from."""

REPLICAS_MAX = 7
"""The most voters of a group: a majority of more is slower and hardly safer."""

CHANGES_AT_ONCE_MAX = 1000
"""Changes of columns in one alteration of a schema."""

FORMER_FIELDS_MAX = 4000
"""Former columns of one topic's schema that are remembered: each description of it carries them."""

SCHEMA_CHARACTERS_MAX = 4 * 1024 * 1024
"""The most characters of all names and types of a schema, former ones included."""

TYPE_DEPTH_MAX = 128
"""How deep brackets may be nested in the text of a type that another is widened to: a struct within
a struct takes three. Clients' bound, 32 types within each other, is below it."""

NAMES_COMPARED_MAX = 1000
"""How many names are searched for the nearest one: a refusal must not block the apply loop."""


EPOCHS_OF_WRITER = 2
"""Open epochs that a writer may have, whatever others have: the one that it writes, and one of
which a late task has staged something. The bounds on writers bound these too."""

WRITER_BYTES_MIN = 2048
"""The least that a writer row counts. Ordinary texts need less, so an existing row can commit even
when the table is full."""

WRITER_NUMBERS_BYTES = 384
"""What a writer row counts for its numbers, besides its texts."""

EPOCH_COUNT_BYTES = 16
"""What a remembered epoch takes: its number and its record count."""

OPEN_ATTEMPT_BYTES = 96
"""What an open attempt counts besides its name and its staged entries."""

STAGED_ENTRY_BYTES = 32
"""What a staged entry takes in a state: four numbers."""

PRODUCER_BYTES = 64
"""What a producer counts besides its name, its owner and its appends."""

APPEND_BYTES = 24
"""What a remembered append of a producer takes: three numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLimits:
    """Bounds of one topic's machine. All are 1 or more. They bound what costs memory, and with it
    the bytes of a state, which has to fit into a file; records cost disk, and a leader's setting
    (`server.staged_bytes_max`) rejects those before the log. Another one,
    `staged_entries_max`, bounds how long a commit takes."""

    staged_entries_per_writer_max: int = 1_000_000
    """Staged entries of a writer's open epochs: 32 bytes of memory each."""
    attempts_per_writer_max: int = 100_000
    """Attempts of a writer's open epochs: half a kilobyte of memory each."""
    epochs_per_writer_max: int = 1_000
    """Open epochs of a writer: it has one or two. They are found by their numbers, which a caller
    can choose so that thousands of them collide in Python's hash tables."""
    epochs_max: int = 20_000
    """Open epochs of all writers. Beyond them a writer may still have `EPOCHS_OF_WRITER`."""
    writers_max: int = 10_000
    """Rows of streams and named writers, which are never removed automatically. One principal may
    own half of them."""
    transient_writers_max: int = 10_000
    """Transient writer rows. One more removes the longest silent one of the owner with the most."""
    writer_bytes_max: int = 64 * 1024 * 1024
    """Bytes of the texts and open stages of streams and named writers, and as many of transient
    ones. One principal may have half of the former. Beyond the latter the owner with the most
    loses its longest silent row; one row may have half of them."""
    producers_max: int = 50_000
    """Plain producers remembered at once. One more removes the longest silent one of the owner with
    the most."""
    producer_bytes_max: int = 96 * 1024 * 1024
    """Bytes of the producers. Beyond them the owner with the most loses its longest silent one."""
    attempts_per_epoch_max: int = 20_000
    """Open attempts of one epoch: its tasks, their retries and speculative copies."""

    def __post_init__(self) -> None:
        assert self.staged_entries_per_writer_max > 0
        assert self.attempts_per_writer_max > 0
        assert self.epochs_per_writer_max > 0
        assert self.epochs_max > 0
        assert self.writers_max > 0
        assert self.transient_writers_max > 0
        assert self.writer_bytes_max > 0
        assert self.producers_max > 0
        assert self.producer_bytes_max > 0
        assert self.attempts_per_epoch_max > 0


KEY_CHARACTERS_MAX = 1024
"""The most characters of a key in the key-value store."""

VALUE_BYTES_MAX = 65_536
"""The most bytes of a value there: it is for small things, and held in memory by every replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvLimits:
    """The bounds of the key-value store. All are 1 or more."""

    keys_max: int = 100_000
    bytes_max: int = 64 * 1024 * 1024
    """Of all values and keys, these as UTF-8. A tenth of both is for grants and quotas."""
    sessions_max: int = 10_000
    """Sessions that are remembered. One more ends the least recently used session of the identity
    with the most."""

    def __post_init__(self) -> None:
        assert self.keys_max > 0
        assert self.bytes_max > 0
        assert self.sessions_max > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerLimits:
    """The bounds of the controller. All are 1 or more."""

    nodes_max: int = 1_000
    topics_max: int = 10_000
    fields_max: int = 1_000
    """Columns of one topic."""

    def __post_init__(self) -> None:
        assert self.nodes_max > 0
        assert self.topics_max > 0
        assert self.fields_max > 0

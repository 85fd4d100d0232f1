"""What the core wants done: the single output of `Raft.ready()`.

The rules for the host loop (docs/CORE.md):

1. `truncate_from`, `entries` and `hard_state` go to disk, in that order with respect to earlier
   outputs. The first two are one numbered write: `Raft.persisted` is called with its number once
   it and all before it are durable, never before.
2. `messages` may leave at once: nothing in them depends on what this output persists.
3. `messages_after_persist` leave only when everything this output and all earlier ones asked to
   persist is durable (a vote, an acknowledgement). Some are addressed to this node itself (its
   own vote): hand those back to `Raft.step` at that time.
4. `committed` is applied in order, then `Raft.applied` is called.
5. `reads` may be answered once `read.index` is applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from raftlog.core.messages import OutMessage
from raftlog.core.types import Entry, HardState, LogIndex, NodeId, Span, Term


class Role(Enum):
    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class ReadState:
    """A linearizable read that a quorum has confirmed: correct once `index` is applied."""

    request_id: int
    index: LogIndex


class SoftState(NamedTuple):
    """What may be forgotten: who leads, as this member knows it (NO_NODE: unknown)."""

    role: Role
    term: Term
    leader: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """One output; see the module's rules. An empty one has nothing set."""

    soft_state: SoftState | None = None
    """Set when role, term or leader changed since the last output."""
    hard_state: HardState | None = None
    write_number: int = 0
    """The number of the log's write, one more than the last one's; 0: the log has none."""
    truncate_from: LogIndex | None = None
    """Truncate the log at and after this index (a term conflict), before `entries`."""
    entries: tuple[Entry, ...] = ()
    committed: Span | None = None
    reads: tuple[ReadState, ...] = ()
    reads_dropped: tuple[int, ...] = ()
    """Requests whose leader stepped down before their round was confirmed."""
    messages: tuple[OutMessage, ...] = ()
    messages_after_persist: tuple[OutMessage, ...] = ()

    def __bool__(self) -> bool:
        return self is not NOTHING and self != NOTHING


NOTHING = Ready()
"""What most drains give: told apart without a look inside."""

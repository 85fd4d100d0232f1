"""What a replica may still do while something is wrong with what it has: one table.

Each decision is looked up here: whether a replica may lead, whether a read is served at once,
whether an image is sent. A header is written again before there is a replica
(`raftlog.storage.header_repair`). The last three rows are kept by having no replica at all
(`raftlog.multiraft.replicas`) and by the core (`raftlog.core.recovery`). docs/OPERATIONS.md prints
the table, and `tests/test_damage_table.py` holds code, page and behaviour together.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class May(Enum):
    """An answer of the table."""

    YES = "yes"
    NO = "no"
    REST = "all the rest"
    """But for what is damaged or in dispute: that is refused."""
    LATE = "late"
    """Where no other replica does for several election timeouts."""


class Rights(NamedTuple):
    """What a replica may do."""

    vote: May = May.YES
    acknowledge: May = May.YES
    campaign: May = May.YES
    lead: May = May.YES
    serve_reads: May = May.YES
    give_images: May = May.YES


class Trouble(Enum):
    """What is wrong, in the words of docs/OPERATIONS.md."""

    ENTRY = "command or body of an applied entry, or the frames around it, on a running node"
    NEEDED_ENTRY = "an entry that a follower needs from this leader"
    FILE = "a snapshot, carried stages or a history file"
    DISPUTED = "state or history differs, and none has a majority"
    DIVERGED = "state or history differs from the majority's"
    ACCUSED = "the same, but only one leader has said so"
    HEADER = "headers of the log when the node opens it, which the rest of the log proves"
    QUARANTINED = "more of the log, the manifests or all snapshots when the node opens them"
    RECOVERING = "the log is lost, and so is where it ended; it comes again from the leader"
    RECOVERING_KNOWN = (
        "the log is lost, but where it ended is known; it comes again from the leader"
    )


_NOTHING = Rights(*[May.NO] * 6)
_RECOVERING = _NOTHING._replace(serve_reads=May.REST, give_images=May.REST)

RIGHTS: dict[Trouble, Rights] = {
    Trouble.ENTRY: Rights(serve_reads=May.REST),
    Trouble.NEEDED_ENTRY: Rights(campaign=May.NO, lead=May.NO, serve_reads=May.REST),
    Trouble.FILE: Rights(serve_reads=May.REST, give_images=May.REST),
    Trouble.DISPUTED: Rights(serve_reads=May.REST, give_images=May.NO),
    Trouble.DIVERGED: Rights(campaign=May.NO, lead=May.NO, serve_reads=May.NO, give_images=May.NO),
    Trouble.ACCUSED: Rights(
        campaign=May.LATE, lead=May.LATE, serve_reads=May.NO, give_images=May.NO
    ),
    Trouble.HEADER: Rights(),
    Trouble.QUARANTINED: _NOTHING,
    Trouble.RECOVERING: _RECOVERING,
    Trouble.RECOVERING_KNOWN: _RECOVERING._replace(vote=May.YES),
}
"""Lost hard states or a lost identity have no row: such a node does not start."""


def may_lead(troubles: Iterable[Trouble]) -> bool:
    """Whether a replica with these troubles may campaign and lead."""
    return all(RIGHTS[each].lead is not May.NO for each in troubles)


def serves_everything(troubles: Iterable[Trouble]) -> bool:
    """Whether it may serve reads without looking further."""
    return all(RIGHTS[each].serve_reads is May.YES for each in troubles)


def gives_images(troubles: Iterable[Trouble]) -> bool:
    """Whether it may give its image, or what of it is whole."""
    return all(RIGHTS[each].give_images is not May.NO for each in troubles)


def as_markdown() -> str:
    """The table as docs/OPERATIONS.md prints it."""
    names = [name.replace("_", " ") for name in Rights._fields]
    lines = [f"| damaged | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for trouble, rights in RIGHTS.items():
        lines.append(f"| {trouble.value} | {' | '.join(each.value for each in rights)} |")
    return "\n".join(lines) + "\n"

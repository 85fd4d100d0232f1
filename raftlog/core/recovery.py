"""A member that has lost its log, and so has forgotten what it acknowledged.

It gets the log again from a leader, and until it has it, it is *recovering*: it appends what it is
sent, but neither votes nor campaigns, and no leader counts it, for no entry and no round of reads.
An entry may have been committed with its lost copy, and a majority with this member in it that
lacks the entry could elect a leader without it.

When is it as if it had lost nothing? When its log holds, durably, all that a leader had after a
round of a majority of all voters *without this member*, begun after its first contact, confirmed
that leader. Its first contact may be a leader that is deposed and does not know it. A majority that
confirms shares a member with each majority that an entry was committed by, other than this one.

Recoveries are numbered, so that what it said before the loss is not taken for what it holds now:
its count of begun and ended ones stands in its hard state and in each of its replies. It is odd
while one lasts.
"""

from __future__ import annotations


def is_recovering(recovery: int) -> bool:
    """Does a recovery last?"""
    return recovery % 2 == 1


def next_recovery(recovery: int) -> int:
    """The number of a recovery that begins now, whether one lasted already or not."""
    return recovery + 2 if is_recovering(recovery) else recovery + 1

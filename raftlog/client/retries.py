"""How long a request is tried again, how long it pauses between tries, and what it reports in the
end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import tenacity

from raftlog.client.call_errors import CALL_UNKNOWN, NO_NODE_PROBLEMS
from raftlog.config import ClientSettings
from raftlog.errors import (
    DeadlineExceeded,
    IndexOverflow,
    NodeUnreachable,
    NotLeader,
    NotYet,
    Overloaded,
    RaftlogError,
    ReplicaQuarantined,
    ResourceShortage,
    ZooKeeperUnavailable,
)

_FIRST_NOTICE_S = 4.0
"""A request that no node has answered for so long says why, and again after twice the time. No
setting: longer than `client.refused_timeout_s` at its default, so that a wrong address says it
once."""

_HINTS_MAX = 3
"""So many hints in a row are followed almost at once, the first without a pause. Then the pauses
grow: the nodes may name one another in a circle. No setting: an election settles it."""


class Deadline:
    """The total time of one request, which begins when this is made. Monotonic."""

    def __init__(self, what: str, seconds: float) -> None:
        self.what = what
        self.seconds = seconds
        self._end_s = time.monotonic() + seconds

    def remaining_s(self) -> float:
        """The seconds that are left; 0 when it has passed."""
        return max(0.0, self._end_s - time.monotonic())

    def error(self, last: BaseException | str | None) -> DeadlineExceeded:
        """The error of a request that missed this deadline; `last` is what its last try raised."""
        return DeadlineExceeded(
            what=self.what, seconds=f"{self.seconds:.4g}", last=str(last) if last else ""
        )


class Failures:
    """What the tries of one request raised. Patience is each request's own: nodes may have been
    started since an earlier one gave up."""

    def __init__(self) -> None:
        self.hints = 0
        """How many in a row named a leader, up to the last one."""
        self._last: RaftlogError | None = None
        self._unreachable: NodeUnreachable | None = None
        """The last node that was not there, if none has answered since."""
        self._unanswered_since_s: float | None = None
        self._next_notice_s = _FIRST_NOTICE_S
        self._full: ResourceShortage | Overloaded | None = None
        self._quarantined: dict[int, ReplicaQuarantined] = {}
        """By node."""
        self._unnamed_since_s: float | None = None
        """Since when ZooKeeper named no node."""
        self._refused_since_s: dict[str, float] = {}
        """Addresses where no node listened in any try so far: since when."""
        self._unreachable_at: dict[str, NodeUnreachable] = {}
        """By address: the last of each."""
        self._not_leading: dict[int, NotLeader] = {}
        """By node: the last of each that named no leader."""
        self._call_unknown_at: set[str] = set()
        """Those of them where something listens that does not know the call."""

    def add(self, error: RaftlogError) -> None:
        """A try has failed."""
        self._last = error
        if isinstance(error, NotYet | IndexOverflow):  # a node is there, and waits for more
            self._unreachable = self._unanswered_since_s = None
        elif self._unanswered_since_s is None:
            self._unanswered_since_s = time.monotonic()
        self.hints = self.hints + 1 if isinstance(error, NotLeader) and error.address else 0
        if isinstance(error, NotLeader) and not error.leader:
            self._not_leading[error.node] = error
        if isinstance(error, ResourceShortage | Overloaded):
            self._full = error
        if isinstance(error, ReplicaQuarantined):
            self._quarantined[error.node] = error
        if isinstance(error, ZooKeeperUnavailable) and self._unnamed_since_s is None:
            self._unnamed_since_s = time.monotonic()
        if isinstance(error, NodeUnreachable):
            self._unreachable = self._unreachable_at[error.address] = error
            if error.problem in NO_NODE_PROBLEMS:
                self._refused_since_s.setdefault(error.address, time.monotonic())
            else:
                self._refused_since_s.pop(error.address, None)
            if error.problem == CALL_UNKNOWN:
                self._call_unknown_at.add(error.address)
            else:
                self._call_unknown_at.discard(error.address)

    @property
    def reason(self) -> RaftlogError | None:
        """The error to report when the deadline passes; None: no try has failed.

        It is the last one. But `NotLeader` is no reason if a node reported that its disk or a queue
        is full.
        """
        return (self._full or self._last) if isinstance(self._last, NotLeader) else self._last

    @property
    def text(self) -> str:
        """The same in words. Without a leader it names every node that rejected a try: those whose
        replicas are damaged if there are any, or else those that do not lead or gave no answer."""
        reason = self.reason
        no_leader = isinstance(reason, NotLeader) and not reason.leader
        if self._quarantined and (no_leader or isinstance(reason, ReplicaQuarantined)):
            *others, last = (each for _, each in sorted(self._quarantined.items()))
            return " ".join([*(each.cause for each in others), str(last)])
        if reason is not None and (no_leader or isinstance(reason, NodeUnreachable)):
            rejected = (*sorted(self._not_leading.items()), *sorted(self._unreachable_at.items()))
            return " ".join([*(each.cause for _, each in rejected), reason.remedy])
        if type(reason) is DeadlineExceeded:
            return reason.cause  # its remedy is that of the whole
        return str(reason) if reason is not None else ""

    def notice(self, what: str) -> str | None:
        """What the request waits for, if it is time to say so; None: it is not."""
        if self._unanswered_since_s is None:
            return None
        waited_s = time.monotonic() - self._unanswered_since_s
        if waited_s < self._next_notice_s:
            return None
        self._next_notice_s = 2 * waited_s
        reason = self.reason
        if isinstance(reason, NotLeader) and self._unreachable is not None:
            reason = self._unreachable  # who was named as the leader is not there
        assert reason is not None, "a try has failed"
        return f"no answer for {waited_s:.0f} s ({what}): {reason.cause}"

    def unnamed_for_s(self) -> float:
        """For how many seconds did ZooKeeper name no node? -1: it was not asked."""
        since_s = self._unnamed_since_s
        return -1.0 if since_s is None else time.monotonic() - since_s

    def refused_for_s(self, address: str) -> float:
        """For how many seconds no process has listened there; -1: one may, as far as is known."""
        since_s = self._refused_since_s.get(address)
        return -1.0 if since_s is None else time.monotonic() - since_s

    def refused_at_all(self, addresses: Sequence[str]) -> NodeUnreachable:
        """That no process listens at these addresses, and why: once if all have one reason."""
        why = {address: self._unreachable_at[address].problem for address in addresses}
        problems = sorted(set(why.values()))
        if len(problems) > 1:
            problems = [f"{address}: {problem}" for address, problem in why.items()]
        return NodeUnreachable(address=", ".join(addresses), problem="; ".join(problems))

    def call_unknown_at_all(self, addresses: Iterable[str]) -> bool:
        """Does something listen at each of them that does not know the call?"""
        return self._call_unknown_at.issuperset(addresses)


def try_seconds(deadline: Deadline, longest_s: float) -> float:
    """Seconds for the next try; never 0, with which grpc would not even send it."""
    return max(0.001, min(deadline.remaining_s(), longest_s))


def is_retriable(error: BaseException) -> bool:
    """Whether the same request may be sent again."""
    return isinstance(error, RaftlogError) and error.retriable


def pause_s(settings: ClientSettings, state: tenacity.RetryCallState, hints: int) -> float:
    """The seconds before the next try: exponential with jitter. A new hint of the leader is
    followed almost at once; so many were given in a row."""
    least_s = settings.retry_delay_min_s
    if 1 <= hints <= _HINTS_MAX:
        return 0.0 if hints == 1 else least_s
    exponential = tenacity.wait_random_exponential(
        multiplier=least_s, max=settings.retry_delay_max_s
    )
    return exponential(state)

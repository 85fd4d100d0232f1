"""Both sides of observing at one node: what it pulls, and what it answers to those that pull."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from raftlog.core.messages import ImageOffer, PullDone, PulledEntries, PullMessage, PullRequest
from raftlog.core.timer import Random
from raftlog.core.types import NodeId, RaftTiming, Term
from raftlog.errors import CorruptFile, PeerProtocolViolation
from raftlog.multiraft.catch_up_budget import CatchUpBudget
from raftlog.multiraft.effects import Effects
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.pull_answers import PullAnswers
from raftlog.multiraft.pulls import Pulls
from raftlog.multiraft.replicas import NodeReplicas


class Observing:
    """Hands what comes from peers to the side that it is for."""

    def __init__(
        self,
        *,
        node: NodeId,
        replicas: NodeReplicas,
        effects: Effects,
        random: Random,
        budget: CatchUpBudget,
        pull_ticks: int,
        timing: RaftTiming,
        offer: Callable[[LocalReplica, NodeId], list[ImageOffer]],
        changed: Callable[[LocalReplica], None],
        refused: Callable[[PeerProtocolViolation], None],
        term_max: Callable[[], Term],
        damaged: Callable[[LocalReplica, CorruptFile], None],
        ended: Callable[[LocalReplica], None],
    ) -> None:
        """What each is for, `Pulls` and `PullAnswers` say."""
        self.pulls = Pulls(
            node=node,
            replicas=replicas,
            effects=effects,
            random=random,
            every_ticks=pull_ticks,
            unapplied_max=timing.unapplied_entries_max,
            changed=changed,
            refused=refused,
            term_max=term_max,
        )
        self.answers = PullAnswers(
            node=node,
            effects=effects,
            budget=budget,
            bytes_max=timing.append_bytes_max,
            replicas=replicas,
            offer=offer,
            damaged=damaged,
            ended=ended,
        )

    def receive(self, message: PullMessage) -> None:
        """A peer's message."""
        match message:
            case PullRequest():
                self.answers.asked(message)
            case PulledEntries():
                self.pulls.came(message)
            case PullDone():
                self.pulls.done(message)
            case _:
                assert_never(message)

"""The messages of one member, each made in one place, so that none forgets its group or sender."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from raftlog.core.leadership import FollowerView, Request
from raftlog.core.log_view import LogView
from raftlog.core.messages import (
    AppendReply,
    AppendRequest,
    Heartbeat,
    HeartbeatReply,
    Replicate,
    VoteReply,
    VoteRequest,
)
from raftlog.core.types import GroupId, LogIndex, NodeId, Term


class Letters(NamedTuple):
    """Makes the messages of `node` in `group`; every one carries the sender's term as given."""

    group: GroupId
    node: NodeId

    def vote_requests(
        self, voters: Iterable[NodeId], term: Term, log: LogView, *, pre: bool
    ) -> list[VoteRequest]:
        """One to every voter but this member itself."""
        return [
            VoteRequest(
                group=self.group,
                sender=self.node,
                to=voter,
                term=term,
                last_index=log.last_index,
                last_term=log.last_term,
                pre=pre,
            )
            for voter in voters
            if voter != self.node
        ]

    def vote_reply(self, to: NodeId, term: Term, *, granted: bool, pre: bool) -> VoteReply:
        return VoteReply(
            group=self.group, sender=self.node, to=to, term=term, granted=granted, pre=pre
        )

    def replicate(
        self, requests: Iterable[Request], term: Term, log: LogView, *, commit_index: LogIndex
    ) -> Iterator[Replicate]:
        """One for each request, in their order."""
        for request in requests:
            yield Replicate(
                group=self.group,
                sender=self.node,
                to=request.to,
                term=term,
                prev_index=request.prev_index,
                prev_term=log.term_at(request.prev_index),
                span=request.span,
                commit_index=commit_index,
            )

    def accept(
        self, request: AppendRequest, term: Term, log: LogView, *, match_index: LogIndex
    ) -> AppendReply:
        """The logs agree up to `match_index`."""
        return self._append_reply(request, term, log, True, match_index, Term(0), LogIndex(0))

    def reject(
        self,
        request: AppendRequest,
        term: Term,
        log: LogView,
        *,
        conflict: tuple[Term, LogIndex] = (Term(0), LogIndex(0)),
    ) -> AppendReply:
        """The logs differ before the request, as `conflict` tells; or the request's term is old."""
        return self._append_reply(request, term, log, False, LogIndex(0), *conflict)

    def _append_reply(
        self,
        request: AppendRequest,
        term: Term,
        log: LogView,
        accepted: bool,
        match_index: LogIndex,
        conflict_term: Term,
        conflict_index: LogIndex,
    ) -> AppendReply:
        return AppendReply(
            group=self.group,
            sender=self.node,
            to=request.sender,
            term=term,
            accepted=accepted,
            prev_index=request.prev_index,
            match_index=match_index,
            conflict_term=conflict_term,
            conflict_index=conflict_index,
            last_index=log.last_index,
        )

    def heartbeats(
        self,
        followers: Iterable[FollowerView],
        term: Term,
        *,
        commit_index: LogIndex,
        read_round: int,
        quiesce_round: int,
    ) -> list[Heartbeat]:
        """One to each; its commit_index never exceeds what that follower is known to hold.

        Only who is known to hold all of it is asked to quiesce: by such a commit_index alone one
        that was left out could not tell that it lacks something.
        """
        return [
            Heartbeat(
                group=self.group,
                sender=self.node,
                to=follower.node,
                term=term,
                commit_index=LogIndex(min(commit_index, follower.match_index)),
                read_round=read_round,
                quiesce_round=quiesce_round if follower.match_index >= commit_index else 0,
            )
            for follower in followers
        ]

    def heartbeat_reply(
        self,
        heartbeat: Heartbeat,
        term: Term,
        log: LogView,
        *,
        quiesce_round: int,
        disk_keeps_up: bool,
    ) -> HeartbeatReply:
        """It confirms the read round only in the sender's own term."""
        return HeartbeatReply(
            group=self.group,
            sender=self.node,
            to=heartbeat.sender,
            term=term,
            read_round=heartbeat.read_round if heartbeat.term == term else 0,
            last_index=log.last_index,
            quiesce_round=quiesce_round,
            disk_keeps_up=disk_keeps_up,
        )

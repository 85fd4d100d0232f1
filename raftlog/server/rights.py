"""What callers may do, as a node knows it: it asks the key-value store's leader again and again.

Grants are keys of the key-value store (`raftlog.auth.grant_keys`). A node reads all of them by
linearizable reads, so what was taken away acts everywhere within `auth.rights_check_s` and the time
of a read. A node that reaches no leader goes on with what it knows, for `auth.rights_age_max_s`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

import structlog

from raftlog.auth import grant_keys
from raftlog.auth.principals import Caller
from raftlog.auth.rights import (
    EVERYTHING,
    Grant,
    Grants,
    Resource,
    Right,
    topic_named,
    writer_named,
)
from raftlog.config_auth import AuthSettings
from raftlog.errors import (
    Forbidden,
    InvalidOption,
    RaftlogError,
    RightsUnknown,
    StoredValueInvalid,
)
from raftlog.machines.kv_commands import KeyValue

log = structlog.get_logger(__name__)


class Rights:
    """What each caller may do. For one event loop only."""

    def __init__(self, settings: AuthSettings, *, asked: bool) -> None:
        """`asked`: the node asks callers who they are. If not, everybody may do everything."""
        self.asked = asked
        """Whether the node asks callers who they are."""
        self._settings = settings
        self._admins = settings.admin_principals
        self._grants: Grants | None = None
        self._keys: Sequence[KeyValue] = ()
        self._read_s = 0.0
        """When the read began that found these grants."""
        self._failing = False
        self.on_change: Callable[[], None] = lambda: None
        """Called after the grants have changed."""
        self.on_look: Callable[[], None] = lambda: None
        """Called each time that the node has looked for changes, whether it could or not."""

    # ------------------------------------------------------------ decisions

    def allow(self, who: Caller | None, right: Right | None, asked: Resource) -> bool:
        """Whether the caller has the right on what is asked for; None: any right. Raises
        `RightsUnknown`."""
        if self._may_all(who):
            return True
        assert who is not None, "who is asked is known"
        return self._known().allow(who, right, asked)

    def require(self, who: Caller | None, right: Right, asked: Resource) -> None:
        """Raises `Forbidden`, `RightsUnknown`."""
        if not self.allow(who, right, asked):
            raise refusal(who, right, asked)

    def any_owner(self, who: Caller | None, topic: str, writer: str) -> bool:
        """Whether the caller may continue the writer if another principal owns it. Raises
        `RightsUnknown`."""
        asked = ((Right.ADMIN, topic_named(topic)), (Right.WRITE, writer_named(writer)))
        return any(self.allow(who, right, each) for right, each in asked)

    def check_change(self, who: Caller | None, grants: Grants, resource: Resource) -> None:
        """Reject a change of `grants`, the latest, by a caller without the right to make it. Raises
        `Forbidden`, `InvalidOption`."""
        self.check_asked("acl", "grants rights")
        if self._may_all(who):
            return
        assert who is not None, "who is asked is known"
        if not grants.allow(who, Right.ADMIN, resource):
            raise refusal(who, Right.ADMIN, resource)

    def check_asked(self, verb: str, does: str) -> None:
        """Refuse what makes sense only where callers are known. Raises `InvalidOption`."""
        if not self.asked:
            raise InvalidOption(
                option=verb,
                problem=f"{does}, and the nodes do not authenticate callers",
                advice="Give them auth.tokens_file, auth.oidc_issuer or tls.client_certificates.",
            )

    def _may_all(self, who: Caller | None) -> bool:
        """A node has all that there is on its disk. Without authentication there is no caller."""
        if not self.asked:
            return True
        assert who is not None, "every call is admitted"
        return who.is_node or not self._admins.isdisjoint(who.names)

    def _known(self) -> Grants:
        if self._grants is None:
            raise RightsUnknown(problem="it has just started, and has not read the grants")
        age_s = time.monotonic() - self._read_s
        if age_s > self._settings.rights_age_max_s:
            raise RightsUnknown(problem=f"it last read the grants {age_s:.0f} s ago")
        return self._grants

    # ------------------------------------------------------------ what is known

    async def look(
        self, read: Callable[[], Awaitable[Sequence[KeyValue]]], *, has_store: bool
    ) -> None:
        """Read the grants again. `has_store`: whether the cluster is known to have a key-value
        store. Without one a failure is not logged: there are no grants to read, and while a cluster
        starts on a busy machine, the controller's leader does not always answer in time."""
        await self._read(read, has_store)
        self.on_look()

    async def _read(
        self, read: Callable[[], Awaitable[Sequence[KeyValue]]], has_store: bool
    ) -> None:
        began_s = time.monotonic()
        try:
            keys = await read()
        except RaftlogError as error:
            if has_store:
                self._tell_failing(error)
            return
        if self._failing:
            log.info("grants are read again")
            self._failing = False
        self._read_s = began_s
        if self._grants is None or keys != self._keys:
            self._keys = keys
            self._grants = grants_of(keys)
            self.on_change()

    def _tell_failing(self, error: RaftlogError) -> None:
        """Say it once, and as long as nothing was ever read not at all: a cluster that starts has
        no leaders yet."""
        if self._grants is not None and not self._failing:
            log.warning(
                "grants are not read",
                cause=error.cause,
                seconds=self._settings.rights_age_max_s,
            )
        self._failing = self._grants is not None


def grants_of(keys: Sequence[KeyValue]) -> Grants:
    """The grants that these keys stand for."""
    found: list[Grant] = []
    for each in keys:
        try:
            found.append(grant_keys.decode(each.key, each.value))
        except StoredValueInvalid as error:
            log.warning("a grant cannot be read and has no effect", cause=str(error))
    return Grants(found)


def refusal(who: Caller | None, right: Right | None, asked: Resource) -> Forbidden:
    """The error for a caller that lacks the right; None: any right would do, and it has none."""
    assert who is not None, "only an authenticated caller is rejected"
    name = "" if asked == EVERYTHING else asked.name
    return Forbidden(
        principal=who.principal,
        right=right.value if right else "",
        kind=asked.kind.value,
        name=name,
    )

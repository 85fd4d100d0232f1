"""`LogClient.quotas`: how much principals may use of each node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from raftlog.auth import quota_keys
from raftlog.auth.quotas import EVERYBODY, LIMIT_MAX, Limit, Quota
from raftlog.client.arguments import principal_argument
from raftlog.client.key_updates import update
from raftlog.client.key_values import KeyValueStore
from raftlog.errors import InvalidOption


class PrincipalQuotas:
    """The quotas of a cluster's callers. Thread-safe; usable in a forked child.

    Each limit is what one caller may use of each node. A principal's own counts, else the
    highest of its groups', else the one for all; what is limited nowhere has no bound. Nodes and
    `auth.admins` have no quota. Each change is durable on a majority when it returns, and acts
    on every node within seconds. Every call may raise `DeadlineExceeded` or `NodeUnreachable`.
    """

    def __init__(self, store: KeyValueStore) -> None:
        self._store = store

    def set(self, to: str, limits: Mapping[Limit, int | None]) -> Quota | None:
        """Set or lift limits; others stay as they are.

        Args:
            to: A principal (a group: each member by itself), or `*`: every caller by itself.
            limits: From 1 to 2^63 - 1; None lifts one.

        Returns:
            The limits that there are now; None: there are none.

        Raises:
            InvalidOption: There is no such principal or limit, or the nodes do not authenticate
                their callers.
            Forbidden: The caller does not have the right `admin` on everything.
        """
        for limit, most in limits.items():
            if most is not None and not 1 <= most <= LIMIT_MAX:
                raise InvalidOption(
                    option=limit.value,
                    problem=f"is {most}",
                    advice=f"Give 1 to {LIMIT_MAX}, or none.",
                )
        key = _key(to)

        def changed(value: bytes | None) -> bytes | None:
            had = {} if value is None else quota_keys.decode(key, value).limits
            now = {each: most for each, most in {**had, **limits}.items() if most is not None}
            return quota_keys.encode(Quota(to=to, limits=now)) if now else None

        value = update(self._store, key, changed)
        return None if value is None else quota_keys.decode(key, value)

    def scan(self) -> Iterator[Quota]:
        """Read the quotas that the caller may see, linearizably: its own and that for all, and with
        the right `admin` on everything all.

        Yields:
            The quotas, in the order of their keys.

        Raises:
            StoredValueInvalid: A quota is of a later version.
        """
        for found in self._store.scan(quota_keys.KEY_PREFIX):
            yield quota_keys.decode(found.key, found.value)


def _key(to: str) -> str:
    return quota_keys.key_of(to if to == EVERYBODY else principal_argument("to", to))

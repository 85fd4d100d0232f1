"""`LogClient.acl`: who may do what, as grants to principals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from raftlog.auth import grant_keys
from raftlog.auth.principals import Caller
from raftlog.auth.rights import Grant, Grants, Resource, Right, problem_of_grant
from raftlog.client.arguments import principal_argument
from raftlog.client.key_updates import update
from raftlog.client.key_values import KeyValueStore
from raftlog.errors import InvalidOption
from raftlog.machines.limits import KEY_CHARACTERS_MAX


class AccessControl:
    """The grants of a cluster. Thread-safe; usable in a forked child.

    Callers may do what is granted, and nothing else; the nodes' `auth.admins` may do everything,
    and so make the first grant. Each change is durable on a majority when it returns, and acts on
    every node within seconds. Every call may raise `DeadlineExceeded` or `NodeUnreachable`.
    """

    def __init__(self, store: KeyValueStore) -> None:
        self._store = store

    def grant(self, to: str, rights: Sequence[Right], resource: Resource) -> Grant:
        """Grant rights, besides those that were granted before.

        Args:
            to: A principal: `token:NAME`, `cert:NAME`, `oidc:ALIAS:SUBJECT`, `group:ALIAS:NAME`.
            rights: At least one.
            resource: What they are for.

        Returns:
            All that is granted to them on the resource now.

        Raises:
            InvalidOption: There is no such principal or right on the resource, or the nodes do not
                authenticate their callers.
            Forbidden: The caller may not grant on the resource.
        """
        added = _checked(to, rights, resource)
        changed = self._change(to, resource, lambda had: had | added.rights)
        assert changed is not None, "it has the rights that were added"
        return changed

    def revoke(self, to: str, rights: Sequence[Right], resource: Resource) -> Grant | None:
        """Take rights away. What was not granted, or on another resource, stays as it is.

        Args:
            to: As for `grant`.
            rights: At least one.
            resource: That of the grant.

        Returns:
            What is still granted to them on the resource; None: nothing.

        Raises:
            InvalidOption: As for `grant`.
            Forbidden: The caller may not grant on the resource.
        """
        taken = _checked(to, rights, resource)
        return self._change(to, resource, lambda had: had - taken.rights)

    def scan(self) -> Iterator[Grant]:
        """Read the grants that the caller may see, linearizably: its own, and those on what it has
        the right `admin` on.

        Yields:
            The grants, in the order of their keys.

        Raises:
            StoredValueInvalid: A grant is of a later version.
        """
        for found in self._store.scan(grant_keys.KEY_PREFIX):
            yield grant_keys.decode(found.key, found.value)

    def check(self, who: Caller, right: Right, resource: Resource) -> bool:
        """Whether the caller may do something, by the grants that this client may see.

        Args:
            who: A principal with the groups that it belongs to.
            right: The right.
            resource: What it is for.

        Returns:
            Whether it may. What only grants would allow that this client may not see is not known.

        Raises:
            StoredValueInvalid: A grant is of a later version.
        """
        return Grants(self.scan()).allow(who, right, resource)

    def _change(
        self, to: str, resource: Resource, changed: Callable[[frozenset[Right]], frozenset[Right]]
    ) -> Grant | None:
        """Put what `changed` makes of the rights in place of the grant, atomically."""
        key = grant_keys.key_of(to, resource)
        if len(key) > KEY_CHARACTERS_MAX:
            raise InvalidOption(
                option="to",
                problem=f"and the resource take {len(key)} characters",
                advice=f"Use shorter names: {KEY_CHARACTERS_MAX} are allowed in all.",
            )

        def changed_value(value: bytes | None) -> bytes | None:
            had = frozenset() if value is None else grant_keys.decode(key, value).rights
            grant = Grant(to=to, resource=resource, rights=changed(had))
            return grant_keys.encode(grant) if grant.rights else None

        value = update(self._store, key, changed_value)
        return None if value is None else grant_keys.decode(key, value)


def _checked(to: str, rights: Sequence[Right], resource: Resource) -> Grant:
    grant = Grant(to=principal_argument("to", to), resource=resource, rights=frozenset(rights))
    problem = problem_of_grant(grant)
    if problem is not None:
        raise InvalidOption(
            option="grant",
            problem=f"of {grant.to!r} is none: {problem}",
            advice="`raftlog docs OPERATIONS`, Rights, lists them.",
        )
    return grant

"""A grant as the key-value store holds it: one key for each principal and resource."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, unquote

from pydantic import Field

from raftlog.auth.rights import Grant, Kind, Resource, Right, problem_of_grant
from raftlog.stored_values import StoredValue

KEY_PREFIX = "raftlog/acl/"
"""What the keys of grants begin with: prefix, who, `/`, the kind, `/`, the name; each is quoted
as in URLs, but for colons."""


def key_of(to: str, resource: Resource) -> str:
    """The key of what is granted to a principal on a resource."""
    parts = (to, resource.kind.value, resource.name)
    return KEY_PREFIX + "/".join(quote(part, safe=":") for part in parts)


class GrantValue(StoredValue):
    """The value of a grant's key."""

    PREFIX = KEY_PREFIX
    KIND = "grant"

    rights: Annotated[list[Right], Field(strict=False, max_length=len(Right))]


def names_of(key: str) -> tuple[str, Resource]:
    """The grantee and the resource in a key. Raises `StoredValueInvalid`."""
    try:
        to, kind, name = map(unquote, key.removeprefix(KEY_PREFIX).split("/"))
        resource = Resource(Kind(kind), name)
    except ValueError:
        resource = None
    if resource is None or key_of(to, resource) != key:
        raise GrantValue.invalid(key, "the key names no grantee and resource")
    return to, resource


def encode(grant: Grant) -> bytes:
    """The value of the grant's key."""
    return GrantValue(rights=sorted(grant.rights)).encode()


def decode(key: str, value: bytes) -> Grant:
    """The grant that a key and its value stand for. Raises `StoredValueInvalid`."""
    to, resource = names_of(key)
    rights = GrantValue.decode(key, value).rights
    grant = Grant(to=to, resource=resource, rights=frozenset(rights))
    problem = problem_of_grant(grant)
    if problem is not None:
        raise GrantValue.invalid(key, problem)
    return grant

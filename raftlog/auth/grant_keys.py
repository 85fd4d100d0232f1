"""A grant as the key-value store holds it: one key for each identity or group and resource."""

from __future__ import annotations

import json
from urllib.parse import quote, unquote

from raftlog.auth.rights import Grant, Kind, Resource, Right, problem_of_grant

KEY_PREFIX = "raftlog/acl/"
"""What the keys of grants begin with: prefix, who, `/`, the kind, `/`, the name; each is quoted
as in URLs."""

_FORMAT_VERSION = 1


def key_of(to: str, resource: Resource) -> str:
    """The key of what is granted to an identity or group on a resource."""
    parts = (to, resource.kind.value, resource.name)
    return KEY_PREFIX + "/".join(quote(part, safe="") for part in parts)


def names_of(key: str) -> tuple[str, Resource]:
    """To whom a key's grant is, and on what. Raises `ValueError`."""
    to, kind, name = map(unquote, key.removeprefix(KEY_PREFIX).split("/"))
    resource = Resource(Kind(kind), name)
    if key_of(to, resource) != key:
        raise ValueError(f"{key!r} is not the key of any grant")
    return to, resource


def encode(grant: Grant) -> bytes:
    """The value of the grant's key."""
    rights = sorted(right.value for right in grant.rights)
    return json.dumps({"v": _FORMAT_VERSION, "rights": rights}).encode()


def decode(key: str, value: bytes) -> Grant:
    """The grant that a key and its value stand for. Raises `ValueError`."""
    to, resource = names_of(key)
    found = json.loads(value)
    if not isinstance(found, dict) or found.get("v") != _FORMAT_VERSION:
        raise ValueError(f"{key!r} holds no grant that this version knows")
    rights = found.get("rights")
    if not isinstance(rights, list):
        raise ValueError(f"{key!r} names no rights")
    grant = Grant(to=to, resource=resource, rights=frozenset(map(Right, rights)))
    problem = problem_of_grant(grant)
    if problem is not None:
        raise ValueError(f"{key!r}: {problem}")
    return grant

"""A quota as the key-value store holds it: a key for each identity or group, and for everybody."""

from __future__ import annotations

import json
from urllib.parse import quote, unquote

from raftlog.auth.quotas import EVERYBODY, Limit, Quota, problem_of_quota

KEY_PREFIX = "raftlog/quotas/"
"""What the keys of quotas begin with: prefix, and for whom, quoted as in URLs; `*` by itself is
everybody."""

_FORMAT_VERSION = 1


def key_of(to: str) -> str:
    """The key of somebody's quota."""
    return KEY_PREFIX + (to if to == EVERYBODY else quote(to, safe=""))


def name_of(key: str) -> str:
    """For whom a key's quota is. Raises `ValueError`."""
    to = unquote(key.removeprefix(KEY_PREFIX))
    if key_of(to) != key:
        raise ValueError(f"{key!r} is not the key of any quota")
    return to


def encode(quota: Quota) -> bytes:
    """The value of the quota's key."""
    limits = {limit.value: most for limit, most in sorted(quota.limits.items())}
    return json.dumps({"v": _FORMAT_VERSION, "limits": limits}).encode()


def decode(key: str, value: bytes) -> Quota:
    """The quota that a key and its value stand for. Raises `ValueError`."""
    to = name_of(key)
    found = json.loads(value)
    if not isinstance(found, dict) or found.get("v") != _FORMAT_VERSION:
        raise ValueError(f"{key!r} holds no quota that this version knows")
    limits = found.get("limits")
    if not isinstance(limits, dict) or not all(type(most) is int for most in limits.values()):
        raise ValueError(f"{key!r} names no limits")
    quota = Quota(to=to, limits={Limit(name): most for name, most in limits.items()})
    problem = problem_of_quota(quota)
    if problem is not None:
        raise ValueError(f"{key!r}: {problem}")
    return quota

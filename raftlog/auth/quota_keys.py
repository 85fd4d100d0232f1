"""A quota as the key-value store holds it: a key for each principal, and one for all."""

from __future__ import annotations

from urllib.parse import quote, unquote

from raftlog.auth.quotas import EVERYBODY, Limit, Quota, problem_of_quota
from raftlog.stored_values import Number, StoredValue

KEY_PREFIX = "raftlog/quotas/"
"""What the keys of quotas begin with: prefix, and the principal, quoted as in URLs, but for colons.
After the prefix, `*` alone is every caller."""


def key_of(to: str) -> str:
    """The key of a quota."""
    return KEY_PREFIX + (to if to == EVERYBODY else quote(to, safe=":"))


class QuotaValue(StoredValue):
    """The value of a quota's key."""

    PREFIX = KEY_PREFIX
    KIND = "quota"

    limits: dict[Limit, Number]


def name_of(key: str) -> str:
    """The principal in a key, or `*`. Raises `StoredValueInvalid`."""
    to = unquote(key.removeprefix(KEY_PREFIX))
    if key_of(to) != key:
        raise QuotaValue.invalid(key, "the key names no principal")
    return to


def encode(quota: Quota) -> bytes:
    """The value of the quota's key."""
    return QuotaValue(limits=dict(sorted(quota.limits.items()))).encode()


def decode(key: str, value: bytes) -> Quota:
    """The quota that a key and its value stand for. Raises `StoredValueInvalid`."""
    quota = Quota(to=name_of(key), limits=QuotaValue.decode(key, value).limits)
    problem = problem_of_quota(quota)
    if problem is not None:
        raise QuotaValue.invalid(key, problem)
    return quota

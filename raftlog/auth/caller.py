"""Who makes a call, and how the call says so. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

AUTHORIZATION_METADATA_KEY = "authorization"
BEARER = "Bearer"
"""Who calls: the key, with the scheme, a space and the caller's token (RFC 6750)."""


class Means(StrEnum):
    """By what a caller was known."""

    TOKEN = "token"
    ACCESS_TOKEN = "access token"
    CERTIFICATE = "certificate"
    NODE = "node"
    """A certificate that names a node of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An identity that was proven."""

    identity: str
    """A token's or certificate's name, or the claim of an access token."""
    means: Means
    """By what it was proven."""
    groups: frozenset[str] = frozenset()
    """Those that its token names."""


def node_caller(node: int) -> Caller:
    """A node of the cluster, from 1, as the caller of another."""
    return Caller(identity=f"node {node}", means=Means.NODE)

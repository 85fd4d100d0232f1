"""Principals: who makes a call, with the way that this was proven. Pure values.

A principal is a text, its type and its name:

    token:etl                   a token of the nodes' file (`auth.tokens_file`)
    oidc:corp:ada@example.com   an access token: its issuer's alias, and its subject
    cert:etl                    a client certificate: its common name
    node:3                      a node of the cluster, by its certificate
    group:corp:analysts         each member of a group: the issuer's alias and the group
    group:token:analysts        each member of a group that the nodes' file of tokens names

So one name that was proven in two ways is two principals, and a name cannot pass for a group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeGuard

AUTHORIZATION_METADATA_KEY = "authorization"
BEARER = "Bearer"
"""The key and the scheme of a call's credentials: the scheme, a space and the token (RFC 6750)."""

PRINCIPAL_NAME_CHARACTERS_MAX = 255
"""Of a name without its type and alias. OpenID Connect Core 1.0, section 2, allows subjects of
255."""

TOKEN_GROUPS_ALIAS = "token"
"""The alias of groups that the nodes' file of tokens names. No issuer has it."""

_ALIAS = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)


class PrincipalType(StrEnum):
    """How a principal was proven."""

    TOKEN = "token"
    OIDC = "oidc"
    CERT = "cert"
    NODE = "node"
    GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A principal that makes a call, with the groups that it belongs to."""

    principal: str
    """Of any type but `group`."""
    groups: frozenset[str] = frozenset()
    """Principals of the type `group`."""

    @property
    def is_node(self) -> bool:
        """Whether it is a node of the cluster."""
        return self.principal.startswith("node:")

    @property
    def is_token(self) -> bool:
        """Whether a token of the nodes' file proved it."""
        return self.principal.startswith("token:")

    @property
    def names(self) -> frozenset[str]:
        """The principals whose grants it has."""
        return self.groups | {self.principal}


def token_principal(name: str) -> str:
    """The principal of a token that the nodes' file names."""
    return f"{PrincipalType.TOKEN}:{name}"


def token_group(name: str) -> str:
    """A group that the nodes' file of tokens names."""
    return group_principal(TOKEN_GROUPS_ALIAS, name)


def oidc_principal(alias: str, subject: str) -> str:
    """The principal that an access token of the issuer names."""
    return f"{PrincipalType.OIDC}:{alias}:{subject}"


def cert_principal(common_name: str) -> str:
    """The principal of a client certificate."""
    return f"{PrincipalType.CERT}:{common_name}"


def group_principal(alias: str, name: str) -> str:
    """A group that an access token of the issuer names."""
    return f"{PrincipalType.GROUP}:{alias}:{name}"


def node_caller(node: int) -> Caller:
    """A node of the cluster, from 1, as the caller of another."""
    return Caller(principal=f"{PrincipalType.NODE}:{node}")


def is_alias(text: str) -> bool:
    """Whether an issuer may have this alias."""
    return _ALIAS.fullmatch(text) is not None and text != TOKEN_GROUPS_ALIAS


def is_name(value: object) -> TypeGuard[str]:
    """Whether it may be a name, without its type and alias: one that can be printed, and so has no
    control characters and can be encoded."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= PRINCIPAL_NAME_CHARACTERS_MAX
        and value.isprintable()
    )


def problem_of_principal(text: str, *, groups: bool = True) -> str | None:
    """Why a principal cannot be given rights.

    Args:
        text: The principal.
        groups: Whether it may be a group.

    Returns:
        What is wrong with it; None: nothing.
    """
    kind, _, rest = text.partition(":")
    match kind:
        case PrincipalType.TOKEN | PrincipalType.CERT:
            name = rest
        case PrincipalType.OIDC:
            alias, _, name = rest.partition(":")
            if not is_alias(alias):
                return f"it has no alias of an issuer: {alias[:40]!r}"
        case PrincipalType.GROUP if groups:
            alias, _, name = rest.partition(":")
            if not is_alias(alias) and alias != TOKEN_GROUPS_ALIAS:
                return f"it has no alias of an issuer, or {TOKEN_GROUPS_ALIAS!r}: {alias[:40]!r}"
        case PrincipalType.GROUP:
            return "it is a group"
        case PrincipalType.NODE:
            return "it is a node, whose rights are fixed"
        case _:
            return "it has no type"
    if not 0 < len(name) <= PRINCIPAL_NAME_CHARACTERS_MAX:
        return (
            f"its name has {len(name)} characters; 1 to {PRINCIPAL_NAME_CHARACTERS_MAX} are allowed"
        )
    if not is_name(name):
        return f"its name has characters that cannot be printed: {name[:40]!a}"
    return None


PRINCIPAL_ADVICE = (
    "Write token:NAME, cert:NAME, oidc:ALIAS:SUBJECT, group:ALIAS:NAME or group:token:NAME."
)
"""What to write instead of a principal with a problem, where groups are allowed."""

"""Access tokens of an OpenID provider: JWTs, whose signatures its published keys prove.

Keys are kept, and fetched again in the background when a token names one that is not known, or when
they are old. Only callers whose key is not known wait for that, and not more than `_WAITING_MAX`.
A stranger who names keys that do not exist makes a node ask its provider once at a time, and not
again within `_FETCH_PAUSE_S` after an answer or a failure.

A provider signs other tokens with the same keys. So a token counts only if nothing marks it as
another kind than an access token (RFC 9068), and one for several audiences only if it was issued to
a client that is named. Other tokens that nothing marks name a client as their audience: they do not
count because `auth.oidc_audience` is the id of none.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

import jwt

from raftlog.auth.principals import (
    PRINCIPAL_NAME_CHARACTERS_MAX,
    Caller,
    group_principal,
    is_name,
    oidc_principal,
)
from raftlog.config_auth import AuthSettings
from raftlog.errors import IdentityProviderUnavailable, Unauthenticated
from raftlog.redaction import shown_location, without_secrets

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Signatures with a key pair. Those with a shared secret would let each node make tokens."""

_KEY_TYPES = frozenset({"RSA", "EC", "OKP"})
"""Kinds of key pairs; a shared secret that is published by mistake proves nothing."""

_KEYS_KEPT_S = 300.0
"""Keys are fetched again after so long, and so one that the provider took back counts twice as long
at most, while the provider answers. No setting: providers announce new keys, and keep old ones, for
hours. While it does not, `auth.oidc_keys_age_max_s` says how long they count."""
_FETCH_PAUSE_S = 5.0
_FETCH_TIMEOUT_S = 5.0
"""For connecting, for the TLS handshake, and for the whole answer."""
_WAIT_MAX_S = 2 * _FETCH_TIMEOUT_S
"""The longest wait of a caller, also where the fetch takes longer, such as for a name server."""
_WAITING_MAX = 64
"""Callers that wait for an unknown key at a time; others are told at once that the provider does
not answer. No setting: they have proved nothing yet, and a provider answers in milliseconds."""
_FETCH_ERRORS = (
    jwt.PyJWTError, OSError, ValueError, AttributeError, HTTPException, RuntimeError, MemoryError
)  # fmt: skip
"""What a fetch may end with. `RuntimeError`: the process may have no more threads."""

_ACCESS_TYPES = frozenset({"at+jwt", "application/at+jwt"})
_HEADER_TYPES = _ACCESS_TYPES | {"jwt"}
"""What the header's `typ` may say, if it says something: that it is a JWT, or an access token."""
_CLAIM_TYPES = frozenset({"bearer"})
"""And the claim `typ`, in which some providers tell access tokens from others."""
_OF_OTHERS = frozenset(
    {"at_hash", "c_hash", "s_hash", "sub_jwk", "events", "code", "token_introspection"}
)
"""Claims of ID tokens (OpenID Connect Core, sections 3.1.3.6 and 3.3.2.11, FAPI, and self-issued
ones), of logout tokens and other security events (RFC 8417), and of signed answers to a login
(JARM) and to an introspection (RFC 9701). Access tokens have none of them."""
_CLOCK_LEEWAY_S = 5
"""By how much the provider's clock may differ from this machine's; no setting."""


class AccessTokens:
    """Proves access tokens of one issuer. For one event loop only."""

    def __init__(self, settings: AuthSettings, on_problem: Callable[[str], None]) -> None:
        """`on_problem` is told why keys could not be fetched, while former ones are in force."""
        self._settings = settings
        self._on_problem = on_problem
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at_s = -_KEYS_KEPT_S
        self._tried_at_s = -_FETCH_PAUSE_S
        """When the last fetch ended, or the present one began."""
        self._fetching: asyncio.Task[None] | None = None
        self._waiting = 0
        """Callers that wait for it."""

    async def caller(self, token: str) -> tuple[Caller, float]:
        """Who is named, and until when that may be remembered, in seconds since 1970: no longer
        than the key may be.

        Raises `Unauthenticated` for a token that proves nothing, `IdentityProviderUnavailable` if
        there are no keys to tell, or too many callers wait for new ones.
        """
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise Unauthenticated(problem="the access token is no JWT") from None
        if "typ" in header and str(header["typ"]).lower() not in _HEADER_TYPES:
            raise Unauthenticated(problem="the token is no access token, by the type in its header")
        claims = self._claims(token, await self._key(header.get("kid")))
        self._check_claims(claims, is_marked=str(header.get("typ")).lower() in _ACCESS_TYPES)
        alias, subject = self._settings.oidc_alias, claims.get(self._settings.oidc_identity_claim)
        if not is_name(subject):
            claim = self._settings.oidc_identity_claim
            raise Unauthenticated(
                problem=f"the access token has no claim {claim!r} with a name of 1 to "
                f"{PRINCIPAL_NAME_CHARACTERS_MAX} printable characters"
            )
        groups = claims.get(self._settings.oidc_groups_claim)
        named_groups = groups if isinstance(groups, list) else []
        caller = Caller(
            principal=oidc_principal(alias, subject),
            groups=frozenset(
                group_principal(alias, each) for each in named_groups if is_name(each)
            ),
        )
        return caller, min(float(claims["exp"]), time.time() + _KEYS_KEPT_S)

    def _claims(self, token: str, key: jwt.PyJWK) -> dict[str, Any]:
        try:
            return jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=self._settings.oidc_audience,
                issuer=self._settings.oidc_issuer,
                leeway=_CLOCK_LEEWAY_S,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, OverflowError) as error:  # Infinity as a time
            raise Unauthenticated(problem=f"the access token does not count: {error}") from None

    def _check_claims(self, claims: Mapping[str, Any], *, is_marked: bool) -> None:
        """What a signature does not say. `is_marked`: the header says that it is an access token.
        Raises `Unauthenticated`."""
        if "typ" in claims and str(claims["typ"]).lower() not in _CLAIM_TYPES:
            raise Unauthenticated(problem="the token is no access token, by its claim 'typ'")
        if claims.get("token_use", "access") != "access" or not _OF_OTHERS.isdisjoint(claims):
            raise Unauthenticated(problem="the token is no access token, by claims of other tokens")
        if "cnf" in claims:  # RFC 7800, as of DPoP (RFC 9449) and mutual TLS (RFC 8705)
            raise Unauthenticated(
                problem="the access token is bound to a key of its client (claim 'cnf'), which a "
                "node cannot check: ask the provider for a bearer token"
            )
        # Keycloak's had a nonce before version 25. Those of Auth0, Entra and Okta have none.
        if "nonce" in claims and not (is_marked or "typ" in claims or "token_use" in claims):
            raise Unauthenticated(
                problem="the token has a nonce, as ID tokens do, and nothing marks it as an access "
                "token (the header's typ 'at+jwt', or the claim typ 'Bearer')"
            )
        longest_s = self._settings.oidc_token_lifetime_max_s
        if int(claims["exp"]) > time.time() + longest_s + _CLOCK_LEEWAY_S:  # a float has an end
            raise Unauthenticated(
                problem=f"the access token lives longer than {longest_s:g} s "
                "(auth.oidc_token_lifetime_max_s)"
            )
        audiences = claims["aud"]
        several = isinstance(audiences, list) and len(audiences) > 1
        issued_to = claims.get("azp")
        if several and not (
            isinstance(issued_to, str) and issued_to in self._settings.oidc_client_names
        ):
            raise Unauthenticated(
                problem="the access token is for several audiences, and its claim 'azp' names none "
                "of auth.oidc_clients"
            )

    async def _key(self, named: str | None) -> jwt.PyJWK:
        """The key of that name. Only who names one that is not known waits for the provider."""
        age_s = time.monotonic() - self._fetched_at_s
        if named not in self._keys or age_s >= _KEYS_KEPT_S:
            self._begin_fetch()
            if named not in self._keys and self._fetching is not None:
                await self._wait_for(self._fetching)
        age_s = time.monotonic() - self._fetched_at_s
        if not self._keys or age_s > self._settings.oidc_keys_age_max_s:
            raise IdentityProviderUnavailable(issuer=self._settings.oidc_alias)
        if named not in self._keys:
            raise Unauthenticated(
                problem="the access token is signed with a key that the provider does not publish"
            )
        return self._keys[named]

    def _begin_fetch(self) -> None:
        """Ask the provider, unless it is being asked, or was a moment ago."""
        now_s = time.monotonic()
        if self._fetching is None and now_s >= self._tried_at_s + _FETCH_PAUSE_S:
            self._tried_at_s = now_s
            self._fetching = asyncio.get_running_loop().create_task(self._fetch())
            self._fetching.add_done_callback(self._fetched)

    def _fetched(self, _: asyncio.Task[None]) -> None:
        self._fetching = None
        self._tried_at_s = time.monotonic()

    async def _wait_for(self, fetching: asyncio.Task[None]) -> None:
        """Until the fetch has ended, or for `_WAIT_MAX_S` from its beginning."""
        if self._waiting >= _WAITING_MAX:
            raise IdentityProviderUnavailable(issuer=self._settings.oidc_alias)
        left_s = self._tried_at_s + _WAIT_MAX_S - time.monotonic()
        self._waiting += 1
        try:
            await asyncio.wait([fetching], timeout=max(0.0, left_s))
        finally:
            self._waiting -= 1

    async def _fetch(self) -> None:
        """Ends with its thread, and so there is one at a time."""
        try:
            keys = await asyncio.to_thread(_published, self._settings.oidc_jwks)
        except _FETCH_ERRORS as error:
            jwks = self._settings.oidc_jwks
            self._on_problem(f"{shown_location(jwks)}: {without_secrets(str(error), jwks)}")
            return
        self._keys = {each.key_id: each for each in keys.keys if each.key_type in _KEY_TYPES}
        self._fetched_at_s = time.monotonic()


class _Connection(ssl.SSLSocket):
    """A connection to a provider, which must send its whole answer within `_FETCH_TIMEOUT_S`: the
    timeout of a socket is one of each piece."""

    _ends_s: float | None = None

    def recv_into(self, *args: Any, **named: Any) -> int:
        now_s = time.monotonic()
        if self._ends_s is None:
            self._ends_s = now_s + _FETCH_TIMEOUT_S
        if now_s >= self._ends_s:
            raise TimeoutError("the answer took too long")
        self.settimeout(self._ends_s - now_s)
        return super().recv_into(*args, **named)


def _published(where: str) -> jwt.PyJWKSet:
    if where.startswith("file:"):
        found = json.loads(Path(where.removeprefix("file:")).read_text(encoding="utf-8"))
    else:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        context.sslsocket_class = _Connection
        client = jwt.PyJWKClient(where, timeout=int(_FETCH_TIMEOUT_S), ssl_context=context)
        found = client.fetch_data()
    if not isinstance(found, dict):
        raise ValueError("it is no JSON Web Key Set")
    return jwt.PyJWKSet.from_dict(found)

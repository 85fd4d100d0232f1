"""Who may call: one interceptor before every handler of a node's server.

Every method asks for a caller who is known, except those of `OPEN` and the peers' streams, which
check the certificate and the greeting by themselves (`raftlog.transport.inbound`). A method that
is added later asks for one as well. Tokens are judged before a call's body is received.
"""

from __future__ import annotations

import functools
import hashlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import cachetools
import grpc
import grpc.aio
import structlog

from raftlog.auth.access_tokens import AccessTokens
from raftlog.auth.principals import (
    AUTHORIZATION_METADATA_KEY,
    BEARER,
    Caller,
    cert_principal,
    is_name,
    node_caller,
)
from raftlog.auth.token_file import KnownToken, TokenFile
from raftlog.certificates import end_of_certificate_s
from raftlog.config_auth import AuthSettings
from raftlog.core.types import NodeId
from raftlog.errors import MalformedRequest, MemberUnknown, RaftlogError, Unauthenticated
from raftlog.metrics.counts import Counts
from raftlog.server.audit import AuditLog
from raftlog.server.calling import begin
from raftlog.tls import is_peer_name, node_of
from raftlog.transport.callers import LogLimit, host_of
from raftlog.transport.inbound import Context, end_with, peer_of
from raftlog.transport.link import STREAM_METHOD

OPEN = frozenset({"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"})
"""What balancers and orchestrators ask without an identity: whether the node serves."""
PROVEN_ELSEWHERE = frozenset({STREAM_METHOD})

_PROVEN_MAX = 10_000
"""So many access tokens are remembered, so that a signature is checked once. No setting: it bounds
memory, at 1 KiB or so each."""
_TOKEN_CHARACTERS_MAX = 8192
"""A longer one is no token. No setting: grpc takes no more metadata than that."""
_HEADERS_MAX = 100
_HEADER_BYTES_MAX = 32 * 1024
"""A call's headers, with their names. grpc keeps them in memory while a call is open, and a
stranger can name each one again by a byte (RFC 7541, section 6.1). No settings: a client sends ten
short ones."""
_UNFORESEEN = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What judging a token may raise that no check foresaw, such as too deep nesting."""

Metadata: TypeAlias = Iterable[tuple[str, str | bytes]]

log = structlog.get_logger(__name__)


class _Known(NamedTuple):
    caller: Caller
    until_s: float = math.inf
    """By the clock, where what was shown says so itself."""


_Judge: TypeAlias = Callable[[Context], Awaitable[_Known]]
"""Learns who makes a call that has reached its handler. Raises `Unauthenticated`,
`IdentityProviderUnavailable`, `NodeRemoved`, `MemberUnknown`."""

_shown: ContextVar[_Known | None] = ContextVar("raftlog_shown", default=None)
"""Who makes the call of this task, where its metadata has said so."""


class NodeAuthenticator:
    """Learns from a connection's certificate which node it is: at the port of nodes only nodes are
    known."""

    def __init__(self, cluster_id: str, is_peer: Callable[[NodeId], bool]) -> None:
        """`is_peer`: see `Node.is_peer`."""
        self._cluster_id = cluster_id
        self._is_peer = is_peer

    def by_metadata(self, _: Metadata) -> _Judge:
        """A token says nothing here."""
        return self.by_certificate

    async def by_certificate(self, context: Context) -> _Known:
        """Which node calls; its certificate counts while it is a member. Raises `Unauthenticated`,
        `NodeRemoved`, `MemberUnknown`."""
        for name in context.auth_context().get("peer_dns", ()):
            node = node_of(name.decode(errors="replace"), self._cluster_id)
            if node is not None:
                if not self._is_peer(node):
                    raise MemberUnknown(node=node)
                return _Known(node_caller(node), _end_of_certificate_s(context))
        raise Unauthenticated(problem="the connection's certificate names no node of this cluster")

    def known_again(self, _: Context, known: _Known) -> Caller:
        """The same caller. Raises `Unauthenticated` if its certificate has ended; its names are
        looked at once a call."""
        return _unless_ended(known)


class Authenticator:
    """Learns from a call's token or certificate who makes it. For one event loop only."""

    def __init__(
        self,
        settings: AuthSettings,
        *,
        has_certificates: bool,
        audit: AuditLog | None = None,
    ) -> None:
        """Reads the file of tokens. `has_certificates`: clients show one, which proves an identity
        as well. `audit` logs changes of the tokens. Raises `InvalidOption`."""
        self._has_certificates = has_certificates
        self._tokens: TokenFile | None = None
        self._access_tokens: AccessTokens | None = None
        if settings.tokens_file:
            self._tokens = TokenFile(
                Path(settings.tokens_file),
                lambda problem: log.error("new file of tokens refused", cause=problem),
                functools.partial(_note_tokens, audit),
                lambda problem: log.warning("uses of tokens not written", cause=problem),
            )
        if settings.oidc_issuer:
            self._access_tokens = AccessTokens(
                settings, lambda problem: log.error("keys of tokens not fetched", cause=problem)
            )
        self._proven: cachetools.TLRUCache[bytes, _Known] = cachetools.TLRUCache(
            _PROVEN_MAX, ttu=lambda _, found, __: found.until_s, timer=time.time
        )
        """Callers by the digest of their access tokens, until these end."""

    def by_metadata(self, metadata: Metadata) -> _Known | _Judge:
        """Who calls, by the token that the call shows, or what learns it: from an access token that
        was not proven yet, or, where there is no token, from the certificate of the connection.
        Raises `Unauthenticated`."""
        for key, value in metadata:
            if key == AUTHORIZATION_METADATA_KEY:
                return self._by_token(str(value))
        if self._has_certificates:
            return self.by_certificate
        raise Unauthenticated(problem="the call has no token")

    async def by_certificate(self, context: Context) -> _Known:
        """Who calls, by the certificate that the connection was made with. Raises
        `Unauthenticated`."""
        shown = context.auth_context()
        for name in shown.get("peer_dns", ()):
            # Also another cluster's, which may have the same CA.
            if is_peer_name(name.decode(errors="replace")):
                raise Unauthenticated(problem="the certificate is a node's, and shows no client")
        for name in shown.get("x509_common_name", ()):
            common_name = name.decode(errors="surrogateescape")  # then it is no name
            if is_name(common_name):
                caller = Caller(principal=cert_principal(common_name))
                return _Known(caller, _end_of_certificate_s(context))
        raise Unauthenticated(problem="the call has no token")

    def known_again(self, context: Context, known: _Known) -> Caller:
        """The same caller, as it is known now: the tokens file may give it other groups. Raises
        `Unauthenticated` if its token or certificate has ended, or is not in the file any more."""
        if not known.caller.is_token:
            return _unless_ended(known)
        assert self._tokens is not None, "that is how it was known"
        shown = (
            str(value).partition(" ")[2]
            for key, value in context.invocation_metadata() or ()
            if key == AUTHORIZATION_METADATA_KEY
        )
        again = self._tokens.caller(next(shown))
        if again is None:
            raise Unauthenticated(problem="the token was given up, or it has expired")
        return again

    def _by_token(self, value: str) -> _Known | _Judge:
        scheme, _, token = value.partition(" ")
        if scheme.lower() != BEARER.lower() or not 0 < len(token) <= _TOKEN_CHARACTERS_MAX:
            raise Unauthenticated(problem="what the call shows is no bearer token")
        known = self._tokens.caller(token) if self._tokens is not None else None
        if known is not None:
            return _Known(known)
        if self._access_tokens is None or token.count(".") != 2:  # a JWT has three parts
            raise Unauthenticated(problem="the token is not known, or it has expired")
        key = hashlib.sha256(token.encode()).digest()
        proven = self._proven.get(key)
        if proven is None:
            return functools.partial(self._by_access_token, token, key)
        return proven

    async def _by_access_token(self, token: str, key: bytes, _: Context) -> _Known:
        assert self._access_tokens is not None, "there is a provider"
        proven = _Known(*await self._access_tokens.caller(token))
        self._proven[key] = proven
        return proven


def _unless_ended(known: _Known) -> Caller:
    if time.time() >= known.until_s:
        raise Unauthenticated(problem="the token or certificate has expired")
    return known.caller


def _end_of_certificate_s(context: Context) -> float:
    """When the connection's certificate ends. Raises `Unauthenticated` if it has."""
    end_s = end_of_certificate_s(context.auth_context())
    if time.time() >= end_s:
        raise Unauthenticated(problem="the connection's certificate has ended")
    return end_s


def _is_too_much(metadata: Sequence[tuple[str, str | bytes]]) -> bool:
    return (
        len(metadata) > _HEADERS_MAX
        or sum(len(key) + len(value) for key, value in metadata) > _HEADER_BYTES_MAX
    )


def _rejection(error: Exception) -> RaftlogError:
    """What the call ends with. What no check foresaw is audited and counted as others are."""
    if not isinstance(error, RaftlogError):
        return Unauthenticated(problem=f"its token is unusable ({type(error).__name__})")
    # Its frames would keep the call's metadata until the garbage is collected.
    error.__context__ = None
    return error.with_traceback(None)


def _note_tokens(
    audit: AuditLog | None, came: Sequence[KnownToken], went: Sequence[KnownToken]
) -> None:
    if audit is not None:
        shown = {
            which: [f"{token.principal} {token.id}" for token in tokens]
            for which, tokens in (("came", came), ("went", went))
        }
        audit.changed("TokensChanged", shown)


class Admission(grpc.aio.ServerInterceptor):
    """Lets a call through to its handler once its caller is known."""

    def __init__(
        self,
        authenticator: Authenticator | NodeAuthenticator,
        counts: Counts,
        audit: AuditLog | None,
    ) -> None:
        self._authenticator = authenticator
        self._counts = counts
        self._audit = audit
        self._handlers: dict[str, Any] = {}
        """Those behind this one, by method: as many as there are."""
        self._log_limit = LogLimit("caller refused")

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """The handler of the call, behind this one. Its body has not been received yet."""
        handler = await continuation(handler_call_details)
        method, metadata = handler_call_details.method, handler_call_details.invocation_metadata
        if handler is None:
            return None
        call = method.rpartition("/")[2]
        if metadata and _is_too_much(metadata):
            return self._rejecting(MalformedRequest(call=call, what="too many headers"), call)
        if method in OPEN or method in PROVEN_ELSEWHERE:
            return handler
        try:
            known = self._authenticator.by_metadata(metadata or ())
        except (RaftlogError, *_UNFORESEEN) as error:
            return self._rejecting(_rejection(error), call)
        if not isinstance(known, _Known):
            return self._late(handler, call, known)
        _shown.set(known)
        if method not in self._handlers:
            self._handlers[method] = self._guarded(handler)
        return self._handlers[method]

    def _late(self, handler: Any, call: str, judge: _Judge) -> Any:
        """The handler of a call that is judged only here, and before the body is received, too: as
        for a stream, whose handler asks for it. While `judge` waits, grpc has let go of what it
        gave the interceptor of the call's metadata, which can be a megabyte."""

        async def judged(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[bytes]:
            try:
                _shown.set(await judge(context))
            except (RaftlogError, *_UNFORESEEN) as error:
                self._reject(context, _rejection(error), call)
                return
            if handler.unary_unary is not None:
                yield await self._one(handler.unary_unary)(await anext(requests), context)
                return
            async for frame in self._many(handler.unary_stream)(await anext(requests), context):
                yield frame

        assert handler.unary_unary or handler.unary_stream, "a call has one request"
        return grpc.stream_stream_rpc_method_handler(judged)

    def _rejecting(self, error: RaftlogError, call: str) -> Any:
        """A handler that ends the call. One of a stream, because such a one reads no body unless it
        asks for it."""

        async def reject(_: Any, context: Context) -> None:
            self._reject(context, error, call)

        return grpc.stream_stream_rpc_method_handler(reject)

    def _reject(self, context: Context, error: RaftlogError, call: str) -> None:
        """To end the call when its handler returns."""
        self._note(error, peer_of(context), call)
        end_with(context, error)

    def _guarded(self, handler: Any) -> Any:
        """The handler with each of its behaviors behind `_begin`: it has one of them."""
        guards: dict[str, Callable[[Any], Any]] = {
            "unary_unary": self._one,
            "stream_unary": self._one,
            "unary_stream": self._many,
            "stream_stream": self._many,
        }
        given = {kind: getattr(handler, kind) for kind in guards}
        return handler._replace(
            **{kind: guards[kind](given[kind]) for kind in guards if given[kind] is not None}
        )

    def _one(self, behavior: Callable[[Any, Context], Awaitable[bytes]]) -> Any:
        @functools.wraps(behavior)
        async def guarded(request: Any, context: Context) -> bytes:
            self._begin(context)
            return await behavior(request, context)

        return guarded

    def _many(self, behavior: Callable[[Any, Context], AsyncIterator[bytes]]) -> Any:
        @functools.wraps(behavior)
        async def guarded(request: Any, context: Context) -> AsyncIterator[bytes]:
            self._begin(context)
            async for frame in behavior(request, context):
                yield frame

        return guarded

    def _begin(self, context: Context) -> None:
        """Name the caller, as it was judged before the body was received, to its handler. Notes
        that it signed in. Nothing to undo: the call's task ends with it, or is left to the garbage
        collector."""
        known = _shown.get()
        assert known is not None, "only calls of known callers reach a handler"
        if self._audit is not None:
            self._audit.signed_in(known.caller, peer_of(context))
        begin(known.caller, functools.partial(self._authenticator.known_again, context, known))

    def _note(self, error: RaftlogError, peer: str, call: str) -> None:
        reason = type(error).__name__
        self._counts.stranger(reason)
        if self._audit is not None:
            self._audit.refused(call, peer, reason)
        if self._log_limit.admits(host_of(peer), call):
            log.warning("caller refused", cause=error.cause, peer=peer, call=call)

"""Which tokens of a provider count, and who waits for its keys."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from raftlog.auth import access_tokens
from raftlog.auth.access_tokens import AccessTokens
from raftlog.certificates import make_certificates
from raftlog.chaos.cluster import PATIENCE_S
from raftlog.config_auth import AuthSettings
from raftlog.errors import IdentityProviderUnavailable, Unauthenticated

ISSUER, AUDIENCE = "https://login.example.com/", "raftlog"
PRIVATE = ec.generate_private_key(ec.SECP256R1())
KEY = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(PRIVATE.public_key())) | {"kid": "first"}
LOGOUT = "http://schemas.openid.net/event/backchannel-logout"
KEYCLOAK = {
    "typ": "Bearer", "azp": "spark", "auth_time": 1, "acr": "1", "sid": "s", "jti": "x", "iat": 1,
    "scope": "openid email", "email_verified": True, "preferred_username": "ada", "nonce": "n",
}  # fmt: skip
AUTH0 = {
    "iat": 1,
    "azp": "spark",
    "scope": "read:x",
    "gty": "client-credentials",
    "permissions": [],
}
ENTRA = {
    "iat": 1, "nbf": 1, "aio": "x", "azp": "a", "azpacr": "1", "oid": "o", "rh": "r", "scp": "x",
    "tid": "t", "uti": "u", "ver": "2.0", "acr": "1", "amr": ["pwd"], "auth_time": 1, "sid": "s",
}  # fmt: skip
OKTA = {"ver": 1, "jti": "AT.x", "iat": 1, "cid": "c", "uid": "u", "scp": ["x"], "auth_time": 1}
"""Further claims of access tokens, as these providers issue them."""
LATER_S = 400.0
"""After this the keys are old."""


def token(
    *,
    header: dict[str, Any] | None = None,
    kid: str = "first",
    lives_s: float = 600,
    **claims: Any,
) -> str:
    known = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": time.time() + lives_s}
    return jwt.encode(known | claims, PRIVATE, "ES256", headers={"kid": kid} | (header or {}))


def settings(where: str, **others: Any) -> AuthSettings:
    given = {
        "oidc_issuer": ISSUER,
        "oidc_alias": "corp",
        "oidc_audience": AUDIENCE,
        "oidc_jwks": where,
    }
    return AuthSettings(**given | others)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [KEY]}))
    return path


def principal(file: Path, shown: str, **others: Any) -> str:
    proves = AccessTokens(settings(f"file:{file}", **others), lambda _: None)
    return asyncio.run(proves.caller(shown))[0].principal


@pytest.mark.parametrize(
    "shown",
    [
        {"header": {"typ": "at+jwt"}},
        {"header": {"typ": "application/at+JWT"}},
        {"typ": "Bearer"},
        {"token_use": "access", "nonce": "x"},
        {"typ": "Bearer", "nonce": "x"},
        {"header": {"typ": "at+jwt"}, "nonce": "x"},
        KEYCLOAK,
        AUTH0,
        ENTRA,
        OKTA,
        {"aud": [AUDIENCE]},
        {"aud": [AUDIENCE, "other"], "azp": "spark"},
        {"lives_s": 3_500},
    ],
)
def test_access_tokens_count(file: Path, shown: dict[str, Any]) -> None:
    limits = {"oidc_clients": "airflow, spark", "oidc_token_lifetime_max_s": 3_600.0}
    assert principal(file, token(**shown), **limits) == "oidc:corp:ada"


@pytest.mark.parametrize(
    ("shown", "problem"),
    [
        ({"header": {"typ": "logout+jwt"}}, "no access token"),
        ({"header": {"typ": "dpop+jwt"}}, "no access token"),
        ({"typ": "ID"}, "no access token"),
        ({"typ": "Refresh"}, "no access token"),
        ({"token_use": "id"}, "no access token"),
        ({"at_hash": "x"}, "no access token"),
        ({"c_hash": "x"}, "no access token"),
        ({"s_hash": "x"}, "no access token"),
        ({"nonce": "x", "auth_time": 1, "acr": "0", "sid": "s"}, "as ID tokens do"),
        ({"events": {LOGOUT: {}}, "jti": "x", "sid": "s"}, "no access token"),
        ({"header": {"typ": "at+jwt"}, "events": {LOGOUT: {}}}, "no access token"),
        ({"sub_jwk": {}}, "no access token"),
        ({"code": "x", "state": "s"}, "no access token"),
        ({"token_introspection": {"active": True}}, "no access token"),
        ({"header": {"typ": "at+jwt"}, "cnf": {"jkt": "x"}}, "bound to a key"),
        ({"header": {"typ": "at+jwt"}, "cnf": {"x5t#S256": "x"}}, "bound to a key"),
        ({"cnf": None}, "bound to a key"),
        ({"aud": [AUDIENCE, "other"]}, "several audiences"),
        ({"aud": [AUDIENCE, "other"], "azp": "evil"}, "several audiences"),
        ({"aud": [AUDIENCE, "other"], "azp": ["spark"]}, "several audiences"),
        ({"aud": [AUDIENCE, "other"], "azp": {"spark": 1}}, "several audiences"),
        ({"lives_s": 4_000}, "lives longer than 3600 s"),
        ({"exp": 10**400}, "lives longer than 3600 s"),
        ({"exp": float("inf")}, "does not count"),
        ({"sub": "a\nb"}, "printable"),
        ({"sub": "\udcff"}, "printable"),
    ],
)
def test_what_a_provider_signs_for_another_purpose_does_not_count(
    file: Path, shown: dict[str, Any], problem: str
) -> None:
    limits = {"oidc_clients": "airflow, spark", "oidc_token_lifetime_max_s": 3_600.0}
    with pytest.raises(Unauthenticated, match=problem):
        principal(file, token(**shown), **limits)


def test_a_shared_secret_that_is_published_proves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    secret = {"kty": "oct", "kid": "first", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"}
    file.write_text(json.dumps({"keys": [secret | {"alg": "HS256"}, KEY | {"kid": "second"}]}))
    with pytest.raises(Unauthenticated, match="does not publish"):
        principal(file, token(kid="first"))
    assert principal(file, token(kid="second")) == "oidc:corp:ada"


@pytest.mark.parametrize("text", ["[]", "{}", '{"keys": 1}', '{"keys": [1]}', "no JSON"])
def test_what_is_no_set_of_keys_is_a_provider_that_is_not_there(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys.json"
    file.write_text(text)
    with pytest.raises(IdentityProviderUnavailable, match="of issuer 'corp'") as raised:
        principal(file, token())
    assert "keys.json" not in f"{raised.value}{vars(raised.value)}", "a stranger gets it"


class Provider:
    """Publishes the keys, or makes who asks wait."""

    def __init__(self) -> None:
        self.asked = 0
        self.status = 200
        self.answers = threading.Event()
        self.answers.set()

    @contextmanager
    def published(self) -> Iterator[str]:
        provider = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                provider.answers.wait(PATIENCE_S)
                body = json.dumps({"keys": [KEY]}).encode()
                self.send_response(provider.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}/keys"
            finally:
                self.answers.set()
                server.shutdown()
                thread.join(PATIENCE_S)


def proving(
    act: Callable[[AccessTokens, Provider], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Act once the keys are known and old, with a clock that is ahead."""
    provider = Provider()

    async def run(where: str) -> None:
        proves = AccessTokens(settings(where), lambda _: None)
        await proves.caller(token())
        later(monkeypatch, LATER_S)
        await act(proves, provider)

    with provider.published() as where:
        asyncio.run(run(where))


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    real = time.monotonic
    monkeypatch.setattr(access_tokens.time, "monotonic", lambda: real() + seconds)


def test_who_is_known_waits_for_no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(proves: AccessTokens, provider: Provider) -> None:
        provider.answers.clear()
        for number in range(100):
            found, _ = await proves.caller(token(sub=f"user-{number}"))
            assert found.principal == f"oidc:corp:user-{number}"
        waiting = asyncio.ensure_future(proves.caller(token(kid="none")))
        await proves.caller(token())
        assert not waiting.done(), "who names another key waits"
        provider.answers.set()
        with pytest.raises(Unauthenticated, match="does not publish"):
            await waiting
        assert provider.asked == 2, "one request at a time"

    proving(act, monkeypatch)


def test_known_keys_count_for_so_long_without_the_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def act(proves: AccessTokens, provider: Provider) -> None:
        provider.answers.clear()
        age_max_s = AuthSettings().oidc_keys_age_max_s
        later(monkeypatch, age_max_s - 60 - LATER_S)
        await proves.caller(token())
        later(monkeypatch, 120)
        with pytest.raises(IdentityProviderUnavailable):
            await proves.caller(token())
        provider.answers.set()

    proving(act, monkeypatch)


def test_few_callers_wait_for_a_provider_and_others_are_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def act(proves: AccessTokens, provider: Provider) -> None:
        provider.answers.clear()
        waiting = [
            asyncio.ensure_future(proves.caller(token(kid=f"unknown-{number}")))
            for number in range(access_tokens._WAITING_MAX)
        ]
        await asyncio.sleep(0)
        for _ in range(access_tokens._WAITING_MAX):
            with pytest.raises(IdentityProviderUnavailable):
                await proves.caller(token(kid="one more"))
            assert (await proves.caller(token()))[0].principal == "oidc:corp:ada"
        assert not any(each.done() for each in waiting)
        waiting.pop().cancel()
        await asyncio.sleep(0)
        waiting.append(asyncio.ensure_future(proves.caller(token(kid="in its place"))))
        provider.answers.set()
        for each in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(each, Unauthenticated)

    proving(act, monkeypatch)


def test_a_failed_fetch_answers_every_unknown_key_for_a_while_however_long_it_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def act(proves: AccessTokens, provider: Provider) -> None:
        asked = provider.asked
        provider.answers.clear()
        provider.status = 503
        waiting = asyncio.ensure_future(proves.caller(token(kid="first unknown")))
        await asyncio.sleep(0)
        later(monkeypatch, access_tokens._FETCH_PAUSE_S)
        provider.answers.set()
        with pytest.raises(Unauthenticated):
            await waiting
        for number in range(100):
            with pytest.raises(Unauthenticated):
                await proves.caller(token(kid=f"unknown-{number}"))
        assert provider.asked == asked + 1
        later(monkeypatch, access_tokens._FETCH_PAUSE_S)
        with pytest.raises(Unauthenticated):
            await proves.caller(token(kid="the next"))
        assert provider.asked == asked + 2

    proving(act, monkeypatch)


class Dripping:
    """A server that begins an answer and sends a byte of it now and then, until it is closed or the
    other side leaves."""

    def __init__(self, certificates: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates / "node-1.pem", certificates / "node-1.key")
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self.ended = 0
        """Connections that the other side left."""
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def close(self) -> None:
        self._closed.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._accepting.join(PATIENCE_S)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._drip, args=(connection,), daemon=True).start()

    def _drip(self, connection: socket.socket) -> None:
        with suppress(OSError), self._context.wrap_socket(connection, server_side=True) as dripping:
            dripping.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not self._closed.wait(DRIP_S):
                dripping.sendall(b"x")
        with self._lock:
            self.ended += 1


DRIP_S = 0.02
FETCHES = 3


def fetch_threads() -> int:
    """How many threads of this process ask a provider."""
    return sum(
        frame.f_code is access_tokens._published.__code__
        for thread in sys._current_frames().values()
        for frame, _ in traceback.walk_stack(thread)
    )


@pytest.mark.slow
def test_a_provider_that_drips_keeps_one_thread_at_a_time_which_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_certificates(tmp_path, cluster_id="provider", hosts={1: "127.0.0.1"}, days=1)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setattr(access_tokens, "_FETCH_TIMEOUT_S", 1.0)
    monkeypatch.setattr(access_tokens, "_WAIT_MAX_S", 0.0)
    monkeypatch.setattr(access_tokens, "_FETCH_PAUSE_S", 0.0)
    problems: list[str] = []
    threads: list[int] = []
    provider = Dripping(tmp_path)

    async def act() -> None:
        proves = AccessTokens(settings(f"https://127.0.0.1:{provider.port}/"), problems.append)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while provider.ended < FETCHES:
                    with pytest.raises(IdentityProviderUnavailable):
                        await proves.caller(token(kid="unknown"))
                    threads.append(fetch_threads())
                    await asyncio.sleep(DRIP_S)
        finally:
            provider.close()

    asyncio.run(act())
    assert max(threads) == 1
    assert len(problems) >= FETCHES

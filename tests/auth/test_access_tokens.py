"""Which tokens of a provider count, and who waits for its keys."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from raftlog.auth import access_tokens
from raftlog.auth.access_tokens import AccessTokens
from raftlog.chaos.cluster import PATIENCE_S
from raftlog.config_auth import AuthSettings
from raftlog.errors import IdentityProviderUnavailable, Unauthenticated

ISSUER, AUDIENCE = "https://login.example.com/", "raftlog"
PRIVATE = ec.generate_private_key(ec.SECP256R1())
KEY = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(PRIVATE.public_key())) | {"kid": "first"}
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
    with pytest.raises(Unauthenticated, match="nobody published"):
        principal(file, token(kid="first"))
    assert principal(file, token(kid="second")) == "oidc:corp:ada"


@pytest.mark.parametrize("text", ["[]", "{}", '{"keys": 1}', '{"keys": [1]}', "no JSON"])
def test_what_is_no_set_of_keys_is_a_provider_that_is_not_there(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys.json"
    file.write_text(text)
    with pytest.raises(IdentityProviderUnavailable):
        principal(file, token())


class Provider:
    """Publishes the keys, or makes who asks wait."""

    def __init__(self) -> None:
        self.asked = 0
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
                self.send_response(200)
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
        with pytest.raises(Unauthenticated, match="nobody published"):
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

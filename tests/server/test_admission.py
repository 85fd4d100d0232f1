"""Whom a node takes a caller for, by what its connection and its call show."""

from __future__ import annotations

import asyncio
import datetime
import gc
import itertools
import socket
import time
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from structlog.testing import capture_logs

from raftlog.auth.principals import Caller, node_caller, problem_of_principal
from raftlog.auth.token_file import add_token, remove_tokens
from raftlog.chaos.cluster import PATIENCE_S
from raftlog.config_auth import AuthSettings
from raftlog.core.types import NodeId
from raftlog.errors import MemberUnknown, NodeRemoved, Unauthenticated
from raftlog.metrics.counts import Counts
from raftlog.server.admission import Admission, Authenticator, NodeAuthenticator
from raftlog.server.calling import caller, identity
from raftlog.tls import peer_name
from raftlog.wire.calls import DESCRIBE_CLUSTER, SERVICE
from tests.fuzz.http2 import beginning, opening

CLUSTER = "c" * 32
NOW = datetime.datetime.now(datetime.UTC)
REMOVED, MEMBER, STRANGER = NodeId(1), NodeId(2), NodeId(3)


class Details:
    """What grpc says of a call at first."""

    method = "/raftlog.v1.Log/DescribeCluster"

    def __init__(self, *metadata: tuple[str, str]) -> None:
        self.invocation_metadata = metadata


@cache
def pem(ends_in_s: float) -> bytes:
    """A certificate that ends then."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + datetime.timedelta(seconds=ends_in_s))
    )
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class Shown:
    """grpc's side of a call over a connection that was made with a certificate."""

    def __init__(self, common_name: str, *dns: str, ends_in_s: float = 3600.0) -> None:
        self._shown = {
            "x509_pem_cert": [pem(ends_in_s)],
            "x509_common_name": [common_name.encode(errors="surrogateescape")],
            "peer_dns": [name.encode() for name in dns],
        }

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def auth_context(self) -> dict[str, list[bytes]]:
        return self._shown


def is_peer(node: NodeId) -> bool:
    if node == REMOVED:
        raise NodeRemoved(node=node)
    return node == MEMBER


def of_client(shown: Shown, *, has_certificates: bool) -> Caller:
    asked = Authenticator(AuthSettings(), has_certificates=has_certificates)
    judge = asked.by_metadata(())
    return asyncio.run(judge(shown)).caller  # type: ignore[arg-type, operator]


def of_node(shown: Shown) -> Caller:
    asked = NodeAuthenticator(CLUSTER, is_peer)
    judge = asked.by_metadata((("authorization", "Bearer x"),))
    return asyncio.run(judge(shown)).caller  # type: ignore[arg-type]


def test_a_certificate_is_an_identity_only_where_clients_show_some() -> None:
    shown = Shown("ada", "ada.example.com")
    assert of_client(shown, has_certificates=True) == Caller(principal="cert:ada")
    with pytest.raises(Unauthenticated):
        of_client(shown, has_certificates=False)


def test_a_certificate_that_has_ended_proves_nothing_though_its_session_was_resumed() -> None:
    """No handshake checks it then. Nor does one on a connection that outlasts it."""
    for of in (of_node, partial(of_client, has_certificates=True)):
        name = peer_name(CLUSTER, MEMBER) if of is of_node else "ada.example.com"
        of(Shown("ada", name))
        with pytest.raises(Unauthenticated, match="certificate has ended"):
            of(Shown("ada", name, ends_in_s=-1.0))
    soon = Shown("ada", peer_name(CLUSTER, MEMBER), ends_in_s=3600.0)
    asked = NodeAuthenticator(CLUSTER, is_peer)
    known = asyncio.run(asked.by_certificate(soon))  # type: ignore[arg-type]
    assert time.time() + 3000 < known.until_s < time.time() + 3601
    assert asked.known_again(soon, known) == known.caller  # type: ignore[arg-type]
    ended = known._replace(until_s=time.time())
    with pytest.raises(Unauthenticated):
        asked.known_again(soon, ended)  # type: ignore[arg-type]


@pytest.mark.parametrize("node", [MEMBER, REMOVED, STRANGER])
def test_a_node_of_the_cluster_is_no_client_whether_it_is_a_member_or_not(node: NodeId) -> None:
    with pytest.raises(Unauthenticated, match="is a node's"):
        of_client(Shown(f"node-{node}", peer_name(CLUSTER, node)), has_certificates=True)
    with pytest.raises(Unauthenticated, match="is a node's"):
        of_client(Shown(f"node-{node}", peer_name("another", node)), has_certificates=True)


@pytest.mark.parametrize("name", ["", "a\nb", "\udcff", "x" * 256])
def test_a_certificate_names_nobody_by_what_cannot_be_printed(name: str) -> None:
    with pytest.raises(Unauthenticated):
        of_client(Shown(name), has_certificates=True)
    assert (
        of_client(Shown("Ada \u00c9. L."), has_certificates=True).principal == "cert:Ada \u00c9. L."
    )
    assert problem_of_principal(f"cert:{name}") is not None


class Refused:
    """grpc's side of a call, as a handler ends it."""

    code: grpc.StatusCode | None = None

    def __init__(self, peer: str = "ipv4:127.0.0.1:1") -> None:
        self._peer = peer

    def peer(self) -> str:
        return self._peer

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, _: str) -> None:
        """For people."""

    def set_trailing_metadata(self, _: object) -> None:
        """The typed error."""


async def known_method(_: object) -> object:
    return grpc.unary_unary_rpc_method_handler(lambda _, __: b"")


def of_provider(where: str) -> AuthSettings:
    return AuthSettings(
        oidc_issuer="https://login.example.com/",
        oidc_alias="corp",
        oidc_audience="raftlog",
        oidc_jwks=where,
    )


def test_a_token_that_no_check_foresaw_is_rejected_and_counted() -> None:
    """It cannot be encoded."""
    settings = of_provider("file:/absent")
    counts = Counts()

    async def call() -> Refused:
        admission = Admission(Authenticator(settings, has_certificates=False), counts, None)
        details = Details(("authorization", "Bearer e30.e30.\udcff"))
        handler = await admission.intercept_service(known_method, details)
        refused = Refused()
        await handler.stream_stream(None, refused)
        return refused

    assert asyncio.run(call()).code is grpc.StatusCode.UNAUTHENTICATED
    labels = {"reason": "Unauthenticated"}
    assert (
        sum(
            sample.value
            for metric in counts.registry.collect()
            for sample in metric.samples
            if sample.labels == labels and sample.name.endswith("_total")
        )
        == 1
    )


def test_strangers_from_many_hosts_are_logged_so_often_and_then_counted() -> None:
    admission = Admission(Authenticator(AuthSettings(), has_certificates=False), Counts(), None)

    async def rejected(host: int) -> None:
        handler = await admission.intercept_service(known_method, Details())
        await handler.stream_stream(None, Refused(f"ipv4:10.0.{host // 250}.{host % 250}:1"))

    async def run() -> None:
        for _ in range(2):
            for host in range(2000):
                await rejected(host)
        await window_over()
        await rejected(0)

    with capture_logs() as logged:
        asyncio.run(run())
    *first, left_out, again = logged
    assert [line["peer"] for line in first] == [
        f"ipv4:10.0.{host // 250}.{host % 250}:1" for host in range(1000)
    ]
    assert (left_out["event"], left_out["count"]) == ("events not logged", 2 * 1000)
    assert again["peer"] == "ipv4:10.0.0.0:1"


async def window_over() -> None:
    """The loop's clock goes on by more than a minute."""
    loop = asyncio.get_running_loop()
    came = loop.create_future()
    loop.call_later(61, came.set_result, None)
    real = loop.time
    loop.time = lambda: real() + 62  # type: ignore[method-assign]
    await came


def test_at_the_port_of_nodes_a_member_is_known_by_its_certificate_and_nobody_else() -> None:
    assert of_node(Shown("ada", "host.example.com", peer_name(CLUSTER, MEMBER))) == (
        node_caller(MEMBER)
    )
    for shown, rejection in (
        (Shown("ada", peer_name(CLUSTER, REMOVED)), NodeRemoved),
        (Shown("ada", peer_name(CLUSTER, STRANGER)), MemberUnknown),
        (Shown("ada"), Unauthenticated),
        (Shown("node 2", peer_name("d" * 32, MEMBER)), Unauthenticated),
    ):
        with pytest.raises(rejection):
            of_node(shown)


@pytest.mark.parametrize("metadata", [(), (("authorization", "Bearer x"),)])
def test_a_rejected_call_does_not_keep_its_metadata(metadata: tuple[tuple[str, str], ...]) -> None:
    """They can be megabytes, and the garbage collector sees two objects."""

    async def rejected() -> weakref.ref[Details]:
        details = Details(*metadata)
        handler = await admission.intercept_service(known_method, details)
        assert handler.stream_stream is not None, "it rejects the call"
        kept.append(handler)
        return weakref.ref(details)

    asked = Authenticator(AuthSettings(), has_certificates=False)
    admission = Admission(asked, Counts(), None)
    kept: list[object] = []
    gc.disable()
    try:
        assert asyncio.run(rejected())() is None
    finally:
        gc.enable()


@pytest.mark.slow
def test_a_call_that_waits_for_a_provider_does_not_keep_its_metadata() -> None:
    async def run(address: str) -> None:
        settings = of_provider(f"https://{address}/keys")
        asked = Authenticator(settings, has_certificates=False)
        admission = Admission(asked, Counts(), None)
        token = jwt.encode({"sub": "ada"}, "s" * 32, headers={"kid": "unknown"})
        details = Details(("authorization", f"Bearer {token}"))
        handler = await admission.intercept_service(known_method, details)
        kept = weakref.ref(details)
        del details
        waiting = asyncio.ensure_future(anext(handler.stream_stream(None, Refused())))
        await asyncio.sleep(0)
        assert kept() is None
        assert not waiting.done()
        waiting.cancel()

    gc.disable()
    try:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            asyncio.run(run("{}:{}".format(*silent.getsockname())))
    finally:
        gc.enable()


METHOD = f"/{SERVICE}/{DESCRIBE_CLUSTER.name}"


@asynccontextmanager
async def asking(
    settings: AuthSettings | None = None, method: Callable[[Any], Any] = known_method
) -> AsyncIterator[int]:
    """The port of a server that asks callers for a token."""
    asked = Authenticator(settings or AuthSettings(), has_certificates=False)
    server = grpc.aio.server(interceptors=[Admission(asked, Counts(), None)])
    handlers = {DESCRIBE_CLUSTER.name: await method(None)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


@pytest.mark.slow
def test_a_call_with_one_answer_knows_which_groups_its_token_has_and_when_it_is_given_up(
    tmp_path: Path,
) -> None:
    file = tmp_path / "tokens"
    metadata = (("authorization", f"Bearer {add_token(file, 'ada', (), None, NOW)}"),)
    ada = Caller(principal="token:ada")

    async def serve(_: bytes, __: object) -> bytes:
        assert caller() == ada
        known = identity()
        assert known.look_up() == ada
        edited = file.with_name("edited")
        edited.write_text(file.read_text().replace('"groups": []', '"groups": ["ops"]'))
        edited.chmod(0o600)
        edited.rename(file)
        async with asyncio.timeout(PATIENCE_S):
            while known.look_up() == ada:
                await asyncio.sleep(0)
        assert caller() == replace(ada, groups=frozenset({"group:token:ops"}))
        remove_tokens(file, "ada")
        async with asyncio.timeout(PATIENCE_S):
            with suppress(Unauthenticated):
                while known.look_up():
                    await asyncio.sleep(0)
        return b"it does"

    async def method(_: object) -> object:
        return grpc.unary_unary_rpc_method_handler(serve)

    async def call() -> bytes:
        settings = AuthSettings(tokens_file=str(file))
        async with (
            asking(settings, method) as port,
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            called = channel.unary_unary(METHOD)(b"", timeout=PATIENCE_S, metadata=metadata)
            answered: bytes = await called
            return answered

    assert asyncio.run(call()) == b"it does"


def test_a_rejected_call_does_not_stay_until_the_garbage_is_collected() -> None:
    async def rejected() -> int:
        async with asking() as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            for _ in range(10):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await channel.unary_unary(METHOD)(b"", timeout=PATIENCE_S)
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        return sum(type(each).__name__ == "_ServicerContext" for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(rejected()) == 0
    finally:
        gc.enable()


def test_a_call_whose_deadline_has_passed_is_logged_as_from_an_unknown_address() -> None:
    """Or from its own, if grpc takes it just before: then another one is tried."""

    async def call() -> None:
        past = b"\0\x0cgrpc-timeout\x020n"  # RFC 7541, section 6.2.2
        async with asking() as port, asyncio.timeout(PATIENCE_S):
            while not is_logged():
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(opening() + beginning(1, METHOD.encode(), past))
                for _ in itertools.takewhile(lambda _: not is_logged(), range(10_000)):
                    await asyncio.sleep(0)
                writer.close()

    def is_logged() -> bool:
        return "(unknown)" in [line["peer"] for line in lines]

    with capture_logs() as lines:
        asyncio.run(call())

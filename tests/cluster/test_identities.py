"""Real nodes that answer only callers whom they know: by token, access token or certificate."""

from __future__ import annotations

import io
import json
import socket
import ssl
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from grpc_health.v1 import health_pb2, health_pb2_grpc

from raftlog.auth.principals import Caller
from raftlog.auth.rights import Kind, Resource, Right, topic_named
from raftlog.auth.token_file import read_tokens, remove_tokens
from raftlog.auth.token_uses import read_uses, uses_file
from raftlog.certificates import make_certificates
from raftlog.changing_files import replace_whole
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.config_tls import PemFiles
from raftlog.errors import Forbidden, PeerUnproven, RaftlogError, Unauthenticated
from raftlog.server.ports import CALLS_OF_CONNECTION_MAX, HEALTH_CALLS_OF_HOST_MAX
from raftlog.tls import Certificates, open_channel
from raftlog.transport.link import STREAM_METHOD
from raftlog.wire.calls import CALLS, SERVICE, StreamedCall
from raftlog.wire.codec import ERROR_METADATA_KEY, decode_error
from tests.cli.command import run
from tests.cluster.closed import (
    NODES,
    channel_to,
    client,
    client_by,
    made,
    started,
    typed,
    watched,
)
from tests.cluster.doors import Door, Heard
from tests.fuzz.http2 import (
    DATA,
    END_STREAM,
    HEADERS,
    RESET,
    beginning,
    opening,
    references,
    request,
)
from tests.fuzz.node_watch import NodeWatch
from tests.fuzz.samples import DDL

ISSUER, AUDIENCE = "https://login.example.com/", "raftlog"
LIVES_S = 15
"""How long a token lives that is to end. If it ends too soon, another one is made."""

pytestmark = pytest.mark.slow


class Keys:
    """An OpenID provider's published keys, and whom they prove."""

    def __init__(self) -> None:
        self.published: dict[str, Any] = {}
        self._private: dict[str, Any] = {}
        self.asked = 0

    def make(self, name: str, private: Any, algorithm: Any) -> None:
        key = json.loads(algorithm.to_jwk(private.public_key()))
        self._private[name] = private
        self.published[name] = key | {"kid": name, "use": "sig"}

    def token(self, name: str, algorithm: str, **claims: Any) -> str:
        known = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": time.time() + 600}
        meant = {key: value for key, value in (known | claims).items() if value is not None}
        return jwt.encode(meant, self._private[name], algorithm, headers={"kid": name})


@pytest.fixture(scope="module")
def keys() -> Keys:
    made = Keys()
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    made.make("first", rsa_key, jwt.algorithms.RSAAlgorithm)
    return made


@pytest.fixture(scope="module")
def provider(keys: Keys, folder: Path) -> Iterator[str]:
    """Where the keys are published: by a server that only processes of these tests trust."""
    made = folder / "provider"
    make_certificates(made, cluster_id="provider", hosts={1: "127.0.0.1"}, days=1)

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.asked += 1
            body = json.dumps({"keys": list(keys.published.values())}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made / "node-1.pem", made / "node-1.key")
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server,
        pytest.MonkeyPatch.context() as patched,
    ):
        server.socket = context.wrap_socket(server.socket, server_side=True)
        patched.setenv("SSL_CERT_FILE", str(made / "ca.pem"))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}/keys"
        server.shutdown()
        thread.join(PATIENCE_S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("identities")


@pytest.fixture(scope="module")
def tokens_file(folder: Path) -> Path:
    return folder / "tokens.json"


ADMINS = "token:operator, token:etl, oidc:corp:dan, oidc:corp:bob, oidc:corp:carol"


@pytest.fixture(scope="module")
def cluster(folder: Path, tokens_file: Path, provider: str) -> Iterator[ProcessCluster]:
    settings = {
        "auth.oidc_issuer": ISSUER,
        "auth.oidc_alias": "corp",
        "auth.oidc_audience": AUDIENCE,
        "auth.oidc_jwks": provider,
        "auth.admins": ADMINS,
        "auth.rights_check_s": "0.5",
    }
    with started(folder, tokens_file, settings) as found:
        yield found


def refusal(cluster: ProcessCluster, token: str = "", where: Path | None = None) -> str:
    with client(cluster, token, where) as stranger, pytest.raises(Unauthenticated) as caught:
        stranger.list_topics()
    return caught.value.problem


# ---------------------------------------------------------------- who is let in


def test_no_call_is_answered_to_a_stranger(cluster: ProcessCluster) -> None:
    """Each of the table, which is what a node registers (`client_handlers` asserts it)."""
    ca = PemFiles(str(cluster.data / "tls" / "ca.pem"))
    pem = Certificates(ca, ca).current()
    with open_channel(cluster.address(1), pem, ()) as channel:
        for name, call in CALLS.items():
            kind = "unary_stream" if isinstance(call, StreamedCall) else "unary_unary"
            method = getattr(channel, kind)(f"/{SERVICE}/{name}")
            assert isinstance(said(method, b""), Unauthenticated), name
        with pytest.raises(grpc.RpcError) as nothing:
            list(channel.stream_stream(STREAM_METHOD)(iter([b""]), timeout=PATIENCE_S))
        assert nothing.value.code() is grpc.StatusCode.UNIMPLEMENTED, "nodes have their own port"
        health = health_pb2_grpc.HealthStub(channel)
        told = health.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
        assert told.status == health_pb2.HealthCheckResponse.SERVING, "balancers may ask"


def test_a_token_is_judged_before_the_body_is_received(cluster: ProcessCluster) -> None:
    """A stranger's bytes would cost the node memory."""
    never = threading.Event()

    def bodies() -> Iterator[bytes]:
        never.wait(PATIENCE_S)
        yield b""

    with channel_to(cluster, 1) as channel:
        for metadata in ((), (("authorization", "Bearer raftlog_of-nobody"),)):
            append = channel.stream_unary(f"/{SERVICE}/Append")
            with pytest.raises(grpc.RpcError) as caught:
                append(bodies(), timeout=PATIENCE_S, metadata=metadata)
            assert isinstance(typed(caught.value), Unauthenticated)
    assert not never.is_set()
    never.set()


CHECK = b"/grpc.health.v1.Health/Check"
ASKED = health_pb2.HealthCheckRequest()
HEADER_BYTES = 400
"""What a node takes for each header of a call that waits in grpc or is being judged."""
ANOTHER_HOST = "127.0.0.2"


def strangers_door(cluster: ProcessCluster, node: int) -> Door:
    """The node's port for clients, without a certificate."""
    context = ssl.create_default_context(cafile=str(cluster.data / "tls" / "ca.pem"))
    context.set_alpn_protocols(["h2"])
    return Door(cluster.port + node - 1, context)


def is_answered(call: Any) -> bool:
    """Whether a health call is, and not rejected because there are too many."""
    try:
        told = call(ASKED, timeout=PATIENCE_S)
        answer = told if isinstance(told, health_pb2.HealthCheckResponse) else next(told)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        return False
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    return True


def test_one_host_may_have_so_many_health_calls_open(cluster: ProcessCluster) -> None:
    """They need no identity. Another host is answered, and this one when some have ended."""
    with channel_to(cluster, 1) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        watches = [health.Watch(ASKED, timeout=PATIENCE_S) for _ in range(HEALTH_CALLS_OF_HOST_MAX)]
        for each in watches:
            assert next(each).status == health_pb2.HealthCheckResponse.SERVING
        for call in (health.Watch, health.Check):
            assert not is_answered(call)
        with strangers_door(cluster, 1).enter(ANOTHER_HOST) as other:
            other.sendall(opening() + beginning(1, CHECK))
            heard = Heard(other)
            wait_for(lambda: heard.count(DATA) == 1, "an answer to another host", PATIENCE_S)
        for each in watches:
            each.cancel()
        wait_for(lambda: is_answered(health.Watch), "room for another", PATIENCE_S)


def test_health_calls_whose_answers_cannot_leave_are_bounded(cluster: ProcessCluster) -> None:
    """The caller grants no window: each call stays as long as its connection."""
    further = 50
    with channel_to(cluster, 2) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        with strangers_door(cluster, 2).enter() as stranger:
            stranger.sendall(opening(window=0))
            for number in range(HEALTH_CALLS_OF_HOST_MAX + further):
                stranger.sendall(beginning(2 * number + 1, CHECK))
            heard = Heard(stranger)
            rejected = partial(heard.count, HEADERS, END_STREAM)
            wait_for(lambda: rejected() >= further, "rejections", PATIENCE_S)
            assert heard.count(DATA) == 0
            assert not is_answered(check)
        wait_for(lambda: is_answered(check), "room when the connection is closed", PATIENCE_S)


@pytest.mark.parametrize("path", [f"/{SERVICE}/DescribeCluster", "/grpc.health.v1.Health/Watch"])
def test_headers_that_are_named_by_a_byte_cost_no_more_than_their_calls(
    cluster: ProcessCluster, folder: Path, tmp_path: Path, path: str
) -> None:
    """Each call has 2,000 headers of 3.9 KB by its metadata: 7.8 MB for 2.2 KB that are sent. None
    stays open, not even one that needs no identity."""
    calls, each = 4_000, 2_000
    bomb = references(path.encode(), calls, each)
    with client(cluster, (folder / "operator").read_text(), tmp_path / "token") as operator:
        watch = NodeWatch(cluster, operator, operator.create_topic(f"bombed.{path[-5:]}", DDL))
        watch.begin()
        with strangers_door(cluster, 1).enter() as stranger:
            stranger.settimeout(PATIENCE_S)
            stranger.sendall(bomb)
            heard = Heard(stranger)
            wait_for(lambda: ended_streams(heard) >= calls, "the calls' ends", PATIENCE_S)
            watch.end(CALLS_OF_CONNECTION_MAX * each * HEADER_BYTES)


def ended_streams(heard: Heard) -> int:
    return len(
        {
            each.stream
            for each in heard.frames()
            if each.kind == RESET or (each.kind == HEADERS and each.flags & END_STREAM)
        }
    )


def test_what_ends_the_clients_server_leaves_the_streams_between_nodes_alone(
    cluster: ProcessCluster, folder: Path, tmp_path: Path
) -> None:
    """grpc's loop does not stand a path that is not UTF-8, which needs no token."""

    def lines(text: str) -> int:
        return sum(log.read_text().count(text) for log in cluster.logs.values())

    before, ended = lines("peer stream ended"), lines("grpc's server ended")
    with strangers_door(cluster, 1).enter() as sent:
        sent.sendall(request("ListTopics", b"", path=b"\xff"))
        wait_for(lambda: lines("grpc's server ended") > ended, "the server's end", PATIENCE_S)
    with client(cluster, (folder / "operator").read_text(), tmp_path / "token") as operator:
        operator.create_topic("after-an-attack", "id bigint")
        operator.append("after-an-attack", [{"id": 1}])
    assert lines("peer stream ended") == before


def test_both_servers_of_a_node_may_end_at_once(
    cluster: ProcessCluster, folder: Path, tmp_path: Path
) -> None:
    """Each looks for the loop of its own new server."""
    tls = cluster.data / "tls"
    context = ssl.create_default_context(cafile=str(tls / "ca.pem"))
    context.load_cert_chain(tls / "client.pem", tls / "client.key")
    context.set_alpn_protocols(["h2"])

    for _ in range(3):
        with ExitStack() as stack:
            ports = (cluster.port + 1, cluster.port + 1 + NODES)
            opened = [stack.enter_context(Door(port, context).enter()) for port in ports]
            for each in opened:
                each.sendall(request("ListTopics", b"", path=b"\xff"))
            wait_for(lambda opened=opened: all(map(is_closed, opened)), "both to end", PATIENCE_S)
        with client(cluster, (folder / "operator").read_text(), tmp_path / "token") as operator:
            wait_for(lambda operator=operator: knows(operator), "all nodes to serve", PATIENCE_S)
    assert cluster.runs(2)


def is_closed(connection: socket.socket) -> bool:
    """Whether the node has closed it; it says something first."""
    try:
        return connection.recv(65_536) == b""
    except TimeoutError:
        return False
    except (ConnectionError, ssl.SSLError):
        return True


def test_no_ports_handler_waits_for_a_strangers_body(cluster: ProcessCluster) -> None:
    """Neither the health service, nor calls at the port of nodes."""
    never = threading.Event()

    def bodies() -> Iterator[bytes]:
        never.wait(PATIENCE_S)
        yield b""

    with channel_to(cluster, 1) as channel:
        check = channel.stream_unary("/grpc.health.v1.Health/Check")
        answered = health_pb2.HealthCheckResponse.FromString(check(bodies(), timeout=PATIENCE_S))
        assert answered.status == health_pb2.HealthCheckResponse.SERVING
    tls = cluster.data / "tls"
    files = PemFiles(*(str(tls / name) for name in ("ca.pem", "client.pem", "client.key")))
    pem = Certificates(files, files).current()
    with open_channel(f"127.0.0.1:{cluster.port + NODES}", pem, ()) as channel:
        append = channel.stream_unary(f"/{SERVICE}/Append")
        with pytest.raises(grpc.RpcError) as caught:
            append(bodies(), timeout=PATIENCE_S)
        assert isinstance(typed(caught.value), Unauthenticated)
        greeting = channel.stream_stream(STREAM_METHOD)(bodies(), timeout=PATIENCE_S)
        with pytest.raises(grpc.RpcError) as caught:
            next(greeting)
        assert isinstance(typed(caught.value), PeerUnproven)
    assert not never.is_set()
    never.set()


def said(method: Any, request: Any) -> RaftlogError | None:
    """The typed error that the call ends with."""
    streamed = isinstance(method, grpc.UnaryStreamMultiCallable | grpc.StreamStreamMultiCallable)
    with pytest.raises(grpc.RpcError) as caught:
        next(method(request, timeout=PATIENCE_S)) if streamed else method(
            request, timeout=PATIENCE_S
        )
    metadata = caught.value.trailing_metadata() or ()
    found = [decode_error(value) for key, value in metadata if key == ERROR_METADATA_KEY]
    return found[0] if found else None


def test_a_token_says_who_calls_until_it_is_taken_away(
    cluster: ProcessCluster, tokens_file: Path, tmp_path: Path
) -> None:
    assert "has no token" in refusal(cluster)
    assert "is not known" in refusal(cluster, "raftlog_of-nobody", tmp_path / "wrong")
    token = made(tokens_file, "etl", "writers", "readers")
    with client(cluster, token, tmp_path / "etl") as etl:
        wait_for(lambda: knows(etl), "the nodes to take the token up", PATIENCE_S)
        assert etl.whoami() == Caller(
            principal="token:etl", groups=frozenset({"group:token:writers", "group:token:readers"})
        )
        etl.create_topic("of-etl", "id bigint")
        etl.append("of-etl", [{"id": 1}])
        etl.kv.put("of/etl", b"")
        with channel_to(cluster, 1) as channel:
            watch = watched(channel, etl, token, "of/")
            assert any(b"of/etl" in part for part in watch)
            assert remove_tokens(tokens_file, "etl") == 1
            with pytest.raises(grpc.RpcError) as ended:
                next(watch)
            assert isinstance(typed(ended.value), Unauthenticated), "what is open goes on"
        wait_for(lambda: knows_not(etl), "the nodes to refuse the token", PATIENCE_S)
        assert token not in tokens_file.read_text()
    ended = made(tokens_file, "etl", ends=datetime.now(UTC) - timedelta(seconds=1))
    assert "has expired" in refusal(cluster, ended, tmp_path / "ended")
    logs = "".join(log.read_text() for log in cluster.logs.values())
    assert "caller refused" in logs
    assert token not in logs
    assert ended not in logs


def shows(watch: Iterator[bytes], key: bytes) -> bool:
    """False: the node knows the token, or its rights, not yet."""
    try:
        return any(key in part for part in watch)
    except grpc.RpcError:
        return False


def test_a_watch_shows_no_more_what_a_group_that_was_taken_away_could_see(
    cluster: ProcessCluster, folder: Path, tokens_file: Path, tmp_path: Path
) -> None:
    """That of raftlog's own keys needs no right: each change is judged for the caller of now."""
    token = made(tokens_file, "dora", "curators")
    with (
        client(cluster, (folder / "operator").read_text(), tmp_path / "operator") as operator,
        channel_to(cluster, 1) as channel,
    ):
        operator.create_topic("curated", DDL)
        operator.positions.publish("before", "curated", 0)
        operator.kv.put("curated/key", b"")
        for resource in (topic_named("curated"), Resource(Kind.KEYS, "curated/")):
            operator.acl.grant("group:token:curators", [Right.READ], resource)
        begin = partial(watched, channel, operator, token)
        wait_for(lambda: shows(begin("curated/"), b"d/key"), "the rights of dora", PATIENCE_S)
        watch, ends = begin("raftlog/"), begin("curated/")
        assert shows(watch, b"before/curated")
        assert shows(ends, b"curated/key")
        replace_whole(tokens_file, tokens_file.read_bytes().replace(b'"curators"', b'"others"'))
        with pytest.raises(grpc.RpcError) as ended:
            next(ends)
        assert isinstance(typed(ended.value), Forbidden), "the node knows"
        operator.positions.publish("after", "curated", 0)
        operator.acl.grant("token:dora", [Right.READ], topic_named("last"))
        for part in watch:
            assert b"after/curated" not in part
            if b"topic/last" in part:
                return
        pytest.fail("the watch has ended")


def test_nodes_write_when_a_token_was_last_used(cluster: ProcessCluster, tokens_file: Path) -> None:
    """That of the operator, by which this cluster is asked whether it is ready."""
    operator = next(each for each in read_tokens(tokens_file) if each.identity == "operator")

    def used() -> bool:
        return operator.id in read_uses(uses_file(tokens_file))

    wait_for(used, "the use of a token", PATIENCE_S)


def knows(caller: LogClient) -> bool:
    """Whether all nodes do."""
    try:
        answers = [answer for _, answer in caller.describe_cluster()]
    except RaftlogError:
        return False  # also where no node answers soon enough: they are asked again
    return len(answers) == NODES and not any(isinstance(each, RaftlogError) for each in answers)


def test_a_file_of_tokens_that_is_damaged_leaves_the_former_in_force(
    cluster: ProcessCluster, tokens_file: Path, tmp_path: Path
) -> None:
    token = made(tokens_file, "steady")
    with client(cluster, token, tmp_path / "steady") as steady:
        wait_for(lambda: knows(steady), "the nodes to take the token up", PATIENCE_S)
        whole = tokens_file.read_text()
        tokens_file.write_text(whole[:-20])
        log = cluster.logs[1]
        wait_for(
            lambda: knows(steady) and "new file of tokens refused" in log.read_text(),
            "node 1 to say that the file is damaged",
            PATIENCE_S,
        )
        tokens_file.write_text(whole)
        wait_for(lambda: knows(steady), "the nodes to know the token", PATIENCE_S)


def test_access_tokens_count_by_the_keys_that_their_issuer_publishes(
    cluster: ProcessCluster, keys: Keys, tmp_path: Path
) -> None:
    token = keys.token("first", "RS256", groups=["analysts"])
    with client(cluster, token, tmp_path / "ada") as ada:
        known = ada.whoami()
        assert known == Caller(principal="oidc:corp:ada", groups=frozenset({"group:corp:analysts"}))
    wrong = {
        "expired": keys.token("first", "RS256", exp=time.time() - 60),
        "for another": keys.token("first", "RS256", aud="another"),
        "by another": keys.token("first", "RS256", iss="https://evil.example.com/"),
        "for ever": keys.token("first", "RS256", exp=None),
        "nobody": keys.token("first", "RS256", sub=None),
        "changed": token[:-4] + ("AAAA" if not token.endswith("AAAA") else "BBBB"),
        "unsigned": jwt.encode({"sub": "ada"}, "", "none", headers={"kid": "first"}),
        "by a shared secret": jwt.encode(
            {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": time.time() + 60},
            "s" * 32,
            "HS256",
            headers={"kid": "first"},
        ),
    }
    for name, each in wrong.items():
        assert "access token" in refusal(cluster, each, tmp_path / "wrong"), name


def test_what_is_watched_ends_with_the_access_token(
    cluster: ProcessCluster, keys: Keys, tmp_path: Path
) -> None:
    def ends() -> bool:
        short = keys.token("first", "RS256", sub="dan", exp=time.time() + LIVES_S)
        with client(cluster, short, tmp_path / "dan") as dan, channel_to(cluster, 1) as channel:
            try:
                dan.kv.put("of-dan", b"")
                watch = watched(channel, dan, short, "of-dan")
                assert any(b"of-dan" in part for part in watch)
            except (Unauthenticated, grpc.RpcError):
                return False  # the machine is slow
            with pytest.raises(grpc.RpcError) as ended:
                next(watch)
            assert isinstance(typed(ended.value), Unauthenticated), "it goes on to its deadline"
        return True

    wait_for(ends, "a watch that ends with its token", PATIENCE_S)


def test_an_issuer_may_change_its_keys_and_a_client_its_token(
    cluster: ProcessCluster, keys: Keys, tmp_path: Path
) -> None:
    where = tmp_path / "bob"
    short = keys.token("first", "RS256", sub="bob", exp=time.time() + LIVES_S)
    with client(cluster, short, where) as bob:
        assert bob.whoami() is not None
        keys.make("second", ec.generate_private_key(ec.SECP256R1()), jwt.algorithms.ECAlgorithm)
        renewed = keys.token("second", "ES256", sub="bob")
        asked = keys.asked
        where.write_text(renewed)
        wait_for(lambda: knows(bob), "all nodes to have the new key", PATIENCE_S)
        bob.list_topics()
        assert keys.asked <= asked + NODES, "each node asks once"


def test_calls_and_a_running_producer_go_on_with_a_new_token_when_the_old_one_has_ended(
    cluster: ProcessCluster, keys: Keys, tmp_path: Path
) -> None:
    """A program's token is kept for a minute: only refusals lead to the new one."""
    where = tmp_path / "carol"
    short = keys.token("first", "RS256", sub="carol", exp=time.time() + LIVES_S)
    where.write_text(short)
    with client_by(cluster, f"command:cat {where}") as carol:
        assert carol.whoami() is not None
        where.write_text(keys.token("first", "RS256", sub="carol"))
        carol.create_topic("of-carol", "id bigint")
        with carol.producer("of-carol") as producer:
            producer.append_and_flush([{"id": 1}])  # with the old one, but on a slow machine
            with client(cluster, short, tmp_path / "old") as former:
                wait_for(lambda: knows_not(former), "the old token to end", PATIENCE_S)
            for number in range(2, 5):
                producer.append([{"id": number}])
            producer.flush()
        assert carol.read_high_water_mark("of-carol").high_water_mark == 4


def knows_not(caller: LogClient) -> bool:
    """Whether the node that it asks does not know it."""
    try:
        caller.list_topics()
    except Unauthenticated:
        return True
    return False


def test_acts_and_refusals_are_in_the_audit_log(
    cluster: ProcessCluster, folder: Path, tmp_path: Path
) -> None:
    token = (folder / "operator").read_text()
    with client(cluster, token, tmp_path / "token") as operator:
        operator.create_topic("audited", "id bigint")
        operator.append("audited", [{"id": 1}])
        operator.trim("audited", before=1)
        operator.delete_topic("audited")
    refusal(cluster, "raftlog_of-nobody", tmp_path / "wrong")
    found: list[dict[str, Any]] = []

    def all_there() -> bool:
        found.clear()
        for file in sorted(folder.glob("audit-*.jsonl")):
            found.extend(json.loads(line) for line in file.read_text().splitlines())
        return any(line["outcome"] == "Unauthenticated" for line in found)

    wait_for(all_there, "the refusal in the audit log", PATIENCE_S)
    acts = [line for line in found if line["who"] == "token:operator" and line["outcome"] == "ok"]
    assert {line["call"] for line in acts} >= {"CreateTopic", "Trim", "DeleteTopic", "SignIn"}
    ids = {line["id"] for line in found if line["outcome"] == "begun"}
    assert {line["id"] for line in acts if line["call"] != "SignIn"} <= ids
    assert {line["call"] for line in found} >= {"NodeStarted", "TokensChanged"}
    assert all(line["from"].startswith("ipv4:") for line in acts)
    done = [line for line in found if line["outcome"] == "ok"]
    assert {line["who"] for line in done if line["call"] == "RegisterNode"} <= {
        f"node:{node}" for node in range(1, NODES + 1)
    }
    assert token.strip() not in json.dumps(found)


# ---------------------------------------------------------------- the command line


def test_login_keeps_a_token_for_the_commands_that_follow(
    cluster: ProcessCluster,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("RAFTLOG_CLIENT__TLS_CA_FILE", str(cluster.data / "tls" / "ca.pem"))
    servers = ("--servers", cluster.servers)
    stranger = run(monkeypatch, capsys, "whoami", *servers)
    assert stranger.code == 7
    assert "raftlog login" in stranger.err
    monkeypatch.setattr("sys.stdin", io.StringIO("raftlog_of-nobody\n"))
    wrong = run(monkeypatch, capsys, "login", *servers)
    assert wrong.code == 7
    assert "of-nobody" not in wrong.err
    token = (folder / "operator").read_text()
    monkeypatch.setattr("sys.stdin", io.StringIO(token))
    ended = run(monkeypatch, capsys, "login", *servers)
    assert ended.code == 0, ended.err
    assert token not in ended.out + ended.err
    known = run(monkeypatch, capsys, "whoami", "-ojson", *servers)
    assert json.loads(known.out) == {
        "principal": "token:operator",
        "groups": ["group:token:operators"],
    }
    [kept] = tmp_path.rglob("token-*")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert run(monkeypatch, capsys, "logout", *servers).code == 0
    assert run(monkeypatch, capsys, "whoami", *servers).code == 7

"""How long a request is tried again, and what it reports in the end."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial

import grpc
import pytest

from raftlog.chaos.cluster import PATIENCE_S, wait_for
from raftlog.client.call_errors import typed_error
from raftlog.client.connection import LOGGER, Connection
from raftlog.client.retries import Deadline
from raftlog.client.window import Window
from raftlog.config import ClientSettings
from raftlog.core.types import GroupId, NodeId, Offset
from raftlog.errors import (
    DeadlineExceeded,
    DiskFull,
    InvalidOption,
    NodeStopping,
    NodeUnreachable,
    NotLeader,
    NotYet,
    RaftlogError,
    ReplicaQuarantined,
)
from raftlog.machines.outcomes import Appended
from raftlog.wire.batch import BatchHeader
from raftlog.wire.calls import (
    APPEND,
    DESCRIBE_CLUSTER,
    LIST_TOPICS,
    AppendCall,
    ListTopics,
    TopicsReply,
)
from raftlog.wire.codec import encode_reply
from tests.client.answering import Answer, described, node, serving

GROUP = GroupId(1)
FULL = DiskFull(file="a.log", node="node 1")
NOT_LEADER = NotLeader(group=GROUP)
UNREACHABLE = NodeUnreachable(address="a:1", problem="the connection was reset")
REFUSED_TIMEOUT_S = 0.3


def quarantined(node: int) -> ReplicaQuarantined:
    return ReplicaQuarantined(topic="t", node=node, file="b.log", position=7, problem="a bit")


def connection(
    servers: str, *, request_timeout_s: float = PATIENCE_S, retry_delay_max_s: float = 0.5
) -> Connection:
    return Connection(
        ClientSettings(
            bootstrap_servers=servers,
            request_timeout_s=request_timeout_s,
            refused_timeout_s=REFUSED_TIMEOUT_S,
            retry_delay_max_s=retry_delay_max_s,
        )
    )


@pytest.mark.slow
def test_each_request_waits_by_itself_for_nodes_to_be_started() -> None:
    with socket.socket() as bound:  # and not listening: refused at once
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        client = connection(f"127.0.0.1:{port}")
        for _ in range(2):
            started_s = time.monotonic()
            with pytest.raises(NodeUnreachable, match="nothing listens there"):
                client.call_any(LIST_TOPICS, ListTopics())
            assert time.monotonic() - started_s >= REFUSED_TIMEOUT_S

    def answered() -> bool:
        try:
            return client.call_any(LIST_TOPICS, ListTopics()) == EMPTY
        except NodeUnreachable:
            return False  # the channel waits up to 0.5 s before it dials again

    with closing(client), node(LIST_TOPICS.name, lambda _: EMPTY_REPLY, port):
        wait_for(answered, "the node to be asked", PATIENCE_S)


APPENDED = encode_reply(APPEND, Appended(start=Offset(0), end=Offset(0), repeated=False))


def refusing(error: Callable[[], RaftlogError], asked: list[RaftlogError]) -> Answer:
    """The answer of a node that refuses each call so, and notes that."""

    def answer(_: bytes) -> bytes:
        asked.append(error())
        raise asked[-1]

    return answer


def test_a_hint_of_the_leader_is_followed_without_a_pause_however_many_tries_came_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After an election the client need not wait once more. Nodes that name one another are not
    asked all the time."""
    pauses_s: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses_s.append)
    hint = NotLeader(group=GROUP, leader=NodeId(2), address="a:1")
    errors = iter([NOT_LEADER] * 8 + [hint, UNREACHABLE] + [hint] * 20)

    def once(_: float) -> str:
        error = next(errors, None)
        if error is not None:
            raise error
        return "done"

    with closing(connection("127.0.0.1:9")) as client:
        assert client.retry(once, client.deadline("Append")) == "done"
        least_s = client.settings.retry_delay_min_s
    assert pauses_s[8] == 0.0
    assert pauses_s[10:13] == [0.0, least_s, least_s]
    assert max(pauses_s[13:]) > least_s


@pytest.mark.slow
@pytest.mark.parametrize("is_known", [True, False])
def test_a_hint_of_a_node_that_is_known_is_followed_without_another_question(
    is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that stops has handed over when it names the new one, and may be gone in a moment.
    Of a node that the client has not heard of it is asked: there may be more such."""
    monkeypatch.setattr("raftlog.client.connection._DOUBTED_KEPT_S", 0.0)
    nodes: list[str] = []
    questions: list[bytes] = []

    def describe(data: bytes) -> bytes:
        questions.append(data)
        return encode_reply(DESCRIBE_CLUSTER, described(nodes))

    with node(APPEND.name, lambda _: APPENDED) as leader:
        hint = partial(NotLeader, group=GROUP, leader=NodeId(2), address=leader)
        others = {DESCRIBE_CLUSTER.name: describe}
        with (
            node(APPEND.name, refusing(hint, []), others=others) as former,
            closing(connection(former)) as client,
        ):
            nodes += [former, leader] if is_known else [former]
            assert client.addresses() == tuple(nodes)
            for group in (1, 2):  # each known node is asked first once
                client.call_leader(GroupId(group), APPEND, append(0))
    assert (len(questions) == 1) is is_known


@pytest.mark.slow
def test_a_node_that_stops_is_not_asked_again_while_there_are_others() -> None:
    asked: list[RaftlogError] = []
    with (
        node(LIST_TOPICS.name, refusing(NodeStopping, asked)) as stopping,
        node(LIST_TOPICS.name, lambda _: EMPTY_REPLY) as other,
        closing(connection(f"{stopping},{other}")) as client,
    ):
        for _ in range(10):
            assert client.call_any(LIST_TOPICS, ListTopics()) == EMPTY
    assert len(asked) == 1


@pytest.mark.slow
def test_without_a_leader_the_error_names_each_node_that_rejected_the_call() -> None:
    errors = {number: NotLeader(group=GROUP, node=number, what="topic 't'") for number in (1, 2)}
    with (
        node(APPEND.name, refusing(lambda: errors[1], [])) as first,
        node(APPEND.name, refusing(lambda: errors[2], [])) as second,
        closing(
            connection(f"{first},{second},{unused_address()}", request_timeout_s=1.0)
        ) as client,
    ):

        def names_each() -> bool:
            """Within one deadline, of which all must have been tried."""
            with pytest.raises(DeadlineExceeded) as missed:
                client.call_leader(GROUP, APPEND, append(0))
            counts = [missed.value.last.count(part) for part in parts]
            assert max(counts) <= 1
            return counts == [1, 1, 1]

        parts = (errors[1].cause, errors[2].cause, "gave no answer: nothing listens there")
        wait_for(names_each, "an error that names each of them", PATIENCE_S)


@contextmanager
def another_service(port: int = 0) -> Iterator[str]:
    """The address of a grpc service that is not raftlog."""
    with serving({}, port, "helloworld.Greeter") as address:
        yield address


def unused_address() -> str:
    """An address where nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{bound.getsockname()[1]}"


EMPTY = TopicsReply(topics=())
EMPTY_REPLY = encode_reply(LIST_TOPICS, EMPTY)


def test_an_address_where_another_service_listens_is_passed_over_like_a_node_that_is_down() -> None:
    with (
        another_service() as stranger,
        node(LIST_TOPICS.name, lambda _: EMPTY_REPLY) as there,
        closing(connection(f"{stranger},{there}")) as client,
    ):
        for _ in range(4):
            assert client.call_any(LIST_TOPICS, ListTopics()) == EMPTY
        with pytest.raises(NodeUnreachable, match="does not know this call") as caught:
            client.ask(stranger, LIST_TOPICS, ListTopics(), 5.0)
        assert caught.value.address == stranger


def test_a_leader_whose_address_another_service_has_now_is_forgotten() -> None:
    """The cluster named the address, not the user."""
    with another_service() as former:
        hints: Iterator[bytes | RaftlogError] = iter(
            [NotLeader(group=GROUP, leader=NodeId(2), address=former), NOT_LEADER, APPENDED]
        )

        def answer(_: bytes) -> bytes:
            hint = next(hints)
            if isinstance(hint, RaftlogError):
                raise hint
            return hint

        with node(APPEND.name, answer) as there, closing(connection(there)) as client:
            client.call_leader(GROUP, APPEND, append(0))
            assert client.leader(GROUP) == there


def test_the_client_says_so_at_once_if_nothing_that_was_given_knows_the_call() -> None:
    with (
        another_service() as first,
        another_service() as second,
        closing(connection(f"{first},{second}")) as client,
        pytest.raises(InvalidOption, match="nothing knows this call") as caught,
    ):
        client.call_any(LIST_TOPICS, ListTopics())
    assert caught.value.option == "client.bootstrap_servers"
    assert f"{first}, {second}" in caught.value.problem


@pytest.mark.slow
def test_where_no_node_can_be_each_address_is_told_with_its_reason() -> None:
    empty = unused_address()
    with (
        another_service() as stranger,
        closing(connection(f"nosuch.invalid:7401,{stranger},{empty}")) as client,
        pytest.raises(NodeUnreachable) as caught,
    ):
        client.call_any(LIST_TOPICS, ListTopics())
    assert caught.value.address == f"nosuch.invalid:7401, {stranger}, {empty}"
    assert caught.value.problem == (
        f"nosuch.invalid:7401: its host name has no address; {stranger}: what listens there does "
        f"not know this call; {empty}: nothing listens there (connection refused)"
    )


class Failed(grpc.RpcError):
    """What grpc raises for a call that got no reply."""

    def __init__(self, details: str, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> None:
        self._details = details
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> None:
        return None


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Connection refused", "nothing listens there (connection refused)"),
        ("Connection reset by peer", "the connection was reset"),
        ("No route to host", "the call did not get there or back (No route to host)"),
    ],
)
def test_what_happened_on_the_way_to_a_node_is_said_in_our_words(theirs: str, ours: str) -> None:
    details = (
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:1: "
        f"Failed to connect to remote host: {theirs}"
    )
    error = typed_error("a:1", Failed(details))
    assert error.cause == f"The node at a:1 gave no answer: {ours}."


TRIED = "failed to connect to all addresses; last error: "


@pytest.mark.parametrize(
    ("details", "ours"),
    [
        (f"{TRIED}UNAVAILABLE: ipv4:10.0.0.1:1: Socket closed", "as a node with TLS does"),
        ("Socket closed", "the connection was closed"),
        (
            f"{TRIED}UNAVAILABLE: ipv4:10.0.0.1:1: connection attempt timed out before receiving "
            "SETTINGS frame",
            "timed out before receiving",
        ),
        (
            f"{TRIED}UNKNOWN: ipv4:10.0.0.1:1: Custom verification check failed with error: "
            "UNAUTHENTICATED: Hostname Verification Check failed.",
            "its certificate names other hosts",
        ),
        (
            f"{TRIED}UNKNOWN: ipv4:10.0.0.1:1: Tls handshake failed (TSI_PROTOCOL_FAILURE): "
            "SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED:"
            " certificate has expired: OK",
            "its certificate has expired",
        ),
        (
            f"{TRIED}UNKNOWN: ipv4:10.0.0.1:1: Tls handshake failed (TSI_PROTOCOL_FAILURE): "
            "SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED:"
            " unable to get local issuer certificate: OK",
            "not signed by a CA",
        ),
        (
            f"{TRIED}UNKNOWN: ipv4:10.0.0.1:1: Tls handshake failed (TSI_PROTOCOL_FAILURE): "
            "SSL_ERROR_SSL: error:100000f7:SSL routines:OPENSSL_internal:WRONG_VERSION_NUMBER: OK",
            "it does not speak TLS",
        ),
    ],
)
def test_what_went_wrong_with_tls_is_told_apart(details: str, ours: str) -> None:
    assert ours in typed_error("a:1", Failed(details)).cause


@pytest.mark.parametrize(
    ("code", "details"),
    [
        (grpc.StatusCode.UNIMPLEMENTED, "Received http2 header with status: 404"),
        (grpc.StatusCode.PERMISSION_DENIED, "Received http2 header with status: 403"),
        (grpc.StatusCode.UNAUTHENTICATED, "no token"),
    ],
)
def test_what_only_another_service_answers_is_no_defect(
    code: grpc.StatusCode, details: str
) -> None:
    error = typed_error("a:1", Failed(details, code))
    assert isinstance(error, NodeUnreachable)
    assert error.problem == "what listens there is no raftlog node"


@pytest.mark.parametrize("code", [grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE])
def test_what_an_impostor_says_is_bounded_and_printable(code: grpc.StatusCode) -> None:
    digits = "9" * 5_000
    for details in (f"larger than max ({digits} vs. {digits})", "\x1b[2J: \x1b[2J\n\udcff"):
        cause = typed_error("a:1", Failed(details, code)).cause
        assert cause.isprintable()
        assert len(cause) < 2_000


@pytest.mark.parametrize("code", [grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL])
def test_a_failure_without_a_typed_error_is_another_services(code: grpc.StatusCode) -> None:
    """It must not end a request that other nodes can answer."""
    error = typed_error("a:1", Failed("no such row", code))
    assert error.retriable
    assert f"what listens there answered {code.name}: no such row" in error.cause


MORE_TRIES = 9
DOWN = NodeUnreachable(address="10.0.0.2:1", problem="nothing listens there")


def notices(
    errors: list[RaftlogError], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> list[str]:
    """What a request says meanwhile whose tries raise these errors."""
    monkeypatch.setattr("raftlog.client.retries._FIRST_NOTICE_S", 0.0)
    caplog.set_level("INFO", logger=LOGGER)
    last_answer([*errors, *errors[-1:] * MORE_TRIES])
    return [record.getMessage() for record in caplog.records]


@pytest.mark.slow
@pytest.mark.parametrize(
    "errors", [[DOWN], [NotLeader(group=GROUP, leader=2, address="10.0.0.2:1"), DOWN, NOT_LEADER]]
)
def test_a_request_that_waits_long_says_for_whom(
    errors: list[RaftlogError],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = notices(errors, monkeypatch, caplog)
    assert re.match(r"no answer for \d+ s \(Append\): ", said[-1])
    assert DOWN.cause in said[-1]
    assert len(said) < MORE_TRIES, "and seldom"


@pytest.mark.slow
def test_a_request_that_a_replica_answers_with_later_waits_in_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    behind = NotYet(topic="t", have=4, need=5)
    assert notices([behind], monkeypatch, caplog) == []


class AfterTries(Deadline):
    """Passes with the last of `tries` tries, however long they take."""

    def __init__(self, tries: int) -> None:
        super().__init__("Append", PATIENCE_S)
        self.tries_left = tries

    def remaining_s(self) -> float:
        return super().remaining_s() if self.tries_left else 0.0


def last_answer(errors: list[RaftlogError]) -> str:
    """What a request reports whose tries raise these errors, and the last one once more when its
    deadline passes."""
    deadline = AfterTries(len(errors) + 1)

    def once(try_s: float) -> None:
        deadline.tries_left -= 1
        raise (*errors, errors[-1])[-1 - deadline.tries_left]

    with (
        closing(connection("127.0.0.1:9", retry_delay_max_s=0.02)) as client,
        pytest.raises(DeadlineExceeded) as caught,
    ):
        client.retry(once, deadline)
    return caught.value.last


@pytest.mark.slow
@pytest.mark.parametrize(
    ("errors", "reported"),
    [
        ([FULL, NOT_LEADER], FULL),
        ([FULL, UNREACHABLE, NOT_LEADER], FULL),
        ([FULL, NOT_LEADER, UNREACHABLE], f"{NOT_LEADER.cause} {UNREACHABLE}"),
        ([UNREACHABLE, NOT_LEADER],
         f"{NOT_LEADER.cause} {UNREACHABLE.cause} {NOT_LEADER.remedy}"),
        ([quarantined(2), NOT_LEADER], quarantined(2)),
        ([quarantined(2), UNREACHABLE], UNREACHABLE),
        ([quarantined(2), FULL, NOT_LEADER], FULL),
        ([DeadlineExceeded(what="Append", seconds="1")],
         "Append was not done within 1 s."),
        ([quarantined(2), NotLeader(group=GROUP, leader=1, address="a:1")],
         NotLeader(group=GROUP, leader=1, address="a:1")),
    ],
)  # fmt: skip
def test_whom_to_ask_is_not_reported_if_a_disk_is_full_or_nobody_leads_for_damage(
    errors: list[RaftlogError], reported: RaftlogError | str
) -> None:
    assert last_answer(errors) == str(reported)


@pytest.mark.slow
def test_every_replica_that_is_quarantined_is_named_if_nobody_leads() -> None:
    for last in (NOT_LEADER, quarantined(3)):
        said = last_answer([quarantined(3), quarantined(2), last])
        assert said == f"{quarantined(2).cause} {quarantined(3)}"


@pytest.mark.slow
def test_what_the_first_try_of_a_call_in_flight_met_is_reported() -> None:
    answers: list[Appended | RaftlogError] = []

    def answer(_: bytes) -> bytes:
        found = answers.pop(0) if answers else NOT_LEADER
        if isinstance(found, RaftlogError):
            raise found
        return encode_reply(APPEND, found)

    with (
        node(APPEND.name, answer) as server,
        closing(connection(server, request_timeout_s=1.0)) as client,
    ):

        def is_reported() -> bool:
            """Within one deadline, of which both must have been answered."""
            answers[:] = [Appended(start=Offset(0), end=Offset(0), repeated=False), FULL]
            window = Window(client, GROUP, APPEND, 2)
            for sequence in range(2):
                window.push(append(sequence), b"")
            with pytest.raises(DeadlineExceeded) as caught:
                window.drain()
            return caught.value.last == str(FULL)

        wait_for(is_reported, "the reason of the first try", PATIENCE_S)


def append(sequence: int) -> AppendCall:
    return AppendCall(
        group=GROUP,
        incarnation="i",
        producer="p",
        sequence=sequence,
        batch=BatchHeader(record_count=0, schema_version=1, columns=()),
        crc=0,
    )

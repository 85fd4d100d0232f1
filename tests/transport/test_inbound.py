"""Which peers may stream to a node, and when a peer counts as lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from structlog.testing import capture_logs

from raftlog.certificates import make_certificates
from raftlog.chaos.cluster import PATIENCE_S
from raftlog.config_tls import PemFiles
from raftlog.core.messages import PeerMessage, VoteReply
from raftlog.core.types import FORMAT_STAMP, NodeId
from raftlog.errors import (
    DataFolderForeign,
    FormatUnsupported,
    MalformedRequest,
    NodeRemoved,
    PeerUnproven,
    RaftlogError,
    StoreCopied,
    TooMany,
)
from raftlog.tls import Certificates, open_aio_channel, port_credentials
from raftlog.transport import inbound
from raftlog.transport.inbound import PeerStreams
from raftlog.transport.link import STREAM_METHOD, PeerLink
from raftlog.transport.peer_processes import HEARD_S, PeerProcesses
from raftlog.wire.calls import PEER_SERVICE
from raftlog.wire.codec import (
    ERROR_METADATA_KEY,
    decode_error,
    decode_hello,
    decode_welcome,
    encode_hello,
    encode_peer_messages,
    encode_welcome,
)
from raftlog.wire.peer_greetings import PeerHello, PeerWelcome


@dataclass(slots=True)
class Receiver:
    """Node 1 of the cluster `c`, which writes down what it is told."""

    received: list[PeerMessage] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    """Where each process said that it listens."""
    removed: set[int] = field(default_factory=set)
    leaving: set[int] = field(default_factory=set)
    """Those whose removal is not known to be committed."""
    registered: str = ""
    """The process of node 2 that registered last."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def welcome(self) -> PeerWelcome:
        return PeerWelcome(
            format=FORMAT_STAMP,
            node=NodeId(1),
            store_uuid="s1",
            boot_id="b1",
            message_bytes_max=1 << 20,
        )

    def cluster_id(self) -> str:
        return "c"

    def is_peer(self, node: NodeId) -> bool:
        if node in self.removed:
            raise NodeRemoved(node=node)
        if node in self.leaving:
            self.changed.set()
        return node == 2 and node not in self.leaving

    def known_store(self, node: NodeId) -> str | None:
        return f"s{node}"

    def check_copy(self, hello: PeerHello) -> None:
        if self.registered not in ("", hello.boot_id, *hello.earlier_boot_ids):
            raise StoreCopied(node=hello.node, boot_id=hello.boot_id, known_boot_id=self.registered)

    def is_registered(self, node: NodeId, boot_id: str) -> bool:
        return node == 2 and boot_id == self.registered

    def greeted(self, hello: PeerHello) -> None:
        self.addresses.append(hello.address)

    def receive(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        self.received += messages
        self.changed.set()

    def peer_closed(self, peer: NodeId) -> None:
        self.closed.append(peer)
        self.changed.set()


@asynccontextmanager
async def encrypted(
    receiver: Receiver, folder: Path
) -> AsyncIterator[Callable[[int], grpc.aio.Channel]]:
    """Node 1 listens with TLS; channels to it with the certificate of a node."""
    make_certificates(folder, cluster_id="c", hosts=dict.fromkeys((1, 2, 3), "127.0.0.1"), days=1)

    def of(node: int) -> Certificates:
        stems = ("ca.pem", f"node-{node}.pem", f"node-{node}.key")
        files = PemFiles(*(str(folder / stem) for stem in stems))
        return Certificates(files, files)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (PeerStreams(receiver, PeerProcesses(), proven=True).handlers(),)
    )
    port = server.add_secure_port("127.0.0.1:0", port_credentials(of(1), mutual=True))
    await server.start()
    async with AsyncExitStack() as channels:

        def channel(node: int) -> grpc.aio.Channel:
            opened = open_aio_channel(f"127.0.0.1:{port}", of(node).current(), ())
            channels.push_async_callback(opened.close)
            return opened

        yield channel
    await server.stop(None)


async def refusal(stream: grpc.aio.StreamStreamCall) -> RaftlogError:
    """The error that ends the stream before it is answered."""
    with pytest.raises(grpc.aio.AioRpcError):
        await stream.read()
    return await ended_by(stream)


async def ended_by(stream: grpc.aio.StreamStreamCall) -> RaftlogError:
    """The error with which the stream has ended."""
    return decode_error(dict(await stream.trailing_metadata())[ERROR_METADATA_KEY])


@asynccontextmanager
async def listening(
    receiver: Receiver, processes: PeerProcesses | None = None
) -> AsyncIterator[grpc.aio.Channel]:
    streams = PeerStreams(receiver, processes or PeerProcesses(), proven=False)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((streams.handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(None)


def hello(boot_id: str = "b", *earlier: str) -> PeerHello:
    """The greeting of node 2."""
    return PeerHello(
        format=FORMAT_STAMP,
        cluster_id="c",
        node=NodeId(2),
        store_uuid="s2",
        boot_id=boot_id,
        earlier_boot_ids=earlier,
        address=f"{boot_id}:1",
    )


async def opened(
    channel: grpc.aio.Channel, boot_id: str = "b", *earlier: str
) -> grpc.aio.StreamStreamCall:
    """A stream of node 2 that was welcomed."""
    stream = channel.stream_stream(f"/{PEER_SERVICE}/Stream")()
    await stream.write(encode_hello(hello(boot_id, *earlier)))
    assert decode_welcome(await stream.read()).node == 1
    return stream


@pytest.mark.parametrize(("stamp", "shown"), [("0-2020-01-01", "0-2020-01-01"), ("", "unknown")])
def test_a_peer_of_another_format_is_rejected_with_what_to_do(stamp: str, shown: str) -> None:
    """A program from before the greeting had a format leaves it empty."""

    async def run() -> RaftlogError:
        async with asyncio.timeout(PATIENCE_S), listening(Receiver()) as channel:
            stream = channel.stream_stream(f"/{PEER_SERVICE}/Stream")()
            await stream.write(encode_hello(replace(hello(), format=stamp)))
            return await refusal(stream)

    error = asyncio.run(run())
    assert isinstance(error, FormatUnsupported)
    assert error.cause == (
        f"Node 2 at b:1 has format {shown}; this program has format {FORMAT_STAMP}."
    )
    assert "new data folders" in error.remedy


@pytest.mark.parametrize("stamp", ["0-2020-01-01", ""])
def test_a_node_does_not_speak_to_a_peer_that_answers_with_another_format(stamp: str) -> None:
    """Such a peer takes any greeting: its program does not look at the format."""

    def unused(*_: object) -> None:
        raise AssertionError("only the answer is checked")

    link = PeerLink(
        peer=NodeId(1),
        address="b:1",
        open_channel=unused,
        hello=hello(),
        outbox_bytes_max=1 << 20,
        reconnect_wait_s=0.1,
        known_store=Receiver().known_store,
        on_open=unused,
        on_lost=unused,
        on_refused=unused,
    )
    link._check(Receiver().welcome())
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        link._check(replace(Receiver().welcome(), format=stamp))
    assert f"this program has format {FORMAT_STAMP}" in (caught.value.details() or "")


def link_to(address: str, open_channel: Callable[[], Any]) -> PeerLink:
    return PeerLink(
        peer=NodeId(1),
        address=address,
        open_channel=open_channel,
        hello=hello(),
        outbox_bytes_max=1 << 20,
        reconnect_wait_s=0.001,
        known_store=Receiver().known_store,
        on_open=lambda _: None,
        on_lost=lambda _: None,
        on_refused=lambda *_: None,
    )


def test_a_link_ends_though_grpc_swallows_that_it_is_cancelled() -> None:
    async def run() -> None:
        opened = asyncio.Event()

        @asynccontextmanager
        async def swallowing() -> AsyncIterator[grpc.aio.Channel]:
            with suppress(asyncio.CancelledError):
                opened.set()
                yield grpc.aio.insecure_channel("127.0.0.1:1")

        running = asyncio.create_task(link_to("127.0.0.1:1", swallowing).run())
        async with asyncio.timeout(PATIENCE_S):
            await opened.wait()
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(run())


def test_a_peer_that_ends_each_stream_for_another_reason_fills_no_log() -> None:
    async def run() -> None:
        tries, enough = 0, asyncio.Event()

        async def end(frames: AsyncIterator[bytes], context: Any) -> None:
            nonlocal tries
            await anext(frames)
            tries += 1
            if tries % 2:
                await context.write(encode_welcome(Receiver().welcome()))
            if tries == 80:
                enough.set()
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"{tries} " + "x" * 5000)

        server = grpc.aio.server()
        handlers = {"Stream": grpc.stream_stream_rpc_method_handler(end)}
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(PEER_SERVICE, handlers),)
        )
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        link = link_to(address, lambda: grpc.aio.insecure_channel(address))
        running = asyncio.create_task(link.run())
        async with asyncio.timeout(PATIENCE_S):
            await enough.wait()
        running.cancel()
        await asyncio.wait([running])
        await server.stop(None)

    with capture_logs() as lines:
        asyncio.run(run())
    events = [each["event"] for each in lines]
    assert events.count("peer stream open") == 1
    assert 1 < events.count("peer stream ended") < len(events) == 20
    assert all(len(str(each)) < 700 for each in lines)


def test_a_greeting_with_an_endless_format_is_malformed() -> None:
    endless = "9" * 65
    with pytest.raises(MalformedRequest, match="format has 65 characters"):
        decode_hello(encode_hello(replace(hello(), format=endless)))
    with pytest.raises(MalformedRequest, match="format has 65 characters"):
        decode_welcome(encode_welcome(replace(Receiver().welcome(), format=endless)))


def test_a_welcome_that_leaves_no_room_for_a_piece_is_malformed() -> None:
    small = replace(Receiver().welcome(), message_bytes_max=20)
    with pytest.raises(MalformedRequest, match="messages of 20 bytes at most"):
        decode_welcome(encode_welcome(small))


def test_a_peer_is_lost_when_its_last_stream_has_ended() -> None:
    """A peer that reconnected has two streams until the lost one is noticed: it is not lost."""

    async def run() -> None:
        receiver = Receiver()
        reply = VoteReply(group=1, sender=NodeId(2), to=NodeId(1), term=1, granted=False, pre=True)
        async with asyncio.timeout(PATIENCE_S), listening(receiver) as channel:
            lost, alive = await opened(channel), await opened(channel)
            await lost.done_writing()
            assert await lost.read() is grpc.aio.EOF
            await alive.write(encode_peer_messages([reply]))
            await receiver.changed.wait()
            assert (receiver.received, receiver.closed) == ([reply], [])
            receiver.changed.clear()
            await alive.done_writing()
            await receiver.changed.wait()
            assert receiver.closed == [2]

    asyncio.run(run())


REPLY = VoteReply(group=1, sender=NodeId(2), to=NodeId(1), term=1, granted=False, pre=True)


def test_of_two_processes_that_live_the_one_that_came_first_is_heard() -> None:
    """A process with a copy of the other's folder, which forgets what the other acknowledges."""

    async def run() -> None:
        receiver = Receiver()
        processes = PeerProcesses(last_words_s=0.0)
        async with asyncio.timeout(PATIENCE_S), listening(receiver, processes) as channel:
            own = await opened(channel, "own")
            copy = channel.stream_stream(STREAM_METHOD)()
            await copy.write(encode_hello(hello("copy")))
            error = await refusal(copy)
            assert isinstance(error, StoreCopied)
            assert (error.node, error.boot_id, error.known_boot_id) == (2, "copy", "own")
            await own.write(encode_peer_messages([REPLY]))
            await receiver.changed.wait()
            assert receiver.received == [REPLY]
        assert receiver.addresses == ["own:1"]

    asyncio.run(run())


def test_the_process_that_registered_takes_the_place_of_a_copy_that_came_first() -> None:
    """This node has just started, and the copy's greeting was faster."""

    async def run() -> None:
        receiver = Receiver(registered="own")
        processes = PeerProcesses(last_words_s=PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S), listening(receiver, processes) as channel:
            copy = await opened(channel, "copy", "own")
            own = await opened(channel, "own")
            await copy.write(encode_peer_messages([REPLY]))
            assert isinstance(await refusal(copy), StoreCopied)
            await own.write(encode_peer_messages([REPLY]))
            await receiver.changed.wait()
            assert receiver.received == [REPLY]

    asyncio.run(run())


def test_a_restarted_process_waits_for_the_end_of_the_former_ones_streams() -> None:
    async def run() -> None:
        receiver = Receiver()
        processes = PeerProcesses(last_words_s=PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S), listening(receiver, processes) as channel:
            former = await opened(channel, "former")
            later = asyncio.ensure_future(opened(channel, "later"))
            await former.write(encode_peer_messages([REPLY]))
            await receiver.changed.wait()
            assert receiver.received == [REPLY], "its last words"
            assert not later.done()
            await former.done_writing()
            await later
        assert receiver.addresses == ["former:1", "later:1"]

    asyncio.run(run())


def test_of_two_processes_that_wait_one_comes() -> None:
    """Both wait for the streams of the former process to end."""

    async def run() -> None:
        processes = PeerProcesses(last_words_s=PATIENCE_S)
        former = processes.opened(NodeId(2), "former")
        came: list[str] = []

        async def comes(boot_id: str) -> None:
            await processes.check_alone(NodeId(2), boot_id)
            processes.opened(NodeId(2), boot_id)
            came.append(boot_id)

        async with asyncio.timeout(PATIENCE_S):
            both = [asyncio.ensure_future(comes(each)) for each in ("one", "two")]
            await asyncio.sleep(0)
            assert came == []
            processes.closed(former)
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            assert len(came) == 1
        for each in both:
            each.cancel()

    asyncio.run(run())


def test_a_silent_process_is_replaced_and_ends_when_it_speaks_again() -> None:
    """Its machine may have lost its power; or it was cut off, or paused, and its copy came."""
    now_s = 0.0

    async def run() -> None:
        nonlocal now_s
        receiver = Receiver()
        processes = PeerProcesses(lambda: now_s, last_words_s=0.0)
        async with asyncio.timeout(PATIENCE_S), listening(receiver, processes) as channel:
            silent = await opened(channel, "silent")
            now_s += HEARD_S
            later = await opened(channel, "later")
            await silent.write(encode_peer_messages([REPLY]))
            error = await refusal(silent)
            assert isinstance(error, StoreCopied)
            assert error.known_boot_id == "later"
            assert receiver.received == []
            await later.write(encode_peer_messages([REPLY]))
            await receiver.changed.wait()
            assert receiver.received == [REPLY]

    asyncio.run(run())


def test_a_process_that_does_not_know_the_one_that_registered_last_is_rejected() -> None:
    async def run() -> None:
        receiver = Receiver(registered="third")
        async with asyncio.timeout(PATIENCE_S), listening(receiver) as channel:
            stream = channel.stream_stream(STREAM_METHOD)()
            await stream.write(encode_hello(hello("copy", "first", "second")))
            error = await refusal(stream)
            assert isinstance(error, StoreCopied)
            assert (error.boot_id, error.known_boot_id) == ("copy", "third")
            own = await opened(channel, "own", "first", "third")
            receiver.registered = "later"  # which this node had not applied yet
            await own.write(encode_peer_messages([REPLY]))
            assert isinstance(await refusal(own), StoreCopied)
            assert receiver.received == []

    asyncio.run(run())


def test_a_peer_that_is_removed_meanwhile_is_told_at_its_next_word() -> None:
    """Nobody sends to it any more: else it would never hear that it is gone."""

    async def run() -> None:
        receiver = Receiver()
        reply = VoteReply(group=1, sender=NodeId(2), to=NodeId(1), term=1, granted=False, pre=True)
        async with asyncio.timeout(PATIENCE_S), listening(receiver) as channel:
            stream = await opened(channel)
            receiver.removed.add(2)
            await stream.write(encode_peer_messages([reply]))
            assert isinstance(await refusal(stream), NodeRemoved)
        assert receiver.received == []

    asyncio.run(run())


def test_what_a_peer_says_while_only_the_log_removes_it_is_dropped() -> None:
    """It is not told, because its removal may come to nothing."""

    async def run() -> None:
        receiver = Receiver()
        reply = VoteReply(group=1, sender=NodeId(2), to=NodeId(1), term=1, granted=False, pre=True)
        later = replace(reply, term=2)
        async with asyncio.timeout(PATIENCE_S), listening(receiver) as channel:
            stream = await opened(channel)
            receiver.leaving.add(2)
            await stream.write(encode_peer_messages([reply]))
            await receiver.changed.wait()
            receiver.changed.clear()
            receiver.leaving.clear()
            await stream.write(encode_peer_messages([later]))
            await receiver.changed.wait()
        assert receiver.received == [later]

    asyncio.run(run())


def test_a_certificate_of_no_peer_is_refused_before_its_greeting_is_received(
    tmp_path: Path,
) -> None:
    """A greeting may be as long as any message. These streams send none."""

    async def run() -> None:
        receiver = Receiver(removed={3})
        async with asyncio.timeout(PATIENCE_S), encrypted(receiver, tmp_path) as channel:
            removed = channel(3).stream_stream(STREAM_METHOD)()
            assert isinstance(await refusal(removed), NodeRemoved)
            receiver.removed.clear()
            stranger = channel(3).stream_stream(STREAM_METHOD)()
            assert isinstance(await refusal(stranger), DataFolderForeign)

    asyncio.run(run())


def test_nothing_is_heard_on_a_stream_that_outlasts_its_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = VoteReply(group=1, sender=NodeId(2), to=NodeId(1), term=1, granted=False, pre=True)

    async def run() -> None:
        receiver = Receiver()
        async with asyncio.timeout(PATIENCE_S), encrypted(receiver, tmp_path) as channel:
            stream = await opened(channel(2))
            await stream.write(encode_peer_messages([reply]))
            await receiver.changed.wait()
            in_two_days = time.time() + 2 * 86_400
            monkeypatch.setattr(time, "time", lambda: in_two_days)
            await stream.write(encode_peer_messages([replace(reply, term=2)]))
            assert await stream.read() is grpc.aio.EOF
            again = channel(2).stream_stream(STREAM_METHOD)()  # refused before it greets
            assert isinstance(await refusal(again), PeerUnproven)
        assert receiver.received == [reply]

    asyncio.run(run())


def test_a_peer_has_two_streams_at_most_that_have_greeted_or_have_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbound, "_HELLO_WAIT_S", PATIENCE_S)

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), encrypted(Receiver(), tmp_path) as channel:
            streams = [channel(2).stream_stream(STREAM_METHOD)() for _ in range(3)]
            answers = {asyncio.ensure_future(each.read()): each for each in streams}
            (ended,), waiting = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
            assert isinstance(ended.exception(), grpc.aio.AioRpcError), "two are waited for"
            assert isinstance(await ended_by(answers[ended]), TooMany)
            for answer in waiting:
                await answers[answer].write(encode_hello(hello()))
                assert decode_welcome(await answer).node == 1
            third = channel(2).stream_stream(STREAM_METHOD)()
            await third.write(encode_hello(hello()))
            assert isinstance(await refusal(third), TooMany)

    asyncio.run(run())


def test_a_host_that_greets_in_a_loop_is_named_once_for_each_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each greeting differs, so that its refusal does too. All hosts and reasons share a bound."""

    async def greet(channel: grpc.aio.Channel, greeting: PeerHello, *frames: bytes) -> None:
        stream = channel.stream_stream(f"/{PEER_SERVICE}/Stream")()
        for frame in (encode_hello(greeting), *frames):
            await stream.write(frame)
        await stream.done_writing()
        with suppress(grpc.aio.AioRpcError):
            while await stream.read() is not grpc.aio.EOF:
                pass

    async def run() -> list[Any]:
        async with asyncio.timeout(PATIENCE_S), listening(Receiver()) as channel:
            with capture_logs() as logged:
                for number in range(5):
                    at = replace(hello(f"b{number}"), address=f"h{number}:1")
                    await greet(channel, replace(at, cluster_id="other"))
                    await greet(channel, replace(at, store_uuid=f"s{number + 3}"))
                    await greet(channel, at, bytes([number]))
        return [line["event"] for line in logged]

    assert asyncio.run(run()) == [
        "peer refused", "peer refused", "peer connected", "peer frame refused",
    ]  # fmt: skip
    monkeypatch.setattr("raftlog.transport.callers._DIFFERENT_MAX", 3)
    assert asyncio.run(run()) == ["peer refused", "peer refused", "peer connected"]

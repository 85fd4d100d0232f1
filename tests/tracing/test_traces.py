"""What costs nothing without traces, and what nodes tell one another of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.client.connection import Connection
from raftlog.config import ClientSettings, Settings
from raftlog.config_tracing import TracingSettings
from raftlog.core.messages import AppendRequest
from raftlog.core.types import Entry, EntryKind, GroupId, LogIndex, NodeId, Payload, Term
from raftlog.errors import InvalidOption
from raftlog.server.traces import Traces
from raftlog.tracing import Tracer, carried_by, ids_of
from raftlog.wire.codec import PeerFrames, decode_peer_messages, encode_peer_messages
from raftlog.wire.framing import pieces
from raftlog.wire.traced import CARRIED_MAX, TRACED_MAX, TracedEntry

ENTRIES = tuple(
    Entry(LogIndex(index), Term(2), EntryKind.COMMAND, Payload(b"c", b"")) for index in (5, 6)
)
REQUEST = AppendRequest(
    group=GroupId(3),
    sender=NodeId(1),
    to=NodeId(2),
    term=Term(2),
    prev_index=LogIndex(4),
    prev_term=Term(2),
    entries=ENTRIES,
    commit_index=LogIndex(4),
)


def of_entry(index: int, term: int = 2, group: int = 3) -> TracedEntry:
    return TracedEntry(GroupId(group), LogIndex(index), Term(term), "00-a-b-01")


@pytest.mark.slow
def test_without_traces_nothing_of_opentelemetry_is_loaded() -> None:
    program = (
        "import sys, raftlog, raftlog.server.main, raftlog.client.connection\n"
        "raftlog.connect('127.0.0.1:1').close()\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("OTEL_BSP_MAX_QUEUE_SIZE", "100"), ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "abc")],
)
def test_a_variable_that_opentelemetry_does_not_take_is_told_as_one(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidOption, match="OTEL_"):
        Tracer("http://127.0.0.1:1", 1.0, "s")


def test_headers_that_cannot_be_read_are_not_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization: Bearer s3cret-canary")
    Tracer("http://127.0.0.1:1", 1.0, "s").close()
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    "endpoint", ["h:4317", "http://", "http://h", "http://h:0", "http://h:1/v1"]
)
def test_an_endpoint_that_is_none_is_refused_by_name(endpoint: str) -> None:
    with pytest.raises(InvalidOption, match=r"'tracing\.endpoint'"):
        Settings(tracing=TracingSettings(endpoint=endpoint))
    with pytest.raises(InvalidOption, match=r"'client\.tracing_endpoint"):
        Connection(ClientSettings(tracing_endpoint=endpoint))


def test_a_leader_tells_of_the_traced_entries_that_a_message_carries_and_of_no_others() -> None:
    traces = Traces(TracingSettings(), NodeId(1), lambda _: None)
    for entry in (of_entry(4), of_entry(5, term=1), of_entry(6, group=9), of_entry(7)):
        traces.proposed(entry)
    assert traces.among([REQUEST]) == []
    traces.proposed(of_entry(6))
    assert traces.among([REQUEST]) == [of_entry(6)]


def test_what_is_traced_comes_with_its_frame_and_a_node_that_does_not_know_it_reads_the_rest() -> (
    None
):
    frame = encode_peer_messages([REQUEST], [of_entry(5), of_entry(6)])
    frames = PeerFrames(REQUEST.sender, REQUEST.to)
    (piece,) = pieces(frame, len(frame))
    assert frames.add(piece) == [REQUEST]
    assert frames.traced == [of_entry(5), of_entry(6)]
    (piece,) = pieces(encode_peer_messages([REQUEST]), len(frame))
    assert frames.add(piece) == [REQUEST]
    assert frames.traced == []
    assert decode_peer_messages(frame) == [REQUEST]


def test_a_peer_that_tells_of_too_much_is_cut_off() -> None:
    flood = [TracedEntry(GroupId(1), LogIndex(1), Term(1), "x" * 10_000)] * (TRACED_MAX + 1)
    frame = encode_peer_messages([], flood)
    frames = PeerFrames(REQUEST.sender, REQUEST.to)
    for piece in pieces(frame, len(frame)):
        frames.add(piece)
    assert len(frames.traced) == TRACED_MAX
    assert {len(entry.carried) for entry in frames.traced} == {CARRIED_MAX}


def test_all_who_know_an_epoch_name_one_root_and_decide_alike_whether_it_is_kept() -> None:
    assert ids_of("w", "r", 1) == ids_of("w", "r", 1)
    assert ids_of("w", "r", 1) != ids_of("w", "r1", "")
    tracers = [Tracer("http://127.0.0.1:1", 0.5, "s") for _ in range(2)]
    kept = 0
    for epoch in range(100):
        ids = ids_of("w", "r", epoch)
        carried = set()
        for tracer in tracers:
            with tracer.within(ids):
                carried.add(carried_by(tracer.request("Stage", {}))[:36])
        assert len(carried) == 1
        kept += carried != {""}
    for tracer in tracers:
        tracer.close()
    assert 10 < kept < 90

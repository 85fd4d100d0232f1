"""Good messages made bad in every way that `mutations` knows give a value or `MalformedRequest`. A
request or peer frame that is accepted means something: it can be encoded, and decodes to itself.
"""

from __future__ import annotations

import math
import random
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import LogFromNewerVersion, MalformedRequest
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.kv import KvMachine
from raftlog.machines.state import KvState, TopicState
from raftlog.machines.topic import TopicMachine
from raftlog.wire.calls import CALLS
from raftlog.wire.codec import (
    decode_peer_messages,
    decode_request,
    decode_state,
    encode_peer_messages,
    encode_request,
    encode_state,
)
from tests.fuzz.mutations import broken
from tests.machines.scenes import TOPIC
from tests.machines.test_encoding import KV
from tests.wire.decoders import DECODERS, samples

COUNTS = [15, pytest.param(1_000, marks=pytest.mark.soak)]
CHANCE = st.integers(0, 2**63).map(random.Random)


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("decoder", samples())
def test_a_broken_message_is_a_value_or_malformed(decoder: str, count: int) -> None:
    @settings(max_examples=count)
    @given(samples()[decoder], CHANCE)
    def check(message: bytes, chance: random.Random) -> None:
        try:
            DECODERS[decoder](broken(message, chance))
        except MalformedRequest as error:
            told = str(error)
            assert len(told) < 1_000

    check()


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("method", CALLS)
def test_a_broken_request_that_is_accepted_means_something(method: str, count: int) -> None:
    @settings(max_examples=count)
    @given(samples()[f"{method} request"], CHANCE)
    def check(message: bytes, chance: random.Random) -> None:
        try:
            request, body = decode_request(CALLS[method], broken(message, chance))
        except MalformedRequest:
            return
        again, same = decode_request(CALLS[method], encode_request(CALLS[method], request, body))
        assert same == body
        assert comparable(again) == comparable(request)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("count", [200, pytest.param(5_000, marks=pytest.mark.soak)])
def test_a_broken_peer_frame_that_is_accepted_means_something(count: int) -> None:
    @settings(max_examples=count)
    @given(samples()["peer messages"], CHANCE)
    def check(message: bytes, chance: random.Random) -> None:
        try:
            messages = decode_peer_messages(broken(message, chance))
        except MalformedRequest:
            return
        assert decode_peer_messages(encode_peer_messages(messages)) == messages

    check()


@pytest.mark.parametrize("count", [200, pytest.param(5_000, marks=pytest.mark.soak)])
def test_a_broken_state_that_is_accepted_is_a_machines(count: int) -> None:
    @settings(max_examples=count)
    @given(samples()["state"], CHANCE)
    def check(message: bytes, chance: random.Random) -> None:
        try:
            found = decode_state(broken(message, chance))
            state = found.machine
            machine: TopicMachine | KvMachine | ControllerMachine
            match state:
                case TopicState():
                    machine = TopicMachine.restore(TOPIC, state)
                case KvState():
                    machine = KvMachine.restore(KV, state)
                case _:
                    machine = ControllerMachine.restore(state)
        except (MalformedRequest, LogFromNewerVersion):
            return
        assert machine.state() == state
        assert decode_state(encode_state(found)) == found
        machine.fingerprint()

    check()


def comparable(value: Any) -> Any:
    """The value with NaN, which is not equal to itself, as a text."""
    if is_dataclass(value):
        return [comparable(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, tuple):
        return [comparable(each) for each in value]
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value

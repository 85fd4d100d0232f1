"""How a reader group's position stands in the key-value store."""

from __future__ import annotations

import pytest

from raftlog.client.positions import GROUP_CHARACTERS_MAX
from raftlog.core.types import Offset
from raftlog.errors import StoredValueInvalid
from raftlog.machines.limits import KEY_CHARACTERS_MAX
from raftlog.wire.reader_positions import KEY_PREFIX, ReaderPosition, decode, encode, key_of


@pytest.mark.parametrize("group", ["job", "a/b", "a%2Fb", "%/%25", "über/uns"])
def test_a_position_is_read_as_it_was_written_whatever_its_group_is_called(group: str) -> None:
    position = ReaderPosition(
        group=group,
        topic="flights",
        incarnation="ab12",
        offset=Offset(2**62),
        published_us=1_700_000_000_000_000,
        publisher="query 'x' on host",
    )
    key = key_of(group, "flights")
    assert key.startswith(key_of(group, ""))
    assert decode(key, encode(position)) == position


def test_no_group_s_keys_begin_with_another_group_s() -> None:
    assert not key_of("a/b", "t").startswith(key_of("a", ""))
    assert not key_of("ab", "t").startswith(key_of("a", ""))
    assert key_of("a/b", "t") != key_of("a%2Fb", "t")


def test_the_longest_names_fit_into_a_key() -> None:
    assert len(key_of("/" * GROUP_CHARACTERS_MAX, "t" * 249)) <= KEY_CHARACTERS_MAX


@pytest.mark.parametrize("value", [b"", b"5", b"\xff", b'{"v": 2}', b'{"v": 1}'])
def test_a_value_that_is_no_position_is_refused_with_the_command_that_removes_it(
    value: bytes,
) -> None:
    with pytest.raises(StoredValueInvalid, match="raftlog kv delete raftlog/positions/g/t"):
        decode(f"{KEY_PREFIX}g/t", value)

"""What may be asked of any group, on real nodes: its log, and what makes no sense to ask."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.core.types import GroupId
from raftlog.errors import GroupUnknown, IndexOverflow, InvalidOption, MalformedRequest
from raftlog.wire.calls import READ_KEYS
from raftlog.wire.codec import decode_command
from raftlog.wire.group_calls import ENTRY_BYTES_PER_REPLY_MAX
from tests.cluster.test_kv import a_read, store_of


@pytest.fixture(scope="module", autouse=True)
def cluster(shared: ProcessCluster) -> ProcessCluster:
    """Three nodes with a key-value store."""
    with shared.client() as first:
        first.kv.put("first", b"1")
    return shared


def test_a_log_is_read_entry_by_entry_up_to_what_is_committed(
    client: LogClient,
) -> None:
    store = store_of(client)
    versions = [client.kv.put("key", b"%02d" % number * 30_000) for number in range(30)]
    assert ENTRY_BYTES_PER_REPLY_MAX < 30 * 60_000, "it takes more than one reply"
    found = list(client.groups.entries(store))
    assert [each.index for each in found] == list(range(1, len(found) + 1))
    assert len(found) >= versions[-1]
    limited = list(client.groups.entries(store, index=versions[0], limit=2))
    assert [each.index for each in limited] == versions[:2]
    assert [decode_command(each.command).key for each in limited] == ["key", "key"]
    with pytest.raises(IndexOverflow, match="Index 999999 is not there yet"):
        next(client.groups.entries(store, index=999_999))


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda client: client.kv.get("k", at=0.5), "at"),
        (lambda client: client.kv.scan(limit="all"), "limit"),
        (lambda client: client.kv.watch(idle_timeout_s="long"), "idle_timeout_s"),
        (lambda client: client.kv.watch(idle_timeout_s=-1), "idle_timeout_s"),
        (lambda client: client.groups.servers("t"), "group"),
        (lambda client: client.groups.servers(-1), "group"),
        (lambda client: client.groups.last_applied(None), "group"),
        (lambda client: client.groups.events(1 << 63), "group"),
        (lambda client: client.groups.state(-1), "group"),
        (lambda client: client.groups.state(0, index="new"), "index"),
        (lambda client: client.groups.entries(True), "group"),
        (lambda client: client.groups.entries(0, index=0), "index"),
        (lambda client: client.groups.entries(0, limit=0), "limit"),
        (lambda client: client.groups.entries(0, limit=1.5), "limit"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_at_once(
    client: LogClient, ask: Callable[[LogClient], object], named: str
) -> None:
    with pytest.raises(InvalidOption) as refused:
        ask(client)
    assert refused.value.option == named


def test_an_index_below_the_first_is_refused_over_the_wire_too(client: LogClient) -> None:
    store = store_of(client)
    for wrong in ({"exactly": -1}, {"at_least": -1}):
        with pytest.raises(MalformedRequest, match=next(iter(wrong))):
            client._connection.call_leader(store, READ_KEYS, a_read(store, "", **wrong))


def test_a_group_that_never_was_is_refused_and_not_only_at_the_deadline(
    client: LogClient,
) -> None:
    missing = GroupId(999_999)
    for ask in (client.groups.servers, lambda group: next(client.groups.events(group))):
        with pytest.raises(GroupUnknown, match=f"There is no group {missing}"):
            ask(missing)


def test_a_group_that_was_deleted_is_asked_for_in_vain(client: LogClient) -> None:
    """And not until the deadline."""
    topic = client.create_topic("gone", "id bigint")
    assert len(client.groups.servers(topic.group).voters) == 3
    client.delete_topic("gone")

    def is_known() -> bool:
        try:
            return bool(client.groups.servers(topic.group))
        except GroupUnknown:
            return False

    # Nodes are asked in turn, and some learn a heartbeat later that it is gone.
    wait_for(lambda: not any(is_known() for _ in range(6)), "all nodes to know", PATIENCE_S)
    asked = (
        client.groups.servers,
        client.groups.last_applied,
        lambda group: next(client.groups.events(group)),
        lambda group: next(client.groups.entries(group)),
        lambda group: next(client.groups.state(group)),
        lambda group: client.members.transfer(group, 1, timeout_s=PATIENCE_S),
    )
    for ask in asked:
        with pytest.raises(GroupUnknown, match=f"There is no group {topic.group}"):
            ask(topic.group)

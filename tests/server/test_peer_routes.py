"""How a node is told to dial a peer at another address than its clients use."""

from __future__ import annotations

import pytest

from raftlog.errors import InvalidOption
from raftlog.server.peer_routes import parse_routes


def test_a_route_is_found_by_dialling_and_dialled_node() -> None:
    assert parse_routes("1>2=127.0.0.1:9012, 2>1=[::1]:9021,") == {
        (1, 2): "127.0.0.1:9012",
        (2, 1): "[::1]:9021",
    }
    assert parse_routes("") == {}


@pytest.mark.parametrize(
    "text", ["1=127.0.0.1:9012", "1>2", "1>2=9012", "a>b=h:1", "\uff11>2=h:1", "1>2=h:0"]
)
def test_a_route_that_cannot_be_read_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        parse_routes(text)
    assert caught.value.option == "server.peer_routes"

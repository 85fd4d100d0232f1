"""Whom a node takes a caller for, by what its connection and its call show."""

from __future__ import annotations

import asyncio

import pytest

from raftlog.auth.caller import Caller, Means, node_caller
from raftlog.config_auth import AuthSettings
from raftlog.core.types import NodeId
from raftlog.errors import MemberUnknown, NodeRemoved, RaftlogError, Unauthenticated
from raftlog.server.admission import Authenticator
from raftlog.tls import peer_name

CLUSTER = "c" * 32
REMOVED, MEMBER, STRANGER = NodeId(1), NodeId(2), NodeId(3)


class Shown:
    """grpc's side of a call over a connection that was made with a certificate."""

    def __init__(self, common_name: str, *dns: str) -> None:
        self._shown = {
            "x509_common_name": [common_name.encode()],
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


def caller(shown: Shown, *, by_certificate: bool) -> Caller:
    asked = Authenticator(AuthSettings(), CLUSTER, by_certificate=by_certificate, is_peer=is_peer)
    return asyncio.run(asked.caller(shown)).caller  # type: ignore[arg-type]


def test_a_certificate_is_an_identity_only_where_the_setting_says_so() -> None:
    """A node's other port asks for certificates whatever it says."""
    shown = Shown("ada")
    assert caller(shown, by_certificate=True) == Caller(identity="ada", means=Means.CERTIFICATE)
    with pytest.raises(Unauthenticated):
        caller(shown, by_certificate=False)


@pytest.mark.parametrize("by_certificate", [False, True])
def test_a_node_is_known_by_its_certificate_while_it_is_a_member(by_certificate: bool) -> None:
    for node, expected in (
        (MEMBER, node_caller(MEMBER)),
        (REMOVED, NodeRemoved),
        (STRANGER, MemberUnknown),
    ):
        shown = Shown("ada", "host.example.com", peer_name(CLUSTER, node))
        if isinstance(expected, Caller):
            assert caller(shown, by_certificate=by_certificate) == expected
        else:
            with pytest.raises(expected):
                caller(shown, by_certificate=by_certificate)


def test_a_node_of_another_cluster_is_no_node_here() -> None:
    shown = Shown("node 2", peer_name("d" * 32, MEMBER))
    with pytest.raises(RaftlogError) as rejected:
        caller(shown, by_certificate=False)
    assert isinstance(rejected.value, Unauthenticated)
    assert caller(shown, by_certificate=True).means is Means.CERTIFICATE

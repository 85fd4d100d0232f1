"""What a call that got no reply means: the typed error that a node sent, or what happened on the
way to it."""

from __future__ import annotations

import re

import grpc

from raftlog.errors import MalformedRequest, NodeUnreachable, RaftlogError, TooLarge
from raftlog.redaction import without_controls
from raftlog.wire.calls import OTHER_CLUSTER
from raftlog.wire.codec import ERROR_METADATA_KEY, decode_error

_NO_RAFTLOG = "what listens there is no raftlog node"

_NO_NODE = {
    "Connection refused": "nothing listens there (connection refused)",
    "Failed parsing HTTP/2": _NO_RAFTLOG,
    "http1.x server": _NO_RAFTLOG,
    "http2 header with status": _NO_RAFTLOG,
    "address lookup failed": "its host name has no address",
    "Hostname Verification Check failed": "its certificate names other hosts",
    "certificate has expired": "its certificate has expired",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not signed by a CA of client.tls_ca_file "
    "(raftlog.tls.ca.file in Spark)",
    "WRONG_VERSION_NUMBER": "it does not speak TLS, and client.tls_ca_file (raftlog.tls.ca.file in "
    "Spark) is given",
}
"""What grpc says of an address where no node can be, in its words and in ours."""

CALL_UNKNOWN = "what listens there does not know this call"
"""Another grpc service, or a node of an older version. A node that was known there has moved."""

UNREADABLE_ANSWER = "what it answers cannot be read: it is no raftlog node, or of another version"

_WANTS_TLS = (
    "it closes the connection at once, as a node with TLS does where client.tls_ca_file "
    "(raftlog.tls.ca.file in Spark) is not given, or no certificate that it trusts "
    "(client.tls_cert_file, in Spark the credential's)"
)

NO_NODE_PROBLEMS = frozenset(
    (*_NO_NODE.values(), CALL_UNKNOWN, UNREADABLE_ANSWER, OTHER_CLUSTER, _WANTS_TLS)
)
"""The problems of addresses where no node can be that answers the call."""

_LOST = {
    "Deadline Exceeded": "it did not answer in time",
    "Connection reset by peer": "the connection was reset",
    "Socket closed": "the connection was closed",
    "GOAWAY": "the connection was closed",
    "keepalive": "the connection was silent for too long",
}
"""The same of a node that may be there."""

_NO_ANSWER = frozenset(
    (
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
    )
)
_OF_OTHER_SERVICES = frozenset((grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED))
"""No node answers with these."""

_DETAILS_CHARACTERS_MAX = 1_000
"""Of another's text in an error; no setting: a node's own are shorter."""

_OVER_MESSAGE_LIMIT = re.compile(r"larger than max \((\d{1,19}) vs\. (\d{1,19})\)")
"""What the server's grpc says of a frame that it drops unread. It sends no typed error then."""


def typed_error(address: str, error: grpc.RpcError | MalformedRequest) -> RaftlogError:
    """The error that a node answered, or what happened on the way to it. `MalformedRequest`: of an
    answer that cannot be read."""
    if isinstance(error, MalformedRequest):
        return NodeUnreachable(address=address, problem=UNREADABLE_ANSWER)
    for each in error.trailing_metadata() or ():
        if each.key == ERROR_METADATA_KEY and isinstance(each.value, bytes):
            try:
                return decode_error(each.value)
            except MalformedRequest as unreadable:
                return typed_error(address, unreadable)
    code, details = error.code(), error.details() or ""
    if code in _NO_ANSWER or any(theirs in details for theirs in _NO_NODE):
        return NodeUnreachable(address=address, problem=_in_our_words(details))
    if details == OTHER_CLUSTER:
        return NodeUnreachable(address=address, problem=OTHER_CLUSTER)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return NodeUnreachable(address=address, problem=CALL_UNKNOWN)
    if code in _OF_OTHER_SERVICES:
        return NodeUnreachable(address=address, problem=_NO_RAFTLOG)
    sizes = _OVER_MESSAGE_LIMIT.search(details)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and sizes is not None:
        return TooLarge(
            what="A request",
            size=int(sizes[1]),
            limit=int(sizes[2]),
            option="server.entry_bytes_max",
        )
    # A node says what fails there, by a typed error.
    problem = f"what listens there answered {code.name}: {_printable(details)}"
    return NodeUnreachable(address=address, problem=problem)


def _in_our_words(details: str) -> str:
    """What happened on the way to a node. grpc's texts begin with its own parts, and end with the
    operating system's reason."""
    if "Socket closed" in details.partition("failed to connect to all addresses")[2]:
        return _WANTS_TLS
    for theirs, ours in {**_NO_NODE, **_LOST}.items():
        if theirs in details:
            return ours
    reason = details.rpartition(": ")[2]
    if not reason:
        return "the call was ended"
    return f"the call did not get there or back ({_printable(reason)})"


def _printable(details: str) -> str:
    """What listens there may be anything: its text is short and moves no terminal's cursor."""
    return without_controls(details[:_DETAILS_CHARACTERS_MAX])

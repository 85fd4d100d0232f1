"""Ports that answer some calls as a node would, with what a test gives them to say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc

from raftlog.core.types import NodeId, Term
from raftlog.errors import RaftlogError
from raftlog.wire.calls import SERVICE, ClusterDescription
from raftlog.wire.codec import ERROR_METADATA_KEY, encode_error
from raftlog.wire.group_calls import NodeAddress

Answer = Callable[[bytes], bytes]
Handler = Any
"""What grpc makes of a call's function."""

NO_OTHERS: Mapping[str, Answer] = {}


def unary(answer: Answer) -> Handler:
    """Answers with what `answer` gives, or with the error that it raises."""

    def serve(data: bytes, context: grpc.ServicerContext) -> bytes:
        return _answered(answer, data, context)

    return grpc.unary_unary_rpc_method_handler(serve)


def streamed(answer: Answer) -> Handler:
    """The same of a call with a stream of replies, which has one reply."""

    def serve(data: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        yield _answered(answer, data, context)

    return grpc.unary_stream_rpc_method_handler(serve)


def _answered(answer: Answer, data: bytes, context: grpc.ServicerContext) -> bytes:
    try:
        return answer(data)
    except RaftlogError as error:
        context.set_trailing_metadata(((ERROR_METADATA_KEY, encode_error(error)),))
        context.abort(grpc.StatusCode.UNAVAILABLE, error.cause)


@contextmanager
def serving(
    handlers: Mapping[str, Handler], port: int = 0, service: str = SERVICE
) -> Iterator[str]:
    """A port that answers the calls of these names only. Gives its address."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextmanager
def node(
    name: str, answer: Answer, port: int = 0, others: Mapping[str, Answer] = NO_OTHERS
) -> Iterator[str]:
    """A port that answers the call of this name, and the others."""
    answers = {name: answer, **others}
    with serving({each: unary(its) for each, its in answers.items()}, port) as address:
        yield address


def described(addresses: Sequence[str]) -> ClusterDescription:
    """A cluster whose nodes 1, 2 and so on listen there, as its first node describes it."""
    return ClusterDescription(
        cluster_id="c",
        node=NodeId(1),
        store_uuid="s",
        leader=NodeId(1),
        term=Term(1),
        nodes=tuple(NodeAddress(NodeId(n), each) for n, each in enumerate(addresses, 1)),
        version="1",
        registered=True,
        disk_keeps_up=True,
        disk_full="",
        rules=1,
        rules_known=1,
        behind_rules=(),
    )

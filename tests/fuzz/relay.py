"""A relay between a client and a node that flips bits in the records that come back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent import futures
from dataclasses import replace

import grpc

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.wire.calls import CALLS, DESCRIBE_CLUSTER, SERVICE
from raftlog.wire.codec import decode_reply, encode_reply
from raftlog.wire.group_calls import NodeAddress


class Relay:
    """Relays between a client and one node, and flips bits in what the node answers."""

    def __init__(self, node: str) -> None:
        """`node` is the address that it passes calls on to."""
        self._channel = grpc.insecure_channel(node)
        self.flips: random.Random | None = None
        self.flipped = 0
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        handlers = {name: grpc.unary_stream_rpc_method_handler(self._to(name)) for name in CALLS}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> Relay:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()
        self._channel.close()

    def _to(self, method: str) -> object:
        def forward(data: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
            call = self._channel.unary_stream(f"/{SERVICE}/{method}")
            try:
                for reply in call(data, timeout=PATIENCE_S):
                    yield self._changed(method, reply)
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata())
                context.abort(error.code(), error.details())

        return forward

    def _changed(self, method: str, reply: bytes) -> bytes:
        if method == DESCRIBE_CLUSTER.name:
            told, _ = decode_reply(DESCRIBE_CLUSTER, reply)
            alone = (NodeAddress(told.node, self.address),)
            return encode_reply(DESCRIBE_CLUSTER, replace(told, nodes=alone))
        _, body = decode_reply(CALLS[method], reply)
        if not body or self.flips is None:
            return reply
        changed = bytearray(reply)
        place = len(reply) - 1 - self.flips.randrange(len(body))
        changed[place] ^= 1 << self.flips.randrange(8)
        self.flipped += 1
        return bytes(changed)

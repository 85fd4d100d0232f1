"""The clients of this process, one per cluster and deadline, opened when first needed.

Spark's Python workers are forked and used again for many tasks. So a client lives as long as its
process, is keyed by the process id (one that came through a fork is never touched), and is never
part of a pickled object: readers and writers carry `ConnectionOptions` and ask here.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from connector.options import ConnectionOptions
from raftlog.errors import TopicRecreated

if TYPE_CHECKING:
    from raftlog import LogClient, TopicInfo

_lock = threading.Lock()
_clients: dict[tuple[int, ConnectionOptions], LogClient] = {}
_topics: dict[tuple[int, ConnectionOptions, str], TopicInfo] = {}


def client(options: ConnectionOptions) -> LogClient:
    """This process's client; opening it sends nothing yet."""
    import raftlog

    key = (os.getpid(), options)
    with _lock:
        if key not in _clients:
            _clients[key] = raftlog.connect(
                options.bootstrap_servers, request_timeout_s=options.request_timeout_s
            )
        return _clients[key]


def topic(options: ConnectionOptions, name: str, incarnation: str) -> TopicInfo:
    """What the controller knows of exactly this incarnation, remembered by this process.

    Raises `TopicRecreated` if the name means another incarnation now, `TopicNotFound` if none.
    """
    key = (os.getpid(), options, name)
    with _lock:
        known = _topics.get(key)
    if known is not None and known.incarnation == incarnation:
        return known
    found = client(options).describe_topic(name)
    if found.incarnation != incarnation:
        raise TopicRecreated(topic=name, wanted=incarnation, found=found.incarnation)
    with _lock:
        _topics[key] = found
    return found

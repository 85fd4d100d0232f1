"""The clients of this process, one for each cluster and deadline, opened when first needed.

Spark forks its Python workers and uses them again for many tasks. So a client lives as long as its
process and is keyed by the process id; one that came through a fork is never used. A client is
never part of a pickled object: readers and writers carry `ConnectionOptions` and ask here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from raftlog.errors import RaftlogError, TopicRecreated
from raftlog.spark.declarations import FOUND
from raftlog.spark.options import ConnectionOptions, connection_options

if TYPE_CHECKING:
    from raftlog import LogClient, TopicInfo

_lock = threading.Lock()
_clients: dict[tuple[int, ConnectionOptions, bool], LogClient] = {}
_topics: dict[tuple[int, ConnectionOptions, str], TopicInfo] = {}


def client(options: ConnectionOptions, *, starting: bool = False) -> LogClient:
    """This process's client for these options. Opening it sends nothing.

    While a query is `starting`, addresses where nothing listens become an error soon
    (`client.refused_timeout_s`). Later they may be a cluster that is down for a moment, even for a
    worker process that never reached it: then every request has its whole deadline.
    """
    import raftlog
    from raftlog.config import load

    key = (os.getpid(), options, starting)
    with _lock:
        if key not in _clients:
            found_by = {
                "bootstrap_servers": options.bootstrap_servers,
                "zookeeper": options.zookeeper,
                "rack": options.rack,
            }
            settings = load().client.model_copy(update=found_by)
            if not starting:
                patience = {"refused_timeout_s": options.request_timeout_s}
                settings = settings.model_copy(update=patience)
            _clients[key] = raftlog.connect(
                request_timeout_s=options.request_timeout_s, settings=settings
            )
        return _clients[key]


def with_found_servers(given: Mapping[str, str]) -> Mapping[str, str]:
    """A data source's options, with the nodes that ZooKeeper names now, if it is to name them.

    Whatever is wrong is left to the request that comes next: it is raised there, with its options.
    """
    try:
        options = connection_options(given)
        if not options.zookeeper:
            return given
        nodes = client(options, starting=True).describe_cluster()
    except RaftlogError:
        return given
    return {**given, FOUND: ",".join(address for address, _ in nodes)}


def topic(options: ConnectionOptions, name: str, incarnation: str) -> TopicInfo:
    """The description of exactly this incarnation, remembered by this process.

    Raises `TopicRecreated` if the name now means another incarnation, `TopicNotFound` if none.
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

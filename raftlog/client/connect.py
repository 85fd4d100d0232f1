"""`raftlog.connect`: a client of a cluster, from servers, ZooKeeper or settings."""

from __future__ import annotations

from raftlog.client.arguments import wrong_type
from raftlog.client.connection import Connection
from raftlog.client.log_client import LogClient
from raftlog.config import ClientSettings, load
from raftlog.config_ensemble import found_by


def connect(
    servers: str | None = None,
    *,
    zookeeper: str | None = None,
    request_timeout_s: float | None = None,
    settings: ClientSettings | None = None,
) -> LogClient:
    """Make a client of a cluster. Contacts no node yet.

    Args:
        servers: `host:port` of some nodes, separated by commas. Default: those of the settings.
        zookeeper: In place of `servers`: who knows them, as `host:port,host:port/path`.
        request_timeout_s: The one total deadline of each request, retries included, in seconds:
            above 0, at most 3600. Default: that of the settings.
        settings: All settings of the client. Default: those of the file that RAFTLOG_CONFIG names
            and of the environment; without these the nodes of `raftlog up`.

    Returns:
        The client. Close it, or use it as a context manager.

    Raises:
        InvalidOption: A setting has no valid value.
    """
    if servers is not None and not isinstance(servers, str):
        raise wrong_type(
            "servers", servers, "Give one text, such as '10.0.0.4:7401,10.0.0.5:7401'."
        )
    chosen = (settings or load().client).with_arguments(
        **found_by(servers, zookeeper, ("servers", "zookeeper")),
        request_timeout_s=request_timeout_s,
    )
    return LogClient(Connection(chosen))

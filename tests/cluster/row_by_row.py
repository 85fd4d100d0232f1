"""A producer whose every row is an entry of its own, below the bounds of the settings."""

from __future__ import annotations

from raftlog.client.log_client import LogClient
from raftlog.client.producer import Producer


def row_by_row(client: LogClient, topic: str) -> Producer:
    """A producer of the client with 4 entries in flight."""
    settings = client.settings.model_copy(update={"batch_bytes": 1, "max_in_flight": 4})
    return Producer(client._connection, client.describe_topic(topic), settings)

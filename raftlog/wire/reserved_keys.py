"""Keys of the key-value store that raftlog itself has, besides positions and grants."""

from __future__ import annotations

QUERIES_PREFIX = "raftlog/queries/"
"""The last query of a name that wrote a topic: prefix, the topic's incarnation, `/`, the name."""

WRITTEN_PREFIX = "raftlog/written/"
"""Since when a writer writes a topic: prefix, a digest of the writer, `/`, the topic."""

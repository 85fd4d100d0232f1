"""Which names topics can have: the controller refuses others, and callers may check first."""

from __future__ import annotations

import re

_TOPIC_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}")
"""1 to 249 of A-Z a-z 0-9 . _ - without a leading dot."""


def is_topic_name(name: str) -> bool:
    """Whether a topic can have the name."""
    return _TOPIC_NAME.fullmatch(name) is not None

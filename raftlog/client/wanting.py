"""What a topic is looked up for, so that an error names the right that it takes, or advises what
fits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from raftlog.auth.rights import Kind, Right
from raftlog.errors import Forbidden, TopicNotFound


@contextmanager
def wanting(right: Right) -> Iterator[None]:
    """Look a topic up for what takes this right.

    Any right is enough to look it up, and a caller without one learns that it needs `read`. That
    does not help one that is about to write, so the error names what is needed next. Without such a
    topic, the error advises what helps what comes next.
    """
    try:
        yield
    except Forbidden as error:
        if (error.kind, error.right) != (Kind.TOPIC, Right.READ):
            raise
        raise replace(error, right=right.value) from None
    except TopicNotFound as error:
        raise replace(error, right=right.value) from None

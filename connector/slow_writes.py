"""The driver is told, once a query, that it writes at a fraction of the speed (`ARROW_BYTES`).

Only tasks see the session's settings: as local properties, if they are set at all. A warning in an
executor's log is rarely read, so the first task's message carries what it saw, and the process
that ends the batch, on the driver, warns.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os

from pyspark import SparkFiles, TaskContext

from raftlog.spark.session import ARROW_BYTES, ARROW_BYTES_UNCHECKED

DEFAULT = "at Spark's default"

log = logging.getLogger("raftlog.spark")

_told: set[str] = set()


def seen_by_task() -> str:
    """What the setting is, if it makes this task's write slow; "" if it does not, or if this is
    not the first task."""
    context = TaskContext.get()
    if context is None or context.partitionId() != 0:
        return ""
    given = context.getLocalProperty(ARROW_BYTES)
    if given is not None and given.rstrip("bB") == ARROW_BYTES_UNCHECKED:
        return ""
    return given or DEFAULT


def warn(seen: str, topic: str, query: str) -> None:
    """Warn on the driver, unless one of its processes did so for this query."""
    if not seen or not _is_first_to_tell(query):
        return
    log.warning(
        "SLOW WRITES to topic %r: %s is %s, so Spark measures its Arrow batch after every row, and "
        "this write takes several times as long as it could. Set %s=%s, as "
        "raftlog.spark.configure(spark) does if it is unset. It holds from the next start of a "
        "query.",
        topic,
        ARROW_BYTES,
        seen,
        ARROW_BYTES,
        ARROW_BYTES_UNCHECKED,
    )


def _is_first_to_tell(query: str) -> bool:
    """Whether no process of this driver told it. Several of them end batches, by turns; they share
    a folder of the session, which Spark removes."""
    if query in _told:
        return False
    _told.add(query)
    folder = SparkFiles._root_directory
    if folder:
        with contextlib.suppress(OSError):
            # The text has names of the user's own, which never become paths.
            name = f".slow-{hashlib.blake2b(query.encode(), digest_size=16).hexdigest()}"
            try:
                os.close(os.open(os.path.join(folder, name), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return False
    return True

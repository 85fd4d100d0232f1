"""Whether a stream that only writes plans its first batch, as far as its checkpoint shows.

Spark tells the process that plans a sink's batch neither the batch nor the query. But it tells
where the checkpoint is, if that is an option of the query, and each batch that has ended is a file
there. A query that has ended none since this Spark application began is one that starts: so its
cluster is expected to answer soon. One that was stopped and is started again by the same
application is not told from one that runs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from raftlog.spark.checkpoint_files import ask, is_batch

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_asked: set[tuple[int, str]] = set()
"""(process id, location) of the checkpoints that this process has asked: the next batch that it
plans for one of them is not the first."""


def may_be_first_batch(location: str, timeout_s: float) -> bool:
    """Whether the query of this checkpoint has ended no batch since the application began.

    False if that is not known: without a location, for a checkpoint that cannot be read, and from
    the second call on.
    """
    here = (os.getpid(), location)
    if not location or here in _asked:
        return False
    _asked.add(here)
    began = _application_began()
    return ask(location, lambda files, folder: not _ended(files, folder, began), timeout_s) is True


def _application_began() -> float:
    """When the driver made the folder for the files that it gives to tasks, in seconds since
    1970."""
    from pyspark import SparkFiles

    return os.stat(SparkFiles.getRootDirectory()).st_mtime


def _ended(files: FileSystem, folder: str, since: float) -> bool:
    """Whether a batch ended since that time."""
    from pyarrow.fs import FileSelector

    commits = files.get_file_info(FileSelector(f"{folder}/commits", allow_not_found=True))
    times = [each.mtime for each in commits if is_batch(each.base_name)]
    return any(time is None or time.timestamp() >= since for time in times)

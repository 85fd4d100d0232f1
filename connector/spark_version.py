"""What an older PySpark lacks: 4.1 writes and reads batches, and cannot read a stream.

Its streaming sources are asked for an end without being told where the micro-batch starts, so they
can neither keep where `latest` began nor limit a batch. 4.2 brought both, with the module below.
"""

from __future__ import annotations

from importlib.util import find_spec

from pyspark.version import __version__

from raftlog.errors import SparkTooOld

STREAMS_SINCE = "4.2"
_STREAMS_NEED = "pyspark.sql.streaming.datasource"


def check_can_stream() -> None:
    """Raise `SparkTooOld` if this PySpark cannot read a topic as a stream."""
    if find_spec(_STREAMS_NEED) is None:
        raise SparkTooOld(found=__version__, wanted=STREAMS_SINCE)

"""What PySpark 4.1 lacks: it writes, and reads batches, and cannot read a stream.

Its streaming sources are asked for an end without being told where the micro-batch starts, so they
can neither keep where `latest` began nor limit a batch. 4.2 brought both, with the module below.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType
from pyspark.version import __version__

from raftlog.errors import SparkTooOld

if TYPE_CHECKING:
    import pyarrow as pa

STREAMS_SINCE = "4.2"
_STREAMS_NEED = "pyspark.sql.streaming.datasource"


def check_can_stream() -> None:
    """Raise `SparkTooOld` if this PySpark cannot read a topic as a stream."""
    if not _can_stream():
        raise SparkTooOld(found=__version__, wanted=STREAMS_SINCE)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that this PySpark expects of a task's batches, with timestamps in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if _can_stream():
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # 4.1 knows no other zone


def _can_stream() -> bool:
    return find_spec(_STREAMS_NEED) is not None

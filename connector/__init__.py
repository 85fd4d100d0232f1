"""The Spark source and sink, imported as `raftlog.spark`, and the calls that go with them.

    spark = raftlog.spark.configure(SparkSession.builder).getOrCreate()    settings that are fast
    frame = raftlog.spark.read(spark, "flights", columns=["id"], where="delay > 60")
    raftlog.spark.write(frame, "late")                                     all rows or none
    queries = raftlog.spark.listen(spark)                                  how far each query is
    raftlog.spark.activate(spark)                                          in a thread of one's own

Every worker process imports it, so the connector's log is set up here, and nothing heavy is
imported: neither pyspark, grpc nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raftlog.spark import worker_log

if TYPE_CHECKING:  # at run time `__getattr__` imports a name when it is used
    from raftlog.spark.frames import read, read_stream, write
    from raftlog.spark.listener import listen
    from raftlog.spark.session import configure
    from raftlog.spark.threads import activate

worker_log.install()

_HOMES = {
    "activate": "raftlog.spark.threads",
    "configure": "raftlog.spark.session",
    "listen": "raftlog.spark.listener",
    "read": "raftlog.spark.frames",
    "read_stream": "raftlog.spark.frames",
    "write": "raftlog.spark.frames",
}

__all__ = ["activate", "configure", "listen", "read", "read_stream", "write"]


if not TYPE_CHECKING:  # a checker that saw it would take any name for one of ours

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'raftlog.spark' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)

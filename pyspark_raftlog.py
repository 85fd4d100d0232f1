"""Spark's doorbell: `spark.read.format("raftlog")` finds `DefaultSource` here by itself.

Spark imports every top-level module named `pyspark_*` on first use, and one failing import hides
every such source. So this stays a few lines, and imports neither grpc nor pyarrow.
"""

from raftlog.spark.datasource import RaftlogDataSource as DefaultSource

__all__ = ["DefaultSource"]

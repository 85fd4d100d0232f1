"""The Spark source and sink, imported as `raftlog.spark`.

Every worker process imports it, so the connector's log is set up here.
"""

from raftlog.spark import worker_log

worker_log.install()

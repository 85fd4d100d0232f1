"""The Spark source and sink. Every worker process imports it, so its log is set up here."""

from raftlog.spark import worker_log

worker_log.install()

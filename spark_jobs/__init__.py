"""The demo's Spark jobs, imported as `raftlog.spark_jobs`: they know only the string "raftlog"."""

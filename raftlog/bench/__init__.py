"""Measures a running cluster as its clients find it: used by `raftlog bench` and `make bench`."""

"""Measures a running cluster as its clients see it. Used by `raftlog bench` and `make bench`."""

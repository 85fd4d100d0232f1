"""Compaction: small batches of the log become row groups of history files. Only here does a node's
program decode records, and in a process of its own."""

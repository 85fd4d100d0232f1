"""The replicated log, hard states and identity of a node on disk, and a disk in memory."""

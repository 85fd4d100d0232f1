"""Clusters of real processes, and the faults done to them: killed, stopped, cut off, restarted."""

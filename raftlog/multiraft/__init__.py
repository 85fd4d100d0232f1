"""All replicas of one node, driven in turns: no clock, no thread, no socket of its own.

`MultiRaft` decides when a replica advances, what is written, and which groups come and go. It asks
its `Effects` for whatever takes time or leaves the process. The server and the simulator differ
only in their effects, so what is simulated is what runs.
"""

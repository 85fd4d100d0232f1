"""All replicas of one node, driven in turns: no clock, no thread, no socket of its own.

`MultiRaft` decides when a replica advances, what is written, which groups come and go; whatever
takes time or leaves the process is asked of its `Effects`. The server and the simulator differ in
their effects alone, so what is simulated is what runs.
"""

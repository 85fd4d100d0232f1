"""One node's process: the only room with clocks, threads and grpc servers around replicas."""

import os

# Before grpc is imported: its own lines are no JSON, and whoever reaches the port can have it write
# as many as they like. ERROR is what the client's room sets, and `raftlog up` hands down.
if os.environ.get("GRPC_VERBOSITY", "ERROR") == "ERROR":
    os.environ["GRPC_VERBOSITY"] = "NONE"

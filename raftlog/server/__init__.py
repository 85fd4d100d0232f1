"""One node's process: the only package with clocks, threads and grpc servers around replicas."""

import os

# Before grpc is imported: its lines are not JSON, and any host that reaches the port can make it
# write any number of them. ERROR is what raftlog.client sets and `raftlog up` hands down.
if os.environ.get("GRPC_VERBOSITY", "ERROR") == "ERROR":
    os.environ["GRPC_VERBOSITY"] = "NONE"

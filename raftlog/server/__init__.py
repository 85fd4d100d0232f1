"""One node's process: the only room with clocks, threads and grpc servers around replicas."""

import os

# Before grpc is imported: its own lines are no JSON and tell of every connection that ends.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

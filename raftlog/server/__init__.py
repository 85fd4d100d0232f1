"""One node's process: the only room with clocks, threads and grpc servers around replicas."""

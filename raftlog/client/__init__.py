"""The synchronous client: what `import raftlog`, the command line and the connector use."""

import os

# Before grpc is imported: what it would print of every broken connection is the retries' business.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

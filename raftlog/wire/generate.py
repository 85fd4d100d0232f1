"""Make `raftlog_pb2.py` anew from `raftlog.proto`: `python -m raftlog.wire.generate`.

The generated code is committed, so that neither an installation nor a user needs a compiler; a
test makes it again and compares. Needs grpcio-tools of the version named in setup.py's extra
`dev`: another one may generate code that the oldest allowed protobuf does not load.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCE = "raftlog/wire/raftlog.proto"
GENERATED = "raftlog/wire/raftlog_pb2.py"
ROOT = Path(__file__).resolve().parents[2]


def generate(folder: Path) -> Path:
    """Write the generated module below `folder` and return its path.

    Raises CalledProcessError if the compiler refuses the source.
    """
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}", f"--python_out={folder}", SOURCE],
        cwd=ROOT,
        check=True,
    )
    return folder / GENERATED


if __name__ == "__main__":
    sys.stdout.write(f"{generate(ROOT)}\n")

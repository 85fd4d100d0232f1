"""Make `raftlog_pb2.py` and its types from `raftlog.proto`: `python -m raftlog.wire.generate`.

The generated code is committed, so that neither an installation nor a user needs a compiler; a
test makes it again and compares. Needs grpcio-tools of the version named in setup.py's extra
`dev`: another one may generate code that the oldest allowed protobuf does not load.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCE = "raftlog/wire/raftlog.proto"
GENERATED = ("raftlog/wire/raftlog_pb2.py", "raftlog/wire/raftlog_pb2.pyi")
"""What runs, and what type checkers and editors read: the module builds its classes at import."""

ROOT = Path(__file__).resolve().parents[2]


def generate(folder: Path) -> list[Path]:
    """Write the generated files below `folder` and return their paths.

    Raises CalledProcessError if the compiler refuses the source.
    """
    subprocess.run(
        [
            *(sys.executable, "-P", "-m", "grpc_tools.protoc", f"-I{ROOT}"),
            *(f"--python_out={folder}", f"--pyi_out={folder}", SOURCE),
        ],
        cwd=ROOT,
        check=True,
    )
    return [folder / name for name in GENERATED]


if __name__ == "__main__":
    for path in generate(ROOT):
        sys.stdout.write(f"{path}\n")

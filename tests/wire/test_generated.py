"""The committed generated code is that of the committed source."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftlog.wire.generate import GENERATED, ROOT, generate


def test_the_committed_code_is_what_the_compiler_makes_of_the_source(tmp_path: Path):
    pytest.importorskip("grpc_tools", reason="the compiler comes with the extra dev")
    made = [path.read_text() for path in generate(tmp_path)]
    assert made == [(ROOT / name).read_text() for name in GENERATED]

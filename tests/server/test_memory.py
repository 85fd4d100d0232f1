"""How a node's process keeps its memory."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCENE = """
import gc, resource, sys
from raftlog.server.memory import collect_seldom, keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def rounds():
    for _ in range(20):
        buffers = [bytes(1 << 20) for _ in range(16)]
        del buffers

if sys.argv[1] == "kept":
    keep_freed_memory()
    collect_seldom()
    assert gc.get_freeze_count() > 1000
rounds()
before = faults()
rounds()
print(faults() - before)
"""


def faults_of(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", SCENE, how], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_buffers_are_used_again_rather_than_given_back_and_fetched_again() -> None:
    kept, given_back = faults_of("kept"), faults_of("as malloc likes")
    assert kept * 10 < given_back, (kept, given_back)

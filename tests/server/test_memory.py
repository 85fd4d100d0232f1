"""How a node's process keeps its memory."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from raftlog.chaos.cluster import PATIENCE_S

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


ENDED = """
import asyncio, ctypes, os, time
from pathlib import Path
from raftlog.server import memory

malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def mib():
    [line] = [x for x in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in x]
    return int(line.split()[1]) // 1024

async def run():
    memory.keep_freed_memory()
    memory._LOOK_S = 0.01
    giving = asyncio.create_task(memory.give_back_freed_memory())
    began = mib()
    opened = [os.dup(0) for _ in range(memory._ENDED_MIN)]
    taken = [malloc(4096) for _ in range(16384)]
    for each in taken:
        ctypes.memset(each, 1, 4096)
    await asyncio.sleep(0.1)
    last = taken.pop()  # what is above the rest keeps malloc from giving it back
    for each in taken:
        free(each)
    del taken
    assert mib() > began + 60
    for each in opened:
        os.close(each)
    while mib() > began + 10:
        assert not giving.done()
        await asyncio.sleep(0.01)

asyncio.run(run())
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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc_trim is glibc's")
def test_what_many_connections_took_is_given_back_after_they_have_ended() -> None:
    subprocess.run([sys.executable, "-c", ENDED], check=True, timeout=PATIENCE_S)

"""How the process keeps its memory, fitted to a server that moves large buffers all the time."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import sys
from contextlib import suppress

# Parameters of glibc's mallopt, from malloc.h.
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3

_MIB = 1024 * 1024
_TRIM_BYTES = 128 * _MIB
_TOP_PAD_BYTES = 16 * _MIB
_MMAP_BYTES = 32 * _MIB
"""Measured, as `keep_freed_memory` says. No settings: they cost only address space and memory that
was in use before."""

_YOUNG_OBJECTS = 10_000
"""Objects made before Python's garbage collector runs. Reference counts free nearly all; cycles,
which it is for, are few. No setting: it bounds no memory that users would notice."""

_ENDED_MIN = 256
_LOOK_S = 2.0
_GIVE_BACK_PAUSE_S = 10.0
"""Freed memory is given back once this many files and connections have been closed. The count is
looked at more often than handshakes time out, and there is a pause between two times, because
malloc stops for 0.1 s. No settings: what fewer connections leave is below 25 MiB."""


def keep_freed_memory() -> None:
    """Let malloc keep up to 128 MiB of what was freed, rather than give it back at once.

    Otherwise buffers of a megabyte come from the kernel again, zeroed page by page: a leader has a
    hundred page faults for each batch of 1 MiB in place of ten, and all processes together take
    4 % more CPU. Without glibc this does nothing.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    for parameter, value in (
        (_M_TRIM_THRESHOLD, _TRIM_BYTES),
        (_M_TOP_PAD, _TOP_PAD_BYTES),
        (_M_MMAP_THRESHOLD, _MMAP_BYTES),
    ):
        mallopt(parameter, value)


def collect_seldom() -> None:
    """Leave what was made up to now, the imported code above all, out of garbage collections.

    A full one looks at every object and holds all threads meanwhile, in the middle of a write.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])


async def give_back_freed_memory() -> None:
    """After many connections have ended, give back what they took. Without glibc this does nothing.

    grpc takes and frees 25 to 90 KiB for each, in small pieces that lie between others, so malloc
    would keep all of it, whatever its thresholds, and a stranger's connections need no identity.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    loop = asyncio.get_running_loop()
    most, again_s = 0, loop.time()
    while trim is not None and sys.platform == "linux":
        with suppress(OSError, RuntimeError):  # no file or thread may be left: then it waits
            now = len(os.listdir("/proc/self/fd"))
            most = max(most, now)
            if now <= most - _ENDED_MIN and loop.time() >= again_s:
                await asyncio.to_thread(trim, 0)
                most, again_s = now, loop.time() + _GIVE_BACK_PAUSE_S
        await asyncio.sleep(_LOOK_S)

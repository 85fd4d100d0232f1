"""Whether a crash of this process leaves its memory, with all secrets in it, on the disk."""

from __future__ import annotations

import resource

_NONE_BYTES = 1


def set_core_dumps(*, wanted: bool) -> None:
    """Write core dumps as large as this process may, or none. Processes that it starts inherit it.

    None is a limit of 1 byte, not of 0. Where the kernel pipes dumps to a program (`core_pattern`,
    such as systemd-coredump's), it passes over every limit but that of 1, and a file of so little
    it does not begin. PR_SET_DUMPABLE would stop both as well, but also give /proc/PID to root:
    debuggers and monitoring of the node's own user could not read there.
    """
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    if wanted:
        resource.setrlimit(resource.RLIMIT_CORE, (most, most))
    elif most:
        resource.setrlimit(resource.RLIMIT_CORE, (_NONE_BYTES, most))

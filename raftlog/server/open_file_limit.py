"""How a node divides the files that its process may have open (ulimit -n, LimitNOFILE).

A quarter each goes to the connections at its two ports, and to the files of logs and images. The
last quarter is for what comes and goes: files that are being read, written or synced, connections
to other nodes, scrapes of metrics, and the libraries' own.
"""

from __future__ import annotations

import resource

import structlog

from raftlog.errors import InvalidOption

_SHARES = 4
_UNLIMITED = 1 << 20
"""What counts where there is no limit: Linux's default for a machine (fs.nr_open)."""
OPEN_FILES_MIN = 128
"""A node without clients has about 40 files open, and a job a dozen more. With less than this it
could not work."""
_OPEN_FILES_WANTED = 4096
"""From here on a node of many clients closes none that it needs at once. Below, it warns."""

log = structlog.get_logger(__name__)


def allow_open_files() -> None:
    """Take as many as this process may have. Raises `InvalidOption` if no node can run with that,
    and logs a warning if it is little."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most == resource.RLIM_INFINITY:
        return
    if most < OPEN_FILES_MIN:
        raise InvalidOption(
            option="LimitNOFILE (ulimit -n)",
            problem=f"lets the process open {most} files; a node needs at least {OPEN_FILES_MIN}",
            advice=f"Set it to {_OPEN_FILES_WANTED} or more in the node's unit.",
        )
    if most < _OPEN_FILES_WANTED:
        log.warning(
            "the process may open few files: few clients can connect, and logs are reopened often",
            open_files=most,
            connections_at_each_port=share_of_open_files(),
            advice=f"Set LimitNOFILE (ulimit -n) to {_OPEN_FILES_WANTED} or more.",
        )


def share_of_open_files() -> int:
    """How many connections a port may have, and how many files all logs and images may keep
    open."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        most = _UNLIMITED
    return most // _SHARES

"""The exit codes of the command line."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """One for each kind of end. Scripts may rely on these numbers."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNAVAILABLE = 3
    NOT_FOUND = 4
    ALREADY_EXISTS = 5
    DATA_LOSS = 6
    REFUSED = 7
    NODE_REFUSED = 8

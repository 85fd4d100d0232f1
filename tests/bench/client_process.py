"""The process of a client that is measured: told by lines of JSON what to do, and timed by itself.

Each system that is compared has a program of its own for it, in Python or Go. A request is an
object with the name of the `call` and its arguments, an answer an object, and each is one line.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from raftlog.chaos.cluster import signals_deferred

_CALL_S = 300.0
"""The deadline of one call."""
_END_S = 10.0
_LINES_SHOWN = 5


class ClientFailed(Exception):
    """The process ended, or did not answer in time; the message has its last lines."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name
        """Of the system that it is a client of."""


class ClientProcess:
    """One such process, which ends with the context."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        said: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`name`: of the system; `said`: the file that gets the standard error of the process."""
        self._name = name
        self._said = said
        with signals_deferred(), said.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                process_group=0,
            )

    def __enter__(self) -> ClientProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()  # the program ends at the end of its input
        except BrokenPipeError:
            pass  # it has ended before
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Let the client do something, and wait for its answer. Raises `ClientFailed`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        too_long = threading.Timer(_CALL_S, self._process.kill)
        too_long.start()
        try:
            self._process.stdin.write(json.dumps({"call": name, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            too_long.cancel()
        if not line:
            last = self._said.read_text(errors="replace").splitlines()[-_LINES_SHOWN:]
            raise ClientFailed(self._name, f"{name}: the client ended: " + " | ".join(last))
        answer: dict[str, Any] = json.loads(line)
        return answer

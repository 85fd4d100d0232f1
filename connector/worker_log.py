"""What the connector logs in Spark's Python workers: lines with time, level and logger.

Spark runs sources and sinks in worker processes, where `logging` is not configured. Python then
writes the bare message to standard error, which Spark passes on to that of the driver or the
executor. The handler here adds time, level and logger. If `logging` is configured, records
go only there. This includes spark.sql.pyspark.worker.logging.enabled, which gives the root logger a
handler of Spark's (rows of `spark.tvf.python_worker_logs()`).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from raftlog.errors import RaftlogError
from raftlog.errors.raftlog_error import Surface
from raftlog.redaction import without_controls
from raftlog.spark.worker_process import report_without_traceback

LOGGER = "raftlog.spark"
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
TIME_FORMAT = "%y/%m/%d %H:%M:%S"
"""As Spark's own log lines begin."""


class LastResort(logging.Handler):
    """Writes to the present standard error, unless the root logger has a handler.

    A worker may outlive the process that reads its standard error. Then the line is lost, and not
    the error that it tells of.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"{self.format(record)}\n")
                sys.stderr.flush()


def escaped(record: logging.LogRecord) -> bool:
    """A filter that lets every record pass, as one line of printable characters: a message may have
    what others wrote, such as the text of an option."""
    record.msg, record.args = without_controls(record.getMessage()), ()
    return True


P = ParamSpec("P")
R = TypeVar("R")


def errors_logged(method: Callable[P, R]) -> Callable[P, R]:
    """Log the method's error as one line, and let Spark report it without the method's traceback.

    What a user can mend is in the error's words, which Spark would print below that traceback.
    """

    @functools.wraps(method)
    def logged(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except RaftlogError as error:
            _report(error)
            raise

    return logged


def errors_of_items_logged(method: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """The same for a method that yields."""

    @functools.wraps(method)
    def logged(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        try:
            yield from method(*args, **kwargs)
        except RaftlogError as error:
            _report(error)
            raise

    return logged


def _report(error: RaftlogError) -> None:
    logger = logging.getLogger(LOGGER)
    logger.error("%s", one_line(error))
    logger.debug("It was raised here.", exc_info=True)
    report_without_traceback()


def one_line(error: RaftlogError) -> str:
    """The error's name and text on one line. From here on it shows Spark's remedy."""
    error.surface = Surface.SPARK
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def install() -> None:
    """Give the connector's logger its handler, once in a process."""
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(handler, LastResort) for handler in logger.handlers):
        handler = LastResort()
        handler.addFilter(escaped)  # it is before those of the root logger, also for children
        handler.setFormatter(logging.Formatter(FORMAT, TIME_FORMAT))
        logger.addHandler(handler)

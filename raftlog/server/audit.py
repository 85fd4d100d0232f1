"""The log of administrative acts and refusals: a line of JSON each, in a file that is rotated.

    {"time": "2026-01-01T00:00:00.000+00:00", "node": 1, "who": "ada", "means": "token",
     "from": "ipv4:127.0.0.1:40000", "call": "DeleteTopic", "what": {"name": "flights", ...},
     "outcome": "ok"}

`who` is null where nobody is asked who they are, or nobody knows. `outcome` is `ok` or the error's
code. An act is logged by the node that decided on it; one that was sent to a node that does not
lead has changed nothing, and is not an act. What is refused or fails is logged once a minute for
each caller, call, and thing that it names, and at most `_FAILED_MAX` times a minute for one caller:
the last of these lines says `"rest": "not logged"`. So nobody can push out what others did. Lines
are not synced: the last ones before a power loss may be missing.
"""

from __future__ import annotations

import itertools
import json
import logging
import logging.handlers
import queue
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from typing import Any

import cachetools
import structlog

from raftlog.auth import grant_keys, quota_keys
from raftlog.auth.caller import Caller
from raftlog.config_audit import AuditSettings
from raftlog.errors import Forbidden, NotLeader, PathUnusable, WriterOfAnother
from raftlog.redaction import without_keys
from raftlog.wire import calls
from raftlog.wire.kv_calls import DeleteKeyCall, PutKeyCall

ACTS = frozenset(
    call.name
    for call in (
        calls.CREATE_TOPIC,
        calls.ALTER_TOPIC,
        calls.ALTER_SCHEMA,
        calls.DELETE_TOPIC,
        calls.TRIM,
        calls.SCRUB,
        calls.REMOVE_WRITER,
        calls.REGISTER_NODE,
        calls.ADD_NODE,
        calls.SET_PARENTS,
        calls.SET_DUTY,
        calls.RETIRE_NODE,
        calls.PLACE_GROUP,
        calls.TRANSFER_LEADERSHIP,
    )
)
"""Calls that change what there is, who stands where, or what is kept. To write and read records and
keys is what a cluster is for, and no act, except for the keys that are grants or quotas."""

_OK = "ok"
_NO_ACT = NotLeader.__name__
_REFUSALS = frozenset((Forbidden.__name__, WriterOfAnother.__name__))
_SAID_AGAIN_S = 60.0
_SAID_MAX = 10_000
_FAILED_MAX = 100
"""What fails is kept this often, and so many times of one caller: who tries for ever must not push
out what others did. No settings: they bound a file and memory."""
_NAMES = ("name", "group", "key", "prefix", "start", "writer", "node", "address")
"""By what a request says what it is about."""

_WAITING_MAX = 10_000
"""Lines that wait for the disk. No setting: it bounds memory, and they are written as they come."""
_WHAT_CHARACTERS_MAX = 4_000
_FAILED_CHARACTERS_MAX = 200
"""Each value of what was asked for is cut off there, that of what failed sooner: a schema may have
thousands of columns."""

log = structlog.get_logger(__name__)


class AuditLog:
    """Takes lines at once, and writes them from a thread of its own."""

    def __init__(self, settings: AuditSettings, node: int) -> None:
        """Opens the file, to append to it. Raises `PathUnusable`."""
        self._node = node
        path = settings.file.replace("{node}", str(node))
        try:
            file = _File(
                path,
                maxBytes=settings.file_bytes_max,
                backupCount=settings.files_max,
                encoding="utf-8",
            )
        except OSError as error:
            raise PathUnusable(path=path, problem=error.strerror or str(error)) from error
        self._waiting: queue.Queue[Any] = queue.Queue(_WAITING_MAX)
        self._writer = logging.handlers.QueueListener(self._waiting, file)
        self._writer.start()
        self._said: cachetools.TTLCache[tuple[str, ...], bool] = cachetools.TTLCache(
            _SAID_MAX, _SAID_AGAIN_S
        )
        self._failed: cachetools.TTLCache[str, Iterator[int]] = cachetools.TTLCache(
            _SAID_MAX, _SAID_AGAIN_S
        )
        """The numbers of what failed, by caller: from the first time on for a minute."""

    def called(
        self, call: str, request: object, caller: Caller | None, peer: str, outcome: str
    ) -> None:
        """This came of a call. Kept if it was to change what is of interest, or was refused for
        want of a right."""
        is_act = call in ACTS or _governs(request)
        if is_act and outcome == _OK:
            self._take(call, _what(request, _WHAT_CHARACTERS_MAX), caller, peer, outcome)
        elif outcome in _REFUSALS or (is_act and outcome != _NO_ACT):
            who = caller.identity if caller is not None else peer.rpartition(":")[0]
            self._take_failed(who, call, request, caller, peer, outcome)

    def _take_failed(
        self,
        who: str,
        call: str,
        request: object,
        caller: Caller | None,
        peer: str,
        outcome: str,
    ) -> None:
        failed = (who, call, outcome, *_named(request))
        if failed in self._said:
            return
        number = next(self._failed.setdefault(who, itertools.count(1)))
        if number > _FAILED_MAX:
            return  # nor remembered: it would push out what others' refusals are known by
        self._said[failed] = True
        rest = {"rest": "not logged"} if number == _FAILED_MAX else {}
        self._take(call, _what(request, _FAILED_CHARACTERS_MAX), caller, peer, outcome, **rest)

    def refused(self, call: str, peer: str, outcome: str) -> None:
        """Nobody knows who called."""
        self._take(call, {}, None, peer, outcome)

    def stop(self) -> None:
        """Write what waits."""
        self._writer.stop()

    def _take(
        self,
        call: str,
        what: Mapping[str, Any],
        caller: Caller | None,
        peer: str,
        outcome: str,
        **more: str,
    ) -> None:
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "node": self._node,
            "who": caller.identity if caller is not None else None,
            "means": caller.means if caller is not None else None,
            "from": peer,
            "call": call,
            "what": what,
            "outcome": outcome,
            **more,
        }
        text = json.dumps(line, default=str)
        try:
            self._waiting.put_nowait(logging.makeLogRecord({"msg": text, "levelno": logging.INFO}))
        except queue.Full:
            log.error("audit line lost", cause="the disk is too slow", line=text)


class _File(logging.handlers.RotatingFileHandler):
    """Says what was not written, in place of a traceback."""

    def handleError(self, record: logging.LogRecord) -> None:
        log.error("audit line lost", cause="its file cannot be written", line=record.getMessage())


def _governs(request: object) -> bool:
    """Whether it is to change what others may do or use."""
    return isinstance(request, PutKeyCall | DeleteKeyCall) and request.key.startswith(
        (grant_keys.KEY_PREFIX, quota_keys.KEY_PREFIX)
    )


def _named(request: object) -> Iterator[str]:
    """What it is about, in short."""
    for name in _NAMES:
        value = getattr(request, name, "")
        value = getattr(value, "writer", value)  # the key of an epoch
        if value:
            yield f"{name}={str(value)[:_FAILED_CHARACTERS_MAX]}"


def _what(request: object, characters_max: int) -> Mapping[str, Any]:
    """What was asked for, as far as it is not too long, and no secret."""
    if not is_dataclass(request) or isinstance(request, type):
        return {}
    return {name: _shown(value, characters_max) for name, value in asdict(request).items()}


def _shown(value: object, characters_max: int) -> object:
    text = json.dumps(value, default=str)
    shown = without_keys(text)
    if len(shown) > characters_max:
        return f"{shown[:characters_max]}..."
    return value if shown == text else shown

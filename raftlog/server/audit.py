"""The log of operations and refusals: lines of JSON, in a file that is rotated and synced.

    {"time": "2026-01-01T00:00:00.000+00:00", "node": 1, "who": "token:ada",
     "from": "ipv4:127.0.0.1:40000", "call": "DeleteTopic", "what": {"name": "flights", ...},
     "id": "3f6c...", "outcome": "begun"}

An operation has two lines with one `id`: `begun`, which is written before anything is proposed, and
what came of it: `ok`, an error's code, or `unknown` if its caller did not wait for the answer.
With `audit.required` it is done only once the first line is on disk. One that ends with `NotLeader`
changed nothing. A call that is known to change nothing (`raftlog.server.unchanged`) is none: it is
answered without a line, or rejected. `who` is null where authentication is off, and for a caller
without a valid token or certificate.

Operations are never left out. What is rejected before it begins is merged: the same rejection of
the same caller is written once a minute, and at most `_FAILED_MAX` rejections of one caller. At the
end of the minute a line says how often each came again (`repeated`). So one caller cannot push out
the lines of others.

Callers without a valid token or certificate are told apart by host, and share a bound:
`_STRANGERS_MAX` rejections of all of them have lines. One more line counts the rest, and the hosts
that they came from. So the number of addresses does not matter, and principals keep their lines.

Lines that wait for the disk are synced together, in their order.
"""

from __future__ import annotations

import asyncio
import json
import logging
import logging.handlers
import os
import queue
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import cachetools
import structlog

from raftlog.auth import grant_keys, quota_keys
from raftlog.auth.principals import Caller
from raftlog.config_audit import AuditSettings
from raftlog.errors import AuditUnavailable, Forbidden, PathUnusable, WriterOfAnother
from raftlog.metrics.counts import CANCELLED
from raftlog.redaction import without_keys
from raftlog.transport.callers import host_of
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
        calls.SET_WRITER_OWNER,
        calls.REGISTER_NODE,
        calls.ADD_NODE,
        calls.SET_PARENTS,
        calls.SET_DUTY,
        calls.RETIRE_NODE,
        calls.PLACE_GROUP,
        calls.TRANSFER_LEADERSHIP,
        calls.GET_ENTRIES,
        calls.GET_STATE,
    )
)
"""Calls that change what there is, who stands where, or what is kept, or read what is stored as it
is. To write and read records and keys is what a cluster is for, and no operation, except for the
keys that are grants or quotas."""

_OK = "ok"
_BEGUN = "begun"
_UNKNOWN = "unknown"
_REFUSALS = frozenset((Forbidden.__name__, WriterOfAnother.__name__))
_WINDOW_S = 60.0
_SIGNED_IN_S = 3600.0
"""A caller that calls again from the same host signs in again after so long without a call."""
_SAID_MAX = 10_000
_FAILED_MAX = 100
"""Rejections of one caller that have lines of their own in `_WINDOW_S`, so that endless attempts do
not push out the lines of others. No settings: they bound a file and memory."""
_STRANGERS_MAX = 200
"""Rejections of all callers without a principal that have lines of their own in `_WINDOW_S`."""
_SEVERAL = "(several)"
"""The call and outcome of a caller's rejections beyond `_FAILED_MAX`; the host of those beyond
`_STRANGERS_MAX`; the caller beyond `_SAID_MAX` different ones of all principals, unless it has a
line already."""
_NAMES = ("name", "group", "key", "prefix", "start", "writer", "node", "address")
"""By what a request says what it is about."""

_WAITING_MAX = 10_000
"""Lines that wait for the disk. No setting: it bounds memory, and they are written as they come."""
_SYNCED_MAX = 1_000
"""Lines that are synced at once, so that endless ones do not keep an operation waiting."""
_WHAT_CHARACTERS_MAX = 4_000
_FAILED_CHARACTERS_MAX = 200
"""Each value of what was asked for is cut off there, that of what failed sooner: a schema may have
thousands of columns."""

log = structlog.get_logger(__name__)


class _Rejection(NamedTuple):
    """Rejections, or sign-ins, that are the same."""

    who: str
    """The caller's principal; "": it has none."""
    host: str
    """Of a caller without a principal; see `host_of`."""
    call: str
    outcome: str
    named: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _SignIn:
    groups: Sequence[str]
    address: str


class Operation:
    """One that is audited: its lines have the same id."""

    def __init__(self, log: AuditLog, line: dict[str, Any]) -> None:
        self._log = log
        self._line = line

    async def begin(self) -> None:
        """Write that it begins. With `audit.required` it is on disk when this returns. Raises
        `AuditUnavailable`."""
        await self._log.write(self._line | {"outcome": _BEGUN}, must=self._log.required)

    def end(self, outcome: str) -> None:
        """Write what came of it; `CANCELLED`: its caller has gone, and it may have been done."""
        shown = _UNKNOWN if outcome == CANCELLED else outcome
        self._log.take(self._line | {"time": _now(), "what": {}, "outcome": shown})


class AuditLog:
    """Takes lines at once, and writes them from a thread of its own. For one event loop only."""

    def __init__(self, settings: AuditSettings, node: int) -> None:
        """Opens the file, to append to it. Raises `PathUnusable`."""
        self._node = node
        self.required = settings.required
        """Whether an operation waits until its first line is on disk."""
        path = settings.file.replace("{node}", str(node))
        try:
            file = _File(path, settings)
        except OSError as error:
            raise PathUnusable(path=path, problem=error.strerror or str(error)) from error
        self._waiting: queue.Queue[logging.LogRecord | None] = queue.Queue(_WAITING_MAX)
        """Lines for the writer; None ends it."""
        self._writer = threading.Thread(target=self._write_to, args=(file,), daemon=True)
        self._writer.start()
        self._repeated: dict[_Rejection, int] = {}
        """How often each rejection came again, since the window began with the first of them."""
        self._written: Counter[tuple[str, str]] = Counter()
        """How many rejections have lines in the window, by caller, and of all callers with a
        principal and of all without."""
        self._more_hosts: set[str] = set()
        """Those whose rejections, or some of them, have no lines; `_SAID_MAX` at most."""
        self._signed_in: cachetools.TTLCache[tuple[Caller, str], bool] = cachetools.TTLCache(
            _SAID_MAX, _SIGNED_IN_S
        )

    def operation(
        self, call: str, request: object, caller: Caller | None, peer: str
    ) -> Operation | None:
        """What the call is to do, if that is audited."""
        if call not in ACTS and not _governs(request):
            return None
        shown = _what(request, _WHAT_CHARACTERS_MAX)
        line = self._line(call, shown, caller, peer, _BEGUN)
        return Operation(self, line | {"id": uuid.uuid4().hex})

    def rejected(
        self, call: str, request: object, caller: Caller | None, peer: str, outcome: str
    ) -> None:
        """This came of a call before it began to do anything. Written if it was to do what is
        audited, or lacked a right."""
        is_act = call in ACTS or _governs(request)
        if outcome not in _REFUSALS and (not is_act or outcome == _OK):
            return
        self._bounded(call, request, caller, peer, outcome)

    def refused(self, call: str, peer: str, outcome: str) -> None:
        """The caller has no valid token or certificate."""
        self._bounded(call, None, None, peer, outcome)

    def signed_in(self, caller: Caller, peer: str) -> None:
        """The caller is known; written when it calls from a host for the first time in a while."""
        seen = (caller, host_of(peer))
        if seen not in self._signed_in:
            signed_in = _SignIn(groups=sorted(caller.groups), address=host_of(peer))
            self._bounded("SignIn", signed_in, caller, peer, _OK)
        self._signed_in[seen] = True

    def changed(self, what: str, values: Mapping[str, Any]) -> None:
        """Tokens or the configuration are other ones from now on."""
        self.take(self._line(what, values, None, "", _OK))

    def stop(self) -> None:
        """Write what waits, and the counts of the window."""
        self._end_window()
        self._waiting.put(None)
        self._writer.join()

    async def write(self, line: Mapping[str, Any], *, must: bool) -> None:
        """Write the line; if it `must` be, return once it is on disk. Raises `AuditUnavailable`."""
        if not must:
            self.take(line)
            return
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str] = loop.create_future()

        def tell(problem: str) -> None:
            if not done.done():
                done.set_result(problem)

        self.take(line, lambda problem: loop.call_soon_threadsafe(tell, problem))
        if problem := await done:
            raise AuditUnavailable(problem=problem)

    def take(
        self, line: Mapping[str, Any], written: Callable[[str], object] = lambda _: None
    ) -> None:
        """Queue the line. `written` is called from another thread once it is on disk, with "", or
        with why it is not."""
        text = json.dumps(line, default=str)
        record = logging.makeLogRecord({"msg": text, "levelno": logging.INFO, "written": written})
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            log.error("audit line lost", cause="the disk is too slow", line=text)
            written("the disk is too slow")

    def _bounded(
        self, call: str, request: object, caller: Caller | None, peer: str, outcome: str
    ) -> None:
        """Write the line, or count it if it came before in this window."""
        if not self._repeated:
            asyncio.get_running_loop().call_later(_WINDOW_S, self._end_window)
        if caller is None:
            by, several, most = ("", host_of(peer)), ("", _SEVERAL), _STRANGERS_MAX
        else:
            by, several, most = (caller.principal, ""), (_SEVERAL, ""), _SAID_MAX
        rejection = _Rejection(*by, call, outcome, tuple(_named(request)))
        if rejection not in self._repeated:
            if self._written[by] < _FAILED_MAX and self._written[several] < most:
                self._written.update((by, several))
                self._repeated[rejection] = 0
                shown = _what(request, _FAILED_CHARACTERS_MAX)
                self.take(self._line(call, shown, caller, peer, outcome))
                return
            if caller is None and len(self._more_hosts) < _SAID_MAX:
                self._more_hosts.add(host_of(peer))
            if caller is None or not self._written[by]:
                by = several
            rejection = _Rejection(*by, _SEVERAL, _SEVERAL, ())
        self._repeated[rejection] = self._repeated.get(rejection, 0) + 1

    def _end_window(self) -> None:
        """Write how often each rejection came again."""
        for rejection, count in self._repeated.items():
            if count:
                what: dict[str, Any] = {"which": rejection.named}
                if rejection.host == _SEVERAL:
                    what = {"hosts_at_least": len(self._more_hosts)}
                line = self._line(rejection.call, what, None, rejection.host, rejection.outcome)
                self.take(line | {"who": rejection.who or None, "repeated": count})
        self._repeated.clear()
        self._written.clear()
        self._more_hosts.clear()

    def _write_to(self, file: _File) -> None:
        """Write lines as they come, and sync together what came until then."""
        for record in iter(self._waiting.get, None):
            file.handle(record)
            if self._waiting.empty() or len(file.unsynced) >= _SYNCED_MAX:
                file.sync()
        file.sync()

    def _line(
        self,
        call: str,
        what: Mapping[str, Any],
        caller: Caller | None,
        peer: str,
        outcome: str,
    ) -> dict[str, Any]:
        return {
            "time": _now(),
            "node": self._node,
            "who": caller.principal if caller is not None else None,
            "from": peer,
            "call": call,
            "what": what,
            "outcome": outcome,
        }


class _File(logging.handlers.RotatingFileHandler):
    """Syncs several lines at once, and says what was not written, in place of a traceback."""

    _problem = ""
    """Why the line at hand was not written."""

    def __init__(self, path: str, settings: AuditSettings) -> None:
        super().__init__(
            path,
            maxBytes=settings.file_bytes_max,
            backupCount=settings.files_max,
            encoding="utf-8",
        )
        self.unsynced: list[logging.LogRecord] = []
        """Lines that are written, and may not be on disk yet."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, to be synced later."""
        self._problem = ""
        super().emit(record)
        if self._problem:
            _settle(record, self._problem)
        else:
            self.unsynced.append(record)

    def handleError(self, _: logging.LogRecord) -> None:
        """The line could not be written."""
        self._problem = _problem_of(sys.exc_info()[1])

    def doRollover(self) -> None:
        """Begin a new file, once the lines of this one are on disk."""
        self.sync()
        super().doRollover()

    def sync(self) -> None:
        """Bring the lines to the disk, and call `written` of each."""
        if not self.unsynced:
            return
        assert self.stream is not None, "it is closed only without such lines"
        problem = ""
        try:
            os.fsync(self.stream.fileno())
        except OSError as error:
            problem = _problem_of(error)
        for record in self.unsynced:
            _settle(record, problem)
        self.unsynced.clear()


def _settle(record: logging.LogRecord, problem: str) -> None:
    """The line is on disk, or there is this problem."""
    if problem:
        log.error("audit line lost", cause=problem, line=record.getMessage())
    written: Callable[[str], object] = record.__dict__["written"]
    written(problem)


def _problem_of(error: BaseException | None) -> str:
    return str(error) or "its file cannot be written"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


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
    return {name: _shown(value, characters_max) for name, value in _plain(request).items()}


def _shown(value: object, characters_max: int) -> object:
    text = ""
    for piece in _ENCODER.iterencode(value):  # no further than what is shown, but whole texts
        text += piece
        if len(text) > characters_max:
            return f"{without_keys(text)[:characters_max]}..."
    shown = without_keys(text)
    return json.loads(text) if shown == text else shown


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return str(value)


_ENCODER = json.JSONEncoder(default=_plain)

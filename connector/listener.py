"""How far streaming queries are in their topics, on the driver: `raftlog.spark.listen`.

Spark tells a listener of each micro-batch. Its descriptions of sources do not name us, but the
offsets do: their JSON has topics, incarnations and the cluster. How many records a query is behind
follows from them. Bytes and seconds are asked of the cluster, by a thread of the listener with a
short deadline, so Spark's listener bus never waits and an error never reaches a query.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    SourceProgress,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from raftlog.errors import DataLoss, RaftlogError, TopicRecreated
from raftlog.spark import offsets
from raftlog.spark.worker_log import one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from raftlog import LogClient, TopicInfo

LOGGER = "raftlog.spark.queries"

REQUEST_TIMEOUT_S = 2.0
"""How long the listener asks the cluster for each answer. No setting: what it learns is for people,
and what comes later is asked again with the next batch."""

QUERIES_MAX = 1000
"""So many queries are remembered; those that ended first are forgotten. No setting: it bounds
memory."""

LOG_INTERVAL_S = 10.0
"""How often a query is logged at most; `listen` takes another number."""

log = logging.getLogger(LOGGER)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProgress:
    """How far a query is in a topic that it reads. What is None is not known."""

    topic: str
    """The topic's name."""
    incarnation: str
    """Its incarnation."""
    position: int
    """The first offset that is not processed yet."""
    records_behind: int | None = None
    """Records from the position to the topic's end, as the source saw it last."""
    bytes_behind: int | None = None
    """Bytes of these, as the log holds them, when the cluster was asked last."""
    seconds_behind: float | None = None
    """The age of the first of them, then; 0 if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """What is known of a query since its last micro-batch."""

    query: str
    """The query's name; its id if it has none."""
    id: str
    """The query's id, which its checkpoint keeps."""
    run_id: str
    """The id of this start of it."""
    batch: int
    """The number of its last micro-batch."""
    rows: int
    """The rows that this batch had."""
    records_skipped: int | None
    """Records of this batch's ranges that are no rows of it: filters left them out, or they were
    trimmed (`failOnDataLoss=false`). None before the first batch of a start says where it began."""
    rows_per_s: float
    """The rows that it processed in a second."""
    committed_at: datetime
    """When this batch was done, in UTC."""
    topics: tuple[TopicProgress, ...]
    """The topics that it reads from raftlog, by name."""
    running: bool = True
    """Whether the query runs."""
    error: str = ""
    """What ended it, with Spark's traceback; "" if nothing did."""


class QueryListener(StreamingQueryListener):
    """Follows all streaming queries of a session that read topics. Thread-safe."""

    def __init__(self, connect: Callable[[], LogClient], *, log_interval_s: float) -> None:
        """`connect` opens the cluster's client, in the listener's thread."""
        self._log_interval_s = log_interval_s
        self._changed = threading.Condition()
        self._latest: dict[str, QueryProgress] = {}
        """By run id."""
        self._due_s: dict[str, float] = {}
        """When a run that has news is looked at and logged, by run id."""
        self._logged_s: dict[str, float] = {}
        self._looking = False
        self._hurried = False
        self._closed = False
        self._asker = _Asker(connect)
        self._thread = threading.Thread(target=self._run, name="raftlog-queries", daemon=True)
        self._thread.start()

    @property
    def latest(self) -> dict[str, QueryProgress]:
        """The last known progress of each query that has had a batch, by its name, or by its id if
        it has none. A query that was started again stands for its last run."""
        with self._changed:
            return {each.query: each for each in self._latest.values()}

    def flush(self, timeout_s: float) -> bool:
        """Ask and log now what would be asked and logged later. Whether that ended in time."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()
            ended = self._changed.wait_for(lambda: not self._looking and not self._due_s, timeout_s)
            self._hurried = False
            return ended

    def close(self) -> None:
        """Stop looking. Remove the listener from its session first: `spark.streams`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(2 * REQUEST_TIMEOUT_S)

    # ------------------------------------------------------------ Spark's calls: they only note

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing has changed."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        found = progress_of(event.progress)
        if found is not None:
            self._note(found)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        with self._changed:
            known = self._latest.get(str(event.runId))
        if known is not None:
            self._note(dataclasses.replace(known, running=False, error=event.exception or ""))

    def _note(self, found: QueryProgress) -> None:
        run = found.run_id
        with self._changed:
            before = self._latest.pop(run, None)  # so that the newest come last
            self._latest[run] = _with_lags_of(found, before)
            while len(self._latest) > QUERIES_MAX:
                forgotten = next(iter(self._latest))
                del self._latest[forgotten]
                self._due_s.pop(forgotten, None)
                self._logged_s.pop(forgotten, None)
            due_s = self._logged_s.get(run, float("-inf")) + self._log_interval_s
            self._due_s[run] = due_s if found.running else float("-inf")
            self._changed.notify_all()

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (wait_s := self._wait_s()) > 0:
                    self._changed.wait(wait_s if wait_s < threading.TIMEOUT_MAX else None)
                if self._closed:
                    break
                now_s = time.monotonic()
                runs = [
                    run for run, due_s in self._due_s.items() if self._hurried or due_s <= now_s
                ]
                for run in runs:
                    del self._due_s[run]
                    self._logged_s[run] = now_s
                self._looking = True
            for run in runs:
                self._look(run)
            with self._changed:
                self._looking = False
                self._changed.notify_all()
        self._asker.close()

    def _wait_s(self) -> float:
        if self._hurried and self._due_s:
            return 0.0
        return min(self._due_s.values(), default=float("inf")) - time.monotonic()

    def _look(self, run: str) -> None:
        """Ask the cluster how far the run is behind, and log what is known then."""
        with self._changed:
            known = self._latest.get(run)
        if known is None:
            return
        topics = tuple(self._asker.lag(topic) for topic in known.topics)
        asked = dataclasses.replace(known, topics=topics)
        with self._changed:
            now = self._latest.get(run)
            if now is None:
                return
            self._latest[run] = asked if now is known else _with_lags_of(now, asked)
        log.info("%s", line_of(asked))  # events that came meanwhile have their own line


class _Asker:
    """Asks the cluster how far positions are behind. For one thread."""

    def __init__(self, connect: Callable[[], LogClient]) -> None:
        self._connect = connect
        self._client: LogClient | None = None
        self._topics: dict[str, TopicInfo] = {}
        """By incarnation."""
        self._warned: set[type[RaftlogError]] = set()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def lag(self, at: TopicProgress) -> TopicProgress:
        """The same with bytes and seconds; without them if the cluster does not tell."""
        try:
            if self._client is None:
                self._client = self._connect()
            return self._lag(self._client, at)
        except RaftlogError as error:
            self._topics.pop(at.incarnation, None)
            if type(error) not in self._warned:
                self._warned.add(type(error))
                log.warning(
                    "Bytes and seconds behind of topic %r are not known. The query continues. %s",
                    at.topic,
                    one_line(error),
                )
            return at

    def _lag(self, client: LogClient, at: TopicProgress) -> TopicProgress:
        if at.incarnation not in self._topics:
            found = client.describe_topic(at.topic)
            if found.incarnation != at.incarnation:
                raise TopicRecreated(topic=at.topic, wanted=at.incarnation, found=found.incarnation)
            self._topics[at.incarnation] = found
        topic = self._topics[at.incarnation]
        held = client.read_high_water_mark(topic)
        end = held.high_water_mark
        start = min(end, max(at.position, held.log_start_offset))
        size, age_s = 0, 0.0
        if start < end:
            size = sum(client.read_sizes(topic, start, end, mark=end, pieces_max=1).body_bytes)
            first = client.read(topic, start, start + 1, mark=end, columns=["_timestamp"])
            written_s: float = next(first).column(0)[0].as_py().timestamp()
            age_s = max(0.0, time.time() - written_s)  # clocks may differ
        return dataclasses.replace(
            at, records_behind=end - start, bytes_behind=size, seconds_behind=age_s
        )


def progress_of(progress: StreamingQueryProgress) -> QueryProgress | None:
    """What a progress report says of our topics; None if the query reads none."""
    topics = sorted(
        (topic for source in progress.sources for topic in _topics_of(source)),
        key=lambda each: (each.topic, each.position),
    )
    if not topics:
        return None
    began = datetime.fromisoformat(progress.timestamp)
    return QueryProgress(
        query=progress.name or str(progress.id),
        id=str(progress.id),
        run_id=str(progress.runId),
        batch=progress.batchId,
        rows=progress.numInputRows or 0,
        records_skipped=_skipped(progress.sources),
        rows_per_s=progress.processedRowsPerSecond or 0.0,
        committed_at=began + timedelta(milliseconds=progress.batchDuration),
        # Of a topic that two sources read, the one that is farther behind.
        topics=tuple({each.incarnation: each for each in reversed(topics)}.values())[::-1],
    )


def _topics_of(source: SourceProgress) -> list[TopicProgress]:
    """How far a source is, by its offsets; nothing if they are not ours."""
    done, newest = _reached(source.endOffset), _reached(source.latestOffset)
    found = []
    for name, entry in done.items():
        end = newest.get(name)
        behind = None
        if end is not None and end.incarnation == entry.incarnation:
            behind = max(0, end.end - entry.end)
        found.append(
            TopicProgress(
                topic=name,
                incarnation=entry.incarnation,
                position=entry.end,
                records_behind=behind,
            )
        )
    return found


def _skipped(sources: Iterable[SourceProgress]) -> int | None:
    """Records between the offsets of our sources that did not become rows; None if a source began
    at no known offset. A batch that is read twice has more rows than records: then none."""
    skipped = 0
    for source in sources:
        ends = _reached(source.endOffset)
        if not ends:
            continue
        starts = _reached(source.startOffset)
        records = 0
        for name, entry in ends.items():
            start = starts.get(name)
            if start is None or start.incarnation != entry.incarnation:
                return None
            records += entry.end - start.end
        skipped += max(0, records - (source.numInputRows or 0))
    return skipped


def _reached(text: str | None) -> Mapping[str, offsets.Reached]:
    """The topics of an offset's JSON text; none if another source wrote it."""
    try:
        given = json.loads(text or "null")
        parsed = offsets.parse(given) if isinstance(given, dict) else {}
    except (ValueError, KeyError, TypeError, RecursionError, DataLoss):
        return {}
    return {name: entry for name, entry in parsed.items() if isinstance(entry, offsets.Reached)}


def _with_lags_of(found: QueryProgress, other: QueryProgress | None) -> QueryProgress:
    """`found` with what the cluster said of its topics, as far as `other` has that."""
    lags = {each.incarnation: each for each in other.topics} if other else {}
    topics = []
    for each in found.topics:
        lag = lags.get(each.incarnation)
        if lag is not None and lag.bytes_behind is not None:
            each = dataclasses.replace(
                each, bytes_behind=lag.bytes_behind, seconds_behind=lag.seconds_behind
            )
        topics.append(each)
    return dataclasses.replace(found, topics=tuple(topics))


def line_of(found: QueryProgress) -> str:
    """One line for the log."""
    topics = "; ".join(
        f"{each.topic} at {each.position}, behind "
        f"{_amount(each.records_behind)} records, {_amount(each.bytes_behind)} bytes, "
        + ("? s" if each.seconds_behind is None else f"{each.seconds_behind:.1f} s")
        for each in found.topics
    )
    skipped = f", {found.records_skipped} records skipped" if found.records_skipped else ""
    error = found.error.partition("\n")[0]
    ended = "" if found.running else f"; ended{': ' + error if error else ''}"
    return (
        f"Query {found.query}, batch {found.batch}, done {found.committed_at:%H:%M:%S}: "
        f"{found.rows} rows, {found.rows_per_s:.0f} rows/s{skipped}; {topics}{ended}"
    )


def _amount(count: int | None) -> str:
    return "?" if count is None else str(count)


def listen(
    spark: SparkSession,
    servers: str | None = None,
    *,
    zookeeper: str | None = None,
    log_interval_s: float = LOG_INTERVAL_S,
) -> QueryListener:
    """Follow the session's streaming queries: lines in the log, and an object to read.

    Args:
        spark: The session. Queries of others are not seen.
        servers: `host:port` of some nodes, separated by commas, to ask for bytes and seconds
            behind. Default: those of the settings, as for `raftlog.connect`.
        zookeeper: In place of `servers`: who knows them.
        log_interval_s: How often a query is logged at most, in seconds, beside its end.

    Returns:
        The listener. `latest` has the last progress of each query.

    Raises:
        InvalidOption: An argument has no valid value.
    """
    import raftlog

    def connect() -> LogClient:
        return raftlog.connect(servers, zookeeper=zookeeper, request_timeout_s=REQUEST_TIMEOUT_S)

    connect().close()  # what is wrong with the arguments is raised here
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    listener = QueryListener(connect, log_interval_s=log_interval_s)
    spark.streams.addListener(listener)
    return listener

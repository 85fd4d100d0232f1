"""The streaming source: which offsets a micro-batch has, decided on the driver.

Spark builds a stream's reader twice (for offsets and for planning) and pickles the latter to the
executors, which read ranges as those of a batch are read (`raftlog.spark.reader`). PySpark 4.1
lacks what this imports, and cannot read a stream.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from raftlog.errors import TopicNotFound, TopicRecreated
from raftlog.spark import offsets, publishing
from raftlog.spark.limits import NONE, Limits, Pieces, Waiting, admitted, due
from raftlog.spark.offsets import OTHERS, Cluster, TopicRange, TopicWatermark
from raftlog.spark.options import SourceOptions
from raftlog.spark.reader import RangeReader
from raftlog.spark.worker_log import errors_logged

if TYPE_CHECKING:
    import pyarrow as pa

    from raftlog import TopicInfo

PIECES_PER_LIMIT = 256
"""In how many pieces the waiting records of a topic are asked for, to find where a limit in bytes
ends."""


class RaftlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream's reader. `raftlog.spark.offsets` explains the offsets.

    The process that asks for offsets lives as long as the query. It keeps what it learned of the
    topics (`_topics`) and of their cluster (`_cluster`, asked again with every topic), the marks
    that it saw last (`_marks`), and when it last let a batch with records begin. The copy that is
    pickled to executors has none of these.
    """

    def __init__(
        self, options: SourceOptions, schema: StructType, topics: Iterable[TopicInfo] = ()
    ) -> None:
        """`topics`: as they were when `schema` was compared with them."""
        self._options = options
        self._ranges = RangeReader(options, schema, topics)
        self._topics: dict[str, TopicInfo] = {}
        self._cluster: Cluster | None = None
        self._marks: dict[str, TopicWatermark] = {}
        self._available_now: dict[str, TopicWatermark] | None = None
        self._last_batch_s: float | None = None
        self._begun = False

    def initialOffset(self) -> dict[str, Any]:
        starting, topics = self._options.starting, self._options.subscription.topics
        if topics.pattern:
            return offsets.initial({**starting.named, OTHERS: starting.others})
        return offsets.initial({topic: starting.of(topic) for topic in topics.names})

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of the limits that are set, for Spark to pass back. With none it may batch as it
        likes."""
        limits = self._options.limits
        if limits.records_max is not None:
            return ReadMaxRows(limits.records_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        if limits.records_min is not None:
            return ReadMinRows(limits.records_min)
        return ReadAllAvailable()

    @errors_logged
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the batch that begins at `start`; `start` itself if there is nothing."""
        if isinstance(limit, ReadAllAvailable):
            limits = NONE
        else:
            assert limit == self.getDefaultReadLimit(), f"{limit!r} was never offered"
            limits = self._options.limits
            if self._available_now is not None:
                limits = limits.without_minimum()
        marks = self._available_now
        if marks is None:
            marks = self._read_marks(offsets.cluster_of(start))
        assert self._cluster is not None, "it is asked before any topic"
        if not self._begun:
            offsets.check_cluster(offsets.cluster_of(start), self._cluster)
            offsets.check_ends(start, marks, fail_on_data_loss=self._options.fail_on_data_loss)
            self._begun = True
        end = offsets.next_end(
            start,
            marks,
            cluster=self._cluster,
            find=lambda topic, time: self._ranges.find(self._topics[topic], time),
            admit=lambda waiting: self._admit(limits, waiting),
            covers=self._options.subscription.topics.covers,
            fail_on_data_loss=self._options.fail_on_data_loss,
        )
        self._publish(start, ends=self._available_now is not None and end == start)
        return end

    def _publish(self, processed: dict[str, Any], *, ends: bool) -> None:
        """Publish what is processed, if the query has a reader group.

        Spark plans a batch when the one before it is done, so a batch's start is processed. It
        tells `commit` the same only once there is another batch: never of a query's last one. It
        kills this process when the query `ends`, so that waits for the last positions.
        """
        if self._options.group_id is None:
            return
        publisher = publishing.publisher()
        publisher.offer(
            publishing.positions_at(
                processed,
                self._topics,
                options=self._options.subscription.connection,
                group=self._options.group_id,
            )
        )
        if ends:
            publisher.flush(publishing.FLUSH_TIMEOUT_S)

    def _admit(self, limits: Limits, waiting: Waiting) -> Mapping[str, int]:
        """How many records of each topic the batch has: none before it is due."""
        now_s = time.monotonic()
        since_last_s = None if self._last_batch_s is None else now_s - self._last_batch_s
        if not due(limits, waiting, since_last_s):
            return dict.fromkeys(waiting, 0)
        takes = admitted(limits, waiting, self._sizes)
        if any(takes.values()):
            self._last_batch_s = now_s
        return takes

    def _sizes(self, name: str, start: int, end: int) -> Pieces:
        """How the bytes of records lie, as far as the topic still has them."""
        return self._ranges.sizes(self._topics[name], start, end, PIECES_PER_LIMIT)

    @errors_logged
    def prepareForTriggerAvailableNow(self) -> None:
        """Read only what is written by now, until the query is started again."""
        self._available_now = self._read_marks()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The topics' ends as last seen, for the query's progress; None before that."""
        if not self._marks:
            return None
        return offsets.render(
            {
                topic: offsets.Reached(incarnation=mark.incarnation, end=mark.high_water_mark)
                for topic, mark in self._marks.items()
            }
        )

    @errors_logged
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Tasks for the batch, after asking once whether the topics still hold its records."""
        cluster_id = offsets.cluster_of(end)
        wanted = [self._still_there(one, cluster_id) for one in offsets.ranges(start, end)]
        return self._ranges.plan([one for one in wanted if one is not None], cluster_id)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._ranges.read(partition)

    def _read_marks(self, cluster_id: str | None = None) -> dict[str, TopicWatermark]:
        """All topics' marks. If one is gone, the cluster is first compared with `cluster_id`, if
        known.
        """
        topics = self._options.subscription.topics
        if topics.pattern:
            self._marks = self._read_marks_of_pattern()
            return self._marks
        try:
            self._marks = self._read_marks_of_names()
        except (TopicRecreated, TopicNotFound):
            assert self._cluster is not None, "it is asked before any topic is found to be gone"
            offsets.check_cluster(cluster_id, self._cluster)
            raise
        return self._marks

    def _read_marks_of_pattern(self) -> dict[str, TopicWatermark]:
        """The marks of the topics that match now. One that is deleted meanwhile has none."""
        listed = self._options.subscription.topics.describe(self._ranges.client())
        known = {topic.incarnation for topic in self._topics.values()}
        if self._cluster is None or any(topic.incarnation not in known for topic in listed):
            self._cluster = self._ranges.cluster()
        for topic in listed:
            self._ranges.meet(topic)
        marks = self._marks_of(listed)
        self._topics = {topic.name: topic for topic in listed}
        return marks

    def _read_marks_of_names(self) -> dict[str, TopicWatermark]:
        """The marks of the topics. With failOnDataLoss=false, one that was deleted has none."""
        names = self._options.subscription.topics.names
        found = self._marks_of([self._topics[name] for name in names if name in self._topics])
        marks = {}
        for name in names:
            try:
                marks[name] = self._mark(name, found.get(name))
            except (TopicRecreated, TopicNotFound):
                if self._options.fail_on_data_loss:
                    raise
        return marks

    def _marks_of(self, topics: Sequence[TopicInfo]) -> dict[str, TopicWatermark]:
        """The marks of those of the topics that are not gone, by name, asked for together."""
        found = self._ranges.marks(topics)
        return {mark.topic: mark for mark in found if isinstance(mark, TopicWatermark)}

    def _mark(self, name: str, found: TopicWatermark | None = None) -> TopicWatermark:
        """One round trip while the topic stays the same, and none if it was just `found`. A
        recreated one is found by name.

        Raises `TopicRecreated` if the topic is gone since this process last asked, `TopicNotFound`
        if it never existed.
        """
        known = self._topics.get(name)
        if known is not None:
            try:
                mark = found or self._ranges.mark(known)
                if self._options.schema_evolution == "fail":
                    # Asked after the mark, so that no record below it is of a later version.
                    self._ranges.meet(self._ranges.describe(name))
                return mark
            except (TopicRecreated, TopicNotFound):
                del self._topics[name]
        self._cluster = self._ranges.cluster()
        try:
            topic = self._ranges.describe(name)
        except TopicNotFound:
            if known is None:
                raise
            raise TopicRecreated(topic=name, wanted=known.incarnation) from None
        if self._options.subscription.topics.covers(name):
            self._ranges.meet(topic)
        self._topics[name] = topic
        return self._ranges.mark(self._topics[name])

    def _still_there(self, wanted: TopicRange, cluster_id: str | None) -> TopicRange | None:
        mark = self._marks.get(wanted.topic)
        covers = (
            mark is not None
            and mark.incarnation == wanted.incarnation
            and mark.log_start <= wanted.start
            and wanted.end <= mark.high_water_mark
        )
        if not covers:
            mark = self._mark_or_none(wanted.topic)
        if mark is None or mark.incarnation != wanted.incarnation:
            offsets.check_cluster(cluster_id, self._ranges.cluster())
        left = offsets.clamp(wanted, mark, fail_on_data_loss=self._options.fail_on_data_loss)
        if left is not None and not self._options.subscription.topics.covers(wanted.topic):
            self._ranges.meet(self._topics[wanted.topic])  # here, where its incarnation is known
        return left

    def _mark_or_none(self, name: str) -> TopicWatermark | None:
        try:
            return self._mark(name)
        except (TopicNotFound, TopicRecreated):
            return None

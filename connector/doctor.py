"""Asks a cluster what it knows of a checkpoint, and says what a start from it means.

This is what `raftlog doctor` does. It needs no Spark, and changes neither the checkpoint nor the
log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raftlog.client.query_names import topic_of
from raftlog.client.written_topics import first_epoch, first_epochs
from raftlog.errors import DataLoss, ExitCode, TopicNotFound, TopicRecreated
from raftlog.spark import offsets
from raftlog.spark.checkpoint import Checkpoint, read_checkpoint
from raftlog.spark.diagnosis import LogSays, Sink, Writer, judge
from raftlog.spark.findings import Finding, exit_code
from raftlog.spark.offsets import Cluster, TopicWatermark

if TYPE_CHECKING:
    from raftlog import LogClient, WriterView


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A checkpoint, and what was found of it: at least one finding."""

    checkpoint: Checkpoint
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> ExitCode:
        """OK if the query can be started."""
        return exit_code(self.findings)


def examine(
    location: str, client: LogClient, *, sink: str = "", writer: str = "", now_us: int = 0
) -> Diagnosis:
    """Compare the checkpoint at `location` with the client's cluster, by linearizable reads.

    `sink` is the topic that the query writes ("": look for its writer in all topics; if none has
    it, the topic that the query is known to have written), `writer` its txnAppId. `now_us` is the
    time, or 0 if the query is known to be stopped. Raises `InvalidOption` if the place cannot be
    read, and what the client's calls raise.
    """
    checkpoint = read_checkpoint(location)
    cluster = Cluster(id=client.cluster_id(), servers=_servers(client))
    searched = [sink] if sink else [topic.name for topic in client.list_topics()]
    writers = [each for name in searched for each in _writers_of(client, checkpoint, name, writer)]
    if sink:
        sinks = [] if writers else [Sink(topic=sink, exists=_exists(client, sink))]
    else:
        sinks = list(_sinks_without_writer(client, checkpoint, writer, writers))
    says = LogSays(
        cluster=cluster,
        marks={topic: _mark(client, topic) for topic in _topics_read(checkpoint)},
        writers=tuple(writers),
        sinks=tuple(sinks),
        writer_name=writer,
        now_us=now_us,
    )
    return Diagnosis(checkpoint=checkpoint, findings=tuple(judge(checkpoint, says)))


def _servers(client: LogClient) -> str:
    settings = client.settings
    by_zookeeper = f"by ZooKeeper at {settings.zookeeper}" if settings.zookeeper else ""
    return " ".join(filter(None, (settings.bootstrap_servers, by_zookeeper)))


def _topics_read(checkpoint: Checkpoint) -> list[str]:
    """The topics in the positions of raftlog's sources, as far as this version reads them."""
    topics: set[str] = set()
    for source in checkpoint.last.sources if checkpoint.last else ():
        if source.ours is not None:
            with contextlib.suppress(DataLoss):
                topics.update(offsets.parse(source.ours))
    return sorted(topics)


def _mark(client: LogClient, name: str) -> TopicWatermark | None:
    """A linearizable mark; None if there is no such topic."""
    try:
        topic = client.describe_topic(name)
        found = client.read_high_water_mark(topic)
    except (TopicNotFound, TopicRecreated):
        return None
    return TopicWatermark(
        topic=name,
        incarnation=topic.incarnation,
        log_start=found.log_start_offset,
        high_water_mark=found.high_water_mark,
    )


def _exists(client: LogClient, topic: str) -> bool:
    try:
        client.describe_topic(topic)
    except TopicNotFound:
        return False
    return True


def _sinks_without_writer(
    client: LogClient, checkpoint: Checkpoint, writer: str, known: Sequence[Writer]
) -> Iterator[Sink]:
    """The topics that the query has written, as the cluster remembers, and where it has no writer
    now: it may be gone, or created again."""
    names = sorted({writer or checkpoint.query_id, *(each.name for each in known)})
    topics = {each.topic for each in known}
    for name in names:
        for topic, epoch in sorted(first_epochs(client.kv, name).items()):
            # In the batch that is repeated it may not have come to a commit.
            if topic not in topics and epoch < checkpoint.next_batch:
                topics.add(topic)
                exists = _exists(client, topic)
                yield Sink(topic=topic, exists=exists, writer=name, each_batch=False)
    if not topics and (noted := topic_of(client.kv, checkpoint.query_id)):
        yield Sink(topic=noted, exists=_exists(client, noted))


def _writers_of(
    client: LogClient, checkpoint: Checkpoint, topic: str, name: str
) -> Iterator[Writer]:
    """The writer of that name; without one, those that the query writes as. None if there is no
    such topic (any more)."""
    query_id = checkpoint.query_id
    with contextlib.suppress(TopicNotFound, TopicRecreated):
        for view in client.writers.scan(topic):
            mine = bool(query_id) and query_id in (view.writer, view.query_id, view.stream)
            if view.writer == name if name else mine:
                each_batch = first_epoch(client.kv, view.writer, topic) is None
                yield _writer(topic, view, each_batch=each_batch)


def _writer(topic: str, view: WriterView, *, each_batch: bool) -> Writer:
    in_foreach_batch = view.kind == "named batch"
    return Writer(
        topic=topic,
        name=view.writer,
        streaming=not in_foreach_batch,
        query_id=view.stream if in_foreach_batch else view.query_id,
        last_batch=view.stream_batch if in_foreach_batch else view.last_epoch,
        plan=view.plan,
        first_offset=max(view.last_start, 0),
        end_offset=max(view.last_end, 0),
        run=view.run,
        active_us=view.active_us,
        each_batch=each_batch,
    )

"""What becomes of a query that is started from a checkpoint. Pure logic.

`judge` compares what the checkpoint says (`raftlog.spark.checkpoint`) with what the log says
(`LogSays`). Where the query would end with an error, the finding has that error's own text. The
rules are those of docs/EXACTLY_ONCE.md for its writers, and of `raftlog.spark.offsets` for its
sources.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from raftlog.errors import (
    CheckpointReset,
    CheckpointRewound,
    ClusterMismatch,
    DataLoss,
    EpochContentMismatch,
    OffsetTrimmed,
    RunFenced,
    TopicNotFound,
    TopicRecreated,
    UnknownWriter,
)
from raftlog.errors.raftlog_error import Surface
from raftlog.spark import offsets
from raftlog.spark.checkpoint import Checkpoint, Damage, Planned, Source
from raftlog.spark.findings import Finding, Kind
from raftlog.spark.offsets import Cluster, Reached, TopicRange, TopicWatermark

RECENT_S = 30.0
"""A writer that was active so short a time ago may still run. No setting: longer than most
triggers, and short enough to wait for."""

_ASK_AGAIN = "Then ask again: what it says of the log is not certain before that."


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A writer that a topic remembers, as far as it concerns a checkpoint."""

    topic: str
    name: str
    streaming: bool
    """False: a named write in foreachBatch, whose batches are those of the query around it."""
    query_id: str
    """The query that wrote last: a stream's own, or that around a write in foreachBatch."""
    last_batch: int
    """The query's batch that it committed last; -1 for none."""
    plan: str = ""
    """Of that batch; "": the log does not know it."""
    first_offset: int = 0
    end_offset: int = 0
    """The records of that batch are [first_offset, end_offset) of the topic."""
    run: str = ""
    active_us: int = 0
    each_batch: bool = True
    """Whether each batch is written to the topic; False: only one that has rows which name it."""

    @property
    def about(self) -> str:
        """What findings call it."""
        return f"topic {self.topic!r}, writer {self.name!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """A topic that the query is said, or known, to have written, and that knows none of its
    writers."""

    topic: str
    exists: bool = True
    writer: str = ""
    """As which the query is known to have written it; "": by its id, or by a name that was
    given."""
    each_batch: bool = True
    """As of a `Writer`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSays:
    """What the cluster said of a checkpoint's sources and of its query's writers."""

    cluster: Cluster
    marks: Mapping[str, TopicWatermark | None]
    """Of each topic that a source reads; None: there is no such topic."""
    writers: tuple[Writer, ...] = ()
    """Those that the query writes as: by its id, or by a name that was given."""
    sinks: tuple[Sink, ...] = ()
    writer_name: str = ""
    """The writer's name, if one was given: a txnAppId."""
    now_us: int = 0
    """The time, to compare a writer's last activity with; 0: the query is known to be stopped."""


def judge(checkpoint: Checkpoint, says: LogSays) -> list[Finding]:
    """The findings, at least one, those first that keep the query from being started."""
    writers = _those_that_count(says.writers)
    if not checkpoint.exists:
        return [_no_checkpoint(checkpoint)]
    if checkpoint.damages:
        return [_damaged(checkpoint, each, writers) for each in checkpoint.damages]
    found = [*_of_the_sink(checkpoint, says, writers)]
    for writer in writers:
        found.append(_of_writer(checkpoint, writer))
        found += _of_another_run(checkpoint, writer, says.now_us)
    known = bool(writers) and all(_has_batch(writer, checkpoint.last) for writer in writers)
    if checkpoint.last is not None:
        for source in checkpoint.last.sources:
            found += _of_source(checkpoint, source, says, in_the_log=known)
    elif all(writer.last_batch < 0 for writer in writers):
        found.append(_not_begun(checkpoint))
    return sorted(found, key=lambda each: each.harmless)


def _those_that_count(writers: tuple[Writer, ...]) -> list[Writer]:
    """Of the streaming writers of one topic, the one that is furthest: the query went on under
    another txnAppId."""
    counting: list[Writer] = [each for each in writers if not each.streaming]
    for topic in sorted({each.topic for each in writers if each.streaming}):
        of_topic = [each for each in writers if each.streaming and each.topic == topic]
        counting.append(max(of_topic, key=lambda each: each.last_batch))
    return counting


def _has_batch(writer: Writer, planned: Planned | None) -> bool:
    """Whether the writer's last batch is this one, by its plan."""
    return (
        planned is not None
        and writer.last_batch == planned.batch
        and writer.plan in ("", planned.plan)
    )


# ---------------------------------------------------------------- the files


def _no_checkpoint(checkpoint: Checkpoint) -> Finding:
    below = ", ".join(checkpoint.checkpoints_below)
    hint = f"These folders in it are checkpoints: {below}. " if below else ""
    return Finding(
        kind=Kind.NO_CHECKPOINT,
        about=checkpoint.location,
        cause="There is no checkpoint: neither metadata nor offsets nor commits.",
        remedy=f"{hint}A query that is started here is a new one: it begins at startingOffsets and "
        "writes all rows again. If there was a checkpoint, restore it first.",
    )


def _not_begun(checkpoint: Checkpoint) -> Finding:
    return Finding(
        kind=Kind.NOT_BEGUN,
        about=f"query {checkpoint.query_id}",
        cause="The query has not planned a batch yet.",
        remedy="A start begins at startingOffsets.",
    )


def _damaged(checkpoint: Checkpoint, damage: Damage, writers: list[Writer]) -> Finding:
    remedy, commands = _way_out(checkpoint, damage, writers)
    return Finding(
        kind=Kind.DAMAGED,
        about=damage.file,
        cause=f"{damage.file} is damaged: {damage.problem}.",
        remedy=f"{remedy} {_ASK_AGAIN}",
        commands=commands,
    )


def _way_out(
    checkpoint: Checkpoint, damage: Damage, writers: list[Writer]
) -> tuple[str, tuple[str, ...]]:
    """What to do about a damaged file, and how."""
    restore = "Restore it from a copy of the checkpoint: Spark never changes a file of it."
    folder, _, name = damage.file.partition("/")
    if damage.file == "metadata":
        return (
            f"{restore} If there is none, write it again: it holds only the query's id, which is "
            "the writer's name in the topic (unless the query has a txnAppId, whose writer shows "
            "the id). With another id the query would be a new one, and write rows again.",
            (
                "raftlog writers list TOPIC",
                f'echo -n \'{{"id":"QUERY ID"}}\' {_into(checkpoint, "metadata")}',
            ),
        )
    batch = int(name)
    if folder == "commits" and writers and all(each.last_batch >= batch for each in writers):
        return (
            f"Remove it: Spark then repeats batch {batch}, which the log has, and knows by its "
            "plan.",
            (_removal(checkpoint, damage.file),),
        )
    unwritten = bool(writers) and all(each.last_batch < batch for each in writers)
    pending = batch == checkpoint.last_planned > checkpoint.last_done
    if folder == "offsets" and pending and unwritten:
        return (
            f"Remove it: Spark then plans batch {batch} again, of which the log has nothing.",
            (_removal(checkpoint, damage.file),),
        )
    if folder == "offsets" and pending and writers:
        return f"{restore} Do not remove it: the log has batch {batch}, by its plan.", ()
    return restore, ()


def _path(checkpoint: Checkpoint, file: str) -> str:
    folder = checkpoint.location
    if _is_uri(checkpoint):
        folder, _, _ = folder.partition("?")  # what follows is for pyarrow only
    return shlex.quote(f"{folder.rstrip('/')}/{file}")


def _into(checkpoint: Checkpoint, file: str) -> str:
    """The end of a command line whose output becomes the file."""
    path = _path(checkpoint, file)
    return f"| hadoop fs -put -f - {path}" if _is_uri(checkpoint) else f"> {path}"


def _option(name: str, value: str) -> str:
    """The code that sets an option of Spark, in Python as in Scala."""
    return f".option({json.dumps(name)}, {json.dumps(value)})"


def _is_uri(checkpoint: Checkpoint) -> bool:
    return ":" in checkpoint.location.partition("/")[0]


def _removal(checkpoint: Checkpoint, file: str) -> str:
    """The command that removes a file, and Hadoop's checksums with it, or Spark fails at them."""
    if _is_uri(checkpoint):
        return f"hadoop fs -rm {_path(checkpoint, file)}"
    folder, _, name = file.rpartition("/")
    return f"rm -f {_path(checkpoint, file)} {_path(checkpoint, f'{folder}/.{name}.crc')}"


# ---------------------------------------------------------------- writers


def _of_the_sink(checkpoint: Checkpoint, says: LogSays, writers: list[Writer]) -> Iterator[Finding]:
    """What is wrong with topics that do not know the query's writer."""
    if checkpoint.next_batch == 0 and not says.writer_name:
        return
    name = says.writer_name or checkpoint.query_id
    if not writers and not says.sinks:
        yield Finding(
            kind=Kind.NOT_JUDGED,
            about="sink",
            cause=f"No topic of cluster {says.cluster.id} knows a writer {name!r}.",
            remedy="The query's sink is none of raftlog's, or it wrote under a txnAppId that "
            "another query used since (--writer NAME), or its topic was deleted (--topic NAME).",
        )
    for sink in says.sinks:
        if not sink.exists:
            yield _sink_gone(checkpoint, sink)
        elif checkpoint.next_batch:
            yield _sink_created_again(checkpoint, sink, sink.writer or name, says.cluster)


def _sink_gone(checkpoint: Checkpoint, sink: Sink) -> Finding:
    which = f", {checkpoint.next_batch}," if sink.each_batch else " that has rows for it"
    return Finding(
        kind=Kind.TOPIC_GONE,
        about=f"topic {sink.topic!r}",
        cause=f"{TopicNotFound(topic=sink.topic).cause} The query's next batch{which} is refused.",
        remedy=UnknownWriter.spark_remedy_text,
        commands=(_option("createTopic", "always"),),
        error="InvalidOption",
    )


def _sink_created_again(
    checkpoint: Checkpoint, sink: Sink, writer: str, cluster: Cluster
) -> Finding:
    error = UnknownWriter(
        writer=writer, epoch=checkpoint.next_batch, cluster=cluster.id, servers=cluster.servers
    )
    when = "" if sink.each_batch else " It refuses the next batch that has rows for it."
    return Finding(
        kind=Kind.UNKNOWN_WRITER,
        about=f"topic {sink.topic!r}",
        cause=f"{error.cause}{when}",
        remedy=error.spark_remedy_text,
        commands=(
            f"raftlog writers list {shlex.quote(sink.topic)}",
            _option("createTopic", "always"),
        ),
        error=type(error).__name__,
    )


def _of_writer(checkpoint: Checkpoint, writer: Writer) -> Finding:
    """What the log answers to the batch that a start begins with."""
    batch, last = checkpoint.next_batch, writer.last_batch
    if writer.query_id != checkpoint.query_id and batch <= last:
        return _reset(checkpoint, writer)
    if batch < last:
        return _rewound(checkpoint, writer)
    if batch == last:
        return _repeated(checkpoint, writer)
    if writer.streaming and writer.each_batch and last < batch - 1:
        return _behind(checkpoint, writer)
    if last < 0:
        cause = f"It has committed no batch yet. The query begins with batch {batch}."
        return Finding(kind=Kind.SAFE, about=writer.about, cause=cause)
    cause = f"Its last batch is {last}. The query goes on with batch {batch}."
    if not writer.each_batch:
        cause += " Its rows name their topics, so not every batch has some for this one."
    planned = checkpoint.last if last == checkpoint.last_planned else None
    if planned is not None and not _has_batch(writer, planned):
        return Finding(
            kind=Kind.OTHER_PLAN,
            about=writer.about,
            cause=f"{cause} But the rows of batch {last} in the topic are of another plan than the "
            "checkpoint's (its folder offsets). The log does not notice this by itself.",
            remedy="If the query ran with onReplayMismatch=keep, its own rows of that batch were "
            "discarded, as it asked for: start it. Else files of this checkpoint are another "
            "query's, or another copy's, and a start may lose or repeat rows: bring back the "
            "checkpoint's own.",
        )
    return Finding(kind=Kind.SAFE, about=writer.about, cause=cause)


def _reset(checkpoint: Checkpoint, writer: Writer) -> Finding:
    error = CheckpointReset(
        writer=writer.name,
        epoch=checkpoint.next_batch,
        last_epoch=writer.last_batch,
        query_id=checkpoint.query_id,
        known_query_id=writer.query_id,
    )
    return Finding(
        kind=Kind.CHECKPOINT_RESET,
        about=writer.about,
        cause=error.cause,
        remedy=error.spark_remedy_text,
        commands=(_option("txnAppId", f"{writer.name}-2"),),
        error=type(error).__name__,
    )


def _rewound(checkpoint: Checkpoint, writer: Writer) -> Finding:
    batch = checkpoint.next_batch
    error = CheckpointRewound(writer=writer.name, batch=batch, last_batch=writer.last_batch)
    positions = _positions(checkpoint)
    again = f" What it read from there on comes a second time: {positions}." if positions else ""
    return Finding(
        kind=Kind.OLDER_COPY,
        about=writer.about,
        cause=f"{error.cause} The topic has batches {batch} to {writer.last_batch}, of which this "
        f"checkpoint knows nothing or only the plan.{again}",
        remedy=error.spark_remedy_text,
        commands=_under_another_name(checkpoint, writer),
        error=type(error).__name__,
    )


def _under_another_name(checkpoint: Checkpoint, writer: Writer) -> tuple[str, ...]:
    name = f"{writer.name}-from-{checkpoint.next_batch}"
    again = _option("createTopic", "always") if writer.streaming else ""
    return (_option("txnAppId", name) + again,)


def _positions(checkpoint: Checkpoint) -> str:
    """From where raftlog's sources would be read: `topic 'flights' from offset 15`."""
    before = checkpoint.before if checkpoint.replays else checkpoint.last
    ends: list[str] = []
    for source in before.sources if before else ():
        with contextlib.suppress(DataLoss):  # of a later version: the source's own finding says so
            found = sorted(_reached(source).items())
            ends += [f"topic {topic!r} from offset {reached.end}" for topic, reached in found]
    return ", ".join(ends)


def _repeated(checkpoint: Checkpoint, writer: Writer) -> Finding:
    """The log's last batch comes again: as it was planned, or planned again."""
    batch = checkpoint.next_batch
    records = f"records [{writer.first_offset}, {writer.end_offset})"
    if checkpoint.replays and _has_batch(writer, checkpoint.last):
        return Finding(
            kind=Kind.REPLAY_IS_NO_OP,
            about=writer.about,
            cause=f"A start repeats batch {batch}, which the topic has ({records}): the repetition "
            "changes nothing.",
            remedy=""
            if writer.plan
            else "The log does not know the batch's plan, so another number of rows is refused "
            "(EpochContentMismatch).",
        )
    how = (
        f"the topic has batch {batch} ({records}) with plan {writer.plan}, and the checkpoint (its "
        f"folder offsets) has another"
        if checkpoint.replays
        else f"the topic has batch {batch} ({records}), and the checkpoint is a copy that was made "
        "before it: Spark plans it again"
    )
    cause = f"{how[0].upper()}{how[1:]}. The batch is refused; nothing is written."
    if not writer.plan:
        cause = (
            f"{how[0].upper()}{how[1:]}. The log does not know the first one's plan: the batch is "
            "refused, but if it has as many rows as the first, they are taken for a repetition "
            "and NOT written."
        )
    return Finding(
        kind=Kind.OTHER_PLAN,
        about=writer.about,
        cause=cause,
        remedy=EpochContentMismatch.spark_remedy_text,
        commands=(_option("onReplayMismatch", "keep"),),
        error=EpochContentMismatch.__name__,
    )


def _behind(checkpoint: Checkpoint, writer: Writer) -> Finding:
    batch, last = checkpoint.next_batch, writer.last_batch
    return Finding(
        kind=Kind.LOG_BEHIND,
        about=writer.about,
        cause=f"The checkpoint has batches up to {batch - 1} as done, and the topic's last is "
        f"{last}: batches {last + 1} to {batch - 1} are not in the topic. The log does not refuse "
        "the next batch, because a batch's number may be any above the last.",
        remedy="If the query writes to another topic or under another txnAppId since, name it "
        "(--topic, --writer). Else find out why before the query runs: see `raftlog docs "
        "OPERATIONS`, Data loss. To write the missing batches, start from a copy of the checkpoint "
        f"as it was after batch {last}.",
        commands=(f"raftlog writers list {shlex.quote(writer.topic)}",),
    )


def _of_another_run(checkpoint: Checkpoint, writer: Writer, now_us: int) -> Iterator[Finding]:
    ago_s = (now_us - writer.active_us) / 1_000_000
    if not now_us or not writer.active_us or ago_s >= RECENT_S:
        return
    yield Finding(
        kind=Kind.ANOTHER_RUN,
        about=writer.about,
        cause=f"Run {writer.run} wrote {max(ago_s, 0):.0f} s ago. If it still runs, a start from "
        "this checkpoint fences it, and one of the two ends with RunFenced.",
        remedy=f"Make sure that its driver is gone. Ask again after {RECENT_S:.0f} s, or with "
        "--stopped if you know that it is.",
        commands=(
            f"raftlog writers list {shlex.quote(writer.topic)}",
            f"raftlog doctor {shlex.quote(checkpoint.location)} --stopped",
        ),
        error=RunFenced.__name__,
    )


# ---------------------------------------------------------------- sources


def _of_source(
    checkpoint: Checkpoint, source: Source, says: LogSays, *, in_the_log: bool
) -> Iterator[Finding]:
    """What becomes of the records that a start reads first. `in_the_log`: the batch that a start
    repeats is there, so what it would read is not missing there."""
    about = f"source {source.name}"
    if source.ours is None:
        cause = f"It is none of raftlog's: {_kind_of(source.text)}."
        yield Finding(kind=Kind.NOT_JUDGED, about=about, cause=cause)
        return
    try:
        offsets.check_cluster(offsets.cluster_of(source.ours), says.cluster)
        ends = _reached(source)
        wanted = _wanted(checkpoint, source)
    except ClusterMismatch as error:
        yield Finding(
            kind=Kind.OTHER_CLUSTER,
            about=about,
            cause=f"{error.cause} Its offsets mean nothing in this one, also where it has a topic "
            f"of the same name.",
            remedy=error.remedy,
            commands=(f"raftlog --servers HOST:PORT doctor {shlex.quote(checkpoint.location)}",),
            error=type(error).__name__,
        )
        return
    except DataLoss as error:
        yield Finding(
            kind=Kind.DAMAGED,
            about=about,
            cause=error.cause,
            remedy=error.remedy,
            error=type(error).__name__,
        )
        return
    bad = False
    for topic, need in wanted.items():
        for finding in _of_topic(
            f"{about}, topic {topic!r}",
            need,
            says.marks.get(topic),
            lost_from=ends[topic].end if checkpoint.replays and in_the_log else need.start,
        ):
            bad = True
            yield finding
    if not bad:
        starts = ", ".join(f"{topic!r} at {need.start}" for topic, need in sorted(wanted.items()))
        yield Finding(
            kind=Kind.SAFE, about=about, cause=f"It goes on in {starts}, which the log has."
        )


def _reached(source: Source) -> dict[str, Reached]:
    """The topics of a raftlog source, as far as they have a position; none of another source."""
    if source.ours is None:
        return {}
    parsed = offsets.parse(source.ours)
    return {topic: entry for topic, entry in parsed.items() if isinstance(entry, Reached)}


def _wanted(checkpoint: Checkpoint, source: Source) -> dict[str, TopicRange]:
    """What a start reads first of each topic: the last batch again, or what comes after it, of
    which only the beginning is known."""
    wanted = {
        topic: TopicRange(
            topic=topic, incarnation=reached.incarnation, start=reached.end, end=reached.end
        )
        for topic, reached in _reached(source).items()
    }
    if checkpoint.replays and source.ours is not None:
        before = [] if checkpoint.before is None else checkpoint.before.sources
        start = next((each.ours for each in before if each.name == source.name), None)
        for part in offsets.ranges(start or {"topics": {}, "v": offsets.VERSION}, source.ours):
            wanted[part.topic] = part
    return wanted


def _of_topic(
    about: str, need: TopicRange, mark: TopicWatermark | None, *, lost_from: int
) -> Iterator[Finding]:
    """Whether the topic has what is needed, by the rules of `offsets.clamp`."""
    here = mark is not None and mark.incarnation == need.incarnation
    if mark is not None and here and mark.high_water_mark < need.end:
        yield _shorter(about, need, mark)
        return
    try:
        offsets.clamp(need, mark, fail_on_data_loss=True)
    except TopicRecreated as error:
        error.surface = Surface.SPARK
        yield Finding(
            kind=Kind.TOPIC_RECREATED if error.found else Kind.TOPIC_GONE,
            about=about,
            cause=error.cause,
            remedy=error.remedy,
            commands=(_option("failOnDataLoss", "false"),),
            error=type(error).__name__,
        )
    except OffsetTrimmed as error:
        yield _trimmed(about, error, lost_from=lost_from)


def _shorter(about: str, need: TopicRange, mark: TopicWatermark) -> Finding:
    error = offsets.ended_before(need.end, mark)
    return Finding(
        kind=Kind.TOPIC_SHORTER,
        about=about,
        cause=error.cause,
        remedy=error.remedy,
        commands=(f"raftlog topic describe {shlex.quote(need.topic)}",),
        error=type(error).__name__,
    )


def _trimmed(about: str, error: OffsetTrimmed, *, lost_from: int) -> Finding:
    count = error.earliest - lost_from
    what = (
        f"the {count} records [{lost_from}, {error.earliest}) are lost to this query."
        if count > 0
        else "nothing is lost: the query's topic has the batch that read them."
    )
    return Finding(
        kind=Kind.TRIMMED,
        about=about,
        cause=error.cause,
        remedy=f"Start the query once with failOnDataLoss=false: it goes on at offset "
        f"{error.earliest}, and {what} `raftlog topic config {shlex.quote(error.topic)}` shows "
        "what the topic keeps.",
        commands=(_option("failOnDataLoss", "false"),),
        error=type(error).__name__,
    )


def _kind_of(text: str) -> str:
    """A guess at what wrote a position."""
    if text == "-":
        return "it has no position yet"
    if text.startswith('{"logOffset"'):
        return "a source of files"
    if text.isascii() and text.isdecimal():
        return "a number, as of the rate or the socket source"
    if text.startswith("{") and text.count("{") > 1:
        return "perhaps Kafka's"
    return "another format's"

"""Reads a topic, processes its records, and writes the results to another topic, exactly once.

python docs/examples/exactly_once.py SERVERS INPUT OUTPUT NAME

INPUT has a column `id bigint`, OUTPUT `id bigint, square bigint`. NAME is the writer's, and its
alone. Kill it whenever you like, and start it again: each record of INPUT has one row in OUTPUT.
"""

import json
import sys
import uuid

import pyarrow as pa
import pyarrow.compute as pc

import raftlog
from raftlog.errors import TopicRecreated, WriterNotFound

RECORDS_MAX = 1_000
"""Records of one epoch."""


def process(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The results of some input records."""
    square = pc.multiply(batch.column("id"), batch.column("id"))
    return pa.RecordBatch.from_arrays([batch.column("id"), square], names=["id", "square"])


class Pipeline:
    """One process that does it. Where it is stands in the output's writer row, and nowhere else."""

    def __init__(
        self,
        client: raftlog.LogClient,
        source: raftlog.TopicInfo,
        output: raftlog.TopicInfo,
        name: str,
    ) -> None:
        self.client, self.source, self.output, self.name = client, source, output, name
        self.run = uuid.uuid4().hex
        """The first epoch of this run fences the run before, if that still lives."""
        self.epoch, self.offset = self.resume()

    def resume(self) -> tuple[int, int]:
        """The next epoch, and the first offset that no epoch has processed."""
        start = self.client.read_high_water_mark(self.source).log_start_offset
        try:
            row = self.client.writers.describe(self.output, self.name)
        except WriterNotFound:
            return 0, start
        if row.last_epoch < 0:
            return 0, start
        incarnation, offset = json.loads(row.plan)
        if incarnation != self.source.incarnation:
            raise TopicRecreated(
                topic=self.source.name, wanted=incarnation, found=self.source.incarnation
            )
        return row.last_epoch + 1, offset

    def step(self) -> bool:
        """Process the next records, if there are any."""
        key = raftlog.EpochKey(
            writer=self.name, query_id=self.name, run=self.run, epoch=self.epoch, streaming=True
        )
        attempt = self.client.attempt(self.output, key)
        end = self.offset
        for batch in self.client.read(self.source, end, end + RECORDS_MAX, columns=["id"]):
            attempt.write(process(batch))
            end += batch.num_rows
        if end == self.offset:
            return False
        results = attempt.finish()  # durable, and not visible yet
        position = json.dumps([self.source.incarnation, end])
        # The rows become visible and the position is stored by one entry of the log, or neither.
        self.client.commit_epoch(self.output, key, [results] if results else [], plan=position)
        self.epoch, self.offset = self.epoch + 1, end
        self.client.positions.publish(self.name, self.source, end)  # a hint for `raftlog lag`
        return True


if __name__ == "__main__":
    servers, source_name, output_name, writer = sys.argv[1:]
    with raftlog.connect(servers) as connected:
        described = map(connected.describe_topic, (source_name, output_name))
        pipeline = Pipeline(connected, *described, writer)
        while pipeline.step():
            pass

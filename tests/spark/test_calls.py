"""What a micro-batch asks the cluster: each call costs it a round trip."""

from __future__ import annotations

from collections import Counter

from tests.spark.calls import noted
from tests.spark.conftest import wait_until

BATCHES, ROWS = 7, 2


def test_a_micro_batch_from_log_to_log_makes_each_call_once(lab):
    lab.create()
    lab.append(*range(BATCHES * ROWS))
    calls = lab.folder / "calls"
    given = {
        "raftlog.bootstrap.servers": lab.cluster.servers,
        "subscribe": lab.topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(ROWS),
        "calls": str(calls),
    }
    rows = lab.spark.readStream.format("raftlog_counted").options(**given).load()
    copy = lab.sink(rows, name="raftlog_counted", calls=str(calls), topic=f"{lab.topic}-copy")
    query = copy.trigger(processingTime="0 seconds").start()
    last = lab.checkpoint / "commits" / f"{BATCHES - 1}"
    wait_until(last.exists, "the last batch", query)
    query.stop()
    batches: list[Counter[str]] = [Counter()]
    for name in noted(calls):
        batches[-1][name] += 1
        if name == "CommitEpoch":
            batches.append(Counter())
    # A worker that is new asks more, and one that has not asked for seconds, on a busy machine.
    due = ("ReadHighWaterMark", "Read", "DescribeTopic", "Stage", "CommitEpoch")
    assert Counter(due) in batches[:BATCHES], batches

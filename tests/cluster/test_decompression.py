"""A few bytes that take gigabytes without compression end no process: neither the leader that is
sent them, nor a reader or a compaction where they are in the log already."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.errors import DataLoss, MalformedRequest
from raftlog.machines.commands import TopicInfo
from raftlog.wire.arrow_message import BATCH_DECODED_BYTES_MAX
from raftlog.wire.batch import EncodedBatch
from raftlog.wire.calls import APPEND, SERVICE, AppendCall
from raftlog.wire.codec import encode_request
from tests.cluster.test_bad_input import raw
from tests.cluster.test_compaction_kills import compaction_process
from tests.cluster.test_diverged_history import histories
from tests.cluster.waiting import leader_of, wait_serving
from tests.wire import bombs
from tests.wire.bombs import REJECTED, SCHEMA, arrow_memory

NODE_GROWTH_BYTES_MAX = 64 << 20
"""Of a node that rejects a message of some MiB: buffers of grpc, and the bytes themselves."""
HIDDEN_BYTES_MIN = BATCH_DECODED_BYTES_MAX // 2
POINT = 8
TOPIC = "t"
GOOD = {"id": 1, "a": "good", "b": None, "c": None}


def append_bytes(client: LogClient, topic: TopicInfo, batch: EncodedBatch) -> bytes:
    """The call that a client would make, past all that it checks."""
    call = AppendCall(
        group=topic.group,
        incarnation=topic.incarnation,
        producer=uuid.uuid4().hex,
        sequence=0,
        batch=batch.header,
        crc=batch.crc,
    )
    return encode_request(APPEND, call, batch.body)


def memory_peak_bytes(pid: int) -> int:
    (peak,) = re.findall(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(peak) * 1024


def forget_memory_peak(pid: int) -> None:
    """The peak is from now on that of what the process has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


@pytest.mark.parametrize("kind", REJECTED)
def test_a_batch_that_takes_more_than_it_shows_is_rejected_and_costs_the_leader_no_memory(
    shared: ProcessCluster, client: LogClient, name: str, kind: str
) -> None:
    make, what = REJECTED[kind]
    topic = client.create_topic(name, SCHEMA)
    call = append_bytes(client, topic, make())

    def rejected() -> bool:
        node = leader_of(client, name)
        forget_memory_peak(shared.pids[node])
        before = memory_peak_bytes(shared.pids[node])
        code, error = raw(shared.address(node), "Append", call)
        if not isinstance(error, MalformedRequest):
            assert error.retriable, error  # an election came in between
            return False
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert what in error.cause
        assert memory_peak_bytes(shared.pids[node]) - before < NODE_GROWTH_BYTES_MAX
        return True

    wait_for(rejected, "a leader's answer", PATIENCE_S)
    assert client.append(name, [GOOD]).start == 0


def test_hidden_memory_adds_up_in_no_compaction_and_no_reader(tmp_path: Path) -> None:
    """A leader takes these records: each is within the limits."""
    hidden, count = bombs.wasteful(), 6
    with (
        ProcessCluster.start(
            tmp_path / "data", settings=[f"storage.snapshot_entries={POINT}"]
        ) as cluster,
        cluster.client() as client,
    ):
        topic = client.create_topic(TOPIC, SCHEMA)
        for _ in range(count):
            put(cluster, client, topic, hidden)
        for _ in range(POINT):
            client.append(TOPIC, [GOOD])

        def compacted() -> bool:
            found = histories(client)
            return len(found) == 1 and all(
                history == "trusted" and reached >= count for history, reached in found
            )

        wait_for(compacted, "the same history on each replica", PATIENCE_S)
        for node in cluster.pids:
            pid = compaction_process(cluster, node)
            assert pid is not None
            assert memory_peak_bytes(pid) < 2 * BATCH_DECODED_BYTES_MAX < count * HIDDEN_BYTES_MIN
        with arrow_memory() as pool:
            mark = client.read_high_water_mark(topic).high_water_mark
            kept = list(client.read(topic, 0, mark, mark=mark))
            assert pool.bytes_allocated() < HIDDEN_BYTES_MIN
        assert sum(each.num_rows for each in kept) == mark


def put(cluster: ProcessCluster, client: LogClient, topic: TopicInfo, batch: EncodedBatch) -> int:
    """Append what a leader should have rejected; its first offset."""
    start = client.read_high_water_mark(topic).high_water_mark
    call = append_bytes(client, topic, batch)

    def taken() -> bool:
        address = cluster.address(leader_of(client, topic.name))
        with grpc.insecure_channel(address) as channel:
            try:
                list(channel.unary_stream(f"/{SERVICE}/Append")(call, timeout=PATIENCE_S))
            except grpc.RpcError:
                return False
        return True

    wait_for(taken, "the batch to be appended", PATIENCE_S)
    return start


def restart(cluster: ProcessCluster, program: str) -> None:
    """Let all nodes run another program."""
    cluster.program = program
    for node in (1, 2, 3):
        cluster.terminate(node)
        cluster.serve(node)
    wait_serving(cluster)


def read(client: LogClient, topic: TopicInfo, start: int, end: int, *columns: str) -> list[object]:
    mark = client.read_high_water_mark(topic).high_water_mark
    rows = client.read(topic, start, end, mark=mark, columns=list(columns))
    return pa.Table.from_batches(list(rows)).to_pylist()


def test_what_is_in_the_log_already_ends_no_reader_and_no_compaction(tmp_path: Path) -> None:
    hostile = {kind: make() for kind, (make, _) in REJECTED.items()}
    hostile["straying"] = bombs.straying()
    starts = {}
    with (
        ProcessCluster.start(
            tmp_path / "data", settings=[f"storage.snapshot_entries={POINT}"]
        ) as cluster,
        cluster.client() as client,
    ):
        restart(cluster, "tests.cluster.unchecking_node")
        topic = client.create_topic(TOPIC, SCHEMA)
        for kind, batch in hostile.items():
            client.append(TOPIC, [GOOD])
            starts[kind] = put(cluster, client, topic, batch)
        client.append(TOPIC, [GOOD])
        restart(cluster, "raftlog")

        with arrow_memory() as pool:
            for kind, start in starts.items():
                with pytest.raises(DataLoss):
                    read(client, topic, start, start + 1, *GOOD)
                end = start + hostile[kind].header.record_count
                assert read(client, topic, start - 1, start, *GOOD) == [GOOD]
                assert read(client, topic, end, end + 1, *GOOD) == [GOOD]
                if kind in ("expanding-zstd", "expanding-lz4", "crowded", "of_dictionary"):
                    assert read(client, topic, start, end, "id", "b") == [{"id": 1, "b": "small"}]
            with pytest.raises(DataLoss):
                read(client, topic, starts["counting"], starts["counting"] + 1, "_offset")
            assert pool.max_memory() < BATCH_DECODED_BYTES_MAX

        for number in range(3 * POINT):
            client.append(TOPIC, [{**GOOD, "id": number}])
        end = client.read_high_water_mark(topic).high_water_mark
        last = starts["straying"] + 3

        def compacted() -> bool:
            found = histories(client)
            return len(found) == 1 and all(
                history == "trusted" and reached >= last for history, reached in found
            )

        wait_for(compacted, "the same history on each replica", PATIENCE_S)
        for node in (1, 2, 3):
            log = cluster.logs[node].read_text()
            assert "the log was not compacted" not in log, log
            assert cluster.runs(node)
        with arrow_memory() as pool:
            for start in starts.values():
                with pytest.raises(DataLoss):
                    read(client, topic, start, start + 1, *GOOD)
                assert read(client, topic, start - 1, start, *GOOD) == [GOOD]
            assert pool.max_memory() < BATCH_DECODED_BYTES_MAX
        assert read(client, topic, end - 1, end, *GOOD) == [{**GOOD, "id": 3 * POINT - 1}]

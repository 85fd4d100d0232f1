"""A real node denies no record that a condition wants, in its log and in its history files, over
two versions of a schema. What is wanted is what Arrow finds among all records.
"""

from __future__ import annotations

import datetime
import decimal
import math
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.machines.commands import TopicInfo
from raftlog.predicates.predicate import Compare, Predicate
from raftlog.records.condition import parse_condition
from tests.cluster.waiting import wait_serving

ROWS_PER_BATCH = 3
BATCHES = 70
"""Of each version of the schema: the first ones are in history files when the tests begin."""

DDL = (
    "id bigint, small int, single float, real double, text string, raw binary, truth boolean, "
    "day date, at timestamp, wall timestamp_ntz, dec decimal(10,2), gone int"
)
DAY = datetime.date(2026, 3, 29)
AT = datetime.datetime(2026, 3, 29, 0, 30, tzinfo=datetime.UTC)
ODD: dict[str, list[Any]] = {
    "id": [-(2**63), 2**63 - 1],
    "small": [-(2**31), 2**31 - 1, 0],
    "single": [math.nan, -0.0, 0.0, 0.1, math.inf],
    "real": [math.nan, -0.0, 0.0, 0.1, -math.inf],
    "text": ["", "a" * 70, "\uffff", "\U0001f600", "é"],
    "raw": [b"", b"\xff" * 70],
}


class Filled(NamedTuple):
    """The topic, and all that is in it."""

    client: LogClient
    before: TopicInfo
    """Before its columns changed."""
    topic: TopicInfo
    everything: pa.Table


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    folder = tmp_path_factory.mktemp("predicates") / "data"
    given = ("storage.snapshot_entries=100",)
    with ProcessCluster.start(folder, nodes=1, settings=given) as cluster:
        wait_serving(cluster)
        with cluster.client() as client:
            chance = random.Random(7)
            before = client.create_topic("t", DDL)
            for number in range(BATCHES):
                client.append(before, [_row(chance, number) for _ in range(ROWS_PER_BATCH)])
            client.alter_schema(before, drop=["gone"])
            topic = client.alter_schema(
                "t", add="later int, gone string", types="small bigint, single double",
                rename={"wall": "clock"},
            )  # fmt: skip
            for number in range(BATCHES, 2 * BATCHES):
                rows = [_later(chance, number) for _ in range(ROWS_PER_BATCH)]
                client.append(topic, rows)
            wait_for(lambda: [*folder.rglob("history-*")], "a history file", PATIENCE_S)
            yield Filled(client, before, topic, _everything(client, topic))


def _everything(client: LogClient, topic: TopicInfo) -> pa.Table:
    names = [*(field.name for field in topic.schema.fields), "_topic", "_offset", "_timestamp"]
    return pa.Table.from_batches(client.read(topic, columns=[*names, "_epoch", "_writer"]))


def _row(chance: random.Random, number: int) -> dict[str, Any]:
    """Values that rise with the batch's number, some of them odd or null."""
    value = number + chance.randrange(4)
    row = {
        "id": value, "small": value, "single": value / 4, "real": value / 4, "text": f"t{value:03}",
        "raw": str(value).encode(), "truth": value % 40 < 20,
        "day": DAY + datetime.timedelta(days=value), "at": AT + datetime.timedelta(minutes=value),
        "wall": AT.replace(tzinfo=None) + datetime.timedelta(minutes=value),
        "dec": decimal.Decimal(value) / 4, "gone": value,
    }  # fmt: skip
    for name in row:
        if number % 8 == 3 and chance.random() < 0.3:
            row[name] = chance.choice([None, *ODD.get(name, [])])
    return row


def _later(chance: random.Random, number: int) -> dict[str, Any]:
    row = _row(chance, number)
    row["clock"] = row.pop("wall")
    row["gone"] = None if row["gone"] is None else str(row["gone"])
    return row | {"later": chance.choice([None, number])}


def kept(filled: Filled, topic: TopicInfo, where: Predicate) -> list[bool]:
    """For each record whether the node says that it may match, page by page."""
    end = filled.everything.num_rows
    found: list[bool] = []
    while len(found) < end:
        sizes = filled.client.read_sizes(
            topic, len(found), end, mark=end, pieces_max=10_000, where=where
        )
        assert len(sizes.matches) == len(sizes.body_bytes) == len(sizes.offsets) - 1
        for start, stop, matches in zip(
            sizes.offsets, sizes.offsets[1:], sizes.matches, strict=False
        ):
            found += [matches] * (stop - start)
    return found


# ---------------------------------------------------------------- conditions


def _texts(values: st.SearchStrategy[int]) -> dict[str, st.SearchStrategy[str]]:
    """Literals by column."""
    numbers = st.one_of(values.map(str), values.map(lambda value: str(value / 8)))
    whole = st.one_of(numbers, st.sampled_from(["9223372036854775807", "-9223372036854775808"]))
    minutes = values.map(lambda value: AT + datetime.timedelta(minutes=value))
    return {
        "id": whole,
        "small": st.one_of(whole, st.sampled_from(["2147483648", "1e30"])),
        "single": st.one_of(numbers, st.sampled_from(["0.1", "-0.0", "1e39"])),
        "real": st.one_of(numbers, st.sampled_from(["0.1", "-0.0", "1e308"])),
        "text": st.one_of(
            values.map(lambda value: f"'t{value:03}'"), st.sampled_from(["''", "'é'"])
        ),
        "day": values.map(lambda value: f"date '{DAY + datetime.timedelta(days=value)}'"),
        "at": minutes.map(lambda at: f"'{at.isoformat()}'"),
        "clock": minutes.map(lambda at: f"'{at.replace(tzinfo=None)}'"),
        "dec": numbers,
        "later": whole,
        "gone": values.map(lambda value: f"'{value}'"),
        "_offset": whole,
        "_topic": st.sampled_from(["'t'", "'u'"]),
    }  # fmt: skip


LITERALS = _texts(st.integers(-5, 2 * BATCHES + 5))
COLUMNS = st.sampled_from([*LITERALS])
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
TESTS = st.one_of(
    COLUMNS.flatmap(lambda name: st.builds(f"{name} {{}} {{}}".format, OPERATORS, LITERALS[name])),
    COLUMNS.flatmap(
        lambda name: st.builds(f"{{1}} {{0}} {name}".format, OPERATORS, LITERALS[name])
    ),
    COLUMNS.flatmap(
        lambda name: st.builds(f"{name} BETWEEN {{}} AND {{}}".format, *2 * [LITERALS[name]])
    ),
    COLUMNS.flatmap(
        lambda name: st.lists(LITERALS[name], min_size=1, max_size=3).map(
            lambda each: f"{name} IN ({', '.join(each)})"
        )
    ),
    st.sampled_from([*LITERALS, "raw", "truth", "_epoch", "_writer"]).map("{} IS NULL".format),
    st.sampled_from(
        ["text LIKE 't0%'", "text LIKE '%9'", "text LIKE '%'", "truth", "truth = false"]
    ),
)
CONDITIONS = st.recursive(
    TESTS,
    lambda parts: st.one_of(
        parts.map("NOT ({})".format),
        st.builds("({}) AND ({})".format, parts, parts),
        st.builds("({}) OR ({})".format, parts, parts),
    ),
    max_leaves=4,
)


@settings(max_examples=80, deadline=None)
@given(condition=CONDITIONS)
def test_no_record_that_is_wanted_is_denied(filled: Filled, condition: str) -> None:
    wanted = parse_condition(condition, filled.everything.schema)
    kept_rows = pa.array(kept(filled, filled.topic, wanted.predicate))
    expected = filled.everything.filter(wanted.expression)
    got = filled.everything.filter(kept_rows).filter(wanted.expression)["_offset"].to_pylist()
    assert got == expected["_offset"].to_pylist()


@pytest.mark.parametrize(
    "condition",
    [
        "id = 120",
        "small BETWEEN 120 AND 125",
        "single > 34",
        "text LIKE 't13%'",
        "day < date '2026-07-13'",
        "at >= '2026-03-29T02:45Z'",
        "clock < '2026-03-29 02:15:00'",
        "later = 120",
        "later IS NOT NULL AND id > 135",
        "NOT (id < 135 OR gone = '3')",
        "_offset < 310",
        "_topic = 'u'",
        "_epoch IS NOT NULL",
    ],
)
def test_most_of_what_is_not_wanted_is_denied(filled: Filled, condition: str) -> None:
    """Of the entries of the log: those in history are one batch. Each eighth entry is kept for its
    odd values."""
    predicate = parse_condition(condition, filled.everything.schema).predicate
    assert sum(kept(filled, filled.topic, predicate)[-120:]) <= 60


def test_who_reads_an_earlier_version_is_denied_nothing_of_a_later_one(filled: Filled) -> None:
    nothing = Compare(column="id", operator="<", value=-(2**63))
    assert kept(filled, filled.before, nothing)[-3 * BATCHES :] == [True] * 3 * BATCHES
    assert not any(kept(filled, filled.topic, nothing))
    assert pc.min(filled.everything["id"]).as_py() == -(2**63), "so that the bound is met"

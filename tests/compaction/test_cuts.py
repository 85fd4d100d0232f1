"""Row groups are cut by what every replica's log holds alike, within their bounds."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from raftlog.compaction.cuts import (
    LARGE_BYTES_MIN,
    LARGE_RECORDS_MIN,
    ROW_GROUP_BYTES_MAX,
    ROW_GROUP_NAME_BYTES_MAX,
    ROW_GROUP_RECORDS_MAX,
    ROW_GROUP_RUNS_MAX,
    BatchShape,
    cut,
    shape_of,
)
from tests.image.row_groups import row_group

SIZES = st.one_of(
    st.integers(1, 100),
    st.sampled_from((LARGE_BYTES_MIN - 1, LARGE_BYTES_MIN, ROW_GROUP_BYTES_MAX + 1)),
)
COUNTS = st.one_of(
    st.integers(1, 100), st.sampled_from((LARGE_RECORDS_MIN - 1, LARGE_RECORDS_MIN, 70_000))
)
SHAPES = st.lists(
    st.builds(
        BatchShape,
        record_count=COUNTS,
        body_bytes=SIZES,
        schema_version=st.sampled_from((1, 1, 1, 2)),
        field_ids=st.sampled_from(((1, 2), (1, 2), (1, 2), (1, 3))),
        run_count=st.sampled_from((1, 1, ROW_GROUP_RUNS_MAX // 3, ROW_GROUP_RUNS_MAX + 1)),
        name_bytes=st.sampled_from((0, 40, ROW_GROUP_NAME_BYTES_MAX // 3)),
    ),
    max_size=60,
)


def cuts(shapes: list[BatchShape]) -> list[list[BatchShape]]:
    return list(cut(shapes, lambda shape: shape))


def small(count: int = 1, size: int = 1, name_bytes: int = 0) -> BatchShape:
    return BatchShape(
        record_count=count, body_bytes=size, schema_version=1, field_ids=(1, 2), run_count=1,
        name_bytes=name_bytes,
    )  # fmt: skip


def fits(shapes: list[BatchShape]) -> bool:
    return (
        sum(each.record_count for each in shapes) <= ROW_GROUP_RECORDS_MAX
        and sum(each.body_bytes for each in shapes) <= ROW_GROUP_BYTES_MAX
        and sum(each.run_count for each in shapes) <= ROW_GROUP_RUNS_MAX
        and sum(each.name_bytes for each in shapes) <= ROW_GROUP_NAME_BYTES_MAX
        and len({(each.schema_version, each.field_ids) for each in shapes}) == 1
        and not any(each.is_large for each in shapes)
    )


@given(SHAPES)
def test_every_batch_is_in_one_row_group_in_order(shapes: list[BatchShape]) -> None:
    found = cuts(shapes)
    assert [each for joined in found for each in joined] == shapes
    assert all(found)


@given(SHAPES)
def test_a_row_group_keeps_its_bounds_and_is_as_long_as_they_allow(
    shapes: list[BatchShape],
) -> None:
    found = cuts(shapes)
    for joined in found:
        assert len(joined) == 1 or fits(joined)
    for joined, after in pairwise(found):
        assert not fits([*joined, after[0]])


def test_small_batches_fill_a_row_group() -> None:
    assert [len(joined) for joined in cuts([small(100)] * 1000)] == [655, 345]
    assert [len(joined) for joined in cuts([small(1, 100_000)] * 100)] == [41, 41, 18]


def test_runs_and_names_of_writers_are_bounded_where_records_and_bodies_are_few() -> None:
    """They lie in the row group's description, which each read of it decodes."""
    of_one_record = [small()] * (2 * ROW_GROUP_RUNS_MAX + 1)
    found = [len(joined) for joined in cuts(of_one_record)]
    assert found == [ROW_GROUP_RUNS_MAX, ROW_GROUP_RUNS_MAX, 1]
    long_names = [small(name_bytes=4096)] * 300
    assert [len(joined) for joined in cuts(long_names)] == [128, 128, 44]


def test_a_large_batch_is_by_itself() -> None:
    for large in (small(LARGE_RECORDS_MIN), small(1, LARGE_BYTES_MIN)):
        assert cuts([small(), small(), large, large, small()]) == [
            [small(), small()],
            [large],
            [large],
            [small()],
        ]


def test_a_large_batch_takes_no_room_of_the_row_group_after_it() -> None:
    of_eight = [small(LARGE_RECORDS_MIN - 1)] * 8
    assert cuts([small(LARGE_RECORDS_MIN), *of_eight]) == [[small(LARGE_RECORDS_MIN)], of_eight]


def test_the_shape_of_a_batch_has_its_columns_and_its_bytes_in_the_log() -> None:
    stored = row_group(100, 4)
    assert shape_of(stored.header, stored.runs, 77) == BatchShape(
        record_count=4, body_bytes=77, schema_version=2, field_ids=(1, 3), run_count=2,
        name_bytes=len("query"),
    )  # fmt: skip


def test_one_batch_after_a_row_group_is_held() -> None:
    taken = []

    def batches():
        for number in range(10):
            taken.append(number)
            yield small(ROW_GROUP_RECORDS_MAX // 10)  # nine fit: each is not large

    found = cut(batches(), lambda shape: shape)
    first = next(found)
    assert len(taken) <= len(first) + 1

"""A stream's offsets: fixed once, compared as text, never back, never past what was captured."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import ClusterMismatch, DataLoss, InvalidOption, OffsetTrimmed, TopicRecreated
from raftlog.spark.limits import Limits, admitted
from raftlog.spark.offsets import (
    AtTime,
    Cluster,
    Pending,
    Reached,
    TopicRange,
    TopicWatermark,
    check_ends,
    clamp,
    cluster_of,
    initial,
    next_end,
    parse,
    ranges,
    render,
)


def mark(topic="a", end=15, start=0, incarnation="i1"):
    return TopicWatermark(
        topic=topic, incarnation=incarnation, log_start=start, high_water_mark=end
    )


HERE = Cluster(id="c1", servers="127.0.0.1:7401")
ELSEWHERE = Cluster(id="c2", servers="127.0.0.1:7501")

BEFORE_CLUSTER_IDS = '{"topics":{"a":{"end":15,"from":10,"incarnation":"i1"}},"v":1}'
"""An offset as written by the version that did not know cluster ids yet."""


def step(start, *marks, rows_max=None, fail=True, cluster=HERE, found=None, pattern=None):
    return next_end(
        start,
        {one.topic: one for one in marks},
        cluster=cluster,
        find=lambda topic, time: (found or {})[topic],
        admit=lambda waiting: admitted(Limits(records_max=rows_max), waiting, _not_asked),
        covers=lambda topic: topic in (pattern or [one.topic for one in marks]),
        fail_on_data_loss=fail,
    )


def _not_asked(topic, start, end):
    raise AssertionError("no limit is in bytes")


def spans(start, end):
    return [(one.topic, one.start, one.end) for one in ranges(start, end)]


def text(offset):
    return json.dumps(offset)


def test_the_initial_offset_depends_only_on_options():
    assert initial({"b": 5, "a": "latest"}) == initial({"a": "latest", "b": 5})
    assert text(initial({"b": 5, "a": "latest"})) == (
        '{"topics": {"a": {"start": "latest"}, "b": {"start": 5}}, "v": 1}'
    )


def test_the_first_end_fixes_where_latest_began():
    symbolic = initial({"a": "latest"})
    first = step(symbolic, mark(end=15))
    assert text(first) == (
        '{"cluster": "c1", "topics": {"a": {"end": 15, "from": 15, "incarnation": "i1"}}, "v": 1}'
    )
    assert spans(symbolic, first) == []
    later = step(first, mark(end=18))
    assert text(later) == (
        '{"cluster": "c1", "topics": {"a": {"end": 18, "incarnation": "i1"}}, "v": 1}'
    )
    assert spans(first, later) == [("a", 15, 18)]


def test_a_crash_in_batch_0_replays_the_logged_range_and_nothing_written_since():
    symbolic = initial({"a": "earliest"})
    logged = step(symbolic, mark(end=15), rows_max=10)
    assert spans(initial({"a": "earliest"}), json.loads(text(logged))) == [("a", 0, 10)]


def test_a_symbolic_start_is_never_idle_and_a_concrete_one_is_returned_as_it_is():
    symbolic = initial({"a": "earliest"})
    first = step(symbolic, mark(end=0))
    assert first != symbolic
    assert step(first, mark(end=0)) is first


def test_available_now_from_latest_ends_while_data_arrives():
    captured = mark(end=15)
    first = step(initial({"a": "latest"}), captured)
    assert step(first, captured) is first


def test_a_mark_below_the_streams_position_means_wait():
    start = render({"a": Reached(incarnation="i1", end=20)})
    assert step(start, mark(end=15)) is start


def test_a_query_does_not_start_above_a_topics_end(caplog):
    start = render({"a": Reached(incarnation="i1", end=20), "b": Pending(start="latest")})
    for enough in (
        mark(end=20),
        mark(end=15, incarnation="i2"),
        mark("b", end=0),
        mark("c", end=0),
    ):
        check_ends(start, {enough.topic: enough}, fail_on_data_loss=True)
    with pytest.raises(
        DataLoss, match=r"at offset 20 .* ends at 15: records \[15, 20\) were there"
    ):
        check_ends(start, {"a": mark(end=15)}, fail_on_data_loss=True)
    assert caplog.records == []
    check_ends(start, {"a": mark(end=15)}, fail_on_data_loss=False)
    assert "records [15, 20) were there and are gone" in caplog.text


def test_a_limit_is_exact_and_does_not_bind_when_all_is_asked_for():
    start = render({"a": Reached(incarnation="i1", end=10)})
    assert spans(start, step(start, mark(end=100), rows_max=7)) == [("a", 10, 17)]
    assert spans(start, step(start, mark(end=100))) == [("a", 10, 100)]


def test_a_batch_that_is_not_due_still_fixes_where_a_symbolic_start_is():
    def nothing(waiting):
        return dict.fromkeys(waiting, 0)

    symbolic = initial({"a": 4})
    marks = {"a": mark(end=9)}
    given = {
        "cluster": HERE,
        "find": None,
        "admit": nothing,
        "covers": "a".__eq__,
        "fail_on_data_loss": True,
    }
    first = next_end(symbolic, marks, **given)
    assert parse(first) == {"a": Reached(incarnation="i1", end=4, first=4)}
    assert next_end(first, marks, **given) is first


def test_a_topic_subscribed_later_enters_at_its_log_start_with_a_fixed_range():
    start = render({"a": Reached(incarnation="i1", end=10)})
    end = step(start, mark("a", 10), mark("b", 8, start=3))
    assert spans(start, end) == [("b", 3, 8)]


def test_a_pattern_begins_for_the_topics_that_match_then_and_later_ones_enter_at_their_start():
    symbolic = initial({"*": "latest", "b": 2})
    assert symbolic == json.loads(text(symbolic))
    first = step(symbolic, mark("a", 15), mark("b", 8))
    assert spans(symbolic, first) == [("b", 2, 8)]
    later = step(first, mark("a", 15), mark("b", 8), mark("c", 9, start=4))
    assert spans(first, later) == [("c", 4, 9)]


def test_a_pattern_without_topics_is_not_idle_once_and_a_named_topic_may_come_later():
    symbolic = initial({"*": "latest", "b": 2})
    first = step(symbolic, pattern="ab")
    assert (parse(first), spans(symbolic, first)) == ({}, [])
    assert step(first, pattern="ab") is first
    assert spans(first, step(first, mark("b", 8), pattern="ab")) == [("b", 0, 8)]


def test_a_topic_of_the_pattern_that_is_gone_is_an_error_or_is_left_behind_once():
    start = render({"a": Reached(incarnation="i1", end=9), "b": Reached(incarnation="i1", end=4)})
    with pytest.raises(TopicRecreated):
        step(start, mark("a", 9), pattern="ab")
    left = step(start, mark("a", 9), pattern="ab", fail=False)
    assert parse(left) == {"a": Reached(incarnation="i1", end=9)}
    assert step(left, mark("a", 9), pattern="ab", fail=False) is left


def test_a_topic_no_longer_subscribed_keeps_its_position():
    both = render({"a": Reached(incarnation="i1", end=10), "b": Reached(incarnation="i1", end=4)})
    end = step(both, mark("a", 12))
    assert spans(both, end) == [("a", 10, 12)]
    again = step(end, mark("a", 12), mark("b", 9))
    assert spans(end, again) == [("b", 4, 9)]


def test_a_recreated_topic_is_an_error_or_begins_again():
    start = render({"a": Reached(incarnation="i0", end=10)})
    with pytest.raises(TopicRecreated):
        step(start, mark(end=5))
    end = step(start, mark(end=5), fail=False)
    assert spans(start, end) == [("a", 0, 5)]
    assert [one.incarnation for one in ranges(start, end)] == ["i1"]


def test_a_trimmed_position_is_an_error_or_is_skipped_and_the_limit_counts_what_is_left():
    start = render({"a": Reached(incarnation="i1", end=10)})
    with pytest.raises(OffsetTrimmed) as raised:
        step(start, mark(start=40, end=50))
    assert (raised.value.requested, raised.value.earliest, raised.value.end) == (10, 40, 50)
    end = step(start, mark(start=40, end=50), rows_max=5, fail=False)
    assert spans(start, end) == [("a", 10, 45)]
    [planned] = ranges(start, end)
    kept = clamp(planned, mark(start=40, end=50), fail_on_data_loss=False)
    assert (kept.start, kept.end) == (40, 45)


def test_a_starting_offset_that_is_not_written_yet_is_refused():
    with pytest.raises(InvalidOption, match="above its end 15"):
        step(initial({"a": 16}), mark(end=15))
    assert spans(initial({"a": 15}), step(initial({"a": 15}), mark(end=15))) == []


def at_time(milliseconds, *, latest=False):
    return AtTime(
        option="startingTimestamp", timestamp_us=milliseconds * 1000, otherwise_latest=latest
    )


def test_a_time_is_looked_up_once_and_is_fixed_by_the_first_end():
    symbolic = initial({"a": at_time(7)})
    first = step(symbolic, mark(end=15), found={"a": 11}, rows_max=2)
    assert spans(json.loads(text(symbolic)), first) == [("a", 11, 13)]
    assert spans(first, step(first, mark(end=15))) == [("a", 13, 15)]


def test_a_time_after_the_last_record_is_an_error_or_means_the_end():
    with pytest.raises(InvalidOption, match=r"is 7, and no record of 'a'") as raised:
        step(initial({"a": at_time(7)}), mark(end=15), found={"a": 15})
    assert raised.value.option == "startingTimestamp"
    symbolic = initial({"a": at_time(7, latest=True)})
    for found in (15, 18):  # 18: rows before the time came after the mark was captured
        first = step(symbolic, mark(end=15), found={"a": found})
        assert parse(first) == {"a": Reached(incarnation="i1", end=found, first=found)}
        assert spans(first, step(first, mark(end=20))) == [("a", found, 20)]


def test_what_a_planned_range_lost_is_named_exactly():
    wanted = TopicRange(topic="a", incarnation="i1", start=10, end=20)
    assert clamp(wanted, mark(end=20), fail_on_data_loss=True) is wanted
    with pytest.raises(DataLoss, match=r"\[15, 20\) of topic 'a'"):
        clamp(wanted, mark(end=15), fail_on_data_loss=True)
    kept = clamp(wanted, mark(end=15), fail_on_data_loss=False)
    assert (kept.start, kept.end) == (10, 15)
    with pytest.raises(OffsetTrimmed):
        clamp(wanted, mark(start=12, end=30), fail_on_data_loss=True)
    assert clamp(wanted, mark(start=25, end=30), fail_on_data_loss=False) is None
    for gone in (None, mark(incarnation="i2")):
        with pytest.raises(TopicRecreated):
            clamp(wanted, gone, fail_on_data_loss=True)
        assert clamp(wanted, gone, fail_on_data_loss=False) is None


@pytest.mark.parametrize("fail", [True, False])
def test_another_clusters_offset_is_refused_under_any_fail_on_data_loss(fail):
    start = step(initial({"a": "earliest"}), mark(end=15))
    for found in (mark(end=15), mark(end=300, incarnation="i2")):
        with pytest.raises(ClusterMismatch) as raised:
            step(start, found, fail=fail, cluster=ELSEWHERE)
        error = raised.value
        assert (error.wanted, error.found, error.servers) == ("c1", "c2", "127.0.0.1:7501")
        assert "deleted" not in str(error)
        assert "raftlog.bootstrap.servers" in error.remedy


def test_an_offset_without_a_cluster_is_read_and_the_next_one_has_it():
    start = json.loads(BEFORE_CLUSTER_IDS)
    assert step(start, mark(end=15)) is start
    end = step(start, mark(end=18))
    assert spans(start, end) == [("a", 15, 18)]
    assert end["cluster"] == "c1"
    assert step(end, mark(end=18)) is end


def test_offsets_of_another_version_are_not_guessed_at():
    for foreign in ({"v": 2, "topics": {}}, {"topics": {}}, {"v": 1}):
        with pytest.raises(DataLoss):
            parse(foreign)


def test_ends_that_do_not_fit_their_start_are_refused():
    start = render({"a": Reached(incarnation="i1", end=10)})
    for end in (
        render({"a": Reached(incarnation="i1", end=9)}),
        render({"a": Reached(incarnation="i2", end=12)}),
        initial({"a": "latest"}),
    ):
        with pytest.raises(DataLoss):
            ranges(start, end)


entries = st.one_of(
    st.builds(
        Pending,
        start=st.one_of(
            st.sampled_from(["earliest", "latest"]),
            st.integers(0, 9),
            st.builds(
                AtTime,
                option=st.just("startingTimestamp"),
                timestamp_us=st.integers(0, 9),
                otherwise_latest=st.booleans(),
            ),
        ),
    ),
    st.builds(
        Reached,
        incarnation=st.sampled_from(["i1", "i2"]),
        end=st.integers(0, 99),
        first=st.none() | st.integers(0, 9),
    ),
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), entries))
@settings(max_examples=100, deadline=None)
def test_json_text_survives_sparks_log(offset):
    rendered = render(offset)
    assert parse(json.loads(text(rendered))) == offset
    assert text(render(parse(json.loads(text(rendered))))) == text(rendered)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=100, deadline=None)
def test_batches_cover_every_record_once_and_in_order(data):
    """Under any limits and any growth of the topics, ranges join without gap or overlap."""
    topics = data.draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True))
    ends = {topic: data.draw(st.integers(0, 5)) for topic in topics}
    start = initial(dict.fromkeys(topics, "earliest"))
    read = dict.fromkeys(topics, 0)
    for _ in range(data.draw(st.integers(1, 8))):
        for topic in topics:
            ends[topic] += data.draw(st.integers(0, 5))
        end = step(
            start,
            *(mark(topic, ends[topic]) for topic in topics),
            rows_max=data.draw(st.none() | st.integers(1, 4)),
        )
        for topic, first, last in spans(start, json.loads(text(end))):
            assert first == read[topic]
            assert last <= ends[topic]
            read[topic] = last
        start = end
    final = step(start, *(mark(topic, ends[topic]) for topic in topics))
    for topic, _, last in spans(start, final):
        read[topic] = last
    assert read == ends


# ---------------------------------------------------------------- what somebody changed


@pytest.mark.parametrize(
    "entry",
    [
        {"end": "x", "incarnation": "i1"},
        {"end": None, "incarnation": "i1"},
        {"end": [5], "incarnation": "i1"},
        {"end": 0.5, "incarnation": "i1"},
        {"end": True, "incarnation": "i1"},
        {"end": -1, "incarnation": "i1"},
        {"end": 5, "incarnation": 1},
        {"end": 5, "incarnation": "i1", "from": "0"},
        {"end": 5, "incarnation": "i1", "more": 1},
        {"end": 5},
        {"start": "somewhere"},
        {"start": None},
        {"start": -2},
        {"start": {"option": "o", "writer": "w"}},
        {"start": {"option": "o", "writer": "w", "epoch": "1"}},
        {"start": {"option": "o", "timestamp_us": 1, "otherwise_latest": 1}},
        5,
        None,
    ],
)
def test_an_entry_that_no_version_writes_is_data_loss(entry):
    with pytest.raises(DataLoss, match="topic 'a'"):
        parse({"topics": {"a": entry}, "v": 1})


@pytest.mark.parametrize("offset", [None, [1, 2], "x", 5, {}, {"v": 1}, {"v": 2, "topics": {}}])
def test_an_offset_that_is_none_is_data_loss(offset):
    with pytest.raises(DataLoss, match="The checkpoint's offset"):
        parse(offset)


@pytest.mark.parametrize("offset", [None, [1, 2], "x", {"cluster": 5}])
def test_a_cluster_that_is_none_is_data_loss(offset):
    with pytest.raises(DataLoss, match="The checkpoint's offset"):
        cluster_of(offset)

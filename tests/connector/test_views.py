"""Views: what may be given with them, and what is refused on the driver."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from raftlog.errors import InvalidOption
from raftlog.spark.datasource import RaftlogDataSource
from raftlog.spark.options import VIEWS, view_options
from raftlog.spark.views import _ROWS, COLUMNS, ViewReader


def test_a_view_is_of_all_topics_or_of_those_that_are_named() -> None:
    assert view_options({"subscribe": "flights"}) is None
    every = view_options({"view": "Groups"})
    assert every is not None
    assert (every.view, every.topics.covers("any.topic-1")) == ("groups", True)
    some = view_options({"view": "epochs", "subscribepattern": "a.*"})
    assert some is not None
    assert (some.topics.covers("ab"), some.topics.covers("b")) == (True, False)
    named = view_options({"view": "topics", "subscribe": "a, b", "raftlog.client.rack": "r"})
    assert named is not None
    assert named.topics.names == ("a", "b")


def test_every_view_has_columns_and_rows() -> None:
    assert tuple(COLUMNS) == tuple(_ROWS) == VIEWS


@pytest.mark.parametrize(
    ("given", "option", "text"),
    [
        ({"view": "lag"}, "view", "it can be watermarks, groups, epochs, topics"),
        ({"view": ""}, "view", "it can be watermarks"),
        ({"view": "groups", "startingoffsets": "latest"}, "startingOffsets", "has no records"),
        ({"view": "groups", "groupid": "g"}, "groupId", "has no records"),
        ({"view": "groups", "includemetadata": "true"}, "includeMetadata", "has no records"),
        ({"view": "groups", "subscribe": "a", "subscribepattern": "b"}, "subscribePattern", "one"),
        ({"view": "groups", "subscribepattern": "("}, "subscribePattern", "regular expression"),
        ({"views": "groups"}, "views", "Did you mean 'view'"),
    ],
)
def test_what_a_view_cannot_be_given_is_refused_before_anything_is_asked(
    given: dict[str, str], option: str, text: str
) -> None:
    with pytest.raises(InvalidOption, match=text) as raised:
        RaftlogDataSource(given).schema()
    assert raised.value.option == option


def test_a_view_has_its_columns_without_asking_the_cluster() -> None:
    source = RaftlogDataSource({"view": "groups", "raftlog.bootstrap.servers": "127.0.0.1:1"})
    assert source.schema() == COLUMNS["groups"]


def test_a_stream_of_a_view_fails_with_the_way_to_read_it() -> None:
    reader = RaftlogDataSource({"view": "groups"}).streamReader(COLUMNS["groups"])
    with pytest.raises(InvalidOption, match=r"has no offsets.*foreachBatch") as raised:
        reader.initialOffset()
    assert raised.value.option == "view"


def test_a_projection_names_columns_of_the_view_with_their_types() -> None:
    options = view_options({"view": "groups"})
    assert options is not None
    ViewReader(options, StructType().add("position", LongType()).add("topic", StringType()))
    for wanted, text in (
        (StructType().add("positon", LongType()), r"not in view 'groups' \(did you mean position"),
        (StructType().add("position", StringType()), "asked for as string, is bigint"),
        (StructType(), "names no column"),
    ):
        with pytest.raises(InvalidOption, match=text) as raised:
            ViewReader(options, wanted)
        assert raised.value.option == "schema"

"""Options: unknown, contradictory and malformed ones are refused with what to do instead."""

import re

import pytest

from raftlog.errors import InvalidOption
from raftlog.spark import foreign_options
from raftlog.spark.declarations import BY_KEY, OPTIONS, Endpoint
from raftlog.spark.limits import Limits
from raftlog.spark.offsets import AfterEpoch, AtTime
from raftlog.spark.options import (
    CreateTopic,
    check_values,
    default_parallelism,
    sink_options,
    source_options,
    subscription,
)

SUBSCRIBE = {"subscribe": "flights"}
TOPIC = {"topic": "flights"}

ZOOKEEPER = "raftlog.zookeeper.connect"


def refused(given, endpoint):
    parse = (
        sink_options if endpoint in (Endpoint.STREAM_SINK, Endpoint.BATCH_SINK) else source_options
    )
    with pytest.raises(InvalidOption) as raised:
        parse(given, endpoint)
    return raised.value


def test_defaults_are_those_of_kafka_and_of_raftlog_up():
    stream = source_options(SUBSCRIBE, Endpoint.STREAM_SOURCE)
    batch = source_options(SUBSCRIBE, Endpoint.BATCH_SOURCE)
    assert stream.subscription.connection.bootstrap_servers == (
        "127.0.0.1:7401,127.0.0.1:7402,127.0.0.1:7403"
    )
    assert stream.subscription.connection.request_timeout_s == 30.0
    assert stream.starting.of("flights") == "latest"
    assert batch.starting.of("flights") == "earliest"
    assert batch.ending.of("flights") == "latest"
    assert stream.fail_on_data_loss
    assert stream.read_preference == batch.read_preference == "nearest"
    assert not stream.subscription.include_metadata
    sink = sink_options(TOPIC, Endpoint.STREAM_SINK)
    assert sink.create_topic is CreateTopic.TRUE
    assert (sink.compression, sink.batch_bytes, sink.max_in_flight) == ("lz4", 1 << 20, 4)
    assert not sink.keep_on_mismatch
    assert default_parallelism() >= 1


def test_a_schema_that_changes_is_said_of_a_stream_and_of_a_sink():
    assert source_options(SUBSCRIBE, Endpoint.STREAM_SOURCE).schema_evolution == "additive"
    given = SUBSCRIBE | {"schemaEvolution": "Fail"}
    assert source_options(given, Endpoint.STREAM_SOURCE).schema_evolution == "fail"
    assert refused(given, Endpoint.BATCH_SOURCE).option == "schemaEvolution"
    error = refused(SUBSCRIBE | {"schemaEvolution": "merge"}, Endpoint.STREAM_SOURCE)
    assert error.problem == "is 'merge'; it can be additive, fail"
    assert not sink_options(TOPIC, Endpoint.BATCH_SINK).merge_schema
    assert sink_options(TOPIC | {"mergeSchema": "TRUE"}, Endpoint.STREAM_SINK).merge_schema


def test_a_lost_checkpoint_is_meant_only_by_a_stream_that_is_known_by_its_name():
    assert not sink_options(TOPIC, Endpoint.STREAM_SINK).append_on_reset
    append = TOPIC | {"onCheckpointReset": "Append"}
    assert sink_options(append, Endpoint.STREAM_SINK).append_on_reset
    assert refused(append, Endpoint.BATCH_SINK).option == "onCheckpointReset"
    error = refused(append | {"txnAppId": "job"}, Endpoint.STREAM_SINK)
    assert "beside 'txnAppId'" in error.problem


def test_unset_options_take_the_drivers_client_settings(monkeypatch):
    monkeypatch.setenv("RAFTLOG_CLIENT__BOOTSTRAP_SERVERS", "far:1")
    monkeypatch.setenv("RAFTLOG_CLIENT__REQUEST_TIMEOUT_S", "2.5")
    connection = source_options(SUBSCRIBE, Endpoint.STREAM_SOURCE).subscription.connection
    assert (connection.bootstrap_servers, connection.request_timeout_s) == ("far:1", 2.5)
    given = SUBSCRIBE | {"raftlog.request.timeout.ms": "1500"}
    connection = source_options(given, Endpoint.STREAM_SOURCE).subscription.connection
    assert connection.request_timeout_s == 1.5


def test_tasks_read_where_the_options_say():
    given = SUBSCRIBE | {"readPreference": "Observer", "raftlog.client.rack": "west"}
    for endpoint in (Endpoint.STREAM_SOURCE, Endpoint.BATCH_SOURCE):
        source = source_options(given, endpoint)
        assert source.read_preference == "observer"
        assert source.subscription.connection.rack == "west"
        error = refused(SUBSCRIBE | {"readPreference": "primary"}, endpoint)
        assert "nearest, leader, follower, observer" in str(error)


def test_names_are_accepted_in_any_case_and_sparks_own_pass():
    given = {
        "SUBSCRIBE": "b, a",
        "startingoffsets": "EARLIEST",
        "path": "x",
        "queryname": "q",
        "checkpointlocation": "/tmp/c",
    }
    parsed = source_options(given, Endpoint.STREAM_SOURCE)
    assert parsed.subscription.topics.names == ("a", "b")
    assert [parsed.starting.of(topic) for topic in "ab"] == ["earliest", "earliest"]


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("bootstrap.servers", "raftlog.bootstrap.servers"),
    ],
)
def test_an_unknown_option_names_the_nearest_one(typo, meant):
    error = refused(SUBSCRIBE | {typo.lower(): "1"}, Endpoint.STREAM_SOURCE)
    assert f"Did you mean '{meant}'?" in str(error)


@pytest.mark.parametrize(
    ("given", "endpoint", "advice"),
    [
        (SUBSCRIBE, Endpoint.STREAM_SOURCE, "call .schema("),
        (SUBSCRIBE, Endpoint.BATCH_SOURCE, "call .schema("),
        (TOPIC, Endpoint.BATCH_SINK, "the first write creates the topic"),
    ],
)
def test_a_schema_given_as_an_option_is_refused_with_where_it_belongs(given, endpoint, advice):
    error = refused(given | {"schema": "id BIGINT"}, endpoint)
    assert error.option == "schema"
    assert advice in error.remedy


def test_an_option_of_another_place_says_where_it_belongs():
    error = refused(SUBSCRIBE | {"endingoffsets": "latest"}, Endpoint.STREAM_SOURCE)
    assert "'endingOffsets' is not an option of readStream" in str(error)
    assert "belongs to read:" in str(error)
    error = refused(TOPIC | {"subscribe": "flights"}, Endpoint.BATCH_SINK)
    assert "belongs to read and readStream" in str(error)


def test_a_subscription_is_read_before_stream_or_batch_is_known():
    given = SUBSCRIBE | {"startingoffsets": "latest", "includemetadata": "true"}
    assert subscription(given).include_metadata
    with pytest.raises(InvalidOption, match="not known to read and readStream"):
        subscription(SUBSCRIBE | {"nonsense": "1"})


def test_values_are_refused_as_soon_as_they_can_be_neither_a_streams_nor_a_batchs():
    check_values(SUBSCRIBE | {"startingoffsets": "latest"})
    check_values(SUBSCRIBE | {"endingoffsets": "latest"})
    with pytest.raises(InvalidOption, match="'startingOffsets' is 'Soon', which is neither"):
        check_values(SUBSCRIBE | {"startingoffsets": "Soon"})
    with pytest.raises(InvalidOption, match="'endingOffsets' is earliest"):
        check_values(SUBSCRIBE | {"endingoffsets": "earliest"})
    with pytest.raises(InvalidOption, match="'maxTriggerDelay' is given without"):
        check_values(SUBSCRIBE | {"maxtriggerdelay": "5m"})


@pytest.mark.parametrize("value", ["0", "-1", "many", "", "1.5", "\u0661"])
def test_a_count_is_a_whole_number_from_one_up(value):
    error = refused(SUBSCRIBE | {"maxoffsetspertrigger": value}, Endpoint.STREAM_SOURCE)
    assert repr(value) in str(error)


def test_limits_of_a_batch_are_in_sparks_units():
    def limits(**given):
        return source_options(SUBSCRIBE | given, Endpoint.STREAM_SOURCE).limits

    assert limits() == Limits(delay_max_s=900.0)
    given = {"maxOffsetsPerTrigger": "9", "minOffsetsPerTrigger": "5", "maxBytesPerTrigger": "64m"}
    assert limits(**given, maxTriggerDelay="1500") == Limits(
        records_max=9, records_min=5, bytes_max=64 << 20, delay_max_s=1.5
    )
    for text, seconds in {"2h": 7200.0, "5 min": 300.0, "250us": 0.00025, "0s": 0.0}.items():
        assert limits(minOffsetsPerTrigger="5", maxTriggerDelay=text).delay_max_s == seconds
    assert limits(maxBytesPerTrigger="3KB").bytes_max == 3072
    batch = source_options(SUBSCRIBE, Endpoint.BATCH_SOURCE)
    assert batch.limits == Limits()


@pytest.mark.parametrize(
    ("given", "option", "problem"),
    [
        ({"maxBytesPerTrigger": "0"}, "maxBytesPerTrigger", "whole number from 1"),
        ({"maxBytesPerTrigger": "64mib"}, "maxBytesPerTrigger", "'64mib'"),
        ({"maxBytesPerTrigger": "9" * 30}, "maxBytesPerTrigger", "whole number"),
        ({"maxTriggerDelay": "15m"}, "maxTriggerDelay", "without 'minOffsetsPerTrigger'"),
        (
            {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "1.5m"},
            "maxTriggerDelay",
            "'1.5m', which is not a whole number",
        ),
        (
            {"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
            "minOffsetsPerTrigger",
            "is 6, above 'maxOffsetsPerTrigger' 5",
        ),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(given, option, problem):
    error = refused(SUBSCRIBE | given, Endpoint.STREAM_SOURCE)
    assert error.option == option
    assert problem in str(error)


@pytest.mark.parametrize(
    ("name", "value", "bounds"),
    [
        ("txnVersion", str(2**63 - 1), f"0 to {2**63 - 2}"),
        ("txnVersion", "9" * 20, f"0 to {2**63 - 2}"),
        ("txnVersion", "9" * 5000, f"0 to {2**63 - 2}"),
        ("batch.bytes", "1", "1024 to 268435456"),
        ("batch.bytes", "999999999", "1024 to 268435456"),
        ("maxInFlight", "65", "1 to 64"),
        ("raftlog.request.timeout.ms", "3600001", "1 to 3600000"),
    ],
)
def test_a_number_outside_its_bounds_is_refused_with_them(name, value, bounds):
    given = {"txnAppId": "job", "txnVersion": "0"} | {name: value}
    error = refused(TOPIC | given, Endpoint.BATCH_SINK)
    assert error.option == name
    assert f"not a whole number from {bounds}" in str(error)
    assert value[:12] in str(error)
    assert len(str(error)) < 400


def test_the_greatest_and_least_numbers_are_taken():
    given = {"txnAppId": "x" * 1024, "txnVersion": str(2**63 - 2), "batch.bytes": "01024"}
    sink = sink_options(TOPIC | given, Endpoint.BATCH_SINK)
    assert (sink.txn_version, sink.batch_bytes) == (2**63 - 2, 1024)


@pytest.mark.parametrize("endpoint", [Endpoint.STREAM_SINK, Endpoint.BATCH_SINK])
def test_a_name_that_is_too_long_for_a_writer_is_refused_with_the_bound(endpoint):
    error = refused(TOPIC | {"txnAppId": "x" * 1025}, endpoint)
    assert error.option == "txnAppId"
    assert "has 1025 characters; 1 to 1024 are allowed" in str(error)


@pytest.mark.parametrize(
    "servers", ["", "localhost", "localhost:x", ":7401", "a:1,,b:2", "a:70000"]
)
def test_bootstrap_servers_are_host_and_port(servers):
    error = refused(SUBSCRIBE | {"raftlog.bootstrap.servers": servers}, Endpoint.STREAM_SOURCE)
    assert error.option == "raftlog.bootstrap.servers"


def test_booleans_and_choices_list_their_values():
    error = refused(SUBSCRIBE | {"failondataloss": "yes"}, Endpoint.STREAM_SOURCE)
    assert "it can be true, false" in str(error)
    error = refused(TOPIC | {"compression": "gzip"}, Endpoint.STREAM_SINK)
    assert "lz4, zstd, none" in str(error)


def test_required_names_are_required():
    assert refused({}, Endpoint.STREAM_SOURCE).option == "subscribe"
    assert refused({"subscribe": " , "}, Endpoint.BATCH_SOURCE).option == "subscribe"
    assert refused({"topic": ""}, Endpoint.STREAM_SINK).option == "topic"
    assert "twice" in str(refused({"subscribe": "a,a"}, Endpoint.STREAM_SOURCE))


def test_topics_are_bounded_where_the_rows_name_them():
    assert sink_options({}, Endpoint.STREAM_SINK).topics_max == 100
    given = {"maxTopicsPerBatch": "7"}
    assert sink_options(given, Endpoint.BATCH_SINK).topics_max == 7
    assert refused(TOPIC | given, Endpoint.BATCH_SINK).problem == (
        "is given with 'topic', to which all rows go"
    )
    error = refused({"maxTopicsPerBatch": "1001"}, Endpoint.STREAM_SINK)
    assert "a whole number from 1 to 1000" in str(error)


def test_a_pattern_matches_whole_names_and_bounds_what_positions_may_name():
    given = {"subscribepattern": "orders-[0-9]+", "startingoffsets": '{"orders-1": 5, "*": -2}'}
    for endpoint in (Endpoint.STREAM_SOURCE, Endpoint.BATCH_SOURCE):
        parsed = source_options(given, endpoint)
        covers = parsed.subscription.topics.covers
        names = ("orders-1", "orders-22", "orders-", "my-orders-1")
        assert [covers(name) for name in names] == [True, True, False, False]
        assert [parsed.starting.of(name) for name in names[:2]] == [5, "earliest"]
    error = refused(given | {"startingoffsets": '{"orders-x": 5}'}, Endpoint.STREAM_SOURCE)
    assert "names orders-x, not in 'subscribePattern'" in str(error)
    error = refused({"subscribepattern": "orders-("}, Endpoint.STREAM_SOURCE)
    assert "'orders-(', which is no regular expression" in str(error)
    assert refused({"subscribepattern": ""}, Endpoint.STREAM_SOURCE).option == "subscribePattern"
    error = refused(given | SUBSCRIBE, Endpoint.STREAM_SOURCE)
    assert "given with 'subscribe'" in str(error)
    error = refused(given | {"startingoffsets": "latest"}, Endpoint.BATCH_SOURCE)
    assert "would read nothing" in str(error)


def test_positions_by_topic_name_subscribed_topics_and_the_others_have_the_default():
    given = {"subscribe": "a,b,c", "startingoffsets": '{"a": -2, "b": 7}'}

    def starts(endpoint, **more):
        starting = source_options(given | more, endpoint).starting
        return [starting.of(topic) for topic in "abc"]

    assert starts(Endpoint.STREAM_SOURCE) == ["earliest", 7, "latest"]
    assert starts(Endpoint.BATCH_SOURCE) == ["earliest", 7, "earliest"]
    named = {"startingoffsets": '{"b": 7, "*": -2}'}
    assert starts(Endpoint.STREAM_SOURCE, **named) == ["earliest", 7, "earliest"]
    ending = source_options(given | {"endingoffsets": '{"c": 9}'}, Endpoint.BATCH_SOURCE).ending
    assert [ending.of(topic) for topic in "abc"] == ["latest", "latest", 9]
    error = refused(given | {"subscribe": "a,c"}, Endpoint.STREAM_SOURCE)
    assert "names b, not in 'subscribe'" in str(error)


def test_a_read_starts_and_ends_at_times_in_milliseconds():
    def at(option, milliseconds, latest):
        return AtTime(option=option, timestamp_us=milliseconds * 1000, otherwise_latest=latest)

    given = SUBSCRIBE | {"startingTimestamp": "5", "endingTimestamp": "7"}
    parsed = source_options(given, Endpoint.BATCH_SOURCE)
    assert parsed.starting.of("flights") == at("startingTimestamp", 5, False)
    assert parsed.ending.of("flights") == at("endingTimestamp", 7, True)
    given = {
        "subscribe": "a,b",
        "startingOffsetsByTimestamp": '{"a": 5}',
        "startingOffsetsByTimestampStrategy": "latest",
    }
    starting = source_options(given, Endpoint.STREAM_SOURCE).starting
    assert starting.of("a") == at("startingOffsetsByTimestamp", 5, True)
    assert starting.of("b") == "latest"


@pytest.mark.parametrize(
    ("given", "option", "problem"),
    [
        ({"startingTimestamp": "soon"}, "startingTimestamp", "'soon', which is not a whole number"),
        ({"startingTimestamp": "9" * 19}, "startingTimestamp", "from 0 to 9223372036854775"),
        (
            {"startingTimestamp": "1", "startingOffsets": "earliest"},
            "startingTimestamp",
            "given with 'startingOffsets', and each of them says where to start",
        ),
        ({"startingOffsetsByTimestamp": "5"}, "startingOffsetsByTimestamp", "not a JSON object"),
        (
            {"startingOffsetsByTimestamp": '{"flights": {"0": 5}}'},
            "startingOffsetsByTimestamp",
            "gives 'flights' the time {'0': 5}",
        ),
        ({"startingOffsetsByTimestamp": '{"x": 5}'}, "startingOffsetsByTimestamp", "names x"),
        (
            {"startingOffsetsByTimestampStrategy": "latest"},
            "startingOffsetsByTimestampStrategy",
            "without a time",
        ),
        (
            {"startingTimestamp": "8", "endingTimestamp": "7"},
            "startingTimestamp",
            "is 8 for 'flights', after its 'endingTimestamp' 7",
        ),
    ],
)
def test_times_that_mean_nothing_are_refused(given, option, problem):
    error = refused(SUBSCRIBE | given, Endpoint.BATCH_SOURCE)
    assert error.option == option
    assert problem in str(error)


@pytest.mark.parametrize(
    "value",
    [
        "[1]",
        '{"flights": -3}',
        '{"flights": true}',
        "soon",
        "{",
        pytest.param('{"a":' * 100_000, id="deep"),
    ],
)
def test_malformed_positions_are_refused(value):
    error = refused(SUBSCRIBE | {"startingoffsets": value}, Endpoint.STREAM_SOURCE)
    assert error.option == "startingOffsets"


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"startingoffsets": "latest"}, "startingOffsets"),
        ({"startingoffsets": '{"flights": -1}'}, "startingOffsets"),
        ({"endingoffsets": "earliest"}, "endingOffsets"),
        (
            {"startingoffsets": '{"flights": 9}', "endingoffsets": '{"flights": 8}'},
            "startingOffsets",
        ),
    ],
)
def test_a_batch_range_that_can_hold_nothing_is_refused(given, option):
    assert refused(SUBSCRIBE | given, Endpoint.BATCH_SOURCE).option == option


def test_a_batch_transaction_needs_both_names_and_a_stream_only_the_first():
    both = TOPIC | {"txnappid": "job", "txnversion": "0"}
    parsed = sink_options(both, Endpoint.BATCH_SINK)
    assert (parsed.txn_app_id, parsed.txn_version) == ("job", 0)
    error = refused(TOPIC | {"txnappid": "job"}, Endpoint.BATCH_SINK)
    assert "'txnAppId' is given without 'txnVersion'" in str(error)
    error = refused(TOPIC | {"txnversion": "1"}, Endpoint.BATCH_SINK)
    assert "'txnVersion' is given without 'txnAppId'" in str(error)
    assert sink_options(TOPIC | {"txnappid": "job"}, Endpoint.STREAM_SINK).txn_app_id == "job"
    error = refused(both, Endpoint.STREAM_SINK)
    assert "'txnVersion' is not an option of writeStream" in str(error)
    assert refused(TOPIC | {"txnappid": ""}, Endpoint.STREAM_SINK).option == "txnAppId"


def test_every_option_is_declared_once_and_explained():
    names = [option.name.lower() for option in OPTIONS]
    assert len(names) == len(set(names))
    assert all(option.doc.endswith(".") and option.endpoints for option in OPTIONS)


def test_a_sink_knows_where_spark_says_that_the_checkpoint_is():
    given = TOPIC | {"checkpointlocation": "/tmp/c", "queryname": "q"}
    sink = sink_options(given, Endpoint.STREAM_SINK)
    assert (sink.checkpoint_location, sink.query_name) == ("/tmp/c", "q")
    sink = sink_options(TOPIC, Endpoint.STREAM_SINK)
    assert (sink.checkpoint_location, sink.query_name) == ("", "")


def test_a_stream_publishes_only_as_a_reader_group_that_is_named():
    assert source_options(SUBSCRIBE, Endpoint.STREAM_SOURCE).group_id is None
    given = SUBSCRIBE | {"groupid": "etl/nightly"}
    assert source_options(given, Endpoint.STREAM_SOURCE).group_id == "etl/nightly"
    longest = SUBSCRIBE | {"groupid": "g" * 249}
    assert source_options(longest, Endpoint.STREAM_SOURCE).group_id == "g" * 249
    for text in ("", "g" * 250):
        assert refused(SUBSCRIBE | {"groupid": text}, Endpoint.STREAM_SOURCE).option == "groupId"
    assert "belongs to readStream" in str(refused(given, Endpoint.BATCH_SOURCE))


def test_a_query_that_may_replay_more_than_its_last_batch_is_refused():
    option = {"asyncprogresstrackingenabled": "true"}
    error = refused(TOPIC | option, Endpoint.STREAM_SINK)
    assert error.option == "asyncProgressTrackingEnabled"
    assert "replays batches before the last" in str(error)
    sink_options(TOPIC | {"asyncprogresstrackingenabled": "false"}, Endpoint.STREAM_SINK)
    assert "not known to write" in str(refused(TOPIC | option, Endpoint.BATCH_SINK))


def test_a_cluster_is_found_by_servers_or_by_zookeeper(monkeypatch):
    given = {"subscribe": "t", "raftlog.zookeeper.connect": "zk1:2181,zk2:2181/sales"}
    connection = source_options(given, Endpoint.BATCH_SOURCE).subscription.connection
    assert (connection.bootstrap_servers, connection.zookeeper) == ("", given[ZOOKEEPER])
    with pytest.raises(InvalidOption, match="leave one of the two out"):
        source_options(given | {"raftlog.bootstrap.servers": "a:1"}, Endpoint.BATCH_SOURCE)
    with pytest.raises(InvalidOption, match="zk1:2181"):
        source_options({"subscribe": "t", ZOOKEEPER: "zk1/../x"}, Endpoint.BATCH_SOURCE)
    monkeypatch.setenv("RAFTLOG_CLIENT__ZOOKEEPER", "zk9:2181")
    from_settings = source_options({"subscribe": "t"}, Endpoint.BATCH_SOURCE)
    assert from_settings.subscription.connection.zookeeper == "zk9:2181"
    nearer = {"subscribe": "t", "raftlog.bootstrap.servers": "a:1"}
    connection = source_options(nearer, Endpoint.BATCH_SOURCE).subscription.connection
    assert (connection.bootstrap_servers, connection.zookeeper) == ("a:1", "")


def test_an_epoch_is_one_of_a_writer_and_starts_a_read_or_ends_a_batch_read():
    after = {"startingAfterEpoch": "7", "epochWriter": "job"}
    batch = source_options(SUBSCRIBE | after | {"asOfEpoch": "9"}, Endpoint.BATCH_SOURCE)
    start = AfterEpoch(option="startingAfterEpoch", writer="job", epoch=7)
    assert batch.starting.of("t") == start
    assert batch.ending.of("t") == AfterEpoch(option="asOfEpoch", writer="job", epoch=9)
    assert source_options(SUBSCRIBE | after, Endpoint.STREAM_SOURCE).starting.of("t") == start
    given = SUBSCRIBE | {"asOfEpoch": "7", "epochWriter": "job"}
    assert refused(given, Endpoint.STREAM_SOURCE).option == "asOfEpoch"
    for missing in ("asOfEpoch", "epochWriter"):
        rest = {name: value for name, value in given.items() if name != missing}
        problem = refused(rest, Endpoint.BATCH_SOURCE).problem
        assert problem.startswith("is given without ")
        assert missing in problem
    error = refused(given | {"endingOffsets": "latest"}, Endpoint.BATCH_SOURCE)
    assert {"asOfEpoch", "endingOffsets"} <= set(str(error).split("'"))
    assert refused(given | {"asOfEpoch": "-1"}, Endpoint.BATCH_SOURCE).option == "asOfEpoch"
    error = refused(given | {"startingAfterEpoch": "8"}, Endpoint.BATCH_SOURCE)
    assert error.problem == "is 8, after 'asOfEpoch' 7"


@pytest.mark.parametrize(
    ("brought", "ours"),
    [
        ("kafka.bootstrap.servers", "raftlog.bootstrap.servers"),
        ("kafka.group.id", "groupId"),
        ("assign", "subscribe"),
        ("maxRecordsPerTrigger", "maxOffsetsPerTrigger"),
        ("kafka.sasl.jaas.config", "raftlog.auth.credential"),
        ("kafka.fetch.min.bytes", "raftlog docs KAFKA"),
    ],
)
def test_an_option_of_kafkas_is_told_what_takes_its_place(brought, ours):
    error = refused(SUBSCRIBE | {brought: "1"}, Endpoint.STREAM_SOURCE)
    assert error.option == brought
    assert ours in error.advice


def test_advice_names_only_options_that_there_are():
    named = re.findall(r"'([\w.]+)'", " ".join(foreign_options._IN_PLACE_OF.values()))
    assert {name.lower() for name in named} <= BY_KEY.keys()


def test_a_password_before_an_address_is_not_shown():
    given = SUBSCRIBE | {"raftlog.bootstrap.servers": "ada:planted@host:1"}
    error = refused(given, Endpoint.STREAM_SOURCE)
    assert "'***@host:1'" in error.problem
    assert "planted" not in str(error)


def test_a_topic_that_is_named_twice_has_no_position():
    given = SUBSCRIBE | {"startingOffsets": '{"flights": 1, "flights": 2}'}
    assert refused(given, Endpoint.STREAM_SOURCE).problem == "names 'flights' twice"

"""Schemas as text: Spark's DDL and JSON, read exactly or refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raftlog.errors import InvalidOption
from raftlog.machines.schema import Field, Schema
from raftlog.records.schema_text import (
    NESTING_MAX,
    parse_ddl,
    parse_json,
    parse_schema,
    schema_ddl,
)
from tests.records.spark_json import struct_json
from tests.records.strategies import SCHEMAS


@settings(max_examples=60)
@given(SCHEMAS)
def test_a_schema_survives_spark_json(schema: Schema):
    assert parse_schema(struct_json(schema)) == schema


@pytest.mark.slow
@settings(max_examples=60)
@given(SCHEMAS)
def test_a_schema_survives_ddl_but_for_what_ddl_cannot_say(schema: Schema):
    assert _collections_nullable(parse_ddl(schema_ddl(schema))) == _collections_nullable(schema)


def _collections_nullable(schema: Schema) -> Schema:
    text = struct_json(schema)
    for name in ("containsNull", "valueContainsNull"):
        text = text.replace(f'"{name}":false', f'"{name}":true')
    return parse_json(text)


@pytest.mark.parametrize(
    "name",
    [
        "select",
        "not",
        "from",
        "table",
        "order",
        "struct",
        "map",
        "9a",
        "a b",
        "`",
        "\\n",
        "\\\\",
        "'",
    ],
)
def test_keywords_and_signs_are_a_column_name_as_ddl_prints_it(name: str):
    schema = parse_json(_struct(name, "long"))
    assert parse_ddl(schema_ddl(schema)) == schema


def test_ddl_gives_fields_in_order_with_ids_from_one():
    schema = parse_schema("id BIGINT NOT NULL COMMENT 'key', tags ARRAY<STRING>")
    assert schema == Schema(
        version=1,
        fields=(
            Field(id=1, name="id", type='"long"', nullable=False),
            Field(
                id=2,
                name="tags",
                type='{"containsNull":true,"elementType":"string","type":"array"}',
                nullable=True,
            ),
        ),
    )


@pytest.mark.parametrize(
    ("ddl", "kind"),
    [
        ("a boolean", "boolean"),
        ("a byte", "byte"),
        ("a tinyint", "byte"),
        ("a short", "short"),
        ("a smallint", "short"),
        ("a int", "integer"),
        ("a integer", "integer"),
        ("a long", "long"),
        ("a bigint", "long"),
        ("a real", "float"),
        ("a float", "float"),
        ("a double", "double"),
        ("a date", "date"),
        ("a timestamp", "timestamp"),
        ("a timestamp_ltz", "timestamp"),
        ("a timestamp_ntz", "timestamp_ntz"),
        ("a string", "string"),
        ("a binary", "binary"),
        ("a decimal", "decimal(10,0)"),
        ("a dec(4)", "decimal(4,0)"),
        ("a numeric(4,1)", "decimal(4,1)"),
        ("a: INT", "integer"),
        ("STRUCT<a: INT>", "integer"),
        ("`a` int;", "integer"),
        ("a int -- the key", "integer"),
        ("a variant", "variant"),
        ("a time", "time(6)"),
        ("a time(0)", "time(0)"),
        ("a TIME(9)", "time(9)"),
        ("a interval day", "interval day"),
        ("a INTERVAL DAY TO SECOND", "interval day to second"),
        ("a interval minute to second not null", "interval minute to second"),
        ("a string collate UNICODE_CI", "string collate UNICODE_CI"),
        ("a string not null collate de_AUT_AI", "string collate de_AUT_AI"),
        ("a string collate sr_Cyrl_SRB_CI_AI_RTRIM", "string collate sr_Cyrl_SRB_CI_AI_RTRIM"),
        ("a string collate UTF8_BINARY", "string"),
    ],
)
def test_every_spelling_of_spark_is_read(ddl: str, kind: str):
    (field,) = parse_ddl(ddl).fields
    assert (field.name, json.loads(field.type)) == ("a", kind)


@pytest.mark.parametrize(
    ("ddl", "problem"),
    [
        ("", "is empty"),
        ("a", "near 'a'"),
        ("a foo", "near"),
        ("a int b", "near 'b'"),
        ("a int, b void", "near 'b void'"),
        ("id bigin", "near 'id bigin'"),
        ("id bigin not null, b int", "near 'id bigin not null'"),
        ("a struct<x: strin, y: int>", "near 'x: strin'"),
        ("a int) using parquet", "near"),
        ("a int>, b int", "near"),
        ("a int; drop table b", "near"),
        ("a int, a string", "'a' twice"),
        ("a struct<b int, b int>", "'b' twice"),
        ("a varchar(3)", "VARCHAR"),
        ("a char(3)", "CHAR"),
        ("a interval", "INTERVAL"),
        ("a interval year", "interval year"),
        ("a interval days", "interval days"),
        ("a interval second to day", "interval second to day"),
        ("a array<interval year to month>", "interval year to month"),
        ("a time(10)", r"time\(10\)"),
        ("a time with time zone", "TIMETZ"),
        ("a string collate unicode_ci", "the collation unicode_ci"),
        ("a array<string collate nonsense>", "the collation nonsense"),
        ("a string(3) collate UNICODE", "TEXT"),
        ("a int collate UNICODE", "other than NOT NULL"),
        ("a datetime", "DATETIME"),
        ("a int default 3", "other than NOT NULL"),
        ("a int primary key", "other than NOT NULL"),
        ("a decimal(39,2)", "1 to 38"),
        ("a decimal(3,4)", "a scale"),
        ("a array", "ARRAY"),
        ("a map<string>", "MAP"),
        ("a struct", "without fields"),
        ("a int,", "ends with a comma"),
        ("a int , ;", "ends with a comma"),
        ("a int, _offset bigint", "'_offset'"),
        ("a " + "array<" * 50 + "int" + ">" * 50, "nested more than"),
    ],
)
def test_ddl_that_says_what_a_topic_cannot_hold_is_refused(ddl: str, problem: str):
    with pytest.raises(InvalidOption, match=problem) as caught:
        parse_schema(ddl)
    assert caught.value.option == "schema"
    remedy = caught.value.remedy
    assert any(
        part in remedy for part in ("id BIGINT NOT NULL", "INTERVAL DAY TO SECOND", "collations()")
    )


@pytest.mark.parametrize("depth", [400, 4_000])
@pytest.mark.parametrize("part", ["array<", "struct<a: "])
def test_ddl_that_python_s_stack_cannot_hold_is_refused_for_its_depth(part: str, depth: int):
    with pytest.raises(InvalidOption, match="nested more than 32 deep"):
        parse_schema("a " + part * depth + "int" + ">" * depth)


@settings(max_examples=80)
@example("(0{:")
@given(st.text("abint <>,():`'-;\n\"0123{}[]", max_size=24))
def test_any_text_is_a_schema_or_refused(text: str):
    for source in (text, "a " + text, "{" + text):
        try:
            schema = parse_schema(source)
        except InvalidOption:
            continue
        assert schema.fields


def _struct(name: str, kind: object, **more: object) -> str:
    return json.dumps({"type": "struct", "fields": [{"name": name, "type": kind, **more}]})


def test_json_metadata_is_dropped_and_absent_flags_mean_nullable():
    array = {"type": "array", "elementType": "long"}
    schema = parse_schema(_struct("a", array, metadata={"comment": "x"}))
    assert schema == parse_schema("a ARRAY<BIGINT>")


def test_collations_in_metadata_are_part_of_the_types_of_their_places():
    inner = {"name": "a.b", "type": "string", "metadata": {"__COLLATIONS": {"a.b": "icu.de"}}}
    parts = {"type": "struct", "fields": [{"name": "plain", "type": "string"}, inner]}
    items = {"type": "array", "elementType": parts}
    kind = {"type": "map", "keyType": "string", "valueType": items}
    places = {"c.key": "icu.UNICODE_CI", "c": "icu.fr", "plain": "icu.fr"}
    (field,) = parse_schema(_struct("c", kind, metadata={"__COLLATIONS": places})).fields
    made = json.loads(field.type)
    assert made["keyType"] == "string collate UNICODE_CI"
    members = made["valueType"]["elementType"]["fields"]
    assert [member["type"] for member in members] == ["string", "string collate de"]
    assert "__COLLATIONS" not in field.type


def test_metadata_columns_that_were_read_are_left_out_of_json_and_no_others_are():
    term = {"name": "_term", "type": "long", "metadata": {"raftlog.metadata": "_term"}}
    text = json.dumps({"type": "struct", "fields": [{"name": "a", "type": "long"}, term]})
    assert parse_schema(text) == parse_schema("a BIGINT")
    for metadata in ({}, {"raftlog.metadata": "_offset"}, {"raftlog.metadata": ["_term"]}, 5, None):
        fields = [{"name": "a", "type": "long"}, term | {"metadata": metadata}]
        with pytest.raises(InvalidOption):
            parse_schema(json.dumps({"type": "struct", "fields": fields}))


def _deep() -> object:
    kind: object = "long"
    for _ in range(NESTING_MAX + 1):
        kind = {"type": "array", "elementType": kind}
    return kind


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        '{"type":"struct"}',
        '{"type":"struct","fields":[]}',
        '{"type":"struct","fields":[1]}',
        '{"type":"struct","fields":[{"type":"long"}]}',
        '{"type":"array","elementType":"long"}',
        _struct("", "long"),
        _struct("a", "interval year"),
        _struct("a", "interval"),
        _struct("a", "void"),
        _struct("a", "varchar(3)"),
        _struct("a", "time(10)"),
        _struct("a", "string collate nonsense"),
        _struct("a", "string", metadata={"__COLLATIONS": {"a": "icu"}}),
        _struct("a", "string", metadata={"__COLLATIONS": ["icu.UNICODE"]}),
        _struct("a", "decimal(1)"),
        _struct("a", {"type": "udt", "class": "x"}),
        _struct("a", 5),
        _struct("a", "long", nullable="no"),
        _struct("a\ud800", "long"),
        _struct("a", _deep()),
        "{" * 100_000,
        '{"a":' * 100_000,
    ],
    ids=lambda text: text[:60],
)
def test_json_that_is_no_schema_of_a_topic_is_refused(text: str):
    with pytest.raises(InvalidOption):
        parse_schema(text)


def test_a_type_that_no_topic_can_hold_is_reported_with_its_column() -> None:
    inner = {"type": "struct", "fields": [{"name": "inner", "type": "void", "nullable": True}]}
    text = json.dumps(
        {"type": "struct", "fields": [{"name": "outer", "type": inner, "nullable": True}]}
    )
    with pytest.raises(InvalidOption, match="'outer', which names the column 'inner', which has"):
        parse_schema(text)

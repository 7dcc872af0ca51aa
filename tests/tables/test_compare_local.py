"""Small writes are compared on the driver: they find the same records as Spark does for large ones."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.tables.schema.table_schema import declare
from seamark.tables.write import compare, compare_local

SCHEMA = declare("t", "k long, half string, x double, tags array<double>", ["k", "half"], None)
VERSIONS = pa.schema([pa.field("offset", pa.int64()), pa.field("op", pa.int32()), *SCHEMA.arrow])

keys = st.tuples(st.integers(0, 3), st.sampled_from(["a", "b"]))
numbers = st.sampled_from([None, 0.0, -0.0, 1.5, math.nan])
values = st.tuples(numbers, st.none() | st.lists(numbers, max_size=2))
tables = st.dictionaries(keys, values, max_size=8)


def rows_of(table: dict) -> pa.Table:
    rows = [{"k": k, "half": half, "x": x, "tags": tags} for (k, half), (x, tags) in table.items()]
    return pa.Table.from_pylist(rows, SCHEMA.arrow)


def versions_of(table: dict, offset: int = 0) -> pa.Table:
    listed = [{"offset": offset + n, "op": 0, **row} for n, row in enumerate(rows_of(table).to_pylist())]
    return pa.Table.from_pylist(listed, VERSIONS)


def standing(table: dict) -> compare_local.StandingRows:
    return compare_local.StandingRows.from_versions(SCHEMA, versions_of(table))


def same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def expected(new: dict, old: dict, *, gone: bool) -> list[tuple]:
    """The records, told by plain Python."""
    found = [(0, *key) for key in new if key not in old]
    for key in new:
        if key in old and not same(list(new[key]), list(old[key])):
            found += [(2, *key), (3, *key)]
    return sorted(found + [(1, *key) for key in old if gone and key not in new])


def ops_and_keys(records: pa.Table) -> list[tuple]:
    return sorted((row["op"], row["k"], row["half"]) for row in records.to_pylist())


@settings(deadline=None)
@given(new=tables, old=tables)
def test_an_upsert_finds_what_differs_and_nothing_else(new, old):
    records = compare_local.upserted(SCHEMA, rows_of(new), standing(old))
    assert ops_and_keys(records) == expected(new, old, gone=False)


@settings(deadline=None)
@given(new=tables, old=tables)
def test_a_replace_retracts_the_rest(new, old):
    records = compare_local.replaced(SCHEMA, rows_of(new), standing(old))
    assert ops_and_keys(records) == expected(new, old, gone=True)


def test_both_images_of_a_correction_are_whole():
    records = compare_local.upserted(SCHEMA, rows_of({(1, "a"): (2.0, [1.0])}), standing({(1, "a"): (1.0, None)}))
    assert records.to_pylist() == [
        {"op": 2, "k": 1, "half": "a", "x": 1.0, "tags": None},
        {"op": 3, "k": 1, "half": "a", "x": 2.0, "tags": [1.0]},
    ]


def test_the_greatest_offset_has_the_last_word_in_whatever_order_versions_come():
    row = {"k": 1, "half": "a", "x": 1.0, "tags": None}
    versions = [
        {"offset": 7, "op": 3, **row, "x": 3.0},
        {"offset": 0, "op": 0, **row},
        {"offset": 9, "op": 1, **row, "k": 2},
        {"offset": 8, "op": 0, **row, "k": 2},
    ]
    found = compare_local.StandingRows.from_versions(SCHEMA, pa.Table.from_pylist(versions, VERSIONS))
    assert found.rows.to_pylist() == [{**row, "x": 3.0}]


def test_moments_are_told_apart_whatever_the_session_shows_them_as():
    """In New York it was half past one twice in that night."""
    schema = declare("t", "at timestamp, v long", "at", None)
    moments = [datetime(2026, 11, 1, hour, 30, tzinfo=UTC) for hour in (5, 6)]
    shown = pa.array(moments, pa.timestamp("us", tz="America/New_York"))
    versions = pa.table({"offset": [0, 1], "op": pa.array([0, 0], pa.int32()), "at": shown, "v": [1, 2]})

    standing = compare_local.StandingRows.from_versions(schema, versions)

    assert standing.rows.to_pylist() == [{"at": moments[0], "v": 1}, {"at": moments[1], "v": 2}]
    again = pa.Table.from_pylist([{"at": moment, "v": 2} for moment in moments], schema.arrow)
    told = [(row["op"], row["at"], row["v"]) for row in compare_local.upserted(schema, again, standing).to_pylist()]
    assert told == [(2, moments[0], 1), (3, moments[0], 2)]


@pytest.mark.scenario("T15")
def test_spark_finds_the_same_records(spark):
    """One table with every pair of values under its own key, compared both ways."""
    choices = [(x, tags) for x in (None, 0.0, -0.0, math.nan) for tags in (None, [], [None], [math.nan, -0.0], [1.0])]
    pairs = [(one, other) for one in choices for other in choices]
    old = {(number, "a"): one for number, (one, _) in enumerate(pairs)} | {(-1, "gone"): (1.0, None)}
    new = {(number, "a"): other for number, (_, other) in enumerate(pairs)} | {(-2, "new"): (1.0, None)}

    frames = [spark.createDataFrame(rows_of(table), SCHEMA.spark()) for table in (new, old)]
    in_spark = compare.replaced(SCHEMA, *frames).toArrow()
    on_driver = compare_local.replaced(SCHEMA, rows_of(new), standing(old))

    assert ops_and_keys(in_spark) == ops_and_keys(on_driver) == expected(new, old, gone=True)

"""Every type that a column can have goes to ClickHouse and back as it was, or is refused before anything is sent."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import seamark as sm
from seamark.errors import TargetMismatch, UnfitValue
from seamark.sinks.clickhouse.types import fits, range_of, shifts
from seamark.systems.clickhouse import SIMPLE, clickhouse_type
from seamark.tables.schema import types as table_types

FIRST, LAST = datetime(1900, 1, 1), datetime(2299, 12, 31, 23, 59, 59, 999999)

CASES = {
    "boolean": ("Nullable(Bool)", [True, False, None]),
    "tinyint": ("Nullable(Int8)", [-128, 127, 0, None]),
    "smallint": ("Nullable(Int16)", [-(2**15), 2**15 - 1, None]),
    "int": ("Nullable(Int32)", [-(2**31), 2**31 - 1, None]),
    "bigint": ("Nullable(Int64)", [-(2**63), 2**63 - 1, None]),
    "float": ("Nullable(Float32)", [math.inf, -math.inf, 1.5, -0.0, None]),
    "double": ("Nullable(Float64)", [math.inf, -math.inf, 5e-324, 1.7976931348623157e308, None]),
    "string": ("Nullable(String)", ["", "żółć 🜁", 'it\'s `\\ "quoted"\n\t', "nul \0 inside", None]),
    "binary": ("Nullable(String)", [b"", b"\xff\x00\xfe", None]),
    "date": ("Nullable(Date32)", [date(1900, 1, 1), date(1969, 12, 31), date(2299, 12, 31), None]),
    "timestamp": (
        "Nullable(DateTime64(6, 'UTC'))",
        [FIRST.replace(tzinfo=UTC), datetime(2024, 3, 31, 2, 30, 0, 123456, UTC), LAST.replace(tzinfo=UTC), None],
    ),
    "timestamp_ntz": ("Nullable(DateTime64(6, 'UTC'))", [FIRST, datetime(2024, 3, 31, 2, 30, 0, 1), LAST, None]),
    "decimal(38,10)": ("Nullable(Decimal(38, 10))", [Decimal("9" * 28 + "." + "9" * 10), Decimal("-1E-10"), None]),
    "decimal(9,2)": ("Nullable(Decimal(9, 2))", [Decimal("-9999999.99"), Decimal("0.01"), None]),
    "decimal(1,0)": ("Nullable(Decimal(1, 0))", [Decimal("9"), Decimal("-9"), None]),
    "array<tinyint>": ("Array(Nullable(Int8))", [[], [1, None, -128]]),
    "array<array<string>>": ("Array(Array(Nullable(String)))", [[], [[], ["x", None, ""]]]),
    "array<timestamp>": ("Array(Nullable(DateTime64(6, 'UTC')))", [[LAST.replace(tzinfo=UTC), None], []]),
    "struct<a:int,b:array<date>,c:struct<d:string>>": (
        "Tuple(`a` Nullable(Int32), `b` Array(Nullable(Date32)), `c` Tuple(`d` Nullable(String)))",
        [{"a": 1, "b": [date(1900, 1, 1), None], "c": {"d": "x"}}, {"a": None, "b": [], "c": {"d": None}}],
    ),
}


def carried(store: sm.DataStore, url: str, declared: str, values: list, **options) -> list:
    """The values after they went to ClickHouse as column `v` of an append-only table, in their order."""
    table = store.table("values", f"n long not null, v {declared}")
    target = sm.ClickHouseSink(url, table="copy", **options)
    store.sink("values", target)
    table.append(pa.table({"n": list(range(len(values))), "v": pa.array(values, table.schema.column("v").type)}))
    store.run(fail_fast=True)
    return [row["v"] for row in target.query("SELECT v FROM copy ORDER BY n")]


def comparable(value: object) -> object:
    """Wall clocks have no zone here and UTC there; empty bytes are an empty text there; -0.0 is not 0.0."""
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, float):
        return repr(value)
    return "" if value == b"" else value


@pytest.mark.parametrize("declared", CASES)
def test_edge_values_survive(dry, url, declared):
    _, values = CASES[declared]
    assert comparable(carried(dry, url, declared, values)) == comparable(values)


@pytest.mark.parametrize("declared", ["float", "double"])
def test_nan_survives(dry, url, declared):
    one, other = carried(dry, url, declared, [math.nan, None])
    assert math.isnan(one)
    assert other is None


@pytest.mark.parametrize("declared", CASES)
def test_types_by_name(dry, declared):
    column = dry.table("values", f"v {declared}").schema.column("v")
    assert clickhouse_type(column.type, nullable=True) == CASES[declared][0]


def test_every_type_that_a_table_can_have_has_a_name_in_clickhouse():
    assert {arrow for arrow, _ in SIMPLE} == {arrow for arrow, _, _ in table_types._SIMPLE}
    assert {name for _, name, _ in table_types._SIMPLE} <= set(CASES)


def test_key_columns_of_every_plain_type(dry, url):
    columns = [name for name in CASES if "<" not in name]
    table = dry.table(
        "keyed", ", ".join(f"k{n} {name}" for n, name in enumerate(columns)), key=[f"k{n}" for n in range(len(columns))]
    )
    target = sm.ClickHouseSink(url, table="copy")
    dry.sink("keyed", target)
    values = [CASES[name][1][0] for name in columns]
    arrays = [pa.array([value], field.type) for value, field in zip(values, table.schema.arrow, strict=True)]
    table.upsert(pa.Table.from_arrays(arrays, names=table.schema.names))
    dry.run(fail_fast=True)
    (row,) = target.query("SELECT * FROM copy FINAL")
    assert comparable([row[f"k{n}"] for n in range(len(columns))]) == comparable(values)


# --- what ClickHouse does not hold ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "value", "shown"),
    [
        ("date", date(1899, 12, 31), "1899-12-31"),
        ("date", date(2300, 1, 1), "2300-01-01"),
        ("timestamp", datetime(1899, 12, 31, 23, 59, 59, 999999, UTC), "1899-12-31T23:59:59.999999"),
        ("timestamp", datetime(9999, 12, 31, tzinfo=UTC), "9999-12-31T00:00:00.000000"),
        ("timestamp_ntz", datetime(1, 1, 1), "0001-01-01T00:00:00.000000"),
        ("array<date>", [date(2024, 1, 1), date(1, 1, 1)], "0001-01-01"),
        ("struct<a:timestamp>", {"a": datetime(2300, 1, 1, tzinfo=UTC)}, "2300-01-01T00:00:00.000000"),
    ],
)
def test_dates_and_times_outside_of_clickhouse_are_refused_by_name(dry, folder_url, declared, value, shown):
    with pytest.raises(UnfitValue) as caught:
        carried(dry, folder_url, declared, [value])
    told = str(caught.value)
    assert (
        f"in column 'v', {shown}, and ClickHouse holds 1900-01-01 to 2299-12-31. Nothing of this block was sent" in told
    )
    target = dry.sinks()["values->clickhouse:copy"].outlet
    assert target.query("SELECT count() AS n FROM copy") == [{"n": 0}]


def test_values_are_looked_at_where_the_file_has_no_statistics(dry, folder_url, tmp_path):
    from seamark.sinks.clickhouse.values import SliceCheck
    from seamark.sinks.layout import Layout
    from seamark.sinks.target import Carried

    schema = dry.table("values", "v timestamp, d array<date>").schema
    check = SliceCheck(Carried("out", "values", schema, Layout.append()), "there", "refuse")

    def checked(moment: datetime | None, day: date) -> None:
        path = Path(tmp_path / "slice")
        rows = pa.table({"v": pa.array([None, moment], schema.column("v").type), "d": pa.array([[], [None, day]])})
        pq.write_table(rows, path, store_schema=False, write_statistics=False)
        check(path, 3)

    checked(datetime(2299, 1, 1, tzinfo=UTC), date(1900, 1, 1))
    checked(None, date(1900, 1, 1))
    with pytest.raises(UnfitValue, match="'v', 1850-01-01"):
        checked(datetime(1850, 1, 1, tzinfo=UTC), date(1900, 1, 1))
    with pytest.raises(UnfitValue, match="'d', 1850-01-01"):
        checked(None, date(1850, 1, 1))


@pytest.mark.parametrize(
    ("declared", "value", "empty"),
    [
        ("array<int>", None, []),
        ("array<array<int>>", [None, [1]], [[], [1]]),
        ("struct<a:int>", None, {"a": None}),
        ("struct<a:array<int>>", {"a": None}, {"a": []}),
    ],
)
def test_a_null_array_or_struct_is_refused_or_made_empty_as_asked(dry, open_store, url, declared, value, empty):
    with pytest.raises(UnfitValue, match=r'an array or struct there is never NULL.*nulls="empty" sends'):
        carried(dry, url, declared, [value])
    dry.close()
    again = open_store(spark=object())
    again.table("values", f"n long not null, v {declared}")
    target = sm.ClickHouseSink(url, table="copy", nulls="empty")
    again.sink("values", target)
    again.run(fail_fast=True)
    assert target.query("SELECT v FROM copy") == [{"v": empty}]


# --- columns of a table that somebody else made -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("Int64", "Int64"),
        ("Int8", "Int64"),
        ("Int64", "Nullable(Int64)"),
        ("Nullable(String)", "LowCardinality(Nullable(String))"),
        ("String", "LowCardinality(String)"),
        ("Float32", "Float64"),
        ("Decimal(9, 2)", "Decimal(18, 4)"),
        ("Nullable(DateTime64(6, 'UTC'))", "Nullable(DateTime64(6))"),
        ("DateTime64(6, 'UTC')", "DateTime64(6, 'Europe/Berlin')"),
        ("Tuple(`a` Int8)", "Tuple(\n    a Int8)"),
        ("UInt8", "Bool"),
    ],
)
def test_a_column_that_holds_all_our_values_fits(ours, theirs):
    assert fits(ours, theirs)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("Nullable(Int64)", "Int64"),
        ("Nullable(Int64)", "UInt64"),
        ("Int64", "Float64"),
        ("Float64", "Float32"),
        ("Decimal(18, 4)", "Decimal(18, 5)"),
        ("Decimal(9, 2)", "Decimal(18, 1)"),
        ("DateTime64(6, 'UTC')", "DateTime64(3, 'UTC')"),
        ("DateTime64(6, 'UTC')", "DateTime64(9, 'UTC')"),
        ("DateTime64(6, 'UTC')", "DateTime"),
        ("Date32", "Date"),
        ("String", "FixedString(4)"),
        ("Array(Nullable(Int8))", "Array(Int8)"),
    ],
)
def test_a_column_that_might_lose_something_does_not_fit(ours, theirs):
    assert not fits(ours, theirs)


NOON = {
    "date": date(2026, 7, 1),
    "timestamp": datetime(2026, 7, 1, 12, tzinfo=UTC),
    "timestamp_ntz": datetime(2026, 7, 1, 12),
}


@pytest.mark.parametrize(
    ("declared", "theirs", "shown"),
    [
        ("timestamp_ntz", "DateTime64(6, 'UTC')", "2026-07-01 12:00:00.000000"),
        ("timestamp_ntz", "DateTime64(7, 'Etc/UTC')", "2026-07-01 12:00:00.0000000"),
        ("timestamp_ntz", "DateTime64(6, 'Europe/Berlin')", None),
        ("timestamp_ntz", "DateTime64(6, 'Europe/London')", None),
        ("timestamp_ntz", "DateTime('UTC')", None),
        ("timestamp_ntz", "Date32", None),
        ("timestamp", "DateTime64(6, 'Europe/Berlin')", "2026-07-01 14:00:00.000000"),
        ("timestamp", "DateTime64(6)", "2026-07-01 12:00:00.000000"),
        ("timestamp", "DateTime", None),
        ("timestamp", "Date32", None),
        ("date", "Date32", "2026-07-01"),
        ("date", "Date", None),
        ("date", "DateTime64(6, 'UTC')", None),
        ("date", "DateTime64(6, 'Europe/Berlin')", None),
    ],
)
def test_times_are_shown_in_a_column_that_somebody_else_made_as_they_are_or_refused(dry, url, declared, theirs, shown):
    table = dry.table("times", f"v {declared} not null")
    target = sm.ClickHouseSink(url, table="copy")
    target.query(f"CREATE TABLE copy (v {theirs}) ENGINE = MergeTree ORDER BY v")
    dry.sink("times", target, name="out")
    table.append(pa.table({"v": pa.array([NOON[declared]], table.schema.column("v").type)}))
    error = dry.run().sinks["out"].error
    assert (error is None) is (shown is not None), error
    assert error is None or (isinstance(error, TargetMismatch) and f"has column 'v' as {theirs}, which" in str(error))
    assert [row["v"] for row in target.query("SELECT toString(v) AS v FROM copy")] == ([shown] if shown else [])


@pytest.mark.parametrize(
    ("theirs", "zone", "shifted"),
    [
        ("DateTime64(6)", "UTC", False),
        ("Nullable(DateTime64(6))", "Etc/UTC", False),
        ("Nullable(DateTime64(6))", "Europe/Berlin", True),
        ("DateTime64(6, 'Etc/Zulu')", "Europe/Berlin", False),
        ("Nullable(DateTime64(6, 'Europe/Berlin'))", "UTC", True),
        ("DateTime64(6, 'Etc/GMT-1')", "UTC", True),
    ],
)
def test_the_zone_of_the_server_counts_for_a_column_without_one(theirs, zone, shifted):
    assert shifts(theirs, zone) is shifted


@pytest.mark.scenario("D38")
@pytest.mark.parametrize(
    ("ours", "theirs", "held"),
    [
        ("Int64", "UInt64", (0, 2**64 - 1)),
        ("Int64", "UInt32", (0, 2**32 - 1)),
        ("Int64", "Int32", (-(2**31), 2**31 - 1)),
        ("Int32", "UInt64", (0, 2**64 - 1)),
        ("Nullable(Int32)", "LowCardinality(Nullable(UInt16))", (0, 2**16 - 1)),
        ("UInt64", "UInt32", (0, 2**32 - 1)),
        ("Int32", "Int64", None),
        ("Int64", "Int64", None),
        ("String", "String", None),
    ],
)
def test_a_whole_number_goes_to_any_column_of_whole_numbers_within_its_range(ours, theirs, held):
    assert fits(ours, theirs)
    assert range_of(ours, theirs) == held

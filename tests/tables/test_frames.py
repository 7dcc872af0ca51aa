"""Frames as people bring them: in chunks that may be empty, from pandas with its own idea of types, with odd names."""

import io
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import BadValue, FrameMismatch
from seamark.spark.frames import spark_frame
from seamark.tables.frames import check_frame
from seamark.tables.schema.convert import ValueDoesNotFit, convert_array
from seamark.tables.schema.table_schema import declare

CHUNKS = [(2, 0, 1), (0, 2, 0, 0, 1, 0), (30_000, 0, 20_100)]


def in_chunks(rows, lengths):
    """The rows in chunks of these lengths, as a filtered data set or a concatenation has them."""
    starts = [sum(lengths[:place]) for place in range(len(lengths))]
    return pa.concat_tables([rows.slice(start, length) for start, length in zip(starts, lengths, strict=True)])


def numbered(count, v):
    return pa.table({"k": pa.array(range(count), pa.int64()), "v": pa.array([v] * count, pa.int64())})


def test_the_chunks_are_what_they_are_called():
    chunked = in_chunks(numbered(3, 1), (2, 0, 1))
    assert [len(chunk) for chunk in chunked.column("k").chunks] == [2, 0, 1]


# --- empty chunks -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["on the driver", "in Spark"])
def place(request, set_small, monkeypatch):
    if request.param == "in Spark":
        set_small(monkeypatch, 0)


@pytest.mark.scenario("T53")
@pytest.mark.parametrize("lengths", CHUNKS, ids=str)
@pytest.mark.parametrize("verb", ["upsert", "replace"])
def test_every_row_of_a_frame_with_empty_chunks_is_taken(ds, place, verb, lengths):
    t, count = ds.table("t", "k long, v long", key="k"), sum(lengths)
    t.upsert(numbered(count, 0))

    commit = getattr(t, verb)(in_chunks(numbered(count, 1), lengths))

    assert (commit.appended, commit.corrected, commit.retracted) == (0, count, 0)
    assert [tuple(row) for row in t.rows().groupBy("v").count().collect()] == [(1, count)]


@pytest.mark.scenario("T53")
@pytest.mark.parametrize("lengths", [(2, 0, 1), (0, 3), (1, 0, 0, 2), (3, 0)], ids=str)
def test_the_door_into_spark_takes_every_row_of_a_small_frame(spark, lengths):
    rows = in_chunks(numbered(3, 1), lengths)
    for schema in (None, declare("t", "k long, v long", "k", None).spark()):
        found = spark_frame(spark, rows, schema)
        assert sorted(row.k for row in found.collect()) == [0, 1, 2]


@pytest.mark.scenario("T53")
@pytest.mark.parametrize("lengths", CHUNKS, ids=str)
def test_every_row_is_appended_in_the_order_of_the_frame(ds, place, slices, lengths):
    t, count = ds.table("t", "k long, v long"), sum(lengths)

    assert t.append(in_chunks(numbered(count, 1), lengths)).appended == count

    assert pa.concat_tables(slices(t)).column("k").to_pylist() == list(range(count))


@pytest.mark.scenario("T53")
@pytest.mark.parametrize("lengths", CHUNKS, ids=str)
@pytest.mark.parametrize("folded", [False, True], ids=["tail", "base"])
def test_every_key_of_a_frame_with_empty_chunks_is_found_and_deleted(ds, place, lengths, folded):
    t, count = ds.table("t", "k long, v long", key="k"), sum(lengths)
    t.upsert(numbered(count + 1, 0))
    if folded:
        t.fold()
    keys = in_chunks(numbered(count, 0).select(["k"]), lengths)

    assert t.get_data(keys).count() == count
    assert t.delete(keys).retracted == count
    assert [row.k for row in t.rows().collect()] == [count]


@pytest.mark.scenario("T53")
def test_a_frame_whose_columns_have_no_chunk_at_all_is_no_rows(ds, place):
    t = ds.table("t", "k long, v long", key="k")
    t.upsert(numbered(3, 0))
    bare = pa.table({"k": pa.chunked_array([], pa.int64()), "v": pa.chunked_array([], pa.int64())})

    assert t.upsert(bare) is None
    assert t.get_data(bare).count() == 0
    assert t.delete(bare) is None
    assert t.replace(bare).retracted == 3


@pytest.mark.scenario("T53")
def test_nested_values_in_empty_chunks_are_converted_one_by_one(ds, place):
    t = ds.table("t", "k long, tags array<long>, s struct<x:long>", key="k")
    rows = pa.table(
        {
            "k": pa.array([1, 2, 3], pa.int32()),
            "tags": pa.array([[1], None, [2, None]], pa.list_(pa.int32())),
            "s": pa.array([{"x": 1}, {"x": None}, None], pa.struct([("x", pa.int32())])),
        }
    )

    assert t.upsert(in_chunks(rows, (2, 0, 1))).appended == 3

    found = t.rows().orderBy("k").toArrow().to_pylist()
    assert found == [{"k": row["k"], "tags": row["tags"], "s": row["s"]} for row in rows.to_pylist()]


# --- what pandas says of columns without values -----------------------------------------------------------------------

WIDE = "k long, t string, n long, b boolean, at timestamp, d date, m decimal(10,2), tags array<string>, s struct<x:int>"
VALUES = ("t", "n", "b", "at", "d", "m", "tags", "s")
NOTHING = {
    "NaN": [float("nan")] * 2,
    "None": [None, None],
    "NaT": pd.to_datetime([None, None]),
    "NA": pd.array([None, None], dtype="Int64"),
    "no category": pd.Categorical([None, None]),
}


@pytest.mark.scenario("T59")
@pytest.mark.parametrize("nothing", list(NOTHING))
def test_a_column_without_values_fits_any_type(ds, nothing):
    t = ds.table("t", WIDE, key="k")
    t.upsert(pd.DataFrame({"k": [1, 2], **dict.fromkeys(VALUES, NOTHING[nothing])}))
    assert [tuple(row) for row in t.rows().select(*VALUES).collect()] == [(None,) * len(VALUES)] * 2


@pytest.mark.scenario("T59")
def test_a_column_without_values_is_refused_where_a_value_must_be(dry):
    t = dry.table("t", "k long, v string NOT NULL", key="k")
    with pytest.raises(Exception, match="column 'v' is NULL in 2 rows"):
        t.upsert(pd.DataFrame({"k": [1, 2], "v": [float("nan")] * 2}))
    assert t.head.offset is None


@pytest.mark.scenario("T59")
def test_a_column_with_one_value_of_another_type_is_still_refused(dry):
    t = dry.table("t", "k long, v string", key="k")
    with pytest.raises(FrameMismatch, match="column 'v' is double, expected string"):
        t.upsert(pd.DataFrame({"k": [1, 2], "v": [float("nan"), 1.5]}))


@pytest.mark.scenario("T59")
@pytest.mark.parametrize("types", [None, "float64", "string", "category"])
def test_a_csv_file_of_a_header_alone_is_no_rows(ds, types):
    t = ds.table("t", WIDE, key="k")
    empty = pd.read_csv(io.StringIO(",".join(t.schema.names) + "\n"), dtype=types)

    assert t.upsert(empty) is None
    t.upsert(pd.DataFrame({"k": [1], **{name: [None] for name in VALUES}}))
    assert t.get_data(empty).count() == 0
    assert t.delete(empty) is None
    assert t.replace(empty).retracted == 1


@pytest.mark.scenario("T59")
@pytest.mark.parametrize("nothing", [pd.DataFrame([]), pa.table({}), []], ids=["pandas", "arrow", "list"])
def test_a_write_must_name_its_columns_also_when_it_has_no_rows(ds, nothing):
    """A replace by nothing takes every row away: that must be meant."""
    t = ds.table("t", "k long, v string", key="k")
    t.upsert(pd.DataFrame({"k": [1], "v": ["a"]}))
    with pytest.raises(FrameMismatch, match="Nothing was written"):
        t.replace(nothing)
    assert t.rows().count() == 1


# --- floats into decimals ---------------------------------------------------------------------------------------------


def as_pandas(_spark, values):
    return pd.DataFrame({"k": range(len(values)), "m": values})


def as_arrow(_spark, values):
    return pa.table({"k": range(len(values)), "m": pa.array(values, pa.float64())})


def as_spark(spark, values):
    return spark.createDataFrame(list(enumerate(values)), "k long, m double")


FLOATS = [121.32, 0.1, -0.07, 99999999.99, 1e-2, 0.0, 1157.45, 2.675, 1e7]
CENTS = ["121.32", "0.10", "-0.07", "99999999.99", "0.01", "0.00", "1157.45", None, "10000000.00"]


@pytest.mark.scenario("T59", "T16")
@pytest.mark.parametrize("frame", [as_pandas, as_arrow, as_spark])
def test_a_float_that_gives_itself_back_at_that_scale_is_taken(ds, spark, frame):
    t = ds.table("t", "k long, m decimal(10,2)", key="k")
    fitting = [value for value, cents in zip(FLOATS, CENTS, strict=True) if cents is not None]

    t.upsert(frame(spark, fitting))

    wanted = [Decimal(cents) for cents in CENTS if cents is not None]
    assert [row.m for row in t.rows().orderBy("k").collect()] == wanted
    assert t.upsert(pd.DataFrame({"k": range(len(wanted)), "m": wanted})) is None


@pytest.mark.scenario("T59", "T16")
@pytest.mark.parametrize("frame", [as_pandas, as_arrow, as_spark])
@pytest.mark.parametrize("value", [0.125, 2.675, 1e8, 1e-3])
def test_a_float_that_does_not_is_refused_naming_value_column_and_decimal(ds, spark, frame, value, unchanged):
    t = ds.table("t", "k long, m decimal(10,2)", key="k")
    t.upsert(as_pandas(spark, [1.0]))
    shown = {1e8: r"(1\.0E8|100000000\.0)", 1e-3: r"(0\.001|1\.0E-3)"}.get(value, str(value).replace(".", r"\."))
    said = rf"the value {shown} does not fit column 'm', which is decimal\(10,2\)"
    with unchanged(t), pytest.raises(BadValue, match=said) as no:
        t.upsert(frame(spark, [121.32, value]))
    assert "`decimal.Decimal`" in no.value.hint
    assert "8 digits before the point and 2 after it" in no.value.hint


@pytest.mark.scenario("T59")
@given(st.integers(-(10**15), 10**15), st.integers(0, 9))
def test_every_number_with_so_many_places_survives_being_a_float(digits, scale):
    number = Decimal(digits).scaleb(-scale)
    taken = convert_array(pa.chunked_array([[float(number)]]), pa.decimal128(38, scale))
    assert taken[0].as_py() == number
    assert convert_array(taken, pa.float64())[0].as_py() == float(number)


@pytest.mark.scenario("T59")
@given(st.floats(), st.integers(0, 9))
def test_a_decimal_takes_just_the_floats_that_it_gives_back(value, scale):
    with localcontext(prec=60):
        nearest = round(Decimal(repr(value)), scale) if abs(value) < 10 ** (38 - scale) else None  # NaN is not less
    fits = nearest is not None and float(nearest) == value
    try:
        taken = convert_array(pa.chunked_array([[value]]), pa.decimal128(38, scale))[0].as_py()
    except ValueDoesNotFit:
        taken = None
    assert taken == (nearest if fits else None)


# --- days and moments in one column -----------------------------------------------------------------------------------

DAY, NOON, LONG_AGO = date(2024, 5, 1), datetime(2024, 5, 1, 12), date(1500, 1, 1)
TIMES = declare("t", "at timestamp, many array<timestamp>, s struct<x:timestamp>", None, None)
MIXTURES = [[DAY, NOON], [NOON, DAY], [DAY, pd.Timestamp(NOON)], [LONG_AGO, None, NOON], [DAY, None, DAY]]


@pytest.mark.scenario("T61")
@pytest.mark.parametrize("values", MIXTURES, ids=str)
@pytest.mark.parametrize("from_pandas", [False, True], ids=["dicts", "pandas"])
def test_a_moment_among_days_keeps_its_time(values, from_pandas):
    rows = [{"at": value, "many": [value], "s": {"x": value}} for value in values]

    taken = check_frame("t", TIMES, pd.DataFrame(rows, dtype=object) if from_pandas else rows).rows

    midnights = {day: datetime(day.year, day.month, day.day) for day in (DAY, LONG_AGO)}
    wanted = [value and midnights.get(value, value).replace(tzinfo=UTC) for value in values]
    assert taken.column("at").to_pylist() == wanted
    assert taken.column("many").to_pylist() == [[moment] for moment in wanted]
    assert taken.column("s").to_pylist() == [{"x": moment} for moment in wanted]


@pytest.mark.scenario("T61")
def test_a_day_does_not_take_the_moment_that_stands_beside_it():
    days = declare("t", "d date", None, None)
    taken = check_frame("t", days, [{"d": DAY}, {"d": datetime(2024, 5, 1)}]).rows
    assert taken.column("d").to_pylist() == [DAY, DAY]
    with pytest.raises(BadValue, match=r"the value 2024-05-01 12:00:00 does not fit column 'd'"):
        check_frame("t", days, [{"d": DAY}, {"d": NOON}])


def test_nanoseconds_are_refused_and_not_cut():
    moment = pd.Timestamp("2024-05-01T12:00:00.000000001")
    for frame in ([{"at": moment}], pd.DataFrame({"at": [NOON, moment]}, dtype=object), pd.DataFrame({"at": [moment]})):
        with pytest.raises(BadValue, match=r"12:00:00\.000000001 does not fit column 'at'"):
            check_frame("t", declare("t", "at timestamp", None, None), frame)


# --- fields with odd names --------------------------------------------------------------------------------------------

ODD = "struct<`a-b`:tinyint,`a:b`:string,`größe`:array<int>,plain:struct<`x-y`:date>>"
ODD_ARROW = pa.struct(
    [
        ("a-b", pa.int8()),
        ("a:b", pa.string()),
        ("größe", pa.list_(pa.int32())),
        ("plain", pa.struct([("x-y", pa.date32())])),
    ]
)
ONE = {"a-b": 1, "a:b": "q", "größe": [1, None], "plain": {"x-y": date(2024, 5, 1)}}
TWO = {"a-b": None, "a:b": "r", "größe": None, "plain": None}


def as_words():
    return f"k long, s {ODD}"


def as_arrow_schema():
    return pa.schema([("k", pa.int64()), ("s", ODD_ARROW)])


def as_spark_type():
    from pyspark.sql.types import StructType

    return StructType.fromDDL(as_words())


@pytest.mark.scenario("T60")
@pytest.mark.parametrize(
    "written", [as_words, *[pytest.param(other, marks=pytest.mark.long) for other in (as_arrow_schema, as_spark_type)]]
)
def test_fields_with_a_dash_or_a_colon_are_right_in_every_verb(ds, spark, open_store, written, place):
    t = ds.table("t", written(), key="k")
    t.upsert([{"k": 1, "s": ONE}, {"k": 2, "s": TWO}])
    assert t.upsert(spark.createDataFrame([(1, tuple(ONE.values()))], as_words())) is None

    for _ in ("from the tail", "from the base"):
        assert t.rows().orderBy("k").toArrow().to_pylist() == [{"k": 1, "s": ONE}, {"k": 2, "s": TWO}]
        assert t.get_data([{"k": 2}]).toArrow().to_pylist() == [{"k": 2, "s": TWO}]
        assert t.changes(upto=1).select("s").toArrow().to_pylist() == [{"s": ONE}, {"s": TWO}]
        t.fold()
    again = open_store(spark=spark).table("t", as_words(), key="k")
    assert again.schema == t.schema
    assert again.replace(pa.table({"k": [1, 3], "s": pa.array([TWO, ONE], ODD_ARROW)})).retracted == 1
    again.fold()
    assert again.rows().orderBy("k").toArrow().to_pylist() == [{"k": 1, "s": TWO}, {"k": 3, "s": ONE}]
    assert again.delete([{"k": 1}]).retracted == 1
    assert ds.verify().ok


@pytest.mark.scenario("T60")
def test_an_error_writes_odd_names_so_that_they_can_be_read(dry):
    t = dry.table("t", "k long, s struct<`a-b`:int>", key="k")
    found = pa.table({"k": [1], "s": pa.array([{"a:b": 1}])})
    with pytest.raises(FrameMismatch, match=r"is struct<`a:b`:bigint>, expected struct<`a-b`:int>"):
        t.upsert(found)


@pytest.mark.scenario("T60")
def test_a_field_that_must_have_a_value_is_the_same_after_opening_again(dry, open_store, no_spark):
    definition = "k long, s struct<`a-b`:tinyint NOT NULL,c:array<tinyint>>"
    t = dry.table("t", definition, key="k")
    t.upsert([{"k": 1, "s": {"a-b": 1, "c": [2]}}])
    assert open_store(spark=no_spark).table("t", definition, key="k").schema == t.schema

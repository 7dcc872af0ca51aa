"""Which values fit which column: Arrow on the driver and Spark on the executors must give one answer."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from seamark.tables.schema.convert import (
    ValueDoesNotFit,
    convert_array,
    convert_spark,
    convertible,
    convertible_in_spark,
)
from seamark.tables.schema.types import spark_type

LONG, INT, BYTE, DOUBLE, FLOAT, TEXT = pa.int64(), pa.int32(), pa.int8(), pa.float64(), pa.float32(), pa.string()
UTC_TIME, WALL, DAY = pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.date32()
CENTS = pa.decimal128(10, 2)
NAN, INF = float("nan"), float("inf")
REFUSED = "refused"


def decimal(precision, scale):
    return pa.decimal128(precision, scale)


# what comes, in which type, into which column, and what stands there then
PAIRS = [
    (1.0, DOUBLE, LONG, 1),
    (-0.0, DOUBLE, LONG, 0),
    (1.5, DOUBLE, LONG, REFUSED),
    (NAN, DOUBLE, LONG, REFUSED),
    (INF, DOUBLE, LONG, REFUSED),
    (1e30, DOUBLE, LONG, REFUSED),
    (2.0**63, DOUBLE, LONG, REFUSED),
    (-(2.0**63), DOUBLE, LONG, -(2**63)),
    (2.0**60, DOUBLE, LONG, 2**60),
    (2.0**40, FLOAT, LONG, 2**40),
    (2.0**63, FLOAT, LONG, REFUSED),
    (2**31 - 1, LONG, INT, 2**31 - 1),
    (2**31, LONG, INT, REFUSED),
    (-129, INT, BYTE, REFUSED),
    (2.0**31, DOUBLE, INT, REFUSED),
    (127, LONG, BYTE, 127),
    (Decimal("1.00"), decimal(5, 2), LONG, 1),
    (Decimal("1.50"), decimal(5, 2), LONG, REFUSED),
    (Decimal(10**25), decimal(38, 0), LONG, REFUSED),
    (2**53, LONG, DOUBLE, 2.0**53),
    (2**53 + 1, LONG, DOUBLE, REFUSED),
    (2**60, LONG, DOUBLE, 2.0**60),
    (2**63 - 1, LONG, DOUBLE, REFUSED),
    (7, INT, DOUBLE, 7.0),
    (0.5, FLOAT, DOUBLE, 0.5),
    (Decimal("0.10"), decimal(5, 2), DOUBLE, 0.1),
    (Decimal("0.123456789012345678"), decimal(38, 18), DOUBLE, REFUSED),
    (0.5, DOUBLE, FLOAT, 0.5),
    (0.1, DOUBLE, FLOAT, REFUSED),
    (1e300, DOUBLE, FLOAT, REFUSED),
    (1e-320, DOUBLE, FLOAT, REFUSED),
    (INF, DOUBLE, FLOAT, INF),
    (2**24, LONG, FLOAT, 2.0**24),
    (2**24 + 1, LONG, FLOAT, REFUSED),
    (2**24 + 1, INT, FLOAT, REFUSED),
    (2**31 - 1, INT, FLOAT, REFUSED),
    (1, LONG, CENTS, Decimal("1.00")),
    (99_999_999, LONG, CENTS, Decimal("99999999.00")),
    (100_000_000, LONG, CENTS, REFUSED),
    (1.5, DOUBLE, CENTS, Decimal("1.50")),
    (0.1, DOUBLE, CENTS, Decimal("0.10")),
    (121.32, DOUBLE, CENTS, Decimal("121.32")),
    (0.125, DOUBLE, CENTS, REFUSED),
    (748841719594892.1, DOUBLE, decimal(20, 2), Decimal("748841719594892.10")),
    (1e44, DOUBLE, decimal(38, 0), REFUSED),
    (0.5, FLOAT, decimal(20, 10), Decimal("0.5")),
    (Decimal("121.32"), decimal(10, 2), DOUBLE, 121.32),
    (1.005, DOUBLE, CENTS, REFUSED),
    (1e9, DOUBLE, CENTS, REFUSED),
    (1e38, DOUBLE, CENTS, REFUSED),
    (NAN, DOUBLE, CENTS, REFUSED),
    (INF, DOUBLE, CENTS, REFUSED),
    (Decimal("1.250"), decimal(5, 3), CENTS, Decimal("1.25")),
    (Decimal("1.255"), decimal(5, 3), CENTS, REFUSED),
    (Decimal("123456789.00"), decimal(20, 2), CENTS, REFUSED),
    (date(2020, 1, 1), DAY, UTC_TIME, datetime(2020, 1, 1, tzinfo=UTC)),
    (date(1500, 1, 1), DAY, WALL, datetime(1500, 1, 1)),
    (datetime(2020, 1, 1, 12), WALL, UTC_TIME, datetime(2020, 1, 1, 12, tzinfo=UTC)),
    (datetime(2020, 1, 1, 12, tzinfo=UTC), UTC_TIME, WALL, REFUSED),
    (datetime(2020, 1, 1, tzinfo=UTC), UTC_TIME, DAY, date(2020, 1, 1)),
    (datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC), UTC_TIME, DAY, REFUSED),
    (datetime(1969, 12, 31, 23, 59, tzinfo=UTC), UTC_TIME, DAY, REFUSED),
    (datetime(1500, 1, 1), WALL, DAY, date(1500, 1, 1)),
    ("1", TEXT, LONG, REFUSED),
    (1, LONG, TEXT, REFUSED),
    ("2020-01-01", TEXT, DAY, REFUSED),
    (1, LONG, pa.bool_(), REFUSED),
    (True, pa.bool_(), LONG, REFUSED),
    ("x", TEXT, pa.binary(), REFUSED),
    (b"x", pa.binary(), TEXT, REFUSED),
    (0, LONG, UTC_TIME, REFUSED),
    ([1, None], pa.list_(INT), pa.list_(LONG), [1, None]),
    ({"x": 1}, pa.struct([("x", INT)]), pa.struct([("x", LONG)]), {"x": 1}),
    ({"x": 1}, pa.struct([("x", INT)]), pa.struct([("y", INT)]), REFUSED),
    ([1], pa.list_(INT), LONG, REFUSED),
    ([date(2020, 1, 1), None], pa.list_(DAY), pa.list_(UTC_TIME), [datetime(2020, 1, 1, tzinfo=UTC), None]),
    (
        {"x": datetime(2020, 3, 8, 2, 30)},
        pa.struct([("x", WALL)]),
        pa.struct([("x", UTC_TIME)]),
        {"x": datetime(2020, 3, 8, 2, 30, tzinfo=UTC)},
    ),
    (datetime(2020, 3, 8, 2, 30), WALL, UTC_TIME, datetime(2020, 3, 8, 2, 30, tzinfo=UTC)),
]
NAMES = [f"{value} {found} to {wanted}" for value, found, wanted, _ in PAIRS]


@pytest.mark.scenario("T13", "T16", "T37")
@pytest.mark.parametrize(("value", "found", "wanted", "stands"), PAIRS, ids=NAMES)
def test_what_arrow_makes_of_a_value(value, found, wanted, stands):
    assert in_arrow(value, found, wanted) == stands


def in_arrow(value, found, wanted):
    if not convertible(found, wanted):
        return REFUSED
    try:
        return convert_array(pa.chunked_array([pa.array([value], found)]), wanted)[0].as_py()
    except ValueDoesNotFit as misfit:
        return REFUSED if str(misfit) == str(pa.scalar(value, found).as_py()) else f"another value is named: {misfit}"


@pytest.mark.scenario("T13", "T16", "T37", "T61")
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Pacific/Kiritimati"])
def test_what_spark_makes_of_the_same_values(spark, monkeypatch, zone):
    """All in one job: where Spark would raise an error, it gives NULL here."""
    from pyspark.sql import functions as F
    from pyspark.sql import types

    monkeypatch.setattr(F, "raise_error", lambda _: F.lit(None))
    columns = [pa.array([value], found) for value, found, _, _ in PAIRS]
    schema = types.StructType(
        [types.StructField(f"c{n}", spark_type(found)) for n, (_, found, _, _) in enumerate(PAIRS)]
    )
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    frame = session.createDataFrame(pa.Table.from_arrays(columns, names=schema.names), schema)
    picked = [
        convert_spark(F.col(f"c{n}"), f"c{n}", found, wanted).alias(f"c{n}")
        for n, (_, found, wanted, _) in enumerate(PAIRS)
        if convertible_in_spark(found, wanted)
    ]
    result = frame.select(*picked).toArrow()

    def in_spark(n, wanted):
        if f"c{n}" not in result.column_names:
            return REFUSED
        found = result.column(f"c{n}").cast(wanted)[0].as_py()
        return REFUSED if found is None else found

    assert {NAMES[n]: in_spark(n, pair[2]) for n, pair in enumerate(PAIRS)} == dict(
        zip(NAMES, [pair[3] for pair in PAIRS], strict=True)
    )


LOCAL_ONLY = [
    (pa.array([1], pa.uint8()), LONG, 1),
    (pa.array([2**63], pa.uint64()), LONG, REFUSED),
    (pa.array([2**63], pa.uint64()), decimal(38, 0), Decimal(2**63)),
    (pa.array([2**64 - 1], pa.uint64()), decimal(38, 18), Decimal(2**64 - 1)),
    (pa.array([1.5], pa.float16()), DOUBLE, 1.5),
    (pa.array([1.5], pa.float16()), CENTS, Decimal("1.50")),
    (pa.array([Decimal("1.5")], pa.decimal256(50, 1)), CENTS, Decimal("1.50")),
    (pa.array(["a"], pa.large_string()), TEXT, "a"),
    (pa.array(["a"]).dictionary_encode(), TEXT, "a"),
    (pa.array([1.5]).dictionary_encode(), LONG, REFUSED),
    (pa.array([b"ab"], pa.binary(2)), pa.binary(), b"ab"),
    (pa.array([None], pa.null()), LONG, None),
    (pa.array([1_000_000_001], pa.timestamp("ns")), UTC_TIME, REFUSED),
    (pa.array([1_000_000_000], pa.timestamp("ns")), WALL, datetime(1970, 1, 1, 0, 0, 1)),
    (pa.array([2**62], pa.timestamp("s")), UTC_TIME, REFUSED),
    (pa.array([86_400_000], pa.date64()), DAY, date(1970, 1, 2)),
    (pa.array([[0.1]]), pa.list_(FLOAT), REFUSED),
    (pa.array([[0.5]]), pa.list_(FLOAT), [0.5]),
    (pa.array([[1.5]]), pa.list_(LONG), REFUSED),
    (pa.array([[2**40]]), pa.list_(INT), REFUSED),
    (pa.array([[1]]), pa.list_(CENTS), [Decimal("1.00")]),
    (pa.array([[1.5]]), pa.list_(CENTS), [Decimal("1.50")]),
    (pa.array([[1.005]]), pa.list_(CENTS), REFUSED),
    (pa.array([[datetime(2020, 1, 1, 12)]], pa.list_(WALL)), pa.list_(DAY), REFUSED),
    (
        pa.array([[datetime(2020, 1, 1, 12)]], pa.list_(WALL)),
        pa.list_(UTC_TIME),
        [datetime(2020, 1, 1, 12, tzinfo=UTC)],
    ),
    (pa.array([{"x": 0.1}]), pa.struct([("x", FLOAT)]), REFUSED),
    (pa.array([[{"x": 1}], None, []]).slice(0, 1), pa.list_(pa.struct([("x", INT)])), [{"x": 1}]),
    (pa.array([["a"]], pa.large_list(pa.large_string())), pa.list_(TEXT), ["a"]),
    (pa.array([[1, 2]], pa.list_(LONG, 2)), pa.list_(LONG), [1, 2]),
]


@pytest.mark.scenario("T37")
@pytest.mark.parametrize(("values", "wanted", "stands"), LOCAL_ONLY, ids=lambda v: str(getattr(v, "type", v))[:40])
def test_types_that_only_arrow_and_pandas_have(values, wanted, stands):
    assert convertible(values.type, wanted)
    try:
        found = convert_array(pa.chunked_array([values]), wanted)
    except ValueDoesNotFit:
        assert stands == REFUSED
        return
    assert found.type == wanted
    assert found[0].as_py() == stands


def test_the_first_value_that_does_not_fit_is_the_one_named():
    values = pa.chunked_array([[1.0, 2.0], [None, 3.25, 4.5], [5.0]])
    with pytest.raises(ValueDoesNotFit, match=r"^3\.25$"):
        convert_array(values, LONG)


def test_nothing_is_said_about_values_that_fit():
    values = pa.chunked_array([[1.0, None], [], [3.0]])
    assert convert_array(values, LONG).to_pylist() == [1, None, 3]


NOTHING = pa.null()


@pytest.mark.parametrize(
    ("found", "wanted", "values"),
    [
        (NOTHING, pa.struct([("a", LONG)]), [None] * 4),
        (NOTHING, pa.list_(pa.struct([("a", LONG)])), [None] * 4),
        (pa.list_(NOTHING), pa.list_(TEXT), [[None], None, [None, None], []]),
        (pa.large_list(NOTHING), pa.list_(LONG), [[None], None, [None, None], []]),
        (pa.list_(pa.list_(NOTHING)), pa.list_(pa.list_(LONG)), [[[None]], None, [None, [None, None]], [[]]]),
        (pa.struct([("a", NOTHING)]), pa.struct([("a", LONG)]), [{"a": None}, None, {"a": None}, None]),
        (pa.struct([("a", pa.list_(NOTHING))]), pa.struct([("a", pa.list_(LONG))]), [{"a": [None]}, None] * 2),
    ],
    ids=str,
)
def test_nothing_but_nulls_fits_every_column_wherever_a_frame_is_cut(found, wanted, values):
    """Arrow's own casts of such slices give too few of them, or end the process."""
    whole = pa.array(values, found)
    for start in range(len(values) + 1):
        for end in range(start, len(values) + 1):
            part = whole.slice(start, end - start)
            converted = convert_array(pa.chunked_array([part, part.slice(0, 0), part]), wanted)
            converted.validate(full=True)
            assert (converted.type, converted.to_pylist()) == (wanted, values[start:end] * 2)

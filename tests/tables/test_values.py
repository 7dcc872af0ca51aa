"""Values of every type come back as they went in: from rows, from changes, and from a folded base."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

TEXTS = [
    "emoji 👩‍🚀 🇬🇪",
    "right to left: שלום עליכם",
    "nul \0 inside",
    "quotes ' \" ` and \\ backslash",
    "lines\nand\r\ntabs\t",
    "",
    " ",
    "x" * 5_000_000,
]


@pytest.mark.scenario("T32")
def test_texts_come_back_unchanged(ds, arrow):
    t = ds.table("t", "id long, v string", key="id")
    t.upsert(arrow(t, *enumerate(TEXTS)))

    assert [row.v for row in t.rows().orderBy("id").collect()] == TEXTS
    assert [row.v for row in t.changes().collect()] == TEXTS
    t.fold()
    assert [row.v for row in t.rows().orderBy("id").collect()] == TEXTS
    assert t.upsert(arrow(t, *enumerate(TEXTS))) is None


ALL_TYPES = """
    id long, yes boolean, tiny tinyint, small smallint, i int, f float, d double, n decimal(38,18), b binary, day date,
    at timestamp, wall timestamp_ntz, tags array<string>, numbers array<tinyint>, deep array<array<long>>,
    s struct<x:int,y:array<string>,z:struct<w:date>>
"""
FULL = (
    1,
    True,
    -128,
    -32768,
    -(2**31),
    1.5,
    0.1,
    Decimal("12345678901234567890.123456789012345678"),
    b"\0\1\0\xff",
    date(1582, 10, 4),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1500, 1, 1, 1, 1, 1, 1),
    ["a", None, ""],
    [0, None, -1],
    [[1], [], None, [None, 2]],
    {"x": None, "y": ["q"], "z": {"w": date(9999, 12, 31)}},
)
OTHER = (
    2,
    False,
    0,
    0,
    0,
    float("-inf"),
    -0.0,
    Decimal("-0.000000000000000001"),
    b"",
    date(9999, 12, 31),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999),
    [],
    [],
    [],
    {"x": 0, "y": [], "z": {"w": None}},
)
EMPTY = (3, *[None] * 15)


@pytest.mark.scenario("T33")
def test_every_type_comes_back_unchanged(ds, arrow):
    t = ds.table("t", ALL_TYPES, key="id")
    frame = arrow(t, FULL, OTHER, EMPTY)
    t.upsert(frame)

    def read(spark_frame):
        return spark_frame.select(*t.schema.names).orderBy("id").toArrow().cast(t.schema.arrow).to_pylist()

    assert read(t.rows()) == read(t.changes()) == frame.to_pylist()
    t.fold()
    assert read(t.rows()) == frame.to_pylist()
    assert t.upsert(frame) is None
    assert t.replace(t.source.context.session().createDataFrame(frame, t.schema.spark())) is None
    assert ds.verify("t").ok


@pytest.mark.scenario("T33")
def test_null_and_zero_of_one_byte_have_different_hashes(dry, arrow, slices):
    a, b = (dry.table(name, "v tinyint") for name in "ab")
    a.append(arrow(a, (0,)))
    b.append(arrow(b, (None,)))
    assert slices(a)[0].column("v").to_pylist() == [0]
    assert slices(b)[0].column("v").to_pylist() == [None]
    assert dry.verify().ok


@pytest.mark.parametrize("name", ["Größe", "SELECT", "a-b|c", "'q' \"q\"".replace(" ", "_"), "_stands", "_last"])
def test_columns_may_have_odd_names(ds, arrow, rows, told, name):
    schema = pa.schema([pa.field("id", pa.int64()), pa.field(name, pa.string()), pa.field("_old_id", pa.string())])
    t = ds.table("t", schema, key="id")
    t.upsert(arrow(t, (1, "a", "z"), (2, "b", "z")))
    t.upsert(arrow(t, (1, "c", "z")))
    t.delete(arrow(t, (2, "b", "z")))
    assert told(t, after=1) == ["-C 1 a z", "+C 1 c z", "-R 2 b z"]
    t.fold()
    t.upsert(arrow(t, (3, "d", "z")))
    assert rows(t) == [(1, "c", "z"), (3, "d", "z")]


@pytest.mark.parametrize("name", ["Größe", "a.b", "a-b$c"])
def test_tables_may_have_odd_names(ds, arrow, rows, name):
    t = ds.table(name, "id long, v string", key="id")
    t.upsert(arrow(t, (1, "a")))
    t.fold()
    t.upsert(arrow(t, (2, "b")))
    assert rows(t) == [(1, "a"), (2, "b")]
    assert ds.verify(name).ok


@pytest.mark.parametrize("records", [0, 50_000], ids=["large", "small"])
def test_the_warehouse_may_lie_in_an_odd_folder(spark, tmp_path, arrow, rows, set_small, monkeypatch, records):
    import seamark as sm

    set_small(monkeypatch, records)
    folder = tmp_path / "data [old] {x} * ? #1"
    with sm.DataStore(f"sqlite:///{tmp_path / 'control.db'}", folder, spark=spark) as ds:
        t = ds.table("t", "id long, v string", key="id")
        t.upsert(arrow(t, (1, "a")))
        t.fold()
        t.upsert(spark.createDataFrame([(2, "b")], t.schema.spark()))
        assert rows(t) == [(1, "a"), (2, "b")]

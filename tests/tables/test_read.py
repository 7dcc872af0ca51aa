"""Reading: records by offset, rows by key, and rows as they stood."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import seamark as sm
from seamark.errors import FrameMismatch, NotACommit, SeamarkError, UnknownTable, WrongVerb


def offsets(frame):
    return [row.offset for row in frame.collect()]


@pytest.mark.scenario("T18")
def test_changes_are_after_and_up_to_an_offset(clicks, arrow):
    for _ in range(2):
        clicks.append(arrow(clicks, *[(f"/{n}", None) for n in range(5)]))

    assert offsets(clicks.changes(after=4, upto=7)) == [5, 6, 7]
    assert offsets(clicks.changes()) == list(range(10))
    assert offsets(clicks.changes(after=9)) == []
    assert offsets(clicks.changes(after=2, upto=6)) == [3, 4, 5, 6]
    assert offsets(clicks.changes(upto=0)) == [0]
    first = clicks.changes(upto=0).first()
    assert (first.op, first.url, first.at) == (sm.Op.APPEND, "/0", None)


@pytest.mark.scenario("T19", "T47")
def test_rows_stand_only_at_the_end_of_a_commit(stock, arrow, rows):
    stock.replace(arrow(stock, ("A", 10), ("B", 20), ("C", 30)))
    stock.replace(arrow(stock, ("A", 10), ("C", 35), ("D", 40), ("E", 50)))

    with pytest.raises(NotACommit, match=r"table 'stock' has no record 8: its last offset is 7"):
        stock.rows(as_of=8)
    with pytest.raises(NotACommit, match=r"has no record -1"):
        stock.rows(as_of=-1)
    with pytest.raises(NotACommit, match=r"record 5 is inside a commit that goes from 3 to 7.*use 7 or 2\."):
        stock.rows(as_of=5)


@pytest.mark.scenario("T47")
def test_the_end_of_a_commit_is_the_end_of_its_last_block(open_store, arrow, no_spark):
    clicks = open_store(spark=no_spark, block_rows=2).table("clicks", "url string")
    clicks.append(arrow(clicks, *[(f"/{n}",) for n in range(5)]))
    with pytest.raises(NotACommit, match=r"record 3 is inside a commit that goes from 0 to 4.*use 4\."):
        clicks.rows(as_of=3)


@pytest.mark.scenario("T19")
def test_an_empty_table_has_no_earlier_state(dry_posts):
    with pytest.raises(NotACommit, match="last offset is none, it is empty"):
        dry_posts.rows(as_of=0)


@pytest.mark.scenario("T20")
def test_rows_for_a_frame_of_keys(posts, arrow, rows, spark, unchanged):
    posts.upsert(arrow(posts, (1, 100, "hello"), (2, 200, "hi")))
    keys = pa.table({"post_id": [1, 1, 42]})

    assert rows(posts.get_data(keys)) == [(1, 100, "hello")]
    assert rows(posts.get_data(keys.to_pandas())) == [(1, 100, "hello")]
    assert rows(posts.get_data(spark.createDataFrame([(1,), (1,), (42,)], "post_id long"))) == [(1, 100, "hello")]
    assert rows(posts.get_data(keys.slice(0, 0))) == []
    with unchanged(posts), pytest.raises(FrameMismatch, match=r"'posts': key column 'post_id' bigint is missing"):
        posts.get_data(pa.table({"user_id": [100]}))


@pytest.mark.scenario("T20")
def test_many_keys_are_joined(posts, arrow, rows, spark):
    posts.upsert(arrow(posts, *[(n, n, "x") for n in range(300)]))
    wanted = [(n, n, "x") for n in range(100, 300)]

    assert sorted(rows(posts.get_data(pa.table({"post_id": list(range(100, 500)) * 2})))) == wanted
    many = spark.range(100, 500).union(spark.range(100, 500)).withColumnRenamed("id", "post_id")
    assert sorted(rows(posts.get_data(many))) == wanted
    posts.fold()
    assert sorted(rows(posts.get_data(pa.table({"post_id": list(range(100, 500))})))) == wanted


@pytest.mark.scenario("T20")
def test_an_append_only_table_has_no_keys_to_look_up(dry, arrow):
    clicks = dry.table("clicks", "url string")
    with pytest.raises(WrongVerb, match="`get_data` does not fit"):
        clicks.get_data(arrow(clicks, ("/a",)))


@pytest.mark.scenario("T21")
def test_a_key_of_two_columns_is_looked_up_as_a_pair(ds, arrow, rows):
    tags = ds.table("tags", "post_id long, tag string, weight int", key=["post_id", "tag"])
    tags.upsert(arrow(tags, (1, "x", 1), (1, "y", 2), (2, "y", 3), (2, "x", 4)))
    pairs = pa.table({"tag": ["x", "y"], "post_id": [1, 2]})

    assert rows(tags.get_data(pairs)) == [(1, "x", 1), (2, "y", 3)]
    many = pa.table({"post_id": [1, 2, *range(3, 203)], "tag": ["x", "y", *["z"] * 200]})
    assert rows(tags.get_data(many)) == [(1, "x", 1), (2, "y", 3)]
    tags.delete(pairs)
    assert rows(tags) == [(1, "y", 2), (2, "x", 4)]


KEYS = {
    "string": ["", "a|b", 'it\'s "quoted" \\ `so`', "emoji 🚀", "nul \0 inside"],
    "binary": [b"", b"\0\1", b"\xff"],
    "boolean": [False, True],
    "tinyint": [-128, 0, 127],
    "date": [date(1, 1, 1), date(1582, 10, 4), date(1969, 12, 31), date(9999, 12, 31)],
    "timestamp": [
        datetime(1500, 3, 1, 12, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2020, 1, 1, 12, 0, 0, 1, tzinfo=UTC),
    ],
    "timestamp_ntz": [
        datetime(1500, 3, 1, 12),
        datetime(1969, 12, 31, 23, 59, 59, 999_999),
        datetime(2020, 3, 29, 2, 30),
    ],
    "decimal(38,18)": [
        Decimal("-0.000000000000000001"),
        Decimal("0"),
        Decimal("99999999999999999999.999999999999999999"),
    ],
    "double": [float("-inf"), -1.5, 0.0, float("nan")],
}


@pytest.mark.scenario("T20", "T33")
@pytest.mark.parametrize("kind", KEYS)
def test_every_type_of_key_finds_its_row(ds, arrow, kind):
    t = ds.table("t", f"k {kind}, n int", key="k")
    t.upsert(arrow(t, *[(key, n) for n, key in enumerate(KEYS[kind])]))
    some = pa.table({"k": pa.array(KEYS[kind][1:], t.schema.column("k").type)})

    assert sorted(row.n for row in t.get_data(some).collect()) == list(range(1, len(KEYS[kind])))
    assert t.upsert(arrow(t, *[(key, n) for n, key in enumerate(KEYS[kind])])) is None
    assert t.delete(some).retracted == len(KEYS[kind]) - 1
    assert [row.n for row in t.rows().collect()] == [0]


def test_a_table_can_be_opened_by_its_name(ds, posts, arrow, open_store, spark, rows):
    posts.upsert(arrow(posts, (1, 100, "hello")))

    again = open_store(spark=spark).table("posts")

    assert (again.schema, again.key, again.head) == (posts.schema, ("post_id",), posts.head)
    assert rows(again) == [(1, 100, "hello")]
    with pytest.raises(UnknownTable, match=r"no table 'post'.*did you mean 'posts'"):
        ds.table("post")


def test_a_frame_made_from_the_tables_own_rows_can_be_written(posts, arrow, rows, told):
    posts.upsert(arrow(posts, (1, 100, "hello"), (2, 200, "hi")))
    posts.fold()

    posts.upsert(posts.rows().where("post_id = 1").selectExpr("post_id", "user_id + 1 AS user_id", "content"))

    assert told(posts, after=1) == ["-C 1 100 hello", "+C 1 101 hello"]
    posts.replace(posts.rows().where("post_id = 2"))
    assert rows(posts) == [(2, 200, "hi")]


def test_every_mistake_is_a_seamark_error():
    for mistake in (NotACommit, FrameMismatch, UnknownTable, WrongVerb):
        assert issubclass(mistake, SeamarkError)


# --- keys that are numbers with a point -------------------------------------------------------------------------------


@pytest.mark.scenario("T15", "T20")
@pytest.mark.parametrize("kind", ["double", "float"])
def test_nan_is_a_key_among_many(ds, rows, kind):
    t = ds.table("t", f"x {kind}, v long", key="x")
    wanted = pa.table({"x": [*map(float, range(150)), math.nan], "v": list(range(151))})
    t.upsert(wanted)

    assert t.upsert(wanted) is None
    assert len(rows(t.get_data(wanted.select(["x"])))) == 151
    assert t.delete(wanted.select(["x"])).retracted == 151


@pytest.mark.scenario("T15", "T20")
@pytest.mark.parametrize("kind", ["double", "float"])
def test_nan_in_the_tail_is_seen_by_every_filter(ds, spark, kind):
    """The statistics of a slice leave NaN out, so that Spark would skip a slice of 0.5 and NaN for one above 1."""
    t = ds.table("t", f"x {kind}, inside struct<deep: struct<y: {kind}>>, v long", key="x")
    deep = [{"deep": {"y": value}} for value in (0.5, math.nan)]
    t.upsert(pa.table({"x": [0.5, math.nan], "inside": deep, "v": [1, 2]}))
    t.fold()
    t.upsert(pa.table({"x": [0.5, math.nan], "inside": deep, "v": [3, 4]}))

    for frame in (t.rows(), t.changes(after=1)):
        for column in ("x", "inside.deep.y"):
            for condition in (f"{column} = double('nan')", f"{column} > 1", f"isnan({column})"):
                assert {row.v for row in frame.where(f"({condition}) and v > 2").collect()} == {4}, condition
    chosen = spark.createDataFrame(pa.table({"x": pa.array([math.nan])}))
    assert [row.v for row in t.get_data(chosen).collect()] == [4]
    assert t.delete(pa.table({"x": [math.nan]})).retracted == 1
    assert [row.v for row in t.rows().where("x >= 0").collect()] == [3]


@pytest.mark.scenario("T15", "T20")
@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("in_spark", [False, True], ids=["at hand", "in Spark"])
def test_the_two_zeros_are_one_key(ds, rows, spark, kind, in_spark):
    t = ds.table("t", f"x {kind}, y int, v long", key=["x", "y"])
    wanted = pa.table({"x": [-0.0] * 200, "y": list(range(200)), "v": [1] * 200})
    t.upsert(spark.createDataFrame(wanted) if in_spark else wanted)
    t.fold()

    assert t.upsert(pa.table({"x": [0.0], "y": [7], "v": [2]})).corrected == 1
    found = [rows(t.get_data(pa.table({"x": [zero], "y": [7]}))) for zero in (0.0, -0.0)]
    assert found == [[(0.0, 7, 2)]] * 2
    assert len(rows(t)) == 200

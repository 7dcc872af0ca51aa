"""Bad input: refused in words that name table, column and value, with nothing written."""

import datetime as dt
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

from seamark.errors import BadValue, DuplicateKey, FrameMismatch, NullKey, SeamarkError


@pytest.fixture
def standing(posts, arrow):
    posts.upsert(arrow(posts, (1, 100, "hello"), (2, 200, "hi")))
    return posts


@pytest.mark.scenario("T34")
@pytest.mark.parametrize("verb", ["upsert", "replace", "delete"])
def test_null_in_a_key_is_counted(standing, frame_of, verb, unchanged):
    if frame_of.kind == "pandas":
        frame = pd.DataFrame({"post_id": [None, 3, None], "user_id": [1, 2, 3], "content": "x"})
    else:
        schema = "post_id long, user_id long, content string"
        rows = [(None, 1, "x"), (3, 2, "x"), (None, 3, "x")]
        session = standing.source.context.session()
        frame = session.createDataFrame(rows, schema) if frame_of.kind == "spark" else frame_of(standing, *rows)

    with (
        unchanged(standing),
        pytest.raises(NullKey, match=r"table 'posts': column 'post_id' is NULL in 2 rows.*Nothing was written"),
    ):
        getattr(standing, verb)(frame)


@pytest.mark.scenario("T34")
def test_null_in_a_not_null_column(ds, arrow, spark):
    t = ds.table("t", "id long, v string NOT NULL", key="id")
    with pytest.raises(NullKey, match=r"table 't': column 'v' is NULL in 1 row\."):
        t.upsert(pa.table({"id": [1], "v": pa.array([None], pa.string())}))
    with pytest.raises(NullKey, match=r"table 't': column 'v' is NULL in 1 row\."):
        t.upsert(spark.createDataFrame([(1, None)], "id long, v string"))
    assert t.head.sequence == -1


@pytest.mark.scenario("T35")
@pytest.mark.parametrize("verb", ["upsert", "replace"])
@pytest.mark.parametrize("second", ["other", "same"])
def test_a_doubled_key_is_named_even_if_its_rows_are_equal(standing, frame_of, verb, second, unchanged):
    """The rows equal the one that stands too, so that no record would show the mistake."""
    frame = frame_of(standing, (2, 200, "hi"), (1, 100, "hello"), (1, 100, "hello" if second == "same" else second))

    with (
        unchanged(standing),
        pytest.raises(DuplicateKey, match=r"table 'posts': the key .*post_id\W+1\b.*more than once"),
    ):
        getattr(standing, verb)(frame)


@pytest.mark.scenario("T34", "T35")
@pytest.mark.parametrize("verb", ["upsert", "replace"])
def test_the_same_of_frames_too_large_for_the_driver(standing, spark, large, verb, unchanged):
    with (
        unchanged(standing),
        pytest.raises(DuplicateKey, match=r"table 'posts': the key .*post_id\W+1\b.*more than once"),
    ):
        getattr(standing, verb)(spark.createDataFrame([(1, 100, "hello")] * 2, standing.schema.spark()))
    nulls = spark.createDataFrame(
        [(None, 1, "x"), (None, 2, "x"), (3, 3, "x")], "post_id long, user_id long, content string"
    )
    with unchanged(standing), pytest.raises(NullKey, match=r"'posts': column 'post_id' is NULL in 2 rows"):
        getattr(standing, verb)(nulls)
    with unchanged(standing), pytest.raises(BadValue, match=r"the value 1\.5 does not fit column 'user_id'"):
        getattr(standing, verb)(spark.createDataFrame([(1, 1.5, "x")], "post_id long, user_id double, content string"))


@pytest.mark.scenario("T35")
def test_a_doubled_key_in_a_first_write(posts, frame_of):
    with pytest.raises(DuplicateKey, match=r"table 'posts': the key .*post_id\W+7\b"):
        posts.upsert(frame_of(posts, (7, 1, "a"), (8, 1, "a"), (7, 1, "a")))
    assert posts.head.sequence == -1


@pytest.mark.scenario("T35")
def test_a_doubled_key_is_shown_whole(ds, arrow, spark):
    t = ds.table("t", "k string, n double, v int", key=["k", "n"])
    t.upsert(arrow(t, ("z", 0.0, 1)))
    with pytest.raises(DuplicateKey, match=r"a\|b"):
        t.upsert(spark.createDataFrame([("a|b", 1.0, 1), ("a|b", 1.0, 2)], t.schema.spark()))


@pytest.mark.scenario("T35")
def test_nan_and_zero_are_doubled_too(ds, frame_of):
    t = ds.table("t", "k double, v int", key="k")
    with pytest.raises(DuplicateKey):
        t.upsert(frame_of(t, (0.0, 1), (-0.0, 2)))
    if frame_of.kind != "pandas":  # where NaN is NULL
        with pytest.raises(DuplicateKey, match=r"(?i)nan"):
            t.upsert(frame_of(t, (float("nan"), 1), (float("nan"), 2)))


@pytest.mark.scenario("T37")
@pytest.mark.parametrize("verb", ["upsert", "replace"])
def test_all_that_is_wrong_with_a_frame_is_said_at_once(standing, frame_of, spark, verb, unchanged):
    wrong = pa.table({"post_id": ["one"], "content": ["x"], "extra": [1]})
    frame = {
        "pandas": lambda: wrong.to_pandas(),
        "arrow": lambda: wrong,
        "spark": lambda: spark.createDataFrame(wrong.to_pylist()),
    }[frame_of.kind]()

    with unchanged(standing), pytest.raises(FrameMismatch) as error:
        getattr(standing, verb)(frame)

    text = str(error.value)
    assert "does not fit table 'posts'" in text
    assert "column 'user_id' bigint is missing" in text
    assert "column 'extra' is not one of the table's" in text
    assert "column 'post_id' is string, expected bigint" in text
    assert "Nothing was written" in text


@pytest.mark.scenario("T38")
def test_a_delete_looks_only_at_the_key(standing, frame_of, told, unchanged, spark):
    keyless = pa.table({"user_id": [100]})
    keyless = spark.createDataFrame(keyless) if frame_of.kind == "spark" else keyless
    with unchanged(standing), pytest.raises(FrameMismatch, match=r"'posts': key column 'post_id' bigint is missing"):
        standing.delete(keyless)

    standing.delete(frame_of(standing, (1, -1, "whatever")))

    assert told(standing, after=1) == ["-R 1 100 hello"]


# --- odd frames -------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("T37")
def test_things_that_are_no_frame(dry_posts):
    for thing in (None, 1, "post", "", [1, 2], {"post_id": [1]}):
        with pytest.raises(FrameMismatch, match=r"table 'posts' was given a \w+.*give a Spark, pandas or Arrow frame"):
            dry_posts.upsert(thing)
    with pytest.raises(FrameMismatch, match=r"was given an empty list, which has no columns.*give an empty frame"):
        dry_posts.replace([])


@pytest.mark.scenario("T37")
@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (
            pd.DataFrame([[1, 2, 3, "x"]], columns=["post_id", "post_id", "user_id", "content"]),
            "'post_id' is there 2 times",
        ),
        (pd.DataFrame({"post_id": [1, "x"], "user_id": 1, "content": "x"}), "'post_id' has values of mixed"),
        (pd.DataFrame({"post_id": [2**70], "user_id": 1, "content": "x"}), "'post_id'"),
        (pd.DataFrame({"post_id": [1], "user_id": [dt.time(1)], "content": "x"}), "'user_id'.*expected bigint"),
        (pd.DataFrame({"post_id": [1 + 2j], "user_id": 1, "content": "x"}), "'post_id'"),
        ([{"post_id": 1, "user_id": 1, "content": "x"}, {"post_id": "x", "user_id": 1, "content": "x"}], "'post_id'"),
        (
            [{"post_id": 1, "user_id": 1, "content": "x"}, {"post_id": 2, "user_id": 1, "content": "x", "extra": 1}],
            "'extra' is not one of",
        ),
        ([{1: 1, "user_id": 1, "content": "x"}], "'post_id' bigint is missing.*'1' is not one of"),
        (pd.Series([1]), "was given a Series"),
    ],
    ids=[
        "doubled column",
        "mixed",
        "too large",
        "time",
        "complex",
        "mixed rows",
        "a later row has more",
        "a number for a name",
        "a column",
    ],
)
def test_odd_local_frames(dry_posts, frame, text):
    with pytest.raises(SeamarkError, match=rf"table 'posts'.*{text}"):
        dry_posts.upsert(frame)
    assert dry_posts.head.sequence == -1


@pytest.mark.scenario("T37")
def test_odd_spark_frames(posts, spark):
    odd = spark.sql("SELECT map(1, 2) AS post_id, named_struct('a-b', 1) AS user_id, INTERVAL '1' DAY AS content")
    with pytest.raises(FrameMismatch) as error:
        posts.upsert(odd)
    assert "column 'post_id' is map<int,int>, expected bigint" in str(error.value)
    assert "column 'user_id' is struct<a-b:int>, expected bigint" in str(error.value)
    assert "column 'content' is interval day, expected string" in str(error.value)
    twice = spark.sql("SELECT 1L AS post_id, 2L AS post_id, 1L AS user_id, 'x' AS content")
    with pytest.raises(FrameMismatch, match="column 'post_id' is there 2 times"):
        posts.upsert(twice)


@pytest.mark.scenario("T37")
def test_rows_as_a_list_of_dicts(dry, told):
    t = dry.table("t", "id long, v decimal(5,2)", key="id")
    t.upsert([{"id": 1}, {"id": 2, "v": Decimal("1.5")}])
    assert told(t) == ["+A 1 NULL", "+A 2 1.50"]


@pytest.mark.scenario("T16", "T11")
def test_a_value_that_does_not_fit_a_key_to_look_up(standing, spark):
    with pytest.raises(BadValue, match=r"the value 1\.5 does not fit column 'post_id'"):
        standing.get_data(spark.createDataFrame([(1.5,)], "post_id double"))
    with pytest.raises(BadValue, match=r"the value 1\.5 does not fit column 'post_id'"):
        standing.delete(pd.DataFrame({"post_id": [1.5]}))

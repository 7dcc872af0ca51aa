"""Who is blamed when something fails: the key whose row is bad, all of a step, or nobody."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import functions as F

import seamark as sm
from seamark.errors import ComputeFailed, StepInterrupted

WORDS = ["cancelled", "OutOfMemoryError", "FetchFailed", "No space left on device", "seamark: doubled key {}"]


def failures(step: sm.Step) -> dict[int, str]:
    """Key and error of each failure."""
    found = step.failures()
    return dict(zip(found.iloc[:, 0].tolist(), found.error, strict=True))


@pytest.fixture
def few(monkeypatch, set_small):
    """Makes more than two rows many, so that Spark reads and holds them."""
    set_small(monkeypatch, 2)


# --- one bad row of a reference ---------------------------------------------------------------------------------------


def add_ages(ds, how, **options):
    posts = ds.table("posts", "post_id long, user_id long", key="post_id")
    profiles = ds.table("profiles", "id long, age string", key="id")
    ds.table("ages", "post_id long, age int", key="post_id")

    def for_spark(posts, profiles):
        parsed = profiles.selectExpr("id", "cast(age AS int) AS age")
        if how == "broadcast":
            parsed = F.broadcast(parsed)
        return posts.join(parsed, posts.user_id == parsed.id, "left").select("post_id", "age")

    def for_cached_spark(posts, profiles):
        parsed = profiles.selectExpr("id", "cast(age AS int) AS age").cache()
        return posts.join(parsed, posts.user_id == parsed.id, "left").select("post_id", "age")

    def for_pandas(posts, profiles):
        parsed = profiles.assign(age=profiles.age.astype("int32"))
        joined = posts.merge(parsed, left_on="user_id", right_on="id", how="left")
        return joined[["post_id", "age"]].astype({"age": "Int32"})

    function = {"pandas": for_pandas, "cached": for_cached_spark}.get(how, for_spark)
    reference = sm.JoinSpec(profiles, join_keys={"user_id": "id"})
    ds.add(
        sm.BatchTransform(function, [posts, reference], ["ages"], name="parse_ages", pandas=how == "pandas", **options)
    )
    return posts, profiles, ds.table("ages")


@pytest.mark.scenario("X95")
@pytest.mark.parametrize("how", ["plain", "broadcast", "cached", "pandas"])
def test_one_bad_row_of_a_reference_fails_the_one_key_that_names_it(ds, rows, how):
    posts, profiles, ages = add_ages(ds, how)
    posts.upsert([{"post_id": n, "user_id": n} for n in range(20)])
    profiles.upsert([{"id": n, "age": "x" if n == 7 else str(n)} for n in range(20)])

    report = ds.run().steps["parse_ages"]

    assert (report.error, report.failed, report.appended) == (None, 1, 19)
    assert list(failures(ds.step("parse_ages"))) == [7]
    assert rows(ages) == [(n, n) for n in range(20) if n != 7]

    profiles.upsert([{"id": 7, "age": "77"}])
    report = ds.run().steps["parse_ages"]
    assert (report.ok, report.keys) == (True, 1)
    assert rows(ages)[7] == (7, 77)
    assert not ds.run().did_something
    assert ds.verify("ages", replay=True).ok


@pytest.mark.scenario("X95")
def test_a_bad_row_fails_all_keys_that_name_it_and_no_other(ds, rows):
    posts, profiles, ages = add_ages(ds, "plain")
    posts.upsert([{"post_id": n, "user_id": n % 5 if n else None} for n in range(20)])
    profiles.upsert([{"id": n, "age": "x" if n == 2 else str(n)} for n in range(5)])

    assert ds.run().steps["parse_ages"].failed == 4

    assert sorted(failures(ds.step("parse_ages"))) == [2, 7, 12, 17]
    assert rows(ages) == [(n, n % 5 if n else None) for n in range(20) if n % 5 != 2]


@pytest.mark.scenario("X95")
def test_a_bad_row_of_a_reference_that_spark_holds_fails_its_key_alone(ds, rows, few):
    posts, profiles, ages = add_ages(ds, "plain")
    posts.upsert([{"post_id": n, "user_id": n} for n in range(8)])
    profiles.upsert([{"id": n, "age": "x" if n == 6 else str(n)} for n in range(8)])

    assert ds.run().steps["parse_ages"].failed == 1

    assert list(failures(ds.step("parse_ages"))) == [6]
    assert rows(ages) == [(n, n) for n in range(8) if n != 6]


# --- words of rows that sound like trouble of Spark's -----------------------------------------------------------------


def add_amounts(ds, how):
    orders = ds.table("orders", "id long, amount string", key="id")
    ds.table("amounts", "id long, amount int", key="id")

    def cast(orders):
        return orders.selectExpr("id", "cast(amount AS int) AS amount")

    def raised(orders):
        parsed = F.coalesce(F.expr("try_cast(amount AS int)"), F.raise_error(F.col("amount")).cast("int"))
        return orders.select("id", parsed.alias("amount"))

    def python_function(orders):
        @F.udf("int")
        def parse(amount):
            if not amount.isdigit():
                raise RuntimeError(amount)
            return int(amount)

        return orders.select("id", parse("amount").alias("amount"))

    def subquery(orders):
        least = orders.selectExpr("min(cast(amount AS int)) AS least")
        return orders.select("id", F.expr("try_cast(amount AS int) AS amount")).where(least.scalar() >= 0)

    def pandas(orders):
        wrong = [amount for amount in orders.amount if not amount.isdigit()]
        if wrong:
            raise RuntimeError(wrong[0])
        return orders.assign(amount=orders.amount.astype("int32"))

    def driver(orders):
        wrong = [row.amount for row in orders.collect() if not row.amount.isdigit()]
        if wrong:
            raise RuntimeError(wrong[0])
        return cast(orders)

    function = {f.__name__: f for f in (cast, raised, python_function, subquery, pandas, driver)}[how]
    ds.add(sm.BatchTransform(function, [orders], ["amounts"], name="parse", pandas=how == "pandas"))
    return orders, ds.table("amounts")


@pytest.mark.scenario("X96")
@pytest.mark.parametrize("how", ["cast", "raised", "python_function", "subquery", "pandas", "driver"])
def test_a_value_that_sounds_like_trouble_of_spark_fails_its_key_alone(ds, rows, how):
    orders, amounts = add_amounts(ds, how)
    orders.upsert([{"id": n, "amount": str(n)} for n in range(len(WORDS), 9)])
    orders.upsert([{"id": n, "amount": word} for n, word in enumerate(WORDS)])

    report = ds.run().steps["parse"]

    assert (report.error, report.failed) == (None, len(WORDS))
    told = failures(ds.step("parse"))
    assert [word in told[n] for n, word in enumerate(WORDS)] == [True] * len(WORDS)
    assert rows(amounts) == [(n, n) for n in range(len(WORDS), 9)]


@pytest.mark.scenario("X96")
@pytest.mark.parametrize("how", ["cast", "raised", "python_function"])
def test_such_a_value_in_a_table_that_spark_holds_fails_its_key_alone(ds, rows, few, how):
    orders, amounts = add_amounts(ds, how)
    orders.upsert([{"id": n, "amount": WORDS[n] if n < 1 else str(n)} for n in range(6)])

    report = ds.run().steps["parse"]

    assert (report.error, report.failed) == (None, 1)
    assert rows(amounts) == [(n, n) for n in range(1, 6)]


@pytest.mark.scenario("X96")
def test_words_of_our_own_in_a_frame_that_fails_to_be_written_are_just_words(ds, spark):
    table = ds.table("numbers", "id long, n int", key="id")
    table.upsert([{"id": 1, "n": 1}])
    for words in ("seamark: doubled key {", 'seamark: value does not fit {"column": "n"}', "seamark: foreign key 1"):
        query = f"SELECT id, CASE WHEN id > 0 THEN cast('{words}' AS int) ELSE 1 END AS n FROM range(3)"
        with pytest.raises(ComputeFailed, match="CAST_INVALID_INPUT"):
            table.upsert(spark.sql(query))
        with pytest.raises(ComputeFailed, match="USER_RAISED_EXCEPTION"):
            table.upsert(spark.sql(f"SELECT id, cast(raise_error('{words}') AS int) AS n FROM range(3)"))


@pytest.mark.scenario("X96")
def test_a_value_that_does_not_fit_its_column_is_named_with_it(ds, rows):
    numbers = ds.table("numbers", "id long, n long", key="id")
    small = ds.table("small", "id long, n tinyint", key="id")
    ds.add(sm.BatchTransform("SELECT id, n FROM {numbers}", [numbers], [small], name="shrink"))
    numbers.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 1000}])

    assert ds.run().steps["shrink"].failed == 1

    assert failures(ds.step("shrink")) == {2: "the value 1000 does not fit column 'n'"}
    assert rows(small) == [(1, 1)]


# --- workers that are killed ------------------------------------------------------------------------------------------


def add_copy(ds, how, flag: Path, what):
    """A step that copies rows, and meets trouble once while the file stands: then it is gone."""
    posts = ds.table("posts", "post_id long, text string", key="post_id")
    ds.table("copies", "post_id long, text string", key="post_id")
    path, action = str(flag), what

    def meet():
        try:
            os.unlink(path)
        except FileNotFoundError:  # another task was there first, or there is no trouble
            return
        if action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise {
            "memory": MemoryError("no more of it"),
            "full disk": OSError(errno.ENOSPC, "No space left on device"),
            "lost storage": OSError("the share is gone"),
        }[action]

    def in_frames(posts):
        def copy(frames):
            for frame in frames:
                meet()
                yield frame

        return posts.mapInPandas(copy, posts.schema)

    def in_a_function(posts):
        @F.udf("string")
        def copy(text):
            meet()
            return text

        return posts.select("post_id", copy("text").alias("text"))

    def pandas(posts):
        meet()
        return posts

    function = {f.__name__: f for f in (in_frames, in_a_function, pandas)}[how]
    ds.add(sm.BatchTransform(function, [posts], ["copies"], name="copy", pandas=how == "pandas"))
    return posts, ds.table("copies")


@pytest.mark.scenario("X97")
@pytest.mark.parametrize("how", ["in_frames", "in_a_function", "pandas"])
def test_a_killed_worker_fails_no_key_and_the_next_run_is_right(ds, rows, how, tmp_path):
    posts, copies = add_copy(ds, how, tmp_path / "trouble", "kill")
    posts.upsert([{"post_id": n, "text": "old"} for n in range(4)])
    ds.run()
    standing, positions = copies.head, ds.offset_table.get_record_offsets("copy")
    posts.upsert([{"post_id": n, "text": "new"} for n in range(2)])
    (tmp_path / "trouble").touch()

    report = ds.run().steps["copy"]

    assert not (tmp_path / "trouble").exists()
    assert isinstance(report.error, StepInterrupted)
    assert "Python worker exited unexpectedly" in str(report.error)
    assert "No key is to blame" in str(report.error)
    assert (report.failed, report.failures, report.ok) == (0, (), False)
    assert ds.step("copy").failures().empty
    assert (copies.head, ds.offset_table.get_record_offsets("copy")) == (standing, positions)
    newest = ds.control.index.runs("copy")[0]
    assert (newest.outcome, "Python worker exited" in newest.error) == ("failed", True)

    assert ds.run().ok
    assert rows(copies) == [(0, "new"), (1, "new"), (2, "old"), (3, "old")]
    assert not ds.run().did_something
    assert ds.verify("copies", replay=True).ok


@pytest.mark.scenario("X97")
def test_a_worker_killed_while_many_rows_are_written_fails_no_key(ds, rows, few, tmp_path):
    posts, copies = add_copy(ds, "in_frames", tmp_path / "trouble", "kill")
    posts.upsert([{"post_id": n, "text": "new"} for n in range(6)])
    (tmp_path / "trouble").touch()

    report = ds.run().steps["copy"]

    assert "Python worker exited unexpectedly" in str(report.error)
    assert ds.step("copy").failures().empty
    assert ds.run().ok
    assert rows(copies) == [(n, "new") for n in range(6)]


@pytest.mark.scenario("X97")
@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("memory", "MemoryError: no more of it"),
        ("full disk", "OSError: [Errno 28] No space left on device"),
        ("lost storage", "OSError: the share is gone"),
    ],
)
def test_memory_and_disks_that_end_in_a_pandas_worker_fail_no_key(ds, rows, tmp_path, what, named):
    posts, copies = add_copy(ds, "pandas", tmp_path / "trouble", what)
    posts.upsert([{"post_id": n, "text": "new"} for n in range(4)])
    (tmp_path / "trouble").touch()

    with pytest.raises(StepInterrupted) as stopped:
        ds.step("copy").run_full()

    assert named in str(stopped.value)
    assert ds.step("copy").failures().empty
    assert copies.head.offset is None
    assert ds.run().ok
    assert rows(copies) == [(n, "new") for n in range(4)]


@pytest.mark.scenario("X97")
def test_a_file_that_one_row_names_and_that_is_not_there_fails_its_key_alone(ds, rows, tmp_path):
    images = ds.table("images", "id long, path string", key="id")
    sizes = ds.table("sizes", "id long, size long", key="id")

    def measure(images):
        return pd.DataFrame({"id": images.id, "size": [os.stat(path).st_size for path in images.path]})

    ds.add(sm.BatchTransform(measure, [images], [sizes], pandas=True))
    (tmp_path / "there").write_text("12345")
    images.upsert([{"id": n, "path": str(tmp_path / ("gone" if n == 2 else "there"))} for n in range(4)])

    assert ds.run().steps["measure"].failed == 1

    assert list(failures(ds.step("measure"))) == [2]
    assert rows(sizes) == [(0, 5), (1, 5), (3, 5)]


@pytest.mark.scenario("X97")
def test_a_full_disk_under_our_own_code_on_an_executor_fails_no_key(ds, spark, monkeypatch):
    posts = ds.table("posts", "post_id long", key="post_id")
    copies = ds.table("copies", "post_id long", key="post_id")

    def copy(posts):
        return posts.select("post_id")

    ds.add(sm.BatchTransform(copy, [posts], [copies]))
    posts.upsert([{"post_id": n} for n in range(3)])
    # the folder that executors write to is made by the driver: without it they meet what a broken disk gives them
    monkeypatch.setattr(Path, "mkdir", lambda self, *_, **__: None)
    with pytest.raises(StepInterrupted, match=r"FileNotFoundError|No such file"):
        ds.step("copy").run_full()
    monkeypatch.undo()

    assert ds.step("copy").failures().empty
    assert ds.step("copy").run_full().appended == 3

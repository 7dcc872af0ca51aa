"""All keys, in ranges: how large they are, where they are cut, and what is read for each."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

import seamark as sm
from seamark.steps.rows.scope import AllKeys
from seamark.tables.read.snapshot import snapshot_at
from seamark.transforms.keys import ranges

ROWS = 1_000


def step_over(store: sm.DataStore, **options) -> sm.Table:
    """A step that copies numbers."""
    numbers = store.table("numbers", "n long, text string", key="n")
    copies = store.table("copies", "n long, text string", key="n")
    store.add(sm.BatchTransform(lambda numbers: numbers, [numbers], [copies], name="copy", version="1", **options))
    return numbers


def numbered(count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(count), pa.int64()), "text": [f"number {n}" for n in range(count)]})


@pytest.mark.parametrize(
    ("options", "most_keys", "of_bytes", "keys"),
    [
        ({}, 20_000_000, None, ROWS),
        ({}, 400, None, 334),  # three ranges, as large as each other
        ({}, 20_000_000, 4, 250),
        ({}, 400, 4, 250),
        ({"pandas": True}, 20_000_000, None, 100),
        ({"batch_keys": 70}, 400, 4, 70),
        ({"batch_keys": 70, "pandas": True}, 400, 4, 70),
    ],
)
def test_a_range_holds_as_many_keys_as_was_said_or_as_fit(
    open_store, no_spark, monkeypatch, options, most_keys, of_bytes, keys
):
    store = open_store(spark=no_spark)
    numbers = step_over(store, **options)
    numbers.upsert(numbered(ROWS))
    monkeypatch.setattr(ranges, "RANGE_KEYS", most_keys)
    monkeypatch.setattr(ranges, "PANDAS_RANGE_KEYS", 100)
    if of_bytes is not None:
        size = snapshot_at(numbers.source, ROWS - 1).stored_bytes()
        monkeypatch.setattr(ranges, "RANGE_BYTES", -(-size // of_bytes))
    spec = store.step("copy").spec

    assert spec.keying.keys_per_range({"numbers": ROWS - 1}) == keys
    assert store.plan()["copy"].batches == -(-ROWS // keys)


def test_nothing_to_cut_is_one_range(open_store, no_spark):
    store = open_store(spark=no_spark)
    step_over(store)
    assert store.step("copy").spec.keying.ranges({"numbers": None}) == [AllKeys(("n",))]


def test_many_keys_are_cut_by_a_sample_into_ranges_of_about_as_many(open_store, set_small, monkeypatch, rows):
    set_small(monkeypatch, 100)  # more keys than the driver may look at
    store = open_store()
    numbers = step_over(store, batch_keys=2_500)
    numbers.upsert(numbered(20_000))

    cut = store.step("copy").spec.keying.ranges({"numbers": 19_999})

    assert len(cut) == 8
    bounds = [-1, *[scope.upto[0] for scope in cut[:-1]], 19_999]
    assert bounds == sorted(bounds)
    assert all(1_250 < upto - after < 3_750 for after, upto in pairwise(bounds)), bounds
    assert store.step("copy").spec.keying.ranges({"numbers": 19_999}) == cut

    monkeypatch.setattr(ranges, "SAMPLES_PER_RANGE", 1)  # some ranges may then be empty, and others large
    report = store.run().steps["copy"]
    assert (report.keys, report.appended) == (20_000, 20_000)
    assert store.table("copies").rows().count() == 20_000
    assert not store.run().did_something


@pytest.mark.scenario("X95")
def test_a_bad_row_of_a_reference_that_nobody_names_fails_no_key(blog, large):
    blog.write_posts(*[(number, number % 3, "hello") for number in range(9)])
    blog.write_profiles((0, "A"), (1, "B"), (2, "C"), (99, "bad"))
    feed = blog.store.table("checked", "post_id long, line string", key="post_id")

    @blog.store.transform(inputs=[blog.posts, sm.JoinSpec(blog.profiles, join_keys={"user_id": "id"})], outputs=[feed])
    def checked(posts, profiles):
        names = profiles.selectExpr("id", "CASE WHEN name = 'bad' THEN raise_error('a bad name') ELSE name END AS name")
        joined = posts.join(names.hint("shuffle_merge"), posts.user_id == names.id)
        return joined.selectExpr("post_id", "name || content AS line")

    report = blog.store.run("checked").steps["checked"]
    assert (report.error, report.failed, report.keys, report.appended) == (None, 0, 9, 9)


def test_a_plan_of_a_pass_that_goes_on_counts_the_ranges_that_are_left(open_store, rows):
    store = open_store()
    numbers = step_over(store, batch_keys=100)
    numbers.upsert(numbered(ROWS))

    def stop(report: sm.StepReport, _left: int) -> None:
        if report.batches == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.step("copy").run_full(on_batch=stop)

    plan = store.plan()["copy"]
    assert (plan.mode, plan.batches) == ("all keys", 6)
    assert store.run().steps["copy"].batches == 6
    assert len(rows(store.table("copies"))) == ROWS

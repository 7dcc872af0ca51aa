"""Replay raises no false alarm: tables that have grown, many keys, steps that are gone."""

from __future__ import annotations

import pandas as pd
import pytest

import seamark as sm


def copy(posts):
    return posts


def named(posts, people):
    joined = posts.join(people, posts.by == people.id, "left")
    return joined.select(posts.id, *[name for name in ("name", "mail") if name in joined.columns])


def named_for_pandas(posts, people):
    joined = posts.merge(people, left_on="by", right_on="id", how="left", suffixes=("", "_theirs"))
    return joined[["id", *[name for name in ("name", "mail") if name in joined.columns]]]


@pytest.mark.scenario("X100")
@pytest.mark.parametrize("step", [copy, "SELECT * FROM {posts}"], ids=["function", "SQL"])
def test_commits_from_before_input_and_output_gained_a_column_are_made_again_as_they_were(open_store, rows, step):
    def open_it(columns):
        store = open_store()
        posts, copies = (store.table(name, columns, key="id") for name in ("posts", "copies"))
        store.add(sm.BatchTransform(step, [posts], [copies], name="copy"))
        return store, posts, copies

    store, posts, copies = open_it("id long, text string")
    posts.upsert([{"id": 1, "text": "x"}, {"id": 2, "text": "y"}])
    store.run()
    posts.upsert([{"id": 2, "text": "z"}])
    store.run()
    store.fold()
    store, posts, copies = open_it("id long, text string, likes long")
    posts.upsert([{"id": 1, "text": "x", "likes": 5}])
    assert store.run().ok
    assert rows(copies) == [(1, "x", 5), (2, "z", None)]

    report = store.verify(replay=True)

    assert report.findings == ()
    assert (report.replayed, report.not_replayable) == (3, 0)


@pytest.mark.scenario("X100")
@pytest.mark.parametrize("pandas", [False, True])
def test_so_are_those_from_before_a_reference_gained_one(open_store, rows, pandas):
    def open_it(people_columns, feed_columns):
        store = open_store()
        posts = store.table("posts", "id long, by long", key="id")
        people = store.table("people", people_columns, key="id")
        feed = store.table("feed", feed_columns, key="id")
        function, reference = named_for_pandas if pandas else named, sm.JoinSpec(people, join_keys={"by": "id"})
        store.add(sm.BatchTransform(function, [posts, reference], [feed], name="tell", pandas=pandas))
        return store, posts, people, feed

    store, posts, people, feed = open_it("id long, name string", "id long, name string")
    posts.upsert([{"id": 1, "by": 1}, {"id": 2, "by": 2}])
    people.upsert([{"id": 1, "name": "Alice"}])
    assert store.run().ok
    store, posts, people, feed = open_it("id long, name string, mail string", "id long, name string, mail string")
    people.upsert([{"id": 2, "name": "Bob", "mail": "b@x"}])
    assert store.run().ok
    assert rows(feed) == [(1, "Alice", None), (2, "Bob", "b@x")]

    report = store.verify(replay=True)

    assert (report.findings, report.replayed, report.not_replayable) == ((), 2, 0)


@pytest.mark.scenario("X100")
def test_a_changed_row_is_still_found_in_a_table_that_has_grown(open_store):
    told = {"suffix": ""}

    def open_it(columns):
        store = open_store()
        posts, feed = store.table("posts", "id long, text string", key="id"), store.table("feed", columns, key="id")

        def tell(posts):
            return posts.selectExpr(
                "id", f"concat(text, '{told['suffix']}') AS text", "1 AS n" if "n" in columns else "id"
            )

        store.add(sm.BatchTransform(tell, [posts], [feed], version="1"))
        return store, posts

    store, posts = open_it("id long, text string")
    store, posts = open_it("id long, text string, n int")
    posts.upsert([{"id": 1, "text": "x"}])
    store.run()
    assert store.verify("feed", replay=True).ok
    told["suffix"] = "!"
    (finding,) = store.verify("feed", replay=True).findings
    assert finding.kind == "replay"


# --- many keys --------------------------------------------------------------------------------------------------------


def add_v1(store):
    posts = store.table("posts", "id long, text string", key="id")
    copies = store.table("copies", "id long, text string", key="id")
    function = _fails_on_bad
    store.add(sm.BatchTransform(function, [posts], [copies], name="copy", track_keys=True, algorithm="v1"))
    return posts, copies


def _fails_on_bad(posts):
    return posts.selectExpr("id", "if(text = 'bad', raise_error('bad'), text) AS text")


@pytest.fixture
def few(monkeypatch, set_small):
    """Makes more than two keys many."""
    set_small(monkeypatch, 2)


@pytest.mark.long
@pytest.mark.scenario("X100")
def test_a_v1_run_of_many_keys_is_made_again_from_the_records_that_led_to_them(open_store, clock, few):
    store = open_store()
    posts, _ = add_v1(store)
    posts.upsert([{"id": n, "text": "old"} for n in range(3)])
    store.run()
    posts.upsert([{"id": n, "text": "bad" if n == 7 else "new"} for n in range(10)])
    store.step("copy").run_idx([{"id": 0}])  # known as processed: the full comparison leaves it out
    assert store.run().steps["copy"].failed == 1
    posts.delete([{"id": n} for n in range(1, 4)])
    store.run()
    posts.upsert([{"id": 7, "text": "good"}, *({"id": n, "text": "newer"} for n in range(20, 25))])
    clock.advance(days=1)
    assert store.run().ok

    report = store.verify(replay=True)

    assert report.findings == ()
    assert report.not_replayable == 0


@pytest.mark.scenario("X100")
def test_keys_that_no_waiting_record_leads_to_are_kept_by_name(open_store, few):
    """The full comparison also finds keys that the table of processed keys has lost."""
    store = open_store()
    posts, copies = add_v1(store)
    posts.upsert([{"id": n, "text": "old"} for n in range(6)])
    store.run()
    posts.upsert([{"id": n, "text": "bad"} for n in (1, 2)])
    store.run()  # two keys fail: they are not known as processed
    posts.upsert([{"id": n, "text": "new"} for n in range(3, 6)])
    store.step("copy").retry()
    posts.upsert([{"id": n, "text": "new"} for n in (1, 2)])
    store.run()

    assert sorted(row.text for row in copies.rows().collect()) == ["new"] * 5 + ["old"]
    assert store.verify(replay=True).findings == ()


@pytest.mark.long
@pytest.mark.scenario("X100")
def test_sixty_thousand_keys_of_a_v1_run_are_made_again(open_store, spark):
    store = open_store()
    posts, _ = add_v1(store)
    posts.upsert(spark.range(60_000).selectExpr("id", "'old' AS text"))
    store.run()
    posts.upsert(spark.range(60_000).selectExpr("id", "'new' AS text"))
    store.run()

    report = store.verify(replay=True)

    assert (report.findings, report.not_replayable) == ((), 0)


# --- steps that are gone ----------------------------------------------------------------------------------------------


@pytest.mark.scenario("X100")
def test_a_table_whose_step_is_gone_is_counted_and_the_others_are_computed_again(open_store):
    store = open_store()
    posts = store.table("posts", "id long, text string", key="id")
    tables = {name: store.table(name, "id long, text string", key="id") for name in ("first", "second", "third")}
    for name, output in tables.items():
        store.add(sm.BatchTransform(copy, [posts], [output], name=f"make_{name}"))
    posts.upsert(pd.DataFrame({"id": [1, 2], "text": ["x", "y"]}))
    store.run()
    posts.upsert(pd.DataFrame({"id": [1], "text": ["z"]}))
    store.run()

    store = open_store()  # the first step is removed, the second is renamed and writes elsewhere, the third stays
    posts = store.table("posts", "id long, text string", key="id")
    other, third = (store.table(name, "id long, text string", key="id") for name in ("other", "third"))
    store.add(sm.BatchTransform(copy, [posts], [other], name="make_other"))
    store.add(sm.BatchTransform(copy, [posts], [third], name="make_third"))
    store.run()

    report = store.verify(replay=True)

    assert report.findings == ()
    assert (report.replayed, report.not_replayable) == (3, 4)
    alone = store.verify("first", replay=True)
    assert (alone.ok, alone.replayed, alone.not_replayable) == (True, 0, 2)
    assert store.verify("posts", replay=True).not_replayable == 0

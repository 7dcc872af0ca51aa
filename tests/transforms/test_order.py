"""Several steps: the order in which they run, what a run would do, and the trouble of one of them."""

import pytest
from pyspark.errors import AnalysisException

import seamark as sm
from seamark.errors import FunctionFailed, UnknownStep


@pytest.fixture
def chain(blog):
    """Posts -> feed -> digest -> total, declared the last first where that can be; and `names` beside them."""
    store = blog.store
    digest = store.table("digest", "user string, lines long", key="user")
    total = store.table("total", "name string, lines long", key="name")
    names = store.table("names", "id long, name string", key="id")
    blog.broken = set()

    def check(step):
        if step in blog.broken:
            raise RuntimeError(f"{step} is broken")

    @store.transform(inputs=[digest], outputs=[total], transform_keys=[], version="1")
    def add_up(digest):
        check("add_up")
        return digest.selectExpr("'all' AS name", "lines").groupBy("name").sum("lines").toDF("name", "lines")

    @store.transform(inputs=[blog.profiles], outputs=[names], version="1")
    def copy_names(profiles):
        check("copy_names")
        return profiles

    @store.transform(inputs=[blog.feed], outputs=[digest], transform_keys=[], version="1")
    def count_lines(feed):
        check("count_lines")
        counted = feed.selectExpr("split(line, ':')[0] AS user").groupBy("user").count()
        return counted.toDF("user", "lines")

    return blog


def rows(store, table):
    return sorted(tuple(row) for row in store.table(table).rows().collect())


@pytest.mark.scenario("X71")
def test_steps_run_in_order_and_one_pass_settles_all(chain):
    store = chain.store
    chain.write_profiles((100, "Alice"), (200, "Bob"))
    chain.write_posts((1, 100, "one"), (2, 200, "two"), (3, 100, "three"))

    report = store.run()

    order = ["process_posts", "count_lines", "add_up", "copy_names"]
    assert list(store.steps()) == list(report.steps) == order
    assert store.step_names() == ["process_posts", "add_up", "copy_names", "count_lines"]
    assert report.ok
    assert [(step.keys, step.appended) for step in report.steps.values()] == [(3, 3), (1, 2), (1, 1), (2, 2)]
    assert rows(store, "digest") == [("Alice", 2), ("Bob", 1)]
    assert rows(store, "total") == [("all", 3)]
    idle = store.run()
    assert not idle.did_something
    assert [step.keys for step in idle.steps.values()] == [0, 0, 0, 0]

    chain.delete_posts(2)
    report = store.run()
    assert report.steps["process_posts"].retracted == 1
    assert (report.steps["count_lines"].retracted, report.steps["copy_names"].batches) == (1, 0)
    assert rows(store, "total") == [("all", 2)]
    assert not store.run().did_something


@pytest.mark.scenario("X71")
def test_a_plan_tells_what_waits_without_doing_it_and_some_steps_can_be_run(chain):
    store = chain.store
    chain.write_posts((1, 100, "one"), (2, 100, "two"))
    plan = store.plan()
    assert list(plan) == ["process_posts", "count_lines", "add_up", "copy_names"]
    assert {name: entry.mode for name, entry in plan.items()} == {
        "process_posts": "all keys",
        "count_lines": "settled",
        "add_up": "settled",
        "copy_names": "settled",
    }
    assert plan["process_posts"].reason == "first run"
    assert chain.calls() == []
    assert chain.feed.head.offset is None

    assert list(store.run("process_posts").steps) == ["process_posts"]
    assert rows(store, "digest") == []
    assert list(store.plan("add_up", "count_lines")) == ["count_lines", "add_up"]
    assert store.plan("count_lines")["count_lines"].pending_records == 2
    assert list(store.run("add_up", "count_lines").steps) == ["count_lines", "add_up"]
    assert rows(store, "total") == [("all", 2)]

    chain.write_posts((3, 100, "three"))
    chain.calls()
    entry = store.plan("process_posts")["process_posts"]
    assert (entry.mode, entry.keys, entry.keys_are_exact, entry.batches) == ("changes", 1, True, 1)
    assert [(i.table, i.after, i.upto, i.pending_records) for i in entry.inputs] == [
        ("posts", 1, 2, 1),
        ("profiles", None, None, 0),
    ]
    assert entry.inputs[1].path == "reverse join to posts by user_id = id"
    assert chain.calls() == []
    with pytest.raises(UnknownStep, match="process_post"):
        store.run("process_post")
    with pytest.raises(UnknownStep):
        store.step("nothing")


@pytest.mark.scenario("X71")
def test_the_trouble_of_one_step_does_not_stop_the_others(chain):
    store = chain.store
    chain.write_profiles((100, "Alice"))
    chain.write_posts((1, 100, "one"))
    chain.broken.add("count_lines")

    report = store.run()

    assert not report.ok
    assert report.steps["count_lines"].failed == 1
    assert report.steps["count_lines"].error is None  # a key that failed, if the only one
    assert rows(store, "names") == [(100, "Alice")]
    assert [name for name, step in report.steps.items() if step.ok] == ["process_posts", "add_up", "copy_names"]
    chain.broken.clear()
    assert store.run().ok
    assert rows(store, "total") == [("all", 1)]


@pytest.mark.scenario("X71")
def test_a_step_that_cannot_run_says_so_in_its_report_and_fail_fast_raises_it(ds):
    posts = ds.table("posts", "id long", key="id")
    wrong, right = ds.table("wrong", "id long", key="id"), ds.table("right", "id long", key="id")
    ds.add(sm.BatchTransform("SELECT id, no_such_column FROM {posts}", [posts], [wrong], name="a_wrong_one"))
    ds.add(sm.BatchTransform("SELECT id FROM {posts}", [posts], [right], name="right_one"))
    posts.upsert([{"id": 1}])

    with pytest.raises(AnalysisException, match="no_such_column"):
        ds.run(fail_fast=True)
    assert right.head.offset is None
    report = ds.run()

    assert not report.ok
    assert "no_such_column" in str(report.steps["a_wrong_one"].error)
    assert report.steps["a_wrong_one"].mode == "failed"
    assert report.steps["right_one"].appended == 1
    assert ds.offset_table.get_record_offsets("a_wrong_one") == {}
    assert ds.step("a_wrong_one").failures().empty
    with pytest.raises(AnalysisException, match="no_such_column"):
        ds.step("a_wrong_one").run_full()


@pytest.mark.scenario("X71")
def test_fail_fast_raises_the_first_key_that_fails_and_later_steps_wait(chain):
    store = chain.store
    chain.write_profiles((100, "Alice"))
    chain.write_posts((1, 100, "one"))
    chain.broken.add("count_lines")
    with pytest.raises(FunctionFailed, match="count_lines is broken"):
        store.run(fail_fast=True)
    assert rows(store, "feed") == [(1, "Alice: one")]
    assert rows(store, "names") == []
    assert store.step("count_lines").failures().empty
    chain.broken.clear()
    assert store.run(fail_fast=True).ok
    assert rows(store, "total") == [("all", 1)]


@pytest.mark.scenario("X71")
def test_progress_is_told_after_every_commit(make_blog):
    blog = make_blog(batch_keys=2)
    blog.write_posts(*[(n, 100, "x") for n in range(5)])
    told = []
    blog.store.run(on_batch=lambda report, left: told.append((report.step, report.keys, left)))
    assert told == [("process_posts", 2, 2), ("process_posts", 4, 1), ("process_posts", 5, 0)]

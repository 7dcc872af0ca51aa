"""Runs that take only part of what waits: given keys, filters and limits. They never hide what they leave out."""

import pytest

import seamark as sm
from seamark.errors import BadValue, FrameMismatch, InvalidStep, UnknownColumn


def positions(blog):
    return blog.store.offset_table.get_record_offsets("process_posts")


def posts(*numbers):
    return [(n, 100, f"post {n}") for n in numbers]


@pytest.mark.scenario("X67")
def test_given_keys_are_computed_whether_they_changed_or_not_and_positions_stay(blog):
    blog.write_profiles((100, "Alice"))
    blog.write_posts(*posts(1, 2, 3))
    blog.run()
    blog.write_posts((3, 100, "changed"), (4, 100, "new"))
    blog.calls()
    before = positions(blog)

    report = blog.step.run_idx([{"post_id": 1}, {"post_id": 3}, {"post_id": 3}])

    assert (report.keys, report.mode, report.corrected) == (2, "keys", 1)
    assert blog.calls() == [[1, 3]]
    assert positions(blog) == before
    assert blog.lines() == [(1, "Alice: post 1"), (2, "Alice: post 2"), (3, "Alice: changed")]
    assert blog.run().keys == 2  # 3 again, and 4
    assert blog.is_settled()


@pytest.mark.scenario("X67")
def test_a_key_without_rows_loses_its_row_and_a_frame_without_the_keys_is_refused(blog):
    blog.write_posts(*posts(1, 2))
    blog.run()
    blog.delete_posts(2)

    assert blog.step.run_idx([{"post_id": 2}, {"post_id": 77}]).retracted == 1
    assert blog.lines() == [(1, "?: post 1")]
    with pytest.raises(FrameMismatch, match="lacks 'post_id'") as refused:
        blog.step.run_idx([{"user_id": 100}])
    assert "the transform keys: post_id" in refused.value.hint
    blog.run()
    assert blog.is_settled()


@pytest.mark.scenario("X67")
def test_given_keys_before_the_first_run_do_not_count_as_one(blog):
    blog.write_posts(*posts(1, 2))
    assert blog.step.run_idx([{"post_id": 2}]).keys == 1
    assert positions(blog) == {}
    assert blog.run().keys == 2
    assert blog.is_settled()


@pytest.mark.scenario("X65")
@pytest.mark.hazard("H6")
def test_a_filtered_run_leaves_the_others_where_they_are(blog):
    blog.write_posts(*posts(1, 2))
    blog.run()
    blog.calls()
    blog.write_posts((2, 100, "older"))
    blog.write_posts((1, 100, "newer"))
    before = positions(blog)

    report = blog.step.run_full(sm.RunConfig(filters={"post_id": 1}))

    assert (report.keys, report.mode) == (1, "filter")
    assert blog.calls() == [[1]]
    assert positions(blog) == before
    assert blog.lines() == [(1, "?: newer"), (2, "?: post 2")]
    assert blog.step.run_full(sm.RunConfig(filters={"post_id": 1})).keys == 0  # it is known to be done
    assert blog.run().keys == 1
    assert blog.calls() == [[2]]
    assert blog.is_settled()


@pytest.mark.scenario("X65")
def test_a_filter_that_holds_all_that_waits_moves_the_positions(blog):
    blog.write_posts(*posts(1, 2))
    blog.run()
    blog.write_posts((1, 100, "new"))
    assert blog.run(filters={"post_id": 1}).keys == 1
    assert positions(blog)["posts"] == blog.posts.head.offset
    assert blog.is_settled()


@pytest.mark.scenario("X65")
@pytest.mark.hazard("H13")
def test_failures_outside_a_filter_are_untouched(ds, clock):
    posts, _, calls = shaky(ds, ["bad"])
    posts.upsert([{"id": 1, "text": "bad"}, {"id": 2, "text": "bad"}, {"id": 3, "text": "ok"}])
    ds.run()
    step = ds.step("shake")
    before = step.failures()
    assert list(before.id) == [1, 2]
    calls.clear()
    clock.advance(seconds=1)

    report = step.run_full(sm.RunConfig(filters={"id": 2}))

    assert (report.keys, report.failed) == (1, 1)
    assert all(call == [2] for call in calls)
    after = step.failures()
    assert list(zip(after.id, after.attempts, strict=True)) == [(1, 1), (2, 2)]
    assert after.process_ts[0] == before.process_ts[0]


@pytest.mark.scenario("X65")
def test_a_filter_names_a_transform_key_and_a_value_of_its_type(blog):
    blog.write_posts(*posts(1))
    with pytest.raises(UnknownColumn, match="cannot be filtered by 'post'") as unknown:
        blog.step.run_full(sm.RunConfig(filters={"post": 1}))
    assert "did you mean 'post_id'?" in unknown.value.hint
    with pytest.raises(BadValue, match="'one' does not fit 'post_id', which is bigint"):
        blog.step.run_full(sm.RunConfig(filters={"post_id": "one"}))
    assert blog.calls() == []
    assert blog.run().keys == 1


@pytest.mark.scenario("X66")
def test_a_limit_takes_ten_of_a_hundred_and_the_tenth_run_settles(blog):
    blog.write_profiles((100, "Alice"))
    blog.write_posts(*posts(1000))
    blog.run()
    blog.calls()
    blog.write_posts(*posts(*range(60)))
    blog.write_posts(*posts(*range(60, 100)))

    reached = []
    for _ in range(10):
        assert blog.run(limit=10).keys == 10
        reached.append(positions(blog)["posts"])

    assert reached == [0] * 5 + [60] * 4 + [100]  # never past a block of which a key is left
    assert blog.calls() == [list(range(n, n + 10)) for n in range(0, 100, 10)]
    assert positions(blog)["posts"] == blog.posts.head.offset
    assert blog.store.control.index.covered_keys("process_posts") == []
    assert blog.is_settled()


@pytest.mark.scenario("X66")
@pytest.mark.parametrize("limit", [-1, 2.5, "3", True])
def test_a_limit_that_is_no_number_of_keys_is_refused(blog, limit):
    blog.write_posts(*posts(1, 2, 3))
    for run in (blog.store.run, lambda limit: blog.step.run_full(sm.RunConfig(limit=limit))):
        with pytest.raises(InvalidStep, match="is not a number of keys"):
            run(limit=limit)
    assert blog.run().keys == 3


@pytest.mark.scenario("X5")
def test_a_reset_after_a_limited_first_run_computes_its_keys_again(ds, rows):
    factor = {"now": 1}
    numbers, out = (ds.table(name, "id long, n long", key="id") for name in ("numbers", "out"))

    @ds.transform(inputs=[numbers], outputs=[out], version="1")
    def times(numbers):
        return numbers.selectExpr("id", f"n * {factor['now']} AS n")

    numbers.upsert([{"id": n, "n": 1} for n in range(5)])
    ds.run(limit=3)
    factor["now"] = 100
    ds.offset_table.reset_offset("times")
    for _ in range(3):
        ds.run(limit=3)
    assert rows(out) == [(n, 100) for n in range(5)]


@pytest.mark.scenario("X66")
def test_a_limited_first_run_is_followed_by_the_rest(blog):
    blog.write_posts(*posts(1, 2, 3))
    assert blog.run(limit=2).keys == 2
    assert blog.lines() == [(1, "?: post 1"), (2, "?: post 2")]
    assert blog.store.run(limit=0).steps["process_posts"].keys == 0
    assert blog.run(limit=2).keys == 1
    assert blog.calls() == [[1, 2], [3]]
    assert blog.is_settled()


@pytest.mark.scenario("X66")
def test_a_full_run_after_a_limited_one_takes_what_is_left(blog):
    blog.write_posts(*posts(1))
    blog.run()
    blog.write_posts(*posts(2, 3, 4))
    blog.run(limit=2)
    blog.calls()
    assert blog.step.get_changed_idx_count() == 1
    assert [row.post_id for row in blog.step.get_changed_idx().collect()] == [4]
    assert blog.run().keys == 1
    assert blog.calls() == [[4]]
    assert blog.is_settled()


@pytest.mark.scenario("X66")
@pytest.mark.scenario("X32")
def test_a_step_with_one_result_of_all_rows_is_one_key_to_a_limit(ds):
    posts = ds.table("posts", "id long, likes long", key="id")
    total = ds.table("total", "name string, likes long", key="name")
    text = "SELECT 'all' AS name, sum(likes) AS likes FROM {posts}"
    ds.add(sm.BatchTransform(text, [posts], [total], name="add_up", transform_keys=[]))
    posts.upsert([{"id": 1, "likes": 1}, {"id": 2, "likes": 2}])
    ds.run()
    posts.upsert([{"id": 2, "likes": 20}])

    assert ds.run(limit=0).steps["add_up"].keys == 0
    assert ds.run(limit=1).steps["add_up"].corrected == 1

    assert [tuple(row) for row in total.rows().collect()] == [("all", 21)]
    assert not ds.run().did_something


@pytest.mark.scenario("X80")
def test_a_covered_key_that_changes_again_or_whose_profile_does_is_computed_again(blog):
    blog.write_profiles((100, "Alice"), (200, "Bob"))
    blog.write_posts((1000, 200, "old"))
    blog.run()
    blog.write_posts(*posts(*range(29)), (29, 200, "post 29"))
    assert blog.run(limit=10).keys == 10
    blog.calls()

    blog.write_posts((3, 100, "changed"))
    blog.write_profiles((200, "Bobby"))

    taken = [blog.run(limit=10).keys for _ in range(3)]
    assert taken == [10, 10, 2]  # 20 are left, and 3, which had been covered, and 1000, whose profile changed
    assert sorted(key for call in blog.calls() for key in call) == [3, *range(10, 30), 1000]
    assert blog.is_settled()


@pytest.mark.scenario("X66")
def test_keys_that_fail_do_not_use_up_the_limit_of_every_run(ds, clock):
    posts, feed, _ = shaky(ds, ["bad"])
    posts.upsert([{"id": 1000, "text": "first"}])
    ds.run()
    posts.upsert([{"id": n, "text": "bad" if n < 2 else "ok"} for n in range(6)])

    for _ in range(4):
        ds.run(limit=2)
        clock.advance(hours=12)  # all failed keys are due at every run

    assert sorted(row.id for row in feed.rows().collect()) == [2, 3, 4, 5, 1000]
    assert list(ds.step("shake").failures().id) == [0, 1]
    assert ds.offset_table.get_record_offsets("shake") == {"posts": posts.head.offset}


@pytest.mark.scenario("X66")
@pytest.mark.scenario("X48")
def test_a_key_that_failed_in_a_limited_run_waits_like_any_other(ds, clock):
    posts, _, calls = shaky(ds, ["bad"])
    posts.upsert([{"id": 1000, "text": "first"}])
    ds.run()
    posts.upsert([{"id": n, "text": "bad" if n == 0 else "ok"} for n in range(4)])
    ds.run(limit=1)
    ds.run(filters={"id": 0})  # the second failure: due in a minute
    calls.clear()

    assert ds.run().steps["shake"].keys == 3
    assert calls == [[1, 2, 3]]
    assert not ds.run().did_something
    clock.advance(minutes=2)
    assert ds.run().steps["shake"].failed == 1


@pytest.mark.scenario("X67")
@pytest.mark.scenario("X86")
def test_a_run_of_some_keys_does_not_make_a_pass_over_all_keys_forgotten(make_blog):
    blog = make_blog(batch_keys=2)
    blog.write_posts(*posts(1, 2, 3, 4, 5, 6))
    with pytest.raises(KeyboardInterrupt):
        blog.step.run_full(on_batch=stop_after(2))
    assert blog.lines() == [(n, f"?: post {n}") for n in (1, 2, 3, 4)]
    blog.calls()

    blog.step.run_idx([{"post_id": 6}])
    blog.step.give_up()

    assert blog.calls() == [[6]]
    assert blog.run().mode == "all keys"
    assert blog.calls() == [[5, 6]]
    assert blog.is_settled()


@pytest.mark.scenario("X70")
def test_a_recompute_that_was_cut_off_goes_on_after_a_run_of_some_keys(make_blog):
    blog = make_blog(batch_keys=2, version="1")
    blog.write_posts(*posts(1, 2, 3, 4))
    blog.run()
    blog = make_blog(batch_keys=2, version="2", on_change="recompute")
    with pytest.raises(KeyboardInterrupt):
        blog.step.run_full(on_batch=stop_after(1))
    blog.calls()

    blog.step.run_idx([{"post_id": 1}])

    assert blog.run().mode == "recompute"
    assert blog.calls() == [[1], [3, 4]]
    assert blog.is_settled()


@pytest.mark.scenario("X5")
@pytest.mark.scenario("X86")
@pytest.mark.parametrize("ran_before", [True, False])
def test_a_reset_of_a_pass_that_was_cut_off_begins_it_anew(make_blog, ran_before):
    blog = make_blog(batch_keys=2)
    blog.write_posts(*posts(1, 2, 3, 4))
    if ran_before:
        blog.run()
        blog.store.offset_table.reset_offset("process_posts")
    with pytest.raises(KeyboardInterrupt):
        blog.step.run_full(on_batch=stop_after(1))
    blog.store.offset_table.reset_offset("process_posts")
    blog.calls()

    blog.run()

    assert blog.calls() == [[1, 2], [3, 4]]
    assert blog.is_settled()


# --- telling ----------------------------------------------------------------------------------------------------------


def stop_after(batches):
    def on_batch(report, _left):
        if report.batches == batches:
            raise KeyboardInterrupt

    return on_batch


def shaky(ds, bad):
    """A step that fails on some texts, and the keys of each of its calls."""
    posts = ds.table("posts", "id long, text string", key="id")
    feed = ds.table("feed", "id long, text string", key="id")
    calls = []

    @ds.transform(inputs=[posts], outputs=[feed], version="1")
    def shake(posts):
        found = posts.collect()
        calls.append(sorted(row.id for row in found))
        if any(row.text in bad for row in found):
            raise ValueError("bad text")
        return posts

    return posts, feed, calls

"""A run is listed as at work from its pins to its end, with the batch that it is at."""

import pytest

import seamark as sm


@pytest.mark.scenario("C46")
def test_a_run_is_listed_while_it_works(blog):
    blog.write_posts((1, 100, "hello"))
    seen = []
    blog.meanwhile = lambda: seen.extend(blog.store.control.live.all())

    blog.run()

    [run] = seen
    assert (run.step, run.mode, run.batch, run.batches, run.is_alive) == ("process_posts", "all keys", 1, 1, True)
    assert run.pins == {"posts": 0, "profiles": None}
    assert blog.store.control.live.all() == []


@pytest.mark.scenario("C46")
def test_a_run_that_fails_is_no_longer_listed(blog):
    blog.write_posts((1, 100, "hello"))
    blog.broken = {1}
    seen = []
    blog.meanwhile = lambda: seen.extend(blog.store.control.live.all())
    with pytest.raises(Exception, match="post 1 is broken"):
        blog.step.run_full(sm.RunConfig(fail_fast=True))
    assert len(seen) == 1
    assert blog.store.control.live.all() == []


@pytest.mark.scenario("C46")
@pytest.mark.parametrize("commit", ["batch", "run"])
def test_each_batch_says_its_place(make_blog, commit):
    blog = make_blog(batch_rows=1, commit=commit)
    blog.write_posts((1, 100, "hello"))
    blog.run()
    blog.write_posts((2, 100, "two"))
    blog.write_posts((3, 100, "three"))
    seen = []

    def look():
        seen.extend((run.batch, run.batches) for run in blog.store.control.live.all())
        blog.meanwhile = look

    blog.meanwhile = look
    blog.run()
    assert seen == [(1, 2), (2, 2)]

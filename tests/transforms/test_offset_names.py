"""The offset table by the names that its arguments have everywhere, and what a run with a configuration would take."""

import inspect

import pytest

import seamark as sm
from seamark.errors import UnknownStep
from seamark.steps.standing.offsets import OffsetTable

pytestmark = pytest.mark.scenario("X107")


def test_every_method_takes_the_step_and_the_input_by_the_same_names():
    for name, method in inspect.getmembers(OffsetTable, inspect.isfunction):
        if not name.startswith("_"):
            named = [parameter for parameter in inspect.signature(method).parameters if parameter != "self"]
            assert set(named) <= {"transformation_id", "input_table_name", "offset", "offsets", "input_tables"}, name


def test_an_offset_is_set_read_and_reset_by_name(blog, clock):
    blog.write_profiles((100, "Alice"))
    blog.write_posts((1, 100, "one"))
    clock.advance(seconds=10)
    blog.write_posts((2, 100, "two"))
    offsets = blog.store.offset_table
    blog.run()
    offsets.reset_offset(transformation_id="process_posts", input_table_name="posts")
    assert "posts" not in offsets.get_record_offsets(transformation_id="process_posts")

    moment = blog.posts.head.system_time.timestamp()
    offsets.update_offset(transformation_id="process_posts", input_table_name="posts", offset=moment)
    assert offsets.get_offsets_for_transformation(transformation_id="process_posts")["posts"] == moment
    assert offsets.get_record_offsets(transformation_id="process_posts")["posts"] == 0  # the commit before that time
    offsets.update_offset("process_posts", "posts", moment - 5)  # none is ever lowered
    assert offsets.get_offsets_for_transformation("process_posts")["posts"] == moment

    (line,) = offsets.get_statistics(transformation_id="process_posts", input_table_name="posts")
    assert (line["input_table_name"], line["pending_records"]) == ("posts", 1)
    assert len(offsets.get_statistics(transformation_id="process_posts")) == 2
    assert offsets.get_statistics(input_table_name="profiles")[0]["pending_records"] == 0


def keys(step, config=None):
    found = sorted(tuple(row) for row in step.get_changed_idx(config).collect())
    assert step.get_changed_idx_count(config) == len(found)
    return found


@pytest.mark.scenario("X23")
def test_what_a_run_with_a_configuration_would_take_is_listed(blog):
    blog.write_posts(*[(n, 100, "x") for n in range(1, 6)])
    assert keys(blog.step, sm.RunConfig(limit=2)) == [(1,), (2,)]
    assert keys(blog.step, sm.RunConfig(filters={"post_id": 4})) == [(4,)]
    blog.run(limit=2)
    assert keys(blog.step, sm.RunConfig(limit=2)) == [(3,), (4,)]
    assert keys(blog.step) == [(3,), (4,), (5,)]
    assert keys(blog.step, sm.RunConfig(filters={"post_id": 1})) == []
    assert keys(blog.step, sm.RunConfig(limit=0)) == []
    blog.broken.add(3)
    blog.run()
    assert keys(blog.step, sm.RunConfig(limit=5)) == [(3,)]  # it failed, and is tried again by the next run
    blog.broken.clear()
    heads = blog.store.heads()
    assert keys(blog.step, sm.RunConfig(limit=5)) == [(3,)]
    assert blog.store.heads() == heads
    blog.run(limit=5)
    assert keys(blog.step, sm.RunConfig(limit=5)) == []


@pytest.mark.scenario("X23")
def test_keys_of_inputs_that_share_none_are_listed_whichever_changed(ds):
    one = ds.table("one", "a long", key="a")
    two = ds.table("two", "b long", key="b")
    pairs = ds.table("pairs", "a long, b long", key=["a", "b"])

    @ds.transform(inputs=[one, two], outputs=[pairs], transform_keys=["a", "b"])
    def pair(one, two):
        return one.crossJoin(two)

    one.upsert([{"a": 1}, {"a": 2}])
    two.upsert([{"b": 1}, {"b": 2}])
    ds.run()
    step = ds.step("pair")
    two.upsert([{"b": 3}])
    assert keys(step) == [(1, 3), (2, 3)]
    assert keys(step, sm.RunConfig(limit=1)) == [(1, 3), (2, 3)]  # one group
    one.upsert([{"a": 3}])
    assert keys(step) == [(1, 3), (2, 3), (3, 1), (3, 2), (3, 3)]


def test_a_step_that_nobody_knows_is_refused(blog):
    offsets = blog.store.offset_table
    with pytest.raises(UnknownStep, match=r"no step 'process_post'\. Hint: did you mean 'process_posts'"):
        offsets.reset_offset("process_post")
    with pytest.raises(UnknownStep, match="process_post"):
        offsets.update_offset("process_post", "posts", 1.0)
    assert offsets.get_statistics("process_post") == []

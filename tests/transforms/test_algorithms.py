"""Steps that keep the keys they have processed: both ways to select them agree, and first offsets come from them."""

from __future__ import annotations

from typing import Any

import pytest

import seamark as sm


class Twins:
    """One table and two steps that do the same with it: one compares with what was processed, one goes by changes."""

    def __init__(self, store: sm.DataStore, frame: Any, rows: Any, **algorithms: str) -> None:
        self.store, self._frame, self._rows = store, frame, rows
        self.posts = store.table("posts", "post_id long, user_id long, content string", key="post_id")
        self.profiles = store.table("profiles", "id long, name string", key="id")
        self.outputs = {}
        for name in ("v1", "v2"):
            self.outputs[name] = store.table(f"feed_{name}", "post_id long, line string", key="post_id")
            store.add(
                sm.BatchTransform(
                    tell,
                    name=name,
                    inputs=[self.posts, sm.JoinSpec(self.profiles, join_keys={"user_id": "id"})],
                    outputs=[self.outputs[name]],
                    track_keys=True,
                    algorithm=algorithms.get(name, name),
                )
            )

    def write(self, *posts: Any) -> None:
        self.posts.upsert(self._frame(self.posts, posts))

    def name(self, *profiles: Any) -> None:
        self.profiles.upsert(self._frame(self.profiles, profiles))

    def delete(self, *keys: int) -> None:
        self.posts.delete(self._frame(self.posts, [(key,) for key in keys], only_key=True))

    def selected(self) -> list[int]:
        """The keys that both would take, which must be the same."""
        one, two = [
            sorted(row.post_id for row in self.store.step(name).get_changed_idx().collect()) for name in ("v1", "v2")
        ]
        assert one == two
        assert self.store.step("v2").get_changed_idx_count() == len(two)
        return one

    def run(self) -> list[int]:
        """How many keys each computed, after which both have the same rows."""
        report = self.store.run()
        assert [step.error for step in report.steps.values()] == [None, None]
        assert self.lines("v1") == self.lines("v2")
        assert self._rows(self.store.table("v1__keys")) == self._rows(self.store.table("v2__keys"))
        return [step.keys for step in report.steps.values()]

    def lines(self, name: str) -> list[tuple[int, str]]:
        return self._rows(self.outputs[name])


def tell(posts, profiles):
    """Fails, when it is computed, for a post that says "bad"."""
    joined = posts.join(profiles, posts.user_id == profiles.id, "left")
    checked = "if(content = 'bad', raise_error('bad post'), content)"
    return joined.selectExpr("post_id", f"concat(coalesce(name, '?'), ': ', {checked}) AS line")


# --- two algorithms ---------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.scenario("X22")
def test_both_algorithms_select_the_same_keys(open_store, frame, rows, clock):
    twins = Twins(open_store(), frame, rows)
    twins.write((1, 100, "a"), (2, 100, "b"), (3, 200, "c"), (4, 200, "d"), (5, None, "e"))
    twins.name((100, "Alice"), (200, "Bob"))
    assert twins.selected() == [1, 2, 3, 4, 5]
    assert twins.run() == [5, 5]
    assert twins.selected() == []

    twins.write((6, 100, "new"), (2, 100, "updated"), (3, 200, "bad"))
    twins.delete(4)
    assert twins.selected() == [2, 3, 4, 6]
    twins.run()
    assert twins.lines("v1") == [
        (1, "Alice: a"),
        (2, "Alice: updated"),
        (3, "Bob: c"),  # it failed: its former row stands
        (5, "?: e"),
        (6, "Alice: new"),
    ]
    assert [list(twins.store.step(name).failures().post_id) for name in ("v1", "v2")] == [[3], [3]]

    assert twins.selected() == [3]  # the first retry does not wait
    assert twins.run() == [1, 1]
    twins.write((7, 200, "seven"), (8, 200, "comes and goes"))
    twins.delete(8)
    assert twins.selected() == [7, 8]  # key 3 waits now, and key 4 is long gone
    twins.run()
    assert not twins.store.run().did_something

    twins.name((200, "Bobby"))  # a change of the reference does not wait
    assert twins.selected() == [3, 7]
    twins.run()
    clock.advance(hours=12)
    assert twins.selected() == [3]
    twins.write((3, 200, "mended"), (4, 100, "back again"))
    assert twins.selected() == [3, 4]
    assert twins.run() == [2, 2]
    assert twins.lines("v1")[2:4] == [(3, "Bobby: mended"), (4, "Alice: back again")]
    assert twins.selected() == []
    assert not twins.store.run().did_something


@pytest.mark.scenario("X22")
def test_switching_the_algorithm_loses_nothing(open_store, frame, rows):
    twins = Twins(open_store(), frame, rows)
    twins.write((1, 100, "a"), (2, 100, "b"), (3, 100, "c"))
    twins.run()
    twins.delete(3)
    twins.run()
    twins.write((2, 100, "updated"), (4, 100, "new"))
    twins.delete(1)

    switched = Twins(open_store(), frame, rows, v1="v2", v2="v1")
    assert switched.selected() == [1, 2, 4]
    switched.run()
    switched.name((100, "Alice"))
    switched.delete(2)

    back = Twins(open_store(), frame, rows)
    assert back.selected() == [2, 4]
    back.run()
    assert back.lines("v1") == back.lines("v2") == [(4, "Alice: new")]
    assert back.store.verify().ok


@pytest.mark.scenario("X22")
def test_an_older_algorithm_without_the_keys_that_were_processed_is_refused(make_blog):
    with pytest.raises(sm.SeamarkError, match="track_keys=True"):
        make_blog(algorithm="v1")


# --- first offsets ----------------------------------------------------------------------------------------------------


@pytest.fixture
def half_done(make_blog, clock):
    """A tracked step without offsets that has processed the records 0, 1, 3 and 4 of posts, each of its own commit."""
    blog = make_blog(track_keys=True)
    blog.times = []
    for number in range(5):
        clock.advance(seconds=1)
        blog.write_posts((10 + number, 100, f"record {number}"))
        blog.times.append(blog.posts.head.system_time.timestamp())
    blog.step.run_idx([{"post_id": key} for key in (10, 11, 13, 14)])
    blog.calls()
    return blog


@pytest.mark.scenario("X10", "X11")
@pytest.mark.hazard("H10")
def test_first_offsets_stop_before_the_first_record_that_was_not_processed(half_done):
    blog, offsets = half_done, half_done.store.offset_table
    assert offsets.get_record_offsets("process_posts") == {}

    given = [["posts", "profiles"], [blog.posts, blog.profiles], [("posts", blog.posts), ("profiles", None)]]
    for inputs in given:  # again and again is once
        found = offsets.initialize_offsets_from_transform_meta("process_posts", inputs)
        assert found == {"posts": blog.times[1]}  # in profiles there is no record that could give a time
        assert type(found["posts"]) is float
        assert offsets.get_record_offsets("process_posts") == {"posts": 1}
        assert offsets.get_offsets_for_transformation("process_posts") == {"posts": blog.times[1]}

    selected = sorted(row.post_id for row in blog.step.get_changed_idx().collect())
    assert 12 in selected
    assert not {10, 11} & set(selected)
    blog.run()
    (called,) = blog.calls()
    assert 12 in called
    assert not {10, 11} & set(called)
    assert blog.is_settled()


@pytest.mark.scenario("X11")
def test_first_offsets_never_lower_an_offset_that_stands(half_done, clock):
    blog, offsets = half_done, half_done.store.offset_table
    offsets.update_offsets_bulk({("process_posts", "posts"): blog.times[4]})
    assert offsets.get_record_offsets("process_posts") == {"posts": 3}

    offsets.initialize_offsets_from_transform_meta("process_posts", ["posts", "profiles"])
    assert offsets.get_record_offsets("process_posts") == {"posts": 3}
    assert offsets.get_offsets_for_transformation("process_posts") == {"posts": blog.times[4]}

    blog.run()
    stands = offsets.get_offsets_for_transformation("process_posts")
    clock.advance(seconds=1)
    blog.write_posts((99, 100, "waits"))
    for _ in range(2):
        offsets.initialize_offsets_from_transform_meta("process_posts", ["posts", "profiles"])
        assert offsets.get_offsets_for_transformation("process_posts") == stands
        assert offsets.get_record_offsets("process_posts") == {"posts": 4}
    assert blog.run().keys == 1


@pytest.mark.scenario("X10")
@pytest.mark.hazard("H10")
def test_first_offsets_stop_before_a_change_of_a_reference_that_was_not_processed(make_blog, clock):
    blog = make_blog(track_keys=True)
    blog.write_posts((1, 100, "hello"), (2, 200, "hi"))
    blog.write_profiles((100, "Alice"), (200, "Bob"))
    blog.step.run_idx([{"post_id": 1}, {"post_id": 2}])
    before = blog.profiles.head.system_time.timestamp()
    clock.advance(seconds=1)
    blog.write_profiles((200, "Bobby"))
    clock.advance(seconds=1)
    blog.write_profiles((300, "Carol"))
    blog.calls()

    offsets = blog.store.offset_table
    found = offsets.initialize_offsets_from_transform_meta("process_posts", ["posts", "profiles"])
    assert found == {"posts": blog.posts.head.system_time.timestamp(), "profiles": before}
    assert offsets.get_record_offsets("process_posts") == {"posts": 1, "profiles": 1}
    assert blog.run().keys == 1
    assert blog.calls() == [[2]]
    assert blog.lines() == [(1, "Alice: hello"), (2, "Bobby: hi")]
    assert blog.is_settled()


@pytest.mark.scenario("X10")
def test_first_offsets_of_a_step_that_keeps_no_keys_are_refused(blog):
    blog.write_posts((1, 100, "hello"))
    blog.run()
    with pytest.raises(sm.SeamarkError, match=r"does not keep the keys that it has processed.*track_keys=True"):
        blog.store.offset_table.initialize_offsets_from_transform_meta("process_posts", ["posts"])

"""References: rows of the primary are computed again when a row that they name changes, and only those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

import seamark as sm

Row = tuple[Any, ...]


def write(table: sm.Table, *rows: Row) -> None:
    table.upsert(_frame(table, table.schema.names, rows))


def delete(table: sm.Table, *keys: Any) -> None:
    table.delete(_frame(table, table.key, [(key,) for key in keys]))


def _frame(table: sm.Table, names: Sequence[str], rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    types = [table.schema.column(name).type for name in names]
    return pa.Table.from_arrays([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=list(names))


def rows(table: sm.Table) -> list[Row]:
    return sorted(tuple(row.values()) for row in table.rows().toArrow().to_pylist())


def is_idle(ds: sm.DataStore) -> bool:
    """Whether a further run does nothing."""
    heads = ds.heads()
    return not ds.run().did_something and ds.heads() == heads


# --- which posts are computed -----------------------------------------------------------------------------------------


@pytest.mark.scenario("X33")
@pytest.mark.hazard("H4")
def test_a_renamed_profile_recomputes_exactly_its_posts(blog):
    blog.write_posts((1, 100, "hello"), (2, 200, "hi"), (3, 100, "again"))
    blog.write_profiles((100, "Alice"), (200, "Bob"))
    blog.run()
    blog.calls()

    blog.write_profiles((100, "Alicia"))

    assert blog.run().keys == 2
    assert blog.calls() == [[1, 3]]
    assert blog.lines() == [(1, "Alicia: hello"), (2, "Bob: hi"), (3, "Alicia: again")]
    assert blog.is_settled()


@pytest.mark.scenario("X34")
def test_a_line_follows_a_profile_that_comes_late_goes_and_comes_back(blog):
    blog.write_posts((1, 100, "hello"), (2, None, "nobody's"))
    blog.run()
    assert blog.lines() == [(1, "?: hello"), (2, "?: nobody's")]
    blog.calls()

    blog.write_profiles((100, "Alice"))
    blog.run()
    assert blog.lines() == [(1, "Alice: hello"), (2, "?: nobody's")]

    blog.delete_profiles(100)
    blog.run()
    assert blog.lines() == [(1, "?: hello"), (2, "?: nobody's")]

    blog.write_profiles((100, "Alice"), (300, "nobody"))
    blog.run()
    assert blog.lines() == [(1, "Alice: hello"), (2, "?: nobody's")]
    assert blog.calls() == [[1], [1], [1]]
    assert blog.is_settled()


@pytest.mark.scenario("X35")
def test_a_post_that_moves_to_another_user_follows_that_one_from_then_on(blog):
    blog.write_posts((1, 100, "hello"), (2, 100, "stays"))
    blog.write_profiles((100, "Alice"), (200, "Bob"))
    blog.run()

    blog.write_posts((1, 200, "hello"))
    blog.run()
    assert blog.lines() == [(1, "Bob: hello"), (2, "Alice: stays")]
    blog.calls()

    blog.write_profiles((100, "Alicia"))
    blog.run()
    assert blog.calls() == [[2]]
    blog.write_profiles((200, "Bert"))
    blog.run()
    assert blog.calls() == [[1]]
    assert blog.lines() == [(1, "Bert: hello"), (2, "Alicia: stays")]
    assert blog.is_settled()


@pytest.mark.hazard("H12")
def test_the_older_algorithm_finds_the_posts_of_a_profile_too_and_there_is_a_way_back(make_blog):
    blog = make_blog(track_keys=True, algorithm="v1")
    blog.write_posts((1, 100, "hello"), (2, 200, "hi"))
    blog.write_profiles((100, "Alice"), (200, "Bob"))
    blog.run()
    blog.calls()
    blog.write_profiles((100, "Alicia"))
    blog.run()
    assert blog.calls() == [[1]]

    blog = make_blog(track_keys=True, algorithm="v2")
    blog.write_profiles((200, "Bert"))
    blog.run()
    assert blog.calls() == [[2]]

    blog = make_blog(track_keys=True, algorithm="v1")
    assert not blog.store.run().did_something
    blog.write_profiles((100, "Al"))
    blog.run()
    assert blog.calls() == [[1]]
    assert blog.is_settled()


# --- what the function is given ---------------------------------------------------------------------------------------


@pytest.mark.scenario("X36")
def test_of_a_hundred_thousand_profiles_the_function_is_given_those_that_its_posts_name(ds):
    posts = ds.table("posts", "post_id long, user_id long", key="post_id")
    profiles = ds.table("profiles", "id long, name string", key="id")
    feed = ds.table("feed", "post_id long, name string", key="post_id")
    given: list[list[int]] = []

    @ds.transform(inputs=[posts, sm.JoinSpec(profiles, join_keys={"user_id": "id"})], outputs=[feed])
    def process(posts, profiles):
        given.append(sorted(row.id for row in profiles.collect()))
        return posts.join(profiles, posts.user_id == profiles.id, "left").select("post_id", "name")

    users = pa.array(range(100_000))
    profiles.upsert(pa.table({"id": users, "name": pa.array([f"user {n}" for n in range(100_000)])}))
    write(posts, (100, 7))
    ds.run()
    assert given == [[7]]

    write(posts, *[(n, (n % 3) * 33_333) for n in range(10)])
    ds.run()

    assert given[1:] == [[0, 33_333, 66_666]]
    assert rows(feed) == [*[(n, f"user {(n % 3) * 33_333}") for n in range(10)], (100, "user 7")]


@pytest.mark.scenario("X37")
def test_a_reference_by_two_columns_is_read_by_real_pairs(ds):
    posts = ds.table("posts", "post_id long, a long, b string", key="post_id")
    names = ds.table("names", "a long, b string, name string", key=["a", "b"])
    feed = ds.table("feed", "post_id long, name string", key="post_id")
    given: list[list[Row]] = []

    @ds.transform(inputs=[posts, sm.JoinSpec(names, join_keys={"a": "a", "b": "b"})], outputs=[feed])
    def process(posts, names):
        given.append(sorted((row.a, row.b) for row in names.collect()))
        return posts.join(names, ["a", "b"], "left").select("post_id", "name")

    write(names, *[(a, b, f"{a}{b}") for a in (1, 2) for b in ("a", "b")])
    write(posts, (1, 1, "a"), (2, 2, "b"), (3, 1, None))
    ds.run()
    write(posts, (4, 1, "a"), (5, 2, "b"))  # once as all keys, once by changes
    ds.run()
    assert given == [[(1, "a"), (2, "b")]] * 2

    write(names, (1, "b", "new"), (2, "b", "newer"))
    assert ds.run().steps["process"].keys == 2  # posts 2 and 5: nobody names (1, b)
    assert rows(feed) == [(1, "1a"), (2, "newer"), (3, None), (4, "1a"), (5, "newer")]
    assert is_idle(ds)


@pytest.mark.scenario("X38")
def test_a_table_that_is_given_twice_is_one_input(ds):
    games = ds.table("games", "game_id long, home long, away long", key="game_id")
    teams = ds.table("teams", "id long, name string", key="id")
    results = ds.table("results", "game_id long, line string", key="game_id")
    by_home, by_away = (sm.JoinSpec(teams, join_keys={side: "id"}) for side in ("home", "away"))

    @ds.transform(inputs=[games, by_home, by_away], outputs=[results])
    def tell(games, home, away):
        first, second = home.toDF("home", "home_name"), away.toDF("away", "away_name")
        joined = games.join(first, "home", "left").join(second, "away", "left")
        return joined.selectExpr("game_id", "concat_ws(' - ', home_name, away_name) AS line")

    write(games, (1, 7, 8), (2, 8, 7), (3, 8, 9), (4, 7, 7))
    write(teams, (7, "Reds"), (8, "Blues"), (9, "Greens"))
    ds.run()
    assert set(ds.offset_table.get_record_offsets("tell")) == {"games", "teams"}

    write(teams, (7, "Crimsons"))
    assert ds.run().steps["tell"].keys == 3
    assert rows(results) == [
        (1, "Crimsons - Blues"),
        (2, "Blues - Crimsons"),
        (3, "Blues - Greens"),
        (4, "Crimsons - Crimsons"),
    ]
    assert is_idle(ds)


# --- a reference that must be there -----------------------------------------------------------------------------------


@pytest.mark.scenario("X39")
@pytest.mark.hazard("H8")
@pytest.mark.parametrize("pandas", [False, True])
def test_a_post_whose_required_profile_is_not_there_is_not_computed(ds, pandas):
    posts = ds.table("posts", "post_id long, user_id long", key="post_id")
    profiles = ds.table("profiles", "id long, name string", key="id")
    feed = ds.table("feed", "post_id long, name string", key="post_id")
    required = sm.ComputeInput(profiles, join_type="inner", join_keys={"user_id": "id"})

    def process(posts, profiles):
        return posts.join(profiles, posts.user_id == profiles.id, "left").select("post_id", "name")

    def process_pandas(posts, profiles):
        return posts.merge(profiles, left_on="user_id", right_on="id", how="left")[["post_id", "name"]]

    function = process_pandas if pandas else process
    ds.add(sm.BatchTransform(function, [posts, required], [feed], name="process", pandas=pandas))
    write(posts, (1, 100), (2, 200), (3, None))
    write(profiles, (200, "Bob"))
    ds.run()
    assert rows(feed) == [(2, "Bob")]

    write(profiles, (100, "Alice"))
    ds.run()
    assert rows(feed) == [(1, "Alice"), (2, "Bob")]

    delete(profiles, 200)
    report = ds.run().steps["process"]
    assert (report.keys, report.retracted) == (0, 1)
    assert rows(feed) == [(1, "Alice")]
    assert is_idle(ds)


# --- while a run works ------------------------------------------------------------------------------------------------


def with_meanwhile(ds: sm.DataStore) -> tuple[sm.Table, sm.Table, sm.Table, list[Callable[[], None]]]:
    """Posts, profiles and feed, and a list of things to be done while the function is at work."""
    posts = ds.table("posts", "post_id long, user_id long", key="post_id")
    profiles = ds.table("profiles", "id long, name string", key="id")
    feed = ds.table("feed", "post_id long, name string", key="post_id")
    meanwhile: list[Callable[[], None]] = []

    @ds.transform(inputs=[posts, sm.JoinSpec(profiles, join_keys={"user_id": "id"})], outputs=[feed])
    def process(posts, profiles):
        while meanwhile:
            meanwhile.pop(0)()
        return posts.join(profiles, posts.user_id == profiles.id, "left").select("post_id", "name")

    return posts, profiles, feed, meanwhile


@pytest.mark.scenario("X43")
@pytest.mark.hazard("H3")
def test_profiles_that_change_while_other_posts_are_computed_are_found_by_the_next_run(ds):
    posts, profiles, feed, meanwhile = with_meanwhile(ds)
    write(posts, (1, 100), (2, 200), (3, 300))
    write(profiles, (100, "Alice"), (200, "Bob"), (300, "Cleo"))
    ds.run()

    write(posts, (4, 300))
    meanwhile.append(lambda: write(profiles, (100, "Alicia")))
    meanwhile.append(lambda: write(profiles, (200, "Bert")))
    assert ds.run().steps["process"].keys == 1
    assert rows(feed) == [(1, "Alice"), (2, "Bob"), (3, "Cleo"), (4, "Cleo")]

    assert ds.run().steps["process"].keys == 2
    assert rows(feed) == [(1, "Alicia"), (2, "Bert"), (3, "Cleo"), (4, "Cleo")]
    assert is_idle(ds)


@pytest.mark.scenario("X44")
def test_inputs_are_read_as_they_were_when_the_run_pinned_them(ds):
    posts, profiles, feed, meanwhile = with_meanwhile(ds)
    write(posts, (1, 100))
    write(profiles, (100, "Alice"))
    meanwhile.append(lambda: write(profiles, (100, "Alicia")))
    meanwhile.append(lambda: write(posts, (2, 100)))

    ds.run()
    assert rows(feed) == [(1, "Alice")]
    ds.run()
    assert rows(feed) == [(1, "Alicia"), (2, "Alicia")]
    assert is_idle(ds)


# --- retried, reset ---------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X51")
@pytest.mark.hazard("H7")
@pytest.mark.parametrize("pandas", [False, True])
def test_retried_and_reset_posts_have_their_profiles_as_on_a_first_run(ds, pandas):
    posts = ds.table("posts", "post_id long, user_id long", key="post_id")
    profiles = ds.table("profiles", "id long, name string", key="id")
    feed = ds.table("feed", "post_id long, name string", key="post_id")
    broken = {"now": True}

    def process(posts, profiles):
        if broken["now"] and posts.where("post_id = 1").count():
            raise ValueError("bad luck")
        return posts.join(profiles, posts.user_id == profiles.id, "left").select("post_id", "name")

    def process_pandas(posts, profiles):
        if broken["now"] and (posts.post_id == 1).any():
            raise ValueError("bad luck")
        return posts.merge(profiles, left_on="user_id", right_on="id", how="left")[["post_id", "name"]]

    function = process_pandas if pandas else process
    reference = sm.JoinSpec(profiles, join_keys={"user_id": "id"})
    step = ds.add(sm.BatchTransform(function, [posts, reference], [feed], name="process", pandas=pandas))
    write(posts, (1, 100), (2, 200))
    write(profiles, (100, "Alice"), (200, "Bob"))
    assert ds.run().steps["process"].failed == 1
    assert rows(feed) == [(2, "Bob")]

    broken["now"] = False
    assert step.retry().keys == 1
    assert rows(feed) == [(1, "Alice"), (2, "Bob")]

    ds.offset_table.reset_offset("process")
    report = ds.run().steps["process"]
    assert (report.keys, report.rows_out) == (2, 0)
    ds.offset_table.reset_offset("process", "profiles")
    assert ds.run().steps["process"].rows_out == 0
    assert rows(feed) == [(1, "Alice"), (2, "Bob")]
    assert is_idle(ds)

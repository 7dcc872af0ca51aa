"""Functions for pandas and their references: each row once in a call, also where inputs have only parts of the key."""

from __future__ import annotations

import pandas as pd
import pytest

import seamark as sm
from seamark.transforms.compute.pandas_worker import CHUNK_ROWS

# A function that complains about a repeated row would be called again for each key alone, and be content. So these let
# the repetition go into their rows, as a merge does.


def blog(ds, function, **options):
    posts = ds.table("posts", "post_id long, user_id long, likes long", key="post_id")
    users = ds.table("users", "id long, name string", key="id")
    lines = ds.table("lines", "post_id long, line string", key="post_id")
    reference = sm.JoinSpec(users, join_keys={"user_id": "id"})
    ds.add(sm.BatchTransform(function, [posts, reference], [lines], name="write_lines", pandas=True, **options))
    return posts, users, lines


@pytest.mark.scenario("X108")
def test_a_reference_row_that_many_keys_name_is_there_once_in_a_call(ds, rows):
    def write_lines(posts, users):
        named = posts.merge(users, left_on="user_id", right_on="id", how="left")
        return pd.DataFrame({"post_id": named.post_id, "line": named.name.fillna("?") + ":" + named.likes.astype(str)})

    posts, users, lines = blog(ds, write_lines)
    posts.upsert([{"post_id": n, "user_id": n % 2, "likes": n} for n in range(10)])
    posts.upsert([{"post_id": 10, "user_id": 9, "likes": 0}, {"post_id": 11, "user_id": None, "likes": 0}])
    users.upsert([{"id": 0, "name": "Alice"}, {"id": 1, "name": "Bob"}, {"id": 7, "name": "nobody's"}])

    assert ds.step("write_lines").run_full(sm.RunConfig(fail_fast=True)).ok
    expected = [(n, f"{'Bob' if n % 2 else 'Alice'}:{n}") for n in range(10)]
    assert rows(lines) == [*expected, (10, "?:0"), (11, "?:0")]

    users.upsert([{"id": 0, "name": "Alicia"}])
    assert ds.step("write_lines").run_full(sm.RunConfig(fail_fast=True)).keys == 5
    assert rows(lines)[:2] == [(0, "Alicia:0"), (1, "Bob:1")]
    assert ds.verify("lines", replay=True).ok


@pytest.mark.scenario("X108")
def test_a_sum_after_the_merge_is_right(ds, rows):
    posts = ds.table("posts", "post_id long, day long, user_id long, likes long", key="post_id")
    users = ds.table("users", "id long, weight long", key="id")
    days = ds.table("days", "day long, calls long, users long, likes long", key="day")

    def sum_up(posts, users):
        weighted = posts.merge(users, left_on="user_id", right_on="id")
        weighted = weighted.assign(likes=weighted.likes * weighted.weight)
        summed = weighted.groupby("day", as_index=False).agg(likes=("likes", "sum"))
        return summed.assign(calls=posts.day.nunique(), users=len(users))

    reference = sm.JoinSpec(users, join_keys={"user_id": "id"})
    step = sm.BatchTransform(sum_up, [posts, reference], [days], transform_keys=["day"], pandas=True)
    ds.add(step)
    posts.upsert([{"post_id": n, "day": n % 4, "user_id": n % 2, "likes": 1} for n in range(40)])
    users.upsert([{"id": 0, "weight": 10}, {"id": 1, "weight": 100}])

    assert ds.run().ok

    assert [(day, likes) for day, _, _, likes in rows(days)] == [(n, 1000 if n % 2 else 100) for n in range(4)]
    assert max(calls for _, calls, _, _ in rows(days)) > 1  # several keys in a call, else nothing was shown
    assert max(users for _, _, users, _ in rows(days)) <= 2


@pytest.mark.scenario("X108")
def test_it_is_there_once_when_keys_are_tried_alone_after_a_failure(ds, rows):
    def write_lines(posts, users):
        if (posts.likes == 13).any():
            raise ValueError("bad luck")
        named = posts.merge(users, left_on="user_id", right_on="id")
        return pd.DataFrame({"post_id": named.post_id, "line": named.name})

    posts, users, lines = blog(ds, write_lines)
    users.upsert([{"id": 0, "name": "Alice"}])
    posts.upsert([{"post_id": n, "user_id": 0, "likes": 13 if n == 6 else n} for n in range(9)])

    assert ds.run().steps["write_lines"].failed == 1

    assert ds.step("write_lines").failures().error.tolist() == ["ValueError: bad luck"]
    assert rows(lines) == [(n, "Alice") for n in range(9) if n != 6]


@pytest.mark.scenario("X108")
def test_rows_that_are_equal_but_not_the_same_are_all_there(ds, rows):
    """A reference without a key may hold equal rows: these are several, and stay several."""
    visits = ds.table("visits", "id long, city string", key="id")
    weather = ds.table("weather", "town string, rain long")
    totals = ds.table("totals", "id long, rain long", key="id")

    def sum_rain(visits, weather):
        joined = visits.merge(weather, left_on="city", right_on="town")
        return joined.groupby("id", as_index=False).agg(rain=("rain", "sum"))[["id", "rain"]]

    reference = sm.JoinSpec(weather, join_keys={"city": "town"})
    ds.add(sm.BatchTransform(sum_rain, [visits, reference], [totals], pandas=True))
    visits.upsert([{"id": n, "city": "Bergen"} for n in range(3)])
    weather.append([{"town": "Bergen", "rain": 5}, {"town": "Bergen", "rain": 5}])
    weather.append([{"town": "Bergen", "rain": 5}])

    assert ds.run().ok

    assert rows(totals) == [(0, 15), (1, 15), (2, 15)]


@pytest.mark.scenario("X108")
def test_a_table_that_is_looked_up_twice_gives_each_frame_its_own_rows(ds, rows):
    games = ds.table("games", "game long, home long, away long", key="game")
    teams = ds.table("teams", "id long, name string", key="id")
    results = ds.table("results", "game long, line string", key="game")

    def tell(games, home, away):
        both = games.merge(home, left_on="home", right_on="id").merge(away, left_on="away", right_on="id")
        return pd.DataFrame({"game": both.game, "line": both.name_x + "-" + both.name_y})

    lookups = [sm.JoinSpec(teams, join_keys={column: "id"}) for column in ("home", "away")]
    ds.add(sm.BatchTransform(tell, [games, *lookups], [results], pandas=True))
    teams.upsert([{"id": n, "name": "xyz"[n]} for n in range(3)])
    games.upsert([{"game": n, "home": n % 3, "away": (n + 1) % 3} for n in range(6)])

    assert ds.step("tell").run_full(sm.RunConfig(fail_fast=True)).ok

    assert rows(results) == [(n, ("x-y", "y-z", "z-x")[n % 3]) for n in range(6)]


@pytest.mark.scenario("X108")
def test_each_call_gets_what_its_own_keys_name(ds, rows):
    """Keys come in chunks: what a chunk names is in its call, whatever the chunk before was given."""

    def write_lines(posts, users):
        named = posts.merge(users, left_on="user_id", right_on="id")
        strangers = len(set(users.id) - set(posts.user_id))
        return pd.DataFrame({"post_id": named.post_id, "line": named.name + "!" * strangers})

    posts, users, lines = blog(ds, write_lines)
    users.upsert([{"id": n, "name": "abc"[n]} for n in range(3)])
    many = CHUNK_ROWS * 2  # each key has two rows: its own, and the user that it names
    posts.upsert(pd.DataFrame({"post_id": range(many), "user_id": [n % 3 for n in range(many)], "likes": 0}))

    assert ds.step("write_lines").run_full(sm.RunConfig(fail_fast=True)).ok

    assert rows(lines) == [(n, "abc"[n % 3]) for n in range(many)]


@pytest.mark.scenario("X98")
def test_a_reference_beside_inputs_with_parts_of_the_key_is_right_whichever_input_changes(ds, rows):
    users = ds.table("users", "u long, fk long", key="u")
    things = ds.table("things", "v long", key="v")
    names = ds.table("names", "id long, name string", key="id")
    pairs = ds.table("pairs", "u long, v long, name string", key=["u", "v"])

    def pair(users, things, names):
        joined = users.merge(things, how="cross").merge(names, left_on="fk", right_on="id", how="left")
        return joined[["u", "v", "name"]].astype({"name": "string"})

    reference = sm.JoinSpec(names, join_keys={"fk": "id"})
    inputs = [users, things, reference]
    step = ds.add(sm.BatchTransform(pair, inputs, [pairs], transform_keys=["u", "v"], pandas=True))

    def is_right():
        named = dict(rows(names))
        wanted = sorted((u, v, named.get(fk)) for u, fk in rows(users) for (v,) in rows(things))
        assert step.run_full(sm.RunConfig(fail_fast=True)).failed == 0
        assert rows(pairs) == wanted
        assert not ds.run().did_something

    users.upsert([{"u": 1, "fk": 1}, {"u": 2, "fk": 1}])
    things.upsert([{"v": 1}])
    names.upsert([{"id": 1, "name": "x"}])
    is_right()
    things.upsert([{"v": 2}])  # an input that the reference does not hang on
    is_right()
    users.upsert([{"u": 3, "fk": 2}])
    is_right()
    names.upsert([{"id": 2, "name": "y"}])
    is_right()
    things.upsert([{"v": 3}])
    users.upsert([{"u": 1, "fk": 2}])
    is_right()
    things.delete([{"v": 1}])
    is_right()
    names.delete([{"id": 1}])
    is_right()
    assert ds.verify("pairs", replay=True).ok

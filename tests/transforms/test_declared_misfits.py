"""What does not fit together, found when a step is declared: parameters, types that are joined, keys."""

from __future__ import annotations

import functools
import warnings
from decimal import Decimal
from typing import Any

import pytest

import seamark as sm
from seamark.errors import DefinitionChanged, InvalidStep
from seamark.transforms.declare.spec import StepWarning


@pytest.fixture
def tables(dry: sm.DataStore) -> dict[str, sm.Table]:
    return {
        "posts": dry.table("posts", "post_id long, user_id long, text string", key="post_id"),
        "users": dry.table("users", "id long, name string", key="id"),
        "feed": dry.table("feed", "post_id long, line string", key="post_id"),
    }


# --- parameters -------------------------------------------------------------------------------------------------------


def one(posts): ...
def two(posts, users): ...
def any_number(*frames): ...
def with_an_option(posts, users=None): ...
def by_name_only(posts, *, users): ...


@functools.wraps(two)
def wrapped(*frames):
    return two(*frames)


@pytest.mark.scenario("X104")
@pytest.mark.parametrize(
    ("function", "inputs", "takes"),
    [(one, 2, "(posts)"), (two, 1, "(posts, users)"), (by_name_only, 2, "(posts, *, users)"), (lambda: 1, 1, "()")],
    ids=["too few", "too many", "by name only", "none"],
)
@pytest.mark.parametrize("pandas", [False, True], ids=["spark", "pandas"])
def test_a_function_whose_parameters_do_not_fit_the_inputs_is_refused(dry, tables, function, inputs, takes, pandas):
    given = [tables["posts"], tables["users"]][:inputs]
    declared = sm.BatchTransform(function, inputs=given, outputs=[tables["feed"]], name="tell", pandas=pandas)
    with pytest.raises(InvalidStep) as refused:
        dry.add(declared)
    listed = ", ".join(table.name for table in given)
    assert f"step 'tell': its function takes {takes}, and it has {inputs} input(s): {listed}." in refused.value.message
    assert refused.value.hint == "give the function one parameter for each input, in the order of inputs=[…]."
    assert dry.step_names() == []


@pytest.mark.scenario("X104")
@pytest.mark.parametrize(
    "function", [two, any_number, with_an_option, wrapped, functools.partial(by_name_only, users=1)]
)
def test_a_function_that_can_be_called_with_its_inputs_is_taken(dry, tables, function):
    inputs = [tables["posts"], tables["users"]][: 1 if isinstance(function, functools.partial) else 2]
    assert dry.add(sm.BatchTransform(function, inputs=inputs, outputs=[tables["feed"]], name="tell")).name == "tell"


@pytest.mark.scenario("X104")
def test_a_merge_rule_that_cannot_be_called_with_two_values_is_refused(dry):
    log = dry.table("log", "id long, f long, n long")
    with pytest.raises(InvalidStep, match=r"the merge rule of column 'n' is a function that takes \(older\)"):
        dry.diff("visits", key="id", fast_version="f", multiplier=10, logs=[log], merge={"n": lambda older: older})


# --- a definition that made nothing -----------------------------------------------------------------------------------


@pytest.mark.scenario("X104")
def test_a_definition_that_made_no_row_is_changed_without_asking(open_store: Any, rows: Any) -> None:
    def program(where: str) -> tuple[sm.DataStore, sm.Table, sm.Table]:
        store = open_store()
        posts = store.table("posts", "post_id long, n long", key="post_id")
        small = store.table("small", "post_id long, n long", key="post_id")
        step = sm.BatchTransform(f"SELECT * FROM {{posts}} WHERE {where}", inputs=[posts], outputs=[small], name="pick")
        store.add(step)
        return store, posts, small

    store, posts, _ = program("n < 0")
    assert store.run().ok  # nothing is there yet
    store, posts, _ = program("n < 1")
    posts.upsert([{"post_id": 1, "n": 5}, {"post_id": 2, "n": 50}])
    assert store.run().ok
    store, _, small = program("n < 10")
    assert store.plan("pick")["pick"].reason == "its definition changed before it made any row"
    assert store.run().ok
    assert rows(small) == [(1, 5)]  # also of records that had been read
    store, _, small = program("n < 100")
    assert isinstance(store.run().steps["pick"].error, DefinitionChanged)  # now a row stands
    assert rows(small) == [(1, 5)]


@pytest.mark.scenario("X104")
def test_a_function_that_failed_on_every_key_is_mended_without_asking(open_store: Any, rows: Any) -> None:
    def program(function: Any) -> tuple[sm.DataStore, sm.Table, sm.Table]:
        store = open_store()
        posts, feed = store.table("posts", "id long", key="id"), store.table("feed", "id long", key="id")
        store.add(sm.BatchTransform(function, inputs=[posts], outputs=[feed], name="copy"))
        return store, posts, feed

    def broken(posts):
        raise ValueError("not yet")

    store, posts, _ = program(broken)
    posts.upsert([{"id": 1}, {"id": 2}])
    assert store.run().steps["copy"].failed == 2
    store, _, feed = program(lambda posts: posts)
    assert store.run().ok
    assert rows(feed) == [(1,), (2,)]
    assert store.step("copy").failures().empty


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X105")
def test_an_output_whose_key_is_in_no_input_is_said_with_the_columns_that_nearly_fit(dry, tables, caplog):
    out = dry.table("out", "Post_Id long, line string", key="Post_Id")
    with pytest.warns(StepWarning, match="step 'tell': no column of the outputs' key") as said:
        dry.add(sm.BatchTransform(one, inputs=[tables["posts"]], outputs=[out], name="tell"))
    text = str(said[0].message)
    assert "(Post_Id) is one of its first input 'posts', so that all of it is one result" in text
    assert "Did you mean 'post_id' of 'posts' for 'Post_Id'?" in text
    assert "give transform_keys=[]" in text
    assert caplog.messages == [text]


@pytest.mark.scenario("X105")
def test_a_key_that_another_input_has_is_named_with_what_to_write(dry, tables):
    by_name = dry.table("by_name", "name string, posts long", key="name")
    reference = sm.JoinSpec(tables["users"], join_keys={"user_id": "id"})
    with pytest.warns(StepWarning, match="'name' of 'users', with transform_keys=\\[\"name\"\\]"):
        dry.add(sm.BatchTransform(two, inputs=[tables["posts"], reference], outputs=[by_name], name="count"))


@pytest.mark.scenario("X105")
def test_one_result_that_is_asked_for_and_keys_that_fit_are_nothing_to_speak_of(dry, tables):
    total = dry.table("total", "what string, n long", key="what")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dry.add(sm.BatchTransform(one, inputs=[tables["posts"]], outputs=[total], name="add", transform_keys=[]))
        dry.add(sm.BatchTransform(one, inputs=[tables["posts"]], outputs=[tables["feed"]], name="tell"))


# --- types that are joined --------------------------------------------------------------------------------------------


@pytest.mark.scenario("X103")
@pytest.mark.parametrize(
    ("mine", "theirs"), [("string", "long"), ("long", "string"), ("decimal(10,0)", "string"), ("double", "long")]
)
def test_text_or_a_float_that_points_to_a_number_is_refused(dry, mine, theirs):
    posts = dry.table("posts", f"post_id long, user_id {mine}", key="post_id")
    users = dry.table("users", f"id {theirs}", key="id")
    feed = dry.table("feed", "post_id long", key="post_id")
    reference = sm.JoinSpec(users, join_keys={"user_id": "id"})
    with pytest.raises(InvalidStep, match="their values do not compare") as refused:
        dry.add(sm.BatchTransform(two, inputs=[posts, reference], outputs=[feed], name="tell"))
    assert f"'posts.user_id', {mine}, with 'users.id', {theirs if theirs != 'long' else 'bigint'}" in (
        refused.value.message.replace("bigint, with", "long, with")
    )


TYPES = [
    ("decimal(10,0)", "long"),
    ("long", "decimal(10,0)"),
    ("int", "long"),
    ("long", "int"),
    ("decimal(12,2)", "long"),
]


@pytest.mark.scenario("X103")
@pytest.mark.parametrize(("mine", "theirs"), TYPES)
@pytest.mark.parametrize("in_spark", [False, True], ids=["local", "in Spark"])
def test_numbers_of_other_types_are_joined_by_value_both_ways(ds, rows, set_small, monkeypatch, mine, theirs, in_spark):
    if in_spark:
        set_small(monkeypatch, 0)
    posts = ds.table("posts", f"post_id long, user_id {mine}", key="post_id")
    users = ds.table("users", f"id {theirs}, name string", key="id")
    feed = ds.table("feed", "post_id long, name string", key="post_id")
    required = ds.table("required", "post_id long, name string", key="post_id")

    def named(posts, users):
        return posts.join(users, posts.user_id == users.id, "left").select("post_id", "name")

    ds.add(sm.BatchTransform(named, [posts, sm.JoinSpec(users, {"user_id": "id"})], [feed], name="tell"))
    inner = sm.ComputeInput(users, join_type="inner", join_keys={"user_id": "id"})
    ds.add(sm.BatchTransform(named, [posts, inner], [required], name="require"))
    posts.upsert([{"post_id": n, "user_id": n} for n in (1, 2, 3)])
    users.upsert([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    ds.run()
    assert rows(feed) == [(1, "a"), (2, "b"), (3, None)]
    assert rows(required) == [(1, "a"), (2, "b")]
    users.upsert([{"id": 2, "name": "bb"}, {"id": 3, "name": "c"}])  # from the reference back to the posts
    assert ds.run().steps["tell"].keys == 2
    assert rows(feed) == [(1, "a"), (2, "bb"), (3, "c")]
    assert rows(required) == [(1, "a"), (2, "bb"), (3, "c")]


@pytest.mark.scenario("X103")
@pytest.mark.parametrize(
    ("wide", "narrow", "value"),
    [("long", "int", 2**40), ("long", "decimal(10,0)", 10**12), ("decimal(12,2)", "long", Decimal("1.50"))],
)
def test_a_value_that_the_other_side_cannot_hold_names_no_row_of_a_base(ds, rows, wide, narrow, value):
    """Looked up in a base as it is, it would be cut to another value, or refused."""
    tables = {}
    for name, mine, theirs in (("there", wide, narrow), ("back", narrow, wide)):
        posts = ds.table(f"posts_{name}", f"post_id long, user_id {mine}", key="post_id")
        users = ds.table(f"users_{name}", f"id {theirs}, name string", key="id")
        feed = ds.table(f"feed_{name}", "post_id long, name string", key="post_id")

        def named(posts, users):
            return posts.join(users, posts.user_id == users.id, "left").select("post_id", "name")

        ds.add(sm.BatchTransform(named, [posts, sm.JoinSpec(users, {"user_id": "id"})], [feed], name=name))
        posts.upsert([{"post_id": n, "user_id": n} for n in (1, 2)])
        users.upsert([{"id": n, "name": "a"} for n in (1, 2)])
        tables[name] = (posts, users, feed)
    ds.run(fail_fast=True)
    ds.fold()
    tables["there"][0].upsert([{"post_id": 1, "user_id": value}])
    tables["back"][1].upsert([{"id": value, "name": "b"}, {"id": 2, "name": "c"}])
    ds.run(fail_fast=True)
    assert rows(tables["there"][2]) == [(1, None), (2, "a")]
    assert rows(tables["back"][2]) == [(1, "a"), (2, "c")]


@pytest.mark.scenario("X104")
@pytest.mark.parametrize(
    ("sql", "told", "hint"),
    [
        (
            "SELECT id, name FROM {profile}",
            "names {profile}, which is not one of its inputs",
            "did you mean 'profiles'?",
        ),
        ("SELECT id, name FROM profiles", "names none of its inputs", "FROM {profiles}"),
        ("SELECT id, '}' AS name FROM {profiles}", "the braces in its SQL cannot be read", "is written twice"),
    ],
)
def test_sql_that_names_no_input_is_refused_when_declared(ds, sql, told, hint):
    profiles, out = (ds.table(name, "id long, name string", key="id") for name in ("profiles", "out"))
    with pytest.raises(InvalidStep) as refused:
        ds.add(sm.BatchTransform(sql, inputs=[profiles], outputs=[out], name="copy"))
    assert told in refused.value.message
    assert hint in refused.value.hint
    assert ds.step_names() == []

"""Steps that do not fit together are refused when they are declared, in words that name both sides. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seamark as sm
from seamark.errors import InvalidStep, SeamarkError, UnknownColumn, UnknownStep, UnknownTable, WrongVerb


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sm.DataStore]:
    """The tables of the blog and some more; Spark is never asked for."""
    with sm.DataStore(f"sqlite:///{tmp_path / 'control.db'}", tmp_path / "warehouse") as ds:
        ds.table("posts", "post_id long, user_id long, content string, day date", key="post_id")
        ds.table("profiles", "id long, name string, city_id long, region string", key="id")
        ds.table("cities", "city string, id long", key="id")
        ds.table("clicks", "url string, user_id long")
        ds.table("feed", "post_id long, line string", key="post_id")
        ds.table("digest", "post_id long, n long", key="post_id")
        ds.table("by_region", "region string, n long", key="region")
        yield ds


def passing(*frames: Any) -> Any:
    return frames[0]


def declare(store: sm.DataStore, **options: Any) -> sm.Step:
    given = {"func": passing, "inputs": ["posts"], "outputs": ["feed"], "name": "process_posts", **options}
    return store.add(sm.BatchTransform(**given))


def refusal(store: sm.DataStore, kind: type[SeamarkError], **options: Any) -> str:
    """What a declaration is refused with; afterwards the store has as many steps as before."""
    before = store.step_names()
    with pytest.raises(kind) as refused:
        declare(store, **options)
    assert store.step_names() == before
    assert type(refused.value) is kind
    return str(refused.value)


def profiles(**join_keys: str) -> sm.JoinSpec:
    return sm.JoinSpec("profiles", join_keys=join_keys)


# --- joins ------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X45")
def test_join_keys_name_columns_that_are_there(store):
    assert refusal(store, UnknownColumn, inputs=["posts", profiles(usr_id="id")]) == (
        "transform 'process_posts' joins on column 'usr_id', which table 'posts' does not have. It was not added. "
        "Hint: did you mean 'user_id'? Columns of 'posts': post_id, user_id, content, day."
    )
    assert refusal(store, UnknownColumn, inputs=["posts", profiles(user_id="di")]) == (
        "transform 'process_posts' joins on column 'di', which table 'profiles' does not have. It was not added. "
        "Hint: Columns of 'profiles': id, name, city_id, region."
    )


@pytest.mark.scenario("X45")
def test_joined_columns_have_types_that_compare(store):
    assert refusal(store, InvalidStep, inputs=["posts", profiles(user_id="name")]) == (
        "transform 'process_posts' joins 'posts.user_id', bigint, with 'profiles.name', string: their values do not "
        "compare. It was not added. Hint: give both columns one type."
    )
    assert "date, with 'profiles.id', bigint" in refusal(store, InvalidStep, inputs=["posts", profiles(day="id")])
    store.table("small", "id int, name string", key="id")
    declare(store, inputs=["posts", sm.JoinSpec("small", join_keys={"user_id": "id"})])


@pytest.mark.scenario("X45")
@pytest.mark.hazard("H16")
def test_a_reference_behind_a_reference_is_refused_and_the_way_round_is_named(store):
    cities = sm.JoinSpec("cities", join_keys={"city_id": "id"})
    assert refusal(store, UnknownColumn, inputs=["posts", profiles(user_id="id"), cities]) == (
        "transform 'process_posts' joins on column 'city_id', which table 'posts' does not have. It was not added. "
        "Hint: 'city_id' is a column of 'profiles', itself a reference: make a step that joins 'posts' with 'profiles' "
        "first, and read its output here. Columns of 'posts': post_id, user_id, content, day."
    )


def test_something_is_left_to_join_references_to(store):
    assert refusal(store, InvalidStep, inputs=[profiles(id="id")]) == (
        "step 'process_posts': every input has join_keys, so nothing is left to join them to. It was not added. "
        "Hint: give the table whose columns the join_keys name as a plain input."
    )
    assert refusal(store, InvalidStep, inputs=["posts", sm.ComputeInput("profiles", join_type="left")]) == (
        "step 'process_posts': join_type='left' is neither 'inner' nor 'full'. It was not added."
    )


# --- who writes what --------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X46")
def test_a_table_has_one_step_that_writes_it(store):
    declare(store)
    assert refusal(store, InvalidStep, inputs=["profiles"], name="others", transform_keys=[]) == (
        "step 'others' is to write table 'feed', which step 'process_posts' writes. It was not added. "
        "Hint: let each write a table of its own, and a third step join them."
    )
    assert refusal(store, InvalidStep, outputs=["digest"]) == (
        "there is a step 'process_posts' already: Step('process_posts': posts -> feed). The second one was not added. "
        'Hint: give it another name with name="…".'
    )


@pytest.mark.scenario("X46")
def test_steps_do_not_go_in_a_circle(store):
    store.table("extra", "post_id long, n long", key="post_id")
    declare(store, inputs=["posts", "extra"])
    declare(store, inputs=["feed"], outputs=["digest"], name="count_lines")
    assert refusal(store, InvalidStep, inputs=["digest"], outputs=["extra"], name="enrich") == (
        "step 'enrich' would close a cycle: 'enrich' -> 'process_posts' -> 'count_lines' -> 'enrich', through table "
        "'extra'. It was not added. Hint: data flows one way; break the cycle at one of these steps."
    )
    assert refusal(store, InvalidStep, inputs=["extra"], outputs=["extra"], name="itself") == (
        "step 'itself' reads and writes 'extra': a cycle of one. It was not added. Hint: write to another table."
    )
    assert list(store.steps()) == ["process_posts", "count_lines"]


@pytest.mark.scenario("X46")
def test_nobody_writes_by_hand_to_what_a_step_writes(store):
    declare(store)
    rows = pa.table({"post_id": [1], "line": ["by hand"]})
    for verb in (store.table("feed").upsert, store.table("feed").replace, store.table("feed").delete):
        with pytest.raises(WrongVerb) as refused:
            verb(rows)
        assert "table 'feed' is derived: step 'process_posts' writes it. Nothing was written." in str(refused.value)


@pytest.mark.scenario("X46")
def test_a_step_does_not_write_to_what_was_written_by_hand(store):
    store.table("feed").upsert(pa.table({"post_id": [1], "line": ["by hand"]}))
    text = refusal(store, InvalidStep)
    assert text.startswith("step 'process_posts' is to write table 'feed', which has a chain of rows written by hand. ")
    assert text.endswith("Hint: write to another table; a table is derived from its first commit on, or never.")


def test_outputs_have_keys_and_are_there_once(store):
    assert refusal(store, InvalidStep, outputs=["clicks"]) == (
        "step 'process_posts' writes 'clicks', which has no key. It was not added. "
        "Hint: rows that are derived are corrected and retracted: declare the table with a key."
    )
    assert refusal(store, InvalidStep, outputs=["feed", "feed"]) == (
        "step 'process_posts' has the output 'feed' twice. It was not added."
    )
    assert "has no outputs. It was not added. Hint: give outputs=[…]." in refusal(store, InvalidStep, outputs=[])
    assert "has no inputs. It was not added. Hint: give inputs=[…]." in refusal(store, InvalidStep, inputs=[])


# --- transform keys ---------------------------------------------------------------------------------------------------


def test_transform_keys_are_columns_of_an_input_and_of_every_outputs_key(store):
    assert refusal(store, UnknownColumn, transform_keys=["pots_id"]) == (
        "step 'process_posts': no input has the transform key 'pots_id'. It was not added. "
        "Hint: did you mean 'post_id'? Columns of the inputs: post_id, user_id, content, day."
    )
    assert refusal(store, InvalidStep, transform_keys=["user_id"]) == (
        "step 'process_posts': its transform key 'user_id' is not in the key of output 'feed' (post_id). It was not "
        "added. Hint: rows are found again by their transform keys: put them into the output's key, or give "
        "transform_keys=[…] with columns that are there."
    )
    assert refusal(store, InvalidStep, transform_keys=["post_id", "post_id"]) == (
        "step 'process_posts' names a transform key twice: post_id, post_id. It was not added."
    )
    store.table("lines", "post_id string, line string", key="post_id")
    assert refusal(store, InvalidStep, outputs=["lines"]) == (
        "step 'process_posts': the transform key 'post_id' is bigint in 'posts' and string in 'lines'. It was not "
        "added. Hint: give it one type in all tables."
    )


def test_transform_keys_are_by_default_the_key_columns_that_the_first_input_has(store):
    store.table("words", "post_id long, n long, word string", key=["post_id", "n"])
    store.table("totals", "total long", key="total")
    assert declare(store, outputs=["words"], name="cut").transform_keys == ("post_id",)
    assert declare(store, outputs=["totals"], name="total").transform_keys == ()


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("commit", "never", "commit='never' is not one of 'batch', 'run'."),
        ("algorithm", "v3", "algorithm='v3' is not one of 'v1', 'v2'."),
        ("on_change", "ignore", "on_change='ignore' is not one of 'ask', 'keep', 'recompute'."),
        ("batch_rows", 0, "batch_rows=0 is not a positive number."),
        ("batch_keys", -1, "batch_keys=-1 is not a positive number."),
        ("batch_rows", "many", "batch_rows='many' is not a positive number."),
        ("batch_rows", True, "batch_rows=True is not a positive number."),
        ("max_failed_keys", -1, "max_failed_keys=-1 is not a positive number."),
    ],
)
def test_options_that_mean_nothing(store, option, value, text):
    assert refusal(store, InvalidStep, **{option: value}) == f"step 'process_posts': {text} It was not added."


def test_no_failed_key_at_all_may_be_asked_for(store):
    declare(store, max_failed_keys=0)
    assert store.step("process_posts").spec.options.max_failed_keys == 0


def test_the_older_algorithm_needs_the_keys_that_were_processed(store):
    assert refusal(store, InvalidStep, algorithm="v1") == (
        "step 'process_posts': algorithm=\"v1\" compares with the keys that were processed, which nobody keeps. It was "
        "not added. Hint: give track_keys=True as well."
    )
    declare(store, algorithm="v1", track_keys=True)
    assert "process_posts__keys" in store.step("process_posts").spec.definition.outputs


def test_keys_are_tracked_only_where_every_input_has_them(store):
    store.table("settings", "id long, factor long", key="id")
    assert refusal(store, InvalidStep, inputs=["posts", "settings"], track_keys=True) == (
        "step 'process_posts': track_keys needs transform keys that each plain input has. It was not added. "
        'Hint: leave track_keys out; only algorithm="v1" and first offsets need it.'
    )


def test_what_a_function_for_pandas_cannot_be(store):
    assert refusal(store, InvalidStep, func="SELECT * FROM {posts}", pandas=True) == (
        "step 'process_posts' is SQL, which is not a function for pandas. It was not added."
    )
    inputs = ["posts", profiles(user_id="id")]
    text = refusal(store, InvalidStep, inputs=inputs, outputs=["by_region"], transform_keys=["region"], pandas=True)
    assert text == (
        "step 'process_posts': its transform key region is found only through a reference, and a function for pandas "
        "gets the rows of whole keys. It was not added. "
        "Hint: make a step that adds the column to the rows first, or write the function for Spark."
    )


def test_a_query_reads_each_table_once(store):
    inputs = ["posts", profiles(user_id="id"), profiles(post_id="id")]
    assert refusal(store, InvalidStep, func="SELECT 1 FROM {posts}", inputs=inputs) == (
        "step 'process_posts' is SQL and reads a table twice, which its text cannot tell apart. It was not added. "
        "Hint: write it as a function."
    )


# --- names ------------------------------------------------------------------------------------------------------------


def test_tables_and_steps_that_are_not_there(store):
    assert refusal(store, UnknownTable, inputs=["pots"]) == (
        "there is no table 'pots'. "
        "Hint: did you mean 'posts'? Tables: by_region, cities, clicks, digest, feed, posts, profiles."
    )
    assert "there is no table 'fed'." in refusal(store, UnknownTable, outputs=["fed"])
    assert refusal(store, InvalidStep, inputs=[42]) == (
        "42 is not a table. The step was not added. Hint: give a table or its name."
    )
    declare(store)
    with pytest.raises(UnknownStep) as unknown:
        store.run("proces_posts")
    text = "there is no step 'proces_posts'. Hint: did you mean 'process_posts'? Steps: process_posts."
    assert str(unknown.value) == text


def test_a_step_has_a_name(store):
    text = "a step needs a name, and its function has none of its own. It was not added."
    assert refusal(store, InvalidStep, func=lambda posts: posts, name=None) == f'{text} Hint: give name="…".'
    assert text in refusal(store, InvalidStep, func="SELECT 1 FROM {posts}", name=None)
    with pytest.raises(SeamarkError, match="process posts"):
        declare(store, name="process posts")
    assert store.step_names() == []


@pytest.mark.scenario("X99")
def test_an_option_that_a_step_does_not_have_is_refused_with_the_nearest(store):
    with pytest.raises(InvalidStep, match=r"a step has no option 'batch_row'\. It was not added\.") as error:
        store.transform(inputs=["posts"], outputs=["feed"], batch_row=5)
    assert error.value.hint.startswith("did you mean 'batch_rows'? Options: inputs, outputs, name, transform_keys")

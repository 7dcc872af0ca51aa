"""Change lists: keys that somebody says have changed, pushed through steps without moving any position."""

from datetime import UTC, datetime
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

import seamark as sm
from seamark.errors import FrameMismatch, InvalidStep


def positions(blog):
    return blog.store.offset_table.get_record_offsets("process_posts")


@pytest.mark.scenario("X68")
def test_extend_takes_the_greater_offset_and_joins_the_keys():
    one = sm.ChangeList({"p": pd.DataFrame({"id": [1, 2]})}, {"p": 5, "q": 7})
    other = sm.ChangeList({"p": pd.DataFrame({"id": [2, 3]}), "r": pa.table({"id": [9]})}, {"p": 6, "r": 1})

    both = one.extend(other)

    assert both.offsets == {"p": 6, "q": 7, "r": 1}
    assert list(both.changes["p"].id) == [1, 2, 3]
    assert both.changes["r"].column("id").to_pylist() == [9]
    assert (one.offsets, other.offsets) == ({"p": 5, "q": 7}, {"p": 6, "r": 1})
    assert other.extend(one).offsets == both.offsets
    assert sm.ChangeList().extend(sm.ChangeList()).is_empty


@pytest.mark.scenario("X68")
@pytest.mark.parametrize("kinds", [("list", "arrow"), ("arrow", "pandas"), ("spark", "list"), ("pandas", "spark")])
def test_extend_joins_frames_of_all_kinds(spark, kinds):
    make = {
        "list": lambda ids: [{"id": n} for n in ids],
        "arrow": lambda ids: pa.table({"id": ids}),
        "pandas": lambda ids: pd.DataFrame({"id": ids}),
        "spark": lambda ids: spark.createDataFrame([(n,) for n in ids], "id long"),
    }
    one, other = (make[kind] for kind in kinds)
    found = sm.ChangeList({"p": one([1, 2])}).extend(sm.ChangeList({"p": other([2, 3])})).changes["p"]
    rows = found.toPandas() if "spark" in kinds else found
    assert sorted(rows.id) == [1, 2, 3]


LARGE = 2**53 + 1  # a float has no such number
NOON = datetime(2024, 5, 1, 12)


@pytest.mark.scenario("X68")
@pytest.mark.scenario("T59")
@pytest.mark.scenario("T61")
@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (pa.table({"id": [LARGE]}), pa.table({"id": pa.array([None], pa.int64())}), [LARGE, None]),
        (pd.DataFrame({"id": [LARGE]}), pd.DataFrame({"id": [1.0, float("nan")]}), [LARGE, 1, None]),
        ([{"id": LARGE}], pd.DataFrame({"id": [float("nan")]}), [LARGE, None]),
        (pa.table({"id": ["x"]}), pd.DataFrame({"id": [float("nan")]}), ["x", None]),
        (pa.table({"id": [[1]]}), pa.table({"id": [[1], [2]]}), [[1], [2]]),
        ([{"id": NOON.date()}], [{"id": NOON}], [datetime(2024, 5, 1), NOON]),
        (pd.DataFrame({"id": [NOON]}), pd.DataFrame({"id": [NOON.replace(tzinfo=UTC)]}), [NOON.replace(tzinfo=UTC)]),
        (pa.table({"id": [Decimal("1.10")]}), pd.DataFrame({"id": [1.1, 2.5]}), [Decimal("1.10"), Decimal("2.50")]),
        (pd.DataFrame([]), pa.table({"id": [1]}), [1]),
    ],
    ids=["whole numbers", "floats", "NaN", "texts", "lists", "days and moments", "zones", "decimals", "nothing"],
)
def test_extend_changes_no_value(one, other, wanted):
    for pair in ((one, other), (other, one)):
        found = sm.ChangeList({"p": pair[0]}).extend(sm.ChangeList({"p": pair[1]})).changes["p"]
        values = found.column("id").to_pylist() if isinstance(found, pa.Table) else found.id.tolist()
        values = [None if value is pd.NA or value is pd.NaT else value for value in values]
        assert sorted(values, key=str) == sorted(wanted, key=str)


@pytest.mark.scenario("X68")
@pytest.mark.scenario("T59")
def test_extend_changes_no_value_beside_a_spark_frame(spark):
    mine = spark.createDataFrame([(LARGE, "x", Decimal("1.10"))], "id long, t string, m decimal(10,2)")
    others = [
        pd.DataFrame({"id": [1.0, None], "t": [float("nan")] * 2, "m": [1.1, None]}, index=[7, 7]),
        spark.createDataFrame([(2.0, "y", 2.5)], "id double, t string, m double"),
    ]
    changes = sm.ChangeList({"p": mine})
    for other in others:
        changes = sm.ChangeList({"p": other}).extend(changes)
    found = {tuple(row) for row in changes.changes["p"].collect()}
    assert found == {
        (LARGE, "x", Decimal("1.10")), (1, None, Decimal("1.10")), (None, None, None), (2, "y", Decimal("2.50")),
    }  # fmt: skip


def test_extend_refuses_what_no_column_can_hold():
    one, other = sm.ChangeList({"p": pa.table({"id": [LARGE]})}), sm.ChangeList({"p": pd.DataFrame({"id": [0.5]})})
    with pytest.raises(FrameMismatch, match="column 'id' is int64 in one of them and double in the other"):
        one.extend(other).changes["p"]


@pytest.mark.scenario("X63")
@pytest.mark.hazard("H9")
def test_given_posts_are_computed_even_old_ones_and_the_rest_is_still_found(blog):
    blog.write_profiles((100, "Alice"))
    blog.write_posts((1, 100, "one"), (2, 100, "two"), (3, 100, "three"))
    blog.run()
    blog.write_posts((2, 100, "zwei"), (3, 100, "drei"), (4, 100, "vier"))
    blog.delete_posts(1)
    blog.calls()
    before = positions(blog)

    report = blog.step.run_changelist(sm.ChangeList({"posts": pd.DataFrame({"post_id": [1, 2]})}))

    assert (report.mode, report.corrected, report.retracted) == ("changelist", 1, 1)
    assert blog.calls() == [[2]]
    assert positions(blog) == before
    assert blog.lines() == [(2, "Alice: zwei"), (3, "Alice: three")]
    assert blog.step.run_changelist(sm.ChangeList({"posts": pd.DataFrame({"post_id": [3]})})).corrected == 1
    blog.calls()
    blog.run()
    assert blog.calls() == [[2, 3, 4]]
    assert blog.is_settled()


@pytest.mark.scenario("X63")
def test_an_old_key_is_computed_though_nothing_of_it_changed(blog):
    blog.write_posts((1, 100, "one"), (2, 100, "two"))
    blog.run()
    blog.calls()
    offset = blog.feed.head.offset

    assert blog.step.run_changelist(sm.ChangeList({"posts": [{"post_id": 1}]}, {("x", "posts"): 5.0})).keys == 1

    assert blog.calls() == [[1]]
    assert blog.feed.head.offset == offset
    assert blog.is_settled()


@pytest.mark.scenario("X64")
def test_given_profiles_lead_to_their_posts(blog):
    blog.write_profiles((100, "Alice"), (200, "Bob"))
    blog.write_posts((1, 100, "one"), (2, 200, "two"), (3, 100, "three"))
    blog.run()
    blog.write_profiles((100, "Alicia"), (200, "Bobby"))
    blog.calls()

    report = blog.step.run_changelist(sm.ChangeList({"profiles": [{"id": 100}]}))

    assert (report.keys, report.corrected) == (2, 2)
    assert blog.calls() == [[1, 3]]
    assert blog.lines() == [(1, "Alicia: one"), (2, "Bob: two"), (3, "Alicia: three")]
    blog.run()
    assert blog.is_settled()


@pytest.mark.scenario("X63")
@pytest.mark.scenario("X48")
def test_a_failed_key_does_not_wait_when_it_is_given(ds):
    posts = ds.table("posts", "id long, text string", key="id")
    feed = ds.table("feed", "id long, text string", key="id")
    broken = [True]

    @ds.transform(inputs=[posts], outputs=[feed], version="1")
    def shake(posts):
        if broken[0] and posts.where("id = 13").count():
            raise ValueError("unlucky")
        return posts

    posts.upsert([{"id": 12, "text": "a"}, {"id": 13, "text": "b"}])
    ds.run()
    ds.run()  # the second failure: due in a minute
    broken[0] = False
    assert not ds.run().did_something

    assert ds.step("shake").run_changelist(sm.ChangeList({"posts": [{"id": 13}]})).appended == 1
    assert ds.step("shake").failures().empty
    assert sorted(row.id for row in feed.rows().collect()) == [12, 13]


@pytest.mark.scenario("X63")
def test_where_a_step_is_computed_by_other_columns_the_keys_lead_to_them_as_they_were_and_as_they_are(ds):
    posts = ds.table("posts", "post_id long, user_id long, likes long", key="post_id")
    sums = ds.table("sums", "user_id long, likes long", key="user_id")
    calls = []

    @ds.transform(inputs=[posts], outputs=[sums], transform_keys=["user_id"], version="1")
    def add_up(posts):
        calls.append(sorted({row.user_id for row in posts.collect()}))
        return posts.groupBy("user_id").sum("likes").toDF("user_id", "likes")

    posts.upsert([{"post_id": n, "user_id": n * 100, "likes": n} for n in (1, 2, 3)])
    ds.run()
    posts.upsert([{"post_id": 1, "user_id": 200, "likes": 1}, {"post_id": 3, "user_id": 300, "likes": 30}])
    calls.clear()

    report = ds.step("add_up").run_changelist(sm.ChangeList({"posts": [{"post_id": 1}]}))

    assert (report.retracted, report.corrected) == (1, 1)
    assert sorted(tuple(row) for row in sums.rows().collect()) == [(200, 3), (300, 3)]
    assert calls == [[200]]
    ds.run()
    assert sorted(tuple(row) for row in sums.rows().collect()) == [(200, 3), (300, 30)]


@pytest.fixture
def digest(blog):
    """The blog with a step that reads the feed, and one that does not."""
    store = blog.store
    loud = store.table("loud", "post_id long, line string", key="post_id")
    names = store.table("names", "id long, name string", key="id")
    calls = blog.loud_calls = []

    @store.transform(inputs=[blog.feed], outputs=[loud], version="1")
    def shout(feed):
        calls.append(sorted(row.post_id for row in feed.collect()))
        return feed.selectExpr("post_id", "upper(line) AS line")

    store.transform(inputs=[blog.profiles], outputs=[names], name="copy_names", version="1")(lambda profiles: profiles)
    blog.loud = loud
    return blog


@pytest.mark.scenario("X85")
def test_what_a_run_changed_is_pushed_through_exactly_the_steps_downstream(digest, clock):
    blog, store = digest, digest.store
    blog.write_profiles((100, "Alice"), (200, "Bob"))
    blog.write_posts((1, 100, "one"), (2, 200, "two"))
    store.run()
    clock.advance(seconds=5)
    blog.write_profiles((200, "Bobby"))
    blog.loud_calls.clear()

    changes = blog.step.run_full().changes

    assert list(changes.changes) == ["feed"]
    assert changes.changes["feed"].to_dict("list") == {"post_id": [2]}
    times = store.offset_table.get_offsets_for_transformation("process_posts")
    assert changes.offsets == {("process_posts", "profiles"): times["profiles"]}
    assert times["profiles"] == blog.profiles.head.system_time.timestamp()
    before = store.offset_table.get_record_offsets("shout")
    report = store.run_changelist(changes)

    assert list(report.steps) == ["shout"]
    assert report.ok
    assert blog.loud_calls == [[2]]
    assert sorted(tuple(row) for row in blog.loud.rows().collect()) == [(1, "ALICE: ONE"), (2, "BOBBY: TWO")]
    assert store.offset_table.get_record_offsets("shout") == before
    store.run()
    assert not store.run().did_something


@pytest.mark.scenario("X85")
def test_a_change_list_goes_on_from_step_to_step_with_the_keys_that_it_leads_to(digest):
    blog, store = digest, digest.store
    blog.write_profiles((100, "Alice"), (200, "Bob"))
    blog.write_posts((1, 100, "one"), (2, 200, "two"))
    store.run()
    blog.write_posts((1, 100, "eins"), (2, 200, "zwei"))
    blog.calls()
    blog.loud_calls.clear()

    report = store.run_changelist(sm.ChangeList({"posts": [{"post_id": 1}]}))

    assert list(report.steps) == ["process_posts", "shout"]
    assert blog.calls() == [[1]]
    assert blog.loud_calls == [[1]]
    assert sorted(row.line for row in blog.loud.rows().collect()) == ["ALICE: EINS", "BOB: TWO"]
    assert store.run_changelist(sm.ChangeList({"loud": [{"post_id": 1}]})).steps == {}  # the end of the way
    store.run()
    assert blog.is_settled()


@pytest.mark.scenario("X85")
def test_declarations_take_their_arguments_by_name(ds):
    posts = ds.table("posts", "post_id long, user_id long", key="post_id")
    users = ds.table("users", "id long", key="id")
    out = ds.table("out", "post_id long", key="post_id")
    looked_up = sm.JoinSpec(table=users, join_keys={"user_id": "id"})
    plain = sm.ComputeInput(dt=posts)
    required = sm.ComputeInput(dt="users", join_type="inner", join_keys={"user_id": "id"})
    assert (plain.join_type, plain.join_keys, sm.JoinSpec(users).join_keys) == ("full", None, None)
    step = ds.add(
        sm.BatchTransform(
            "SELECT post_id FROM {posts}", inputs=[plain, looked_up], outputs=["out"], name="one", transform_keys=None
        )
    )
    assert (step.inputs, step.outputs, step.transform_keys) == (("posts", "users"), ("out",), ("post_id",))
    other = ds.table("other", "post_id long", key="post_id")
    assert (
        ds.add(sm.BatchTransform("SELECT 1 FROM {posts}", [plain, required], [other], name="two"))
        .spec.shape.inputs[1]
        .required
    )
    assert out.head.offset is None


@pytest.mark.scenario("X102")
def test_a_table_that_no_step_reads_is_refused_with_the_inputs_that_there_are(digest):
    blog, store = digest, digest.store
    blog.write_posts((1, 100, "one"))
    store.run()
    heads = store.heads()

    with pytest.raises(InvalidStep, match=r"keys of table 'pots', and no step reads it\. Nothing was run") as refused:
        store.run_changelist(sm.ChangeList({"pots": [{"post_id": 1}], "posts": [{"post_id": 1}]}))
    assert refused.value.hint == "did you mean 'posts'? Inputs: posts, profiles, feed."
    with pytest.raises(
        InvalidStep, match=r"keys of table 'feed', and step 'process_posts' does not read it"
    ) as refused:
        blog.step.run_changelist(sm.ChangeList({"posts": [{"post_id": 1}], "feed": [{"post_id": 1}]}))
    assert refused.value.hint == "Inputs: posts, profiles."
    assert store.heads() == heads


@pytest.mark.scenario("X102")
def test_a_frame_without_rows_writes_no_block(digest, spark):
    blog, store = digest, digest.store
    nothing = pd.DataFrame({"post_id": pd.Series([], dtype="int64")})
    assert not store.run_changelist(sm.ChangeList({"posts": nothing})).did_something
    assert {head.sequence for head in store.heads().values()} == {-1}  # not even empty chains are begun
    blog.write_posts((1, 100, "one"))
    store.run()
    heads, runs = store.heads(), len(store.control.index.runs())

    in_spark = spark.createDataFrame([], "post_id long")
    for empty in (nothing, pa.Table.from_pandas(nothing), [], in_spark):
        assert not store.run_changelist(sm.ChangeList({"posts": empty})).did_something
        assert blog.step.run_changelist(sm.ChangeList({"posts": empty, "profiles": []})).batches == 0
        assert blog.step.run_idx(empty).batches == 0
    assert (store.heads(), len(store.control.index.runs())) == (heads, runs)
    with pytest.raises(FrameMismatch, match="lacks 'post_id'"):
        blog.step.run_idx(pd.DataFrame({"id": []}))

"""A schema may grow by columns that can be NULL, and change in no other way."""

import pyarrow as pa
import pytest

from seamark.errors import SchemaChangeRefused
from seamark.tables.care import fold

OLD = "id long, v string"
NEW = "id long, v string, n decimal(5,2)"


def kinds(ds, table):
    return [block.kind for block in reversed(ds.control.index.blocks(table))]


@pytest.mark.scenario("L52")
def test_the_same_schema_again_writes_no_block(dry, open_store, arrow, no_spark):
    t = dry.table("t", OLD, key="id")
    t.upsert(arrow(t, (1, "a")))
    for definition in (OLD, "id bigint NOT NULL, v string"):
        open_store(spark=no_spark).table("t", definition, key="id")
    assert kinds(dry, "t") == ["Seed", "SetDataSchema", "AddData"]


@pytest.mark.scenario("L52")
@pytest.mark.parametrize("share", [pytest.param(0.0, marks=pytest.mark.long), 10.0], ids=["written anew", "merged"])
def test_a_new_column_is_null_in_what_stood_before(ds, open_store, spark, arrow, rows, told, monkeypatch, share):
    monkeypatch.setattr(fold, "MERGE_SHARE", share)
    t = ds.table("t", OLD, key="id")
    t.upsert(arrow(t, (1, "a"), (2, "b")))
    t.fold()
    t.upsert(arrow(t, (3, "c")))

    grown = open_store(spark=spark).table("t", NEW, key="id")
    assert kinds(ds, "t") == ["Seed", "SetDataSchema", "AddData", "AddData"]
    assert rows(grown) == [(1, "a", None), (2, "b", None), (3, "c", None)]

    one = pa.scalar("1.50").cast(pa.decimal128(5, 2)).as_py()
    assert grown.upsert(arrow(grown, (1, "a", None))) is None
    assert kinds(ds, "t") == ["Seed", "SetDataSchema", "AddData", "AddData", "SetDataSchema"]
    grown.upsert(arrow(grown, (1, "a", one), (3, "c", one)))
    grown.fold()
    assert rows(grown) == [(1, "a", one), (2, "b", None), (3, "c", one)]
    assert rows(grown.rows(as_of=1)) == [(1, "a", None), (2, "b", None)]
    assert rows(grown.changes(upto=0).select("id", "n")) == [(1, None)]
    assert kinds(ds, "t").count("SetDataSchema") == 2
    assert ds.verify().ok


@pytest.mark.scenario("L52")
def test_a_program_with_the_old_schema_cannot_take_the_column_away(ds, open_store, no_spark, arrow, dry):
    """It opened the table before the column was added: its block would drop the column again."""
    t = ds.table("clicks", OLD)
    t.append(arrow(t, (1, "a")))
    grown = open_store(spark=no_spark).table("clicks", NEW)
    grown.append(arrow(grown, (2, "b", None)))
    before = grown.head

    with pytest.raises(SchemaChangeRefused, match=r"table 'clicks'.*column 'n' decimal\(5,2\) is missing"):
        t.append(arrow(t, (3, "c")))

    assert grown.head == before
    assert kinds(ds, "clicks").count("SetDataSchema") == 2


@pytest.mark.scenario("L52")
@pytest.mark.parametrize("share", [0.0, 10.0], ids=["written anew", "merged"])
def test_a_fold_by_a_program_with_the_old_schema_keeps_the_new_column(ds, open_store, spark, rows, monkeypatch, share):
    monkeypatch.setattr(fold, "MERGE_SHARE", share)
    old = ds.table("t", "id long, v string", key="id")
    old.upsert(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    old.fold()
    grown = open_store(spark=spark).table("t", "id long, v string, n long", key="id")
    grown.upsert(pa.table({"id": [2, 3], "v": ["b", "c"], "n": [20, 30]}))

    assert old.fold().folded

    assert rows(grown) == [(1, "a", None), (2, "b", 20), (3, "c", 30)]
    assert rows(old) == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.scenario("L52", "T28")
def test_a_cached_base_is_not_that_of_another_schema(open_store, spark, rows, monkeypatch):
    monkeypatch.setenv("SEAMARK_ROWS_CACHE_ROWS", "100")
    ds = open_store(spark=spark)
    old = ds.table("t", "id long, v string", key="id")
    old.upsert(pa.table({"id": [1], "v": ["a"]}))
    other = open_store(spark=spark).table("t", "id long, v string, n long", key="id")
    other.upsert(pa.table({"id": [1], "v": ["a"], "n": [10]}))
    other.fold()
    assert rows(old) == [(1, "a")]

    grown = ds.table("t", "id long, v string, n long", key="id")

    assert rows(grown) == [(1, "a", 10)]
    assert rows(old) == [(1, "a")]


@pytest.mark.scenario("L52")
def test_columns_are_known_by_their_names_whatever_their_order(ds, dry, open_store, arrow, no_spark, rows):
    t = ds.table("clicks", OLD)
    t.append(arrow(t, (1, "a")))

    turned = open_store(spark=no_spark).table("clicks", "v string, id long")
    turned.append(pa.table({"v": ["b"], "id": [2]}))

    assert rows(t) == [(1, "a"), (2, "b")]
    assert ds.verify().ok


@pytest.mark.scenario("L53")
@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ("id long", r"column 'v' string is missing"),
        ("id long, w string", r"column 'v' string is missing; w: new here\. A column cannot be renamed\."),
        ("id long, v long", r"column 'v' is string, not bigint"),
        ("id int, v string", r"column 'id' is bigint NOT NULL, not int NOT NULL"),
        ("id long, v string NOT NULL", r"column 'v' is string, not string NOT NULL"),
        ("id long, v string, n int NOT NULL", r"new column 'n' is int NOT NULL"),
    ],
)
def test_any_other_change_is_refused(dry, open_store, arrow, no_spark, definition, text, unchanged):
    t = dry.table("t", OLD, key="id")
    t.upsert(arrow(t, (1, "a")))
    with unchanged(t), pytest.raises(SchemaChangeRefused, match=rf"table 't'.*{text}.*Nothing was changed"):
        open_store(spark=no_spark).table("t", definition, key="id")


@pytest.mark.scenario("L53")
def test_a_column_that_must_have_a_value_cannot_lose_that(dry, open_store, arrow, no_spark):
    t = dry.table("t", "id long, v string NOT NULL", key="id")
    t.upsert(arrow(t, (1, "a")))
    with pytest.raises(SchemaChangeRefused, match=r"column 'v' is string NOT NULL, not string\."):
        open_store(spark=no_spark).table("t", OLD, key="id")
    with pytest.raises(SchemaChangeRefused, match="its event time is not set, not at"):
        open_store(spark=no_spark).table("t", "id long, v string NOT NULL, at timestamp", key="id", event_time="at")

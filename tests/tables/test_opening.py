"""Opening a program writes nothing: a column that it adds is committed by its first write or run."""

from datetime import UTC, datetime

import pytest
from tests.support.readers import files_of

import seamark as sm
from seamark.errors import SchemaChangeRefused

OLD = "id long, v string"
NEW = "id long, v string, n long"


def kinds(store, table):
    return [block.kind for block in reversed(store.control.index.blocks(table))]


@pytest.mark.scenario("T62")
def test_a_program_that_only_declares_leaves_no_file(open_store, no_spark, tmp_path):
    store = open_store(spark=no_spark)
    t = store.table("t", OLD, key="id")
    o = store.table("o", OLD, key="id")
    store.add(sm.BatchTransform("SELECT * FROM {t}", [t], [o], name="copy"))
    store.diff("visits", "id", "f", 1000, [store.table("log", "id long, f int, v string")])

    assert (t.head.offset, store.heads()["o"].sequence, store.plan()["copy"].mode) == (None, -1, "settled")
    assert store.verify().ok
    assert not store.run().did_something
    store.close()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.fixture
def grown(dry, open_store, no_spark, arrow):
    """A table that stands with the old columns, and a newer program that has just been opened on it."""
    old = dry.table("t", OLD, key="id")
    old.upsert(arrow(old, (1, "a")))
    newer = open_store(spark=no_spark)
    newer.table("t", NEW, key="id")
    return newer


@pytest.mark.scenario("T62", "L52")
def test_a_declared_column_is_not_committed_by_looking(dry, grown, files_under, tmp_path):
    before = files_under(tmp_path)
    t = grown.table("t")
    assert t.schema.names == ("id", "v", "n")
    grown.tables()
    grown.plan()
    grown.steps()
    grown.sinks()
    assert grown.verify().ok
    assert kinds(dry, "t") == ["Seed", "SetDataSchema", "AddData"]
    assert files_under(tmp_path) == before


@pytest.mark.scenario("T62", "L52")
@pytest.mark.parametrize("first", ["a write", "a write of nothing new", "a watermark", "a run"])
def test_the_first_write_or_run_commits_it_and_the_older_program_is_refused_from_then_on(ds, open_store, spark, first):
    old = ds.table("t", OLD, key="id")
    old.upsert([{"id": 1, "v": "a"}])
    newer = open_store(spark=spark)
    t = newer.table("t", NEW, key="id")
    old.upsert([{"id": 2, "v": "b"}])  # nothing has happened that would keep it from writing
    assert [tuple(row) for row in t.rows().orderBy("id").collect()] == [(1, "a", None), (2, "b", None)]

    if first == "a run":
        newer.run()
    elif first == "a watermark":
        t.set_watermark(datetime(2024, 1, 1, tzinfo=UTC))
    else:
        commit = t.upsert([{"id": 2, "v": "b", "n": None if "nothing" in first else 20}])
        assert (commit is None) == ("nothing" in first)

    assert kinds(ds, "t").count("SetDataSchema") == 2
    assert [row.v for row in old.rows().orderBy("id").collect()] == ["a", "b"]
    assert old.changes().count() == old.head.offset + 1
    with pytest.raises(SchemaChangeRefused, match=r"table 't'.*column 'n' bigint is missing"):
        old.upsert([{"id": 3, "v": "c"}])
    newer.run()
    t.upsert([{"id": 3, "v": "c", "n": 30}])
    assert kinds(ds, "t").count("SetDataSchema") == 2
    assert ds.verify().ok


@pytest.mark.scenario("T62", "T58")
def test_a_column_that_is_not_committed_yet_is_read_from_tail_and_base(ds, open_store, spark):
    old = ds.table("t", OLD, key="id")
    old.upsert([{"id": 1, "v": "a"}])
    old.fold()
    old.upsert([{"id": 2, "v": "b"}])
    newer = open_store(spark=spark)
    t = newer.table("t", "id long, v string, n timestamp_ntz", key="id")

    assert [tuple(row) for row in t.rows().orderBy("id").collect()] == [(1, "a", None), (2, "b", None)]
    assert [tuple(row) for row in t.get_data([{"id": 1}]).collect()] == [(1, "a", None)]
    assert t.changes().columns[-1] == "n"
    t.fold()
    assert [tuple(row) for row in t.rows().orderBy("id").collect()] == [(1, "a", None), (2, "b", None)]
    assert kinds(ds, "t").count("SetDataSchema") == 1


@pytest.mark.scenario("T62", "T46")
def test_files_are_as_they_were_after_every_look(dry, grown, tmp_path):
    dry.close()
    grown.close()
    before = files_of(tmp_path)
    again = sm.DataStore(f"sqlite:///{tmp_path / 'control.db'}", tmp_path / "warehouse")
    again.table("t", NEW, key="id")
    assert (again.table("t").head.offset, list(again.heads()), again.plan()) == (0, ["t"], {})
    again.close()
    assert files_of(tmp_path) == before

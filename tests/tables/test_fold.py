"""Folding: the base follows the head, is never needed for being right, and can be lost at any moment."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import seamark as sm
from seamark.control import Lease
from seamark.errors import TableError
from seamark.tables.care import fold
from seamark.tables.read.delta_log import DeltaLog


def delta_versions(table):
    return sorted(DeltaLog(table.source.context.warehouse / table.name / "rows")._versions())


@pytest.fixture
def folded(stock, arrow):
    """Three commits (offsets 0–2, 3–7, 8–9), folded after the first and the second: as of 2, 7 and 9."""
    stock.replace(arrow(stock, ("A", 10), ("B", 20), ("C", 30)))
    assert stock.fold().folded
    stock.replace(arrow(stock, ("A", 10), ("C", 35), ("D", 40), ("E", 50)))
    assert stock.fold().folded
    stock.upsert(arrow(stock, ("A", 11)))
    return stock


STATES = {
    2: [("A", 10), ("B", 20), ("C", 30)],
    7: [("A", 10), ("C", 35), ("D", 40), ("E", 50)],
    9: [("A", 11), ("C", 35), ("D", 40), ("E", 50)],
}


@pytest.mark.scenario("T23", "T24")
def test_rows_are_the_same_before_and_after(folded, rows, spark):
    before = rows(folded)

    report = folded.fold()

    assert (report.folded, report.records) == (True, 2)
    assert rows(folded) == before == STATES[9]
    assert {offset: rows(folded.rows(as_of=offset)) for offset in STATES} == STATES

    assert delta_versions(folded) == [0, 1, 2]
    again = folded.fold()
    assert (again.folded, again.delta_version) == (False, 2)
    assert delta_versions(folded) == [0, 1, 2]

    base = spark.read.format("delta").load(folded.source.base_folder)
    assert rows(base.select("name", "amount")) == STATES[9]
    assert sorted(base.columns) == ["_offset", "amount", "event_time", "name"]
    assert {row.name: row._offset for row in base.collect()} == {"A": 9, "C": 5, "D": 6, "E": 7}


@pytest.mark.scenario("T24")
def test_a_small_tail_is_merged(stock, arrow, rows, spark, monkeypatch):
    monkeypatch.setattr(fold, "MERGE_SHARE", 10.0)
    stock.replace(arrow(stock, ("A", 10), ("B", 20), ("C", 30)))
    stock.fold()
    stock.replace(arrow(stock, ("B", 21), ("C", 30), ("D", 40)))
    stock.upsert(arrow(stock, ("D", 41), ("E", 50)))
    stock.delete(pa.table({"name": ["E"]}))
    stock.fold()

    merged = spark.sql(f"DESCRIBE HISTORY delta.`{stock.source.base_folder}`").collect()
    assert merged[0].operation == "MERGE"
    base = spark.read.format("delta").load(stock.source.base_folder).select("name", "amount")
    assert rows(base) == rows(stock) == [("B", 21), ("C", 30), ("D", 41)]


@pytest.mark.scenario("T24")
def test_an_append_only_table_is_folded_by_appending(clicks, arrow, rows):
    clicks.append(arrow(clicks, ("/a", None)))
    clicks.fold()
    clicks.append(arrow(clicks, ("/a", None), ("/b", None)))
    clicks.fold()
    clicks.append(arrow(clicks, ("/c", None)))

    assert [url for url, _ in rows(clicks)] == ["/a", "/a", "/b", "/c"]
    assert [url for url, _ in rows(clicks.rows(as_of=0))] == ["/a"]
    assert delta_versions(clicks) == [0, 1]


@pytest.mark.scenario("T24")
def test_a_table_without_rows_is_folded_too(ds, stock, arrow, rows):
    assert stock.fold().folded is False
    stock.upsert(arrow(stock, ("A", 10)))
    stock.delete(pa.table({"name": ["A"]}))
    assert [report.folded for report in ds.fold()] == [True]
    assert rows(stock) == []
    assert stock.upsert(arrow(stock, ("B", 20))).appended == 1
    assert rows(stock) == [("B", 20)]


@pytest.mark.scenario("T26")
def test_a_frame_taken_before_a_fold_can_be_read_after_it(folded, arrow, rows):
    taken = folded.rows()
    folded.upsert(arrow(folded, ("A", 12), ("F", 60)))
    folded.fold()
    folded.upsert(arrow(folded, ("A", 13)))
    folded.fold()
    assert rows(taken) == STATES[9]


# --- by itself --------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("T27")
def test_a_tail_of_many_slices_is_folded(open_store, spark, monkeypatch, arrow):
    monkeypatch.setenv("SEAMARK_ROWS_FOLD_SLICES", "3")
    ds = open_store(spark=spark)
    clicks = ds.table("clicks", "url string")
    for _ in range(3):
        clicks.append(arrow(clicks, ("/a",)))
    assert ds.fold_where_needed() == []

    clicks.append(arrow(clicks, ("/a",)))
    assert [(report.table, report.folded, report.records) for report in ds.fold_where_needed()] == [("clicks", True, 4)]
    assert ds.fold_where_needed() == []


@pytest.mark.scenario("T27")
def test_a_tail_that_is_a_large_share_of_the_base_is_folded(open_store, spark, monkeypatch, arrow):
    monkeypatch.setenv("SEAMARK_ROWS_FOLD_SHARE", "0.5")
    ds = open_store(spark=spark)
    clicks = ds.table("clicks", "url string")
    clicks.append(arrow(clicks, *[("/a",)] * 4))
    assert ds.fold_where_needed() == []  # without a base there is no share of it
    clicks.fold()

    clicks.append(arrow(clicks, *[("/b",)] * 2))
    assert ds.fold_where_needed() == []
    clicks.append(arrow(clicks, ("/c",)))
    assert [report.records for report in ds.fold_where_needed()] == [3]


# --- the cache --------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("T28")
def test_a_cached_base_is_never_stale(open_store, spark, monkeypatch, arrow, rows):
    monkeypatch.setenv("SEAMARK_ROWS_CACHE_ROWS", "5")
    ds = open_store(spark=spark)
    stock = ds.table("stock", "name string, amount long", key="name")
    cache = ds._context.cache
    stock.upsert(arrow(stock, ("A", 1), ("B", 1)))
    stock.fold()
    assert rows(stock) == [("A", 1), ("B", 1)]
    assert cache.rows == 2

    stock.upsert(arrow(stock, ("A", 2)))
    assert rows(stock) == [("A", 2), ("B", 1)]
    stock.fold()
    assert rows(stock) == [("A", 2), ("B", 1)]

    other = open_store(spark=spark).table("stock")
    other.upsert(arrow(other, ("B", 3), ("C", 3)))
    assert rows(stock) == [("A", 2), ("B", 3), ("C", 3)]
    other.fold()
    assert rows(stock) == [("A", 2), ("B", 3), ("C", 3)]
    assert stock.upsert(stock.rows().selectExpr("name", "amount + 1 AS amount")).corrected == 3
    assert rows(stock) == [("A", 3), ("B", 4), ("C", 4)]
    assert cache.rows == 3

    second = ds.table("second", "name string, amount long", key="name")
    second.upsert(arrow(second, *[(name, 1) for name in "ABCD"]))
    second.fold()
    assert len(rows(second)) == 4
    assert cache.rows == 4  # the first table's base had to go
    large = ds.table("large", "name string, amount long", key="name")
    large.upsert(arrow(large, *[(name, 1) for name in "ABCDEF"]))
    large.fold()
    assert len(rows(large)) == 6
    assert cache.rows == 4  # and this one never fits
    assert rows(stock) == [("A", 3), ("B", 4), ("C", 4)]
    assert cache.rows <= 5


# --- faults -----------------------------------------------------------------------------------------------------------

CHILD = """
    import sys
    import pyarrow as pa
    import seamark as sm

    ds = sm.DataStore(sys.argv[1], sys.argv[2])
    stock = ds.table("stock", "name string, amount long", key="name")
    stock.upsert(pa.table({"name": ["A", "B"], "amount": [10, 20]}))
    stock.fold()
"""


def fold_in_a_child(tmp_path, point):
    """A process of its own that writes, folds, and is killed at a point of the fold."""
    env = os.environ | {"SEAMARK_KILL_AT": point, "SEAMARK_SCHEDULER_LEASE": "1s", "SEAMARK_SPARK_DRIVER_MEMORY": "1g"}
    place = [f"sqlite:///{tmp_path / 'control.db'}", str(tmp_path / "warehouse")]
    command = [sys.executable, "-c", textwrap.dedent(CHILD), *place]
    ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == -9, ended.stderr


@pytest.mark.scenario("T25")
@pytest.mark.parametrize(
    ("point", "versions"), [pytest.param("fold-begins", [], marks=pytest.mark.long), ("fold-written", [0])]
)
def test_a_fold_that_is_killed_is_ended_by_the_next(tmp_path, open_store, spark, rows, point, versions):
    fold_in_a_child(tmp_path, point)

    stock = open_store(spark=spark).table("stock")

    assert delta_versions(stock) == versions
    assert rows(stock) == [("A", 10), ("B", 20)]
    report = stock.fold()
    assert (report.folded, report.delta_version) == (True, 0)
    assert delta_versions(stock) == [0]
    assert rows(stock) == [("A", 10), ("B", 20)]
    assert stock.fold().folded is False


@pytest.mark.scenario("T25")
def test_a_fold_that_ends_halfway_leaves_no_trace_in_the_rows(folded, rows, monkeypatch, spark):
    written = []

    def halfway(snapshot):
        """Files are there, and Delta's log does not know of them."""
        source = snapshot.source
        junk = source.context.session().createDataFrame([("junk", 0)], "name string, amount long")
        junk.write.mode("append").parquet(source.base_folder)
        written.append(snapshot.upto)
        raise RuntimeError("the power is gone")

    with monkeypatch.context() as patched:
        patched.setattr(fold, "_rewrite", halfway)
        with pytest.raises(RuntimeError, match="the power is gone"):
            folded.fold()

    assert written == [9]
    assert rows(folded) == STATES[9]
    assert folded.fold().delta_version == 2
    assert rows(folded) == STATES[9]
    assert rows(spark.read.format("delta").load(folded.source.base_folder).select("name", "amount")) == STATES[9]


def failing(_snapshot):
    raise PySparkException("somebody else wrote to the Delta table")


@pytest.mark.scenario("T25")
@pytest.mark.parametrize("write", [failing, lambda _snapshot: None], ids=["fails", "is left out"])
def test_a_fold_whose_write_does_not_happen_is_explained(folded, rows, monkeypatch, write):
    with monkeypatch.context() as patched:
        patched.setattr(fold, "_rewrite", write)
        with pytest.raises(TableError, match=r"fold of table 'stock'.*rows are unharmed") as found:
            folded.fold()

    assert (write is failing) == isinstance(found.value.__cause__, PySparkException)
    assert rows(folded) == STATES[9]
    assert folded.fold().folded


@pytest.mark.scenario("T25")
@pytest.mark.parametrize("write", [failing, fold._rewrite], ids=["conflicts", "comes late"])
def test_a_fold_that_is_outrun_by_another_leaves_that_as_it_is(
    folded, rows, open_store, spark, arrow, monkeypatch, write
):
    other = open_store(spark=spark).table("stock")

    def outrun(snapshot):
        """The lease is lost, and another process writes and folds before this one is heard of again."""
        monkeypatch.setattr(fold, "_rewrite", write_anew)
        snapshot.source.context.control.leases.release(Lease("fold:stock", "", epoch=3))
        other.upsert(arrow(other, ("Z", 1)))
        assert other.fold().delta_version == 2
        write(snapshot)

    write_anew = fold._rewrite
    monkeypatch.setattr(fold, "_rewrite", outrun)

    report = folded.fold()

    assert (report.folded, report.reason) == (False, "another process folded it meanwhile")
    assert rows(folded) == [*STATES[9], ("Z", 1)]
    assert delta_versions(folded) == [0, 1, 2]


# --- a session with other defaults ------------------------------------------------------------------------------------

DEFAULTS = "spark.databricks.delta.properties.defaults"


@pytest.mark.scenario("T24")
def test_a_base_is_plain_files_whatever_the_session_would_make_of_it(stock, arrow, rows, monkeypatch):
    plain = SparkSession.newSession

    def with_defaults(session):
        fresh = plain(session)
        fresh.conf.set(f"{DEFAULTS}.enableDeletionVectors", "true")
        fresh.conf.set(f"{DEFAULTS}.columnMapping.mode", "name")
        return fresh

    monkeypatch.setattr(SparkSession, "newSession", with_defaults)
    stock.upsert(arrow(stock, ("A", 10), ("B", 20)))
    stock.fold()
    assert rows(stock) == [("A", 10), ("B", 20)]

    monkeypatch.setattr(fold, "MERGE_SHARE", 10.0)
    stock.delete(pa.table({"name": ["A"]}))
    stock.fold()
    assert rows(stock) == [("B", 20)]


@pytest.mark.parametrize(
    "action",
    [
        {"add": {"path": "a.parquet", "deletionVector": {"storageType": "u", "cardinality": 1}}},
        {"metaData": {"configuration": {"delta.columnMapping.mode": "name"}}},
    ],
    ids=["deletion vectors", "column mapping"],
)
def test_a_base_that_is_not_plain_files_is_refused(tmp_path, action):
    log = tmp_path / "stock" / "rows" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text(json.dumps(action))

    with pytest.raises(TableError, match=r"stock/rows.*Hint: remove that folder and fold the table again"):
        DeltaLog(log.parent).files(0)


# --- columns of every type --------------------------------------------------------------------------------------------

TYPES = {
    "boolean": True,
    "tinyint": 1,
    "smallint": 2,
    "bigint": 3,
    "float": 0.5,
    "double": 0.25,
    "decimal(20,4)": Decimal("1.2345"),
    "string": "text",
    "binary": b"bytes",
    "date": date(2024, 1, 1),
    "timestamp": datetime(2024, 1, 1, 12, tzinfo=UTC),
    "array<string>": ["a", None],
    "struct<a:int,b:string>": {"a": 1, "b": "x"},
    "timestamp_ntz": datetime(2024, 1, 1, 12),
    "array<timestamp_ntz>": [datetime(2024, 1, 1, 12)],
    "struct<at:timestamp_ntz>": {"at": datetime(2024, 1, 1, 12)},
}


@pytest.mark.scenario("T58")
@pytest.mark.parametrize(
    "way", ["merged", *[pytest.param(way, marks=pytest.mark.long) for way in ("written anew", "appended")]]
)
def test_columns_of_every_type_are_added_to_a_folded_table(ds, spark, monkeypatch, way):
    """Those that Delta asks a feature for come last, one after another: each is the first to ask."""
    monkeypatch.setattr(fold, "MERGE_SHARE", 10.0 if way == "merged" else 0.0)
    key = None if way == "appended" else "k"
    columns = "k long"
    table = ds.table("t", columns, key=key)
    (table.append if key is None else table.upsert)(pa.table({"k": [0, 1]}))
    table.fold()
    easy = [kind for kind in TYPES if "ntz" not in kind]
    expected: list[dict[str, Any]] = [{"k": 0}, {"k": 1}]
    for added in (easy, *[[kind] for kind in TYPES if kind not in easy]):
        columns += "".join(f", `c{list(TYPES).index(kind)}` {kind}" for kind in added)
        table = ds.table("t", columns, key=key)
        names = [name for name in table.schema.names if name != "k"]
        row = {"k": len(expected), **{name: TYPES[list(TYPES)[int(name[1:])]] for name in names}}
        (table.append if key is None else table.upsert)(pa.Table.from_pylist([row], table.schema.arrow))
        expected.append(row)

        assert table.fold().folded
        assert table.fold().folded is False
        found = {entry["k"]: entry for entry in table.rows().toArrow().to_pylist()}
        assert found == {row["k"]: {**dict.fromkeys(names), **row} for row in expected}
        outside = spark.read.format("delta").load(table.source.base_folder)
        assert outside.drop("_offset", "event_time").count() == len(expected)


@pytest.mark.scenario("T58")
def test_a_fold_that_is_killed_after_a_feature_was_switched_on_is_ended_by_the_next(stock, ds, arrow, monkeypatch):
    stock.upsert(arrow(stock, ("A", 1)))
    stock.fold()
    stock = ds.table("stock", "name string, amount long, at timestamp_ntz", key="name")
    moment = datetime(2024, 1, 1, 12)
    stock.upsert(arrow(stock, ("B", 2, moment)))

    def killed(*_args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(fold, "_rewrite", killed)
        with pytest.raises(KeyboardInterrupt):
            stock.fold()

    assert stock.fold().folded
    assert {(row.name, row.at) for row in stock.rows().collect()} == {("A", None), ("B", moment)}


@pytest.mark.scenario("T44")
def test_a_base_that_was_removed_by_hand_is_not_missed(folded, rows, spark, arrow):
    shutil.rmtree(folded.source.base_folder)

    assert {offset: rows(folded.rows(as_of=offset)) for offset in STATES} == STATES
    assert folded.fold().folded
    assert rows(spark.read.format("delta").load(folded.source.base_folder).select("name", "amount")) == STATES[9]
    assert {offset: rows(folded.rows(as_of=offset)) for offset in STATES} == STATES
    assert folded.fold().folded is False

    folded.upsert(arrow(folded, ("Z", 1)))
    assert folded.fold().folded
    assert rows(folded) == [*STATES[9], ("Z", 1)]
    assert {offset: rows(folded.rows(as_of=offset)) for offset in STATES} == STATES


@pytest.mark.scenario("T44")
def test_another_process_sees_that_a_base_was_made_anew(folded, rows, open_store, spark, monkeypatch):
    monkeypatch.setenv("SEAMARK_ROWS_CACHE_ROWS", "100")
    watching = open_store(spark=spark).table("stock")
    assert rows(watching.rows(as_of=2)) == STATES[2]

    shutil.rmtree(folded.source.base_folder)
    folded.fold()

    assert {offset: rows(watching.rows(as_of=offset)) for offset in STATES} == STATES


@pytest.mark.scenario("T45")
def test_rows_and_bases_come_back_with_a_rebuilt_database(folded, rows, tmp_path, open_store, spark, ds):
    index = ds.control.index
    before = (folded.head, index.blocks("stock"), index.bases("stock"), rows(folded), rows(folded.changes()))
    ds.close()
    for path in tmp_path.glob("control.db*"):
        path.unlink()

    sm.DataStore.rebuild(f"sqlite:///{tmp_path / 'control.db'}", tmp_path / "warehouse")
    again = open_store(spark=spark)
    stock, index = again.table("stock"), again.control.index

    after = (stock.head, index.blocks("stock"), index.bases("stock"), rows(stock), rows(stock.changes()))
    assert after == before
    assert {offset: rows(stock.rows(as_of=offset)) for offset in STATES} == STATES
    assert [version.last_offset for version in index.bases("stock")] == [7, 2]


# --- what a table begins with -----------------------------------------------------------------------------------------


def files_of(table):
    """The files of a table's base, each as the keys in it."""
    log = DeltaLog(table.source.context.warehouse / table.name / "rows")
    return [pq.read_table(path, columns=["id"]).column(0).to_pylist() for path in log.files(log.newest())]


def test_the_first_commit_is_folded_as_it_lies_without_sorting_it_again(open_store, spark, count_jobs):
    store = open_store(spark=spark, block_rows=100)
    numbers = store.table("numbers", "id long, text string", key="id")
    numbers.replace(spark.range(950).selectExpr("(id * 7) % 950 AS id", "concat('number ', id) AS text"))
    before = sorted(numbers.rows().collect())

    with count_jobs() as counted:
        assert numbers.fold().folded
    in_order = counted.jobs

    files = sorted(files_of(numbers))
    assert [len(ids) for ids in files] == [*[100] * 9, 50]
    assert [number for ids in files for number in ids] == list(range(950))
    assert sorted(numbers.rows().collect()) == before

    numbers.upsert(pa.table({"id": range(0, 950, 2), "text": ["changed"] * 475}))
    with count_jobs() as counted:
        assert numbers.fold().folded  # half of it changed: written anew, and that needs sorting
    assert counted.jobs > in_order
    assert [number for ids in sorted(files_of(numbers)) for number in ids] == list(range(950))


def test_groups_of_rows_are_small_so_that_a_read_of_few_keys_skips_the_rest(ds, monkeypatch):
    monkeypatch.setattr(fold, "GROUP_ROWS", 100)
    numbers = ds.table("numbers", "id long, text string", key="id")
    numbers.upsert(pa.table({"id": range(950), "text": ["a"] * 950}))
    for upto in (0, 900):  # as it lies, and written again
        numbers.upsert(pa.table({"id": range(upto), "text": ["b"] * upto}))
        assert numbers.fold().folded
        log = DeltaLog(numbers.source.context.warehouse / "numbers" / "rows")
        described = [pq.read_metadata(path) for path in log.files(log.newest())]
        groups = [file.row_group(group).num_rows for file in described for group in range(file.num_row_groups)]
        assert (sum(groups), max(groups)) == (950, 100)

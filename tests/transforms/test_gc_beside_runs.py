"""Housekeeping beside runs and readers: what they read stays, and a file that is missing all the same is an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import seamark as sm
from seamark.errors import ComputeFailed, TableError


def base_files(table: sm.Table) -> list[Path]:
    return sorted(Path(table.source.base_folder).glob("*.parquet"))


def make_old(paths: list[Path]) -> None:
    """As if these files had been written two hours ago, or two hours before the present one of them."""
    for path in paths:
        os.utime(path, (path.stat().st_mtime - 7200,) * 2)


@pytest.fixture
def docs(open_store, spark, clock, set_small, monkeypatch, frame):
    """Sixty documents, folded long ago, in a store for which ten are many: Spark reads them, range after range."""
    set_small(monkeypatch, 10)
    store = open_store(spark=spark, clock=clock)
    table = store.table("docs", "id long, body string", key="id")
    table.upsert(frame(table, [(i, "first") for i in range(60)]))
    table.fold()
    make_old(base_files(table))
    return store, table


@pytest.mark.scenario("T56")
def test_the_base_that_a_long_run_reads_stays(docs, clock, frame, rows):
    store, table = docs
    copies = store.table("copies", "id long, body string", key="id")
    removed = []

    @store.transform(inputs=[table], outputs=[copies], batch_keys=20)
    def copy(docs):
        if not removed:
            for word in ("second", "third"):
                table.upsert(frame(table, [(i, word) for i in range(60)]))
                table.fold()
            clock.advance(hours=2)
            removed.append([gone.path for gone in store.gc().removed if "/rows/" in gone.path])
        return docs

    [first] = base_files(table)
    report = store.run("copy").steps["copy"]

    assert (report.error, report.batches, report.mode) == (None, 3, "all keys")
    assert removed == [[]]
    assert rows(copies) == [(i, "first") for i in range(60)]  # as it stood when the run pinned it
    assert [gone.path for gone in store.gc().removed] == [f"docs/rows/{first.name}"]
    assert store.run("copy").ok
    assert rows(copies) == [(i, "third") for i in range(60)]


@pytest.mark.scenario("T56")
def test_a_frame_that_somebody_holds_can_be_read_for_the_grace(docs, clock, frame):
    store, table = docs
    held = table.rows()
    for word in ("second", "third"):
        table.upsert(frame(table, [(i, word) for i in range(60)]))
        table.fold()

    assert store.gc().count == 0
    assert {row.body for row in held.collect()} == {"first"}
    clock.advance(hours=2)
    assert store.gc().count == 1


# --- files that are missing all the same ------------------------------------------------------------------------------


@pytest.fixture
def lenient(spark):
    """A session that is set up to read on without the files that it cannot read."""
    names = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
    before = {name: spark.conf.get(name) for name in names}
    for name in names:
        spark.conf.set(name, "true")
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.scenario("T56")
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_base_without_one_of_its_files_is_an_error(docs, lenient, how, frame):
    store, table = docs
    copies = store.table("copies", "id long, body string", key="id")
    store.transform(inputs=[table], outputs=[copies], name="copy")(lambda docs: docs)
    assert store.run("copy").ok
    table.upsert(frame(table, [(1, "second")]))
    held = table.rows()
    [file] = base_files(table)
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:200])

    some = frame(table, [(2,)], only_key=True)
    for read in (held.collect, lambda: table.rows().collect(), lambda: table.get_data(some).collect()):
        with pytest.raises(Exception, match=r"FAILED_READ_FILE|PATH_NOT_FOUND"):
            read()
    with pytest.raises(ComputeFailed):
        table.delete(frame(table, [(2,)], only_key=True))
    with pytest.raises(TableError, match="rows are unharmed"):
        table.fold()
    store.offset_table.reset_offset("copy")
    assert isinstance(store.run("copy").steps["copy"].error, Exception)
    assert copies.rows().count() == 60  # nothing was retracted for want of a file


@pytest.mark.scenario("T56")
def test_a_slice_that_is_missing_is_an_error(docs, lenient, frame):
    store, table = docs
    table.upsert(frame(table, [(1, "second")]))
    [block] = store.control.index.slices("docs", after=59, upto=None)
    changes, rows = table.changes(), table.rows()
    store._context.files("docs").data.path(block.slice_hash).unlink()

    for read in (changes.collect, rows.collect, lambda: table.rows().collect()):
        with pytest.raises(Exception, match=r"FAILED_READ_FILE|PATH_NOT_FOUND"):
            read()

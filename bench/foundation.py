"""The foundation: writing, folding, reading by key, planning on long chains, opening a store, the driver's memory."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import seamark as sm
from bench.chains import add_watermark_blocks
from bench.measure import Figure, best_of, median_seconds, ratio, scaled, seconds, shown
from bench.people import COLUMNS, people, store
from bench.stores import FRESH_ROWS, Bench

REPLACED_ROWS = scaled(5_000_000)
UPSERTED_INTO = scaled(1_000_000)
MANY_BLOCKS = scaled(100_000, 1_000)
SLICES = scaled(1_000, 100)
TABLES = 200


def replace_five_million(bench: Bench, folder: Path) -> Iterator[Figure]:
    """A first `replace`, with both hashes, against Spark's own Parquet writer."""
    spark = bench.warm_tables
    frame = people(spark, REPLACED_ROWS)

    def theirs() -> None:
        frame.write.mode("overwrite").parquet(str(folder / "parquet"))

    def ours() -> None:
        store(folder / "ours", spark).table("rows", COLUMNS, key="id").replace(frame)

    rounds = [(seconds(ours), seconds(theirs)) for _ in range(3)]
    took, plain = (statistics.median(times) for times in zip(*rounds, strict=True))
    yield ratio(f"replace, {shown(REPLACED_ROWS)} new rows: Spark's Parquet writer", took, plain, 1.8)


def upsert_a_thousand(bench: Bench, folder: Path) -> Iterator[Figure]:
    """An `upsert` of 1 000 rows into 1 M, against a Delta MERGE of the same rows."""
    spark = bench.warm_tables
    table = store(folder, spark).table("rows", COLUMNS, key="id")
    table.replace(people(spark, UPSERTED_INTO))
    table.fold()
    delta = str(folder / "delta")
    people(spark, UPSERTED_INTO).write.format("delta").save(delta)
    apart = UPSERTED_INTO // 1_000

    def changed(number: int) -> pd.DataFrame:
        chosen = people(spark, UPSERTED_INTO).where(f"id % {apart} = {number}")
        return chosen.withColumn("price", F.lit(float(number))).toPandas()

    frames = [changed(number) for number in range(1, 6)]
    both = [(seconds(lambda f=f: table.upsert(f)), seconds(lambda f=f: merge(spark, delta, f))) for f in frames]
    ours, theirs = (statistics.median(times) for times in zip(*both, strict=True))
    yield ratio(f"upsert, 1 000 rows into {shown(UPSERTED_INTO)}: Delta MERGE", ours, theirs, 0.5)


def merge(spark: SparkSession, delta: str, frame: pd.DataFrame) -> None:
    """What a user would write by hand."""
    spark.createDataFrame(frame).createOrReplaceTempView("changed")
    spark.sql(
        f"MERGE INTO delta.`{delta}` t USING changed c ON t.id = c.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def fold_fresh(bench: Bench, folder: Path) -> Iterator[Figure]:
    """A fold of 10 M rows that were just written, against writing the same rows to Delta."""
    fresh = bench.fresh
    work = f"fold of {shown(FRESH_ROWS)} fresh rows: writing them to Delta"
    yield ratio(work, fresh.fold_seconds, fresh.delta_seconds, 1.5)


def driver_memory(bench: Bench, folder: Path) -> Iterator[Figure]:
    """How much this process grows while it writes 10 M rows, against 1 M."""
    many, few = (memory.growth / 2**20 for memory in (bench.fresh.memory, bench.fresh.memory_of_tenth))
    work = f"driver's growth, {shown(FRESH_ROWS)} rows written: a tenth of them"
    yield Figure(work, f"{many:.0f} MiB", f"{few:.0f} MiB", many, 64, "MiB")


def ten_keys_of_ten_million(bench: Bench, folder: Path) -> Iterator[Figure]:
    """`get_data` of 10 keys after a fold, against a filtered read of an unsorted Delta table."""
    spark, fresh = bench.spark, bench.fresh
    keys = pd.DataFrame({"id": [number * (FRESH_ROWS // 10 - 17) for number in range(10)]})
    wanted = spark.createDataFrame(keys)

    def theirs() -> None:
        assert len(spark.read.format("delta").load(fresh.delta).join(wanted, "id").collect()) == 10

    def ours() -> None:
        assert len(fresh.table.get_data(keys).collect()) == 10

    for warm_up_too in (ours, theirs) * 2:
        warm_up_too()
    rounds = [(seconds(ours), seconds(theirs)) for _ in range(7)]
    took, plain = (statistics.median(times) for times in zip(*rounds, strict=True))
    yield ratio(f"get_data, 10 keys of {shown(FRESH_ROWS)}: unsorted Delta", took, plain, 0.1)


def append_to_a_long_chain(bench: Bench, folder: Path) -> Iterator[Figure]:
    """Planning and appending one block after 100 000 blocks, against after 10."""
    ds = store(folder, bench.spark)
    few, many = ds.table("few", "n long"), ds.table("many", "n long")
    row = pa.table({"n": [1]})
    few.append(row)
    many.append(row)
    add_watermark_blocks(ds, "few", 10, datetime(2020, 1, 1, tzinfo=UTC), timedelta(seconds=1))
    add_watermark_blocks(ds, "many", MANY_BLOCKS, datetime(2020, 1, 1, tzinfo=UTC), timedelta(seconds=1))
    pairs = [(seconds(lambda: many.append(row)), seconds(lambda: few.append(row))) for _ in range(100)]
    ours, theirs = (statistics.median(times) * 1000 for times in zip(*pairs, strict=True))
    work = f"append after {shown(MANY_BLOCKS)} blocks: after 10"
    yield Figure(work, f"{ours:.1f} ms", f"{theirs:.1f} ms", ours / theirs, 1.2)


def verify_a_thousand_slices(bench: Bench, folder: Path) -> Iterator[Figure]:
    """Verifying 1 000 small slices of which nothing is wrong, against reading and hashing the files."""
    ds = store(folder, bench.spark)
    clicks = ds.table("clicks", "id long, url string, n double")
    for number in range(SLICES):
        ids = range(20 * number, 20 * number + 20)
        urls = [f"/page/{number}/{n}" for n in ids]
        clicks.append(pa.table({"id": pa.array(ids, pa.int64()), "url": urls, "n": [n / 7 for n in ids]}))
    slices = [path for path in (folder / "warehouse" / "clicks" / "data").iterdir() if path.is_file()]

    def theirs() -> None:
        for path in slices:
            data = path.read_bytes()
            hashlib.sha3_256(data).digest()
            pq.read_table(pa.BufferReader(data), use_threads=False)

    def ours() -> None:
        assert ds.verify().ok

    took, plain = best_of((seconds(ours), seconds(theirs)) for _ in range(3))
    yield ratio(f"verify {shown(SLICES)} slices: the files read and hashed", took, plain, 3)


def open_two_hundred_tables(bench: Bench, folder: Path) -> Iterator[Figure]:
    """Opening a store with 200 tables and reading all heads."""
    ds = store(folder, bench.spark)
    for number in range(TABLES):
        ds.table(f"t{number:03d}", "n long, s string", key="n").upsert(pa.table({"n": [number], "s": ["x"]}))

    def ours() -> None:
        opened = sm.DataStore(f"sqlite:///{folder}/control.db", warehouse=folder / "warehouse")
        heads = opened.heads()
        opened.close()
        assert len(heads) == TABLES

    took = median_seconds(ours, 9) * 1000
    yield Figure(f"open {TABLES} tables and read all heads", f"{took:.0f} ms", "", took, 100, "ms")

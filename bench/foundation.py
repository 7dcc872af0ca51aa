"""The foundation: writing, reading by key, planning on long chains, opening a store, and the driver's memory."""

from __future__ import annotations

import hashlib
import shutil
import statistics
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import seamark as sm
from bench.chains import add_watermark_blocks
from bench.measure import Figure, PeakMemory, best_of, chosen, median_seconds, ratio, seconds

COLUMNS = "id long, user_id long, at timestamp, price double, title string"


def people(spark: SparkSession, count: int) -> DataFrame:
    """Made-up rows of five columns, in an order that has nothing to do with their key."""
    ids = spark.range(0, count, 1, 8).select(((F.col("id") * 7919) % count).alias("id"))
    return ids.select(
        "id",
        (F.col("id") % 100_003).alias("user_id"),
        F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id")).alias("at"),
        (F.col("id") * 0.25).alias("price"),
        F.concat(F.lit("title "), F.col("id")).alias("title"),
    )


def store(folder: Path, spark: SparkSession) -> sm.DataStore:
    """An empty store in a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    return sm.DataStore(f"sqlite:///{folder}/control.db", warehouse=folder / "warehouse", spark=spark)


def run(spark: SparkSession, folder: Path, wanted: Sequence[str] = ()) -> Iterator[Figure]:
    """The wanted figures, or all of them, one after another."""
    figures = chosen(FIGURES, wanted)
    if figures:
        warm_up(spark, folder / "warm")
    for figure in figures:
        yield figure(spark, folder / figure.__name__)
        shutil.rmtree(folder / figure.__name__, ignore_errors=True)


def warm_up(spark: SparkSession, folder: Path) -> None:
    """Let Java compile what is measured later."""
    ds = store(folder, spark)
    table = ds.table("rows", COLUMNS, key="id")
    for _ in range(2):
        table.replace(people(spark, 200_000))
        people(spark, 200_000).write.mode("overwrite").parquet(str(folder / "parquet"))
    table.upsert(people(spark, 1_000).withColumn("price", F.lit(1.0)))
    table.fold()
    table.get_data(pd.DataFrame({"id": [1, 2]})).collect()


def replace_five_million(spark: SparkSession, folder: Path) -> Figure:
    """A first `replace`, with both hashes, against Spark's own Parquet writer."""
    frame = people(spark, 5_000_000)
    theirs = median_seconds(lambda: frame.write.mode("overwrite").parquet(str(folder / "parquet")))

    def ours() -> None:
        store(folder / "ours", spark).table("rows", COLUMNS, key="id").replace(frame)

    return ratio("replace, 5 M new rows: Spark's Parquet writer", median_seconds(ours), theirs, 2.5)


def upsert_a_thousand(spark: SparkSession, folder: Path) -> Figure:
    """An `upsert` of 1 000 rows into 1 M, against a Delta MERGE of the same rows."""
    table = store(folder, spark).table("rows", COLUMNS, key="id")
    table.replace(people(spark, 1_000_000))
    table.fold()
    delta = str(folder / "delta")
    people(spark, 1_000_000).write.format("delta").save(delta)

    def changed(round_: int) -> pd.DataFrame:
        chosen = people(spark, 1_000_000).where(f"id % 1000 = {round_}")
        return chosen.withColumn("price", F.lit(float(round_))).toPandas()

    frames = [changed(number) for number in range(1, 8)]
    both = [(seconds(lambda f=f: table.upsert(f)), seconds(lambda f=f: merge(spark, delta, f))) for f in frames]
    ours, theirs = (statistics.median(times) for times in zip(*both, strict=True))
    return ratio("upsert, 1 000 rows into 1 M: Delta MERGE", ours, theirs, 0.5)


def merge(spark: SparkSession, delta: str, frame: pd.DataFrame) -> None:
    """What a user would write by hand."""
    spark.createDataFrame(frame).createOrReplaceTempView("changed")
    spark.sql(
        f"MERGE INTO delta.`{delta}` t USING changed c ON t.id = c.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def ten_keys_of_ten_million(spark: SparkSession, folder: Path) -> Figure:
    """`get_data` of 10 keys after a fold, against a filtered read of an unsorted Delta table."""
    table = store(folder, spark).table("rows", COLUMNS, key="id")
    table.replace(people(spark, 10_000_000))
    table.fold()
    delta = str(folder / "delta")
    people(spark, 10_000_000).write.format("delta").save(delta)
    keys = pd.DataFrame({"id": [number * 999_983 for number in range(10)]})
    wanted = spark.createDataFrame(keys)

    def theirs() -> None:
        spark.read.format("delta").load(delta).join(wanted, "id").collect()

    def ours() -> None:
        table.get_data(keys).collect()

    for warm_up_too in (ours, theirs) * 3:
        warm_up_too()
    return ratio("get_data, 10 keys of 10 M: unsorted Delta", median_seconds(ours, 9), median_seconds(theirs, 9), 0.3)


def append_to_a_long_chain(spark: SparkSession, folder: Path) -> Figure:
    """Planning and appending one block after 100 000 blocks, against after 10."""
    ds = store(folder, spark)
    few, many = ds.table("few", "n long"), ds.table("many", "n long")
    row = pa.table({"n": [1]})
    few.append(row)
    many.append(row)
    add_watermark_blocks(ds, "few", 10, datetime(2020, 1, 1, tzinfo=UTC), timedelta(seconds=1))
    add_watermark_blocks(ds, "many", 100_000, datetime(2020, 1, 1, tzinfo=UTC), timedelta(seconds=1))
    pairs = [(seconds(lambda: many.append(row)), seconds(lambda: few.append(row))) for _ in range(200)]
    ours, theirs = (statistics.median(times) * 1000 for times in zip(*pairs, strict=True))
    return Figure("append after 100 000 blocks: after 10", f"{ours:.1f} ms", f"{theirs:.1f} ms", ours / theirs, 1.2)


def verify_a_thousand_slices(spark: SparkSession, folder: Path) -> Figure:
    """Verifying 1 000 small slices of which nothing is wrong, against reading and hashing the files."""
    ds = store(folder, spark)
    clicks = ds.table("clicks", "id long, url string, n double")
    for number in range(1_000):
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

    took, plain = best_of((seconds(ours), seconds(theirs)) for _ in range(5))
    return ratio("verify 1 000 slices", took, plain, 3)


def open_two_hundred_tables(spark: SparkSession, folder: Path) -> Figure:
    """Opening a store with 200 tables and reading all heads."""
    ds = store(folder, spark)
    for number in range(200):
        ds.table(f"t{number:03d}", "n long, s string", key="n").upsert(pa.table({"n": [number], "s": ["x"]}))

    def ours() -> None:
        opened = sm.DataStore(f"sqlite:///{folder}/control.db", warehouse=folder / "warehouse")
        heads = opened.heads()
        opened.close()
        assert len(heads) == 200

    took = median_seconds(ours, 9) * 1000
    return Figure("open 200 tables and read all heads", f"{took:.0f} ms", "", took, 100, "ms")


def driver_memory(spark: SparkSession, folder: Path) -> Figure:
    """How much this process grows while it writes 20 M rows, against 2 M."""
    small, large = store(folder / "small", spark), store(folder / "large", spark)
    with PeakMemory() as few:
        small.table("rows", COLUMNS, key="id").replace(people(spark, 2_000_000))
    with PeakMemory() as many:
        large.table("rows", COLUMNS, key="id").replace(people(spark, 20_000_000))
    megabytes = many.growth / 2**20
    return Figure(
        "driver's growth, 20 M rows written",
        f"{megabytes:.0f} MiB",
        f"{few.growth / 2**20:.0f} MiB",
        megabytes,
        64,
        "MiB",
    )


FIGURES = (
    replace_five_million,
    upsert_a_thousand,
    ten_keys_of_ten_million,
    append_to_a_long_chain,
    verify_a_thousand_slices,
    open_two_hundred_tables,
    driver_memory,
)

"""Sinks: carrying a log to ClickHouse inside the process, against ClickHouse's own reading of the same files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import chdb.session
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import seamark as sm
from bench.measure import Figure, best_of, scaled, seconds
from bench.people import store
from bench.stores import Bench

RECORDS = scaled(4_000_000)
ROUNDS = 3

LOG = "VisitID long, Sign tinyint, Version long, title string, revenue double, start_time timestamp"
COLUMNS = "VisitID, Sign, Version, title, revenue, start_time"
PLAIN = """
    CREATE TABLE visits (VisitID Int64, Sign Int8, Version Int64, title Nullable(String), revenue Nullable(Float64),
        start_time Nullable(DateTime64(6, 'UTC')))
    ENGINE = VersionedCollapsingMergeTree(Sign, Version) ORDER BY VisitID
"""


def embedded_sink(bench: Bench, folder: Path) -> Iterator[Figure]:
    """4 M records of a diff's log against one INSERT … SELECT FROM file() of all the slices.

    As one would write it; and with the one setting that spares the sink some work: rows are not merged on insert.
    """
    ds = store(folder, bench.spark)
    log = ds.table("visits_log", LOG)
    log.append(records(bench.spark))
    slices = ds.control.index.slices("visits_log", after=None, upto=None)
    names = ",".join(str(entry.slice_hash) for entry in slices)
    files = f"{ds.warehouse.absolute()}/visits_log/data/{{{names}}}"
    unmerged = " SETTINGS optimize_on_insert = 0"
    ours, plain, alike = best_of(
        (sent(ds, folder, n), read_plainly(folder, files, n), read_plainly(folder, files, n, unmerged))
        for n in range(ROUNDS)
    )
    work = f"sink to embedded ClickHouse, {RECORDS / 1e6:g} M records in {len(slices)} blocks"
    for against, theirs in (("INSERT … SELECT FROM file()", plain), ("the same unmerged", alike)):
        rates = [f"{RECORDS / each / 1e6:.2f} M/s" for each in (ours, theirs)]
        yield Figure(f"{work}: {against}", *rates, theirs / ours, 0.7, bound="≥")


def records(spark: SparkSession) -> object:
    """A log with an even number of signs, one after another."""
    number = F.col("id")
    return spark.range(RECORDS).select(
        (number * 7919 % RECORDS).alias("VisitID"),
        F.when(number % 2 == 0, 1).otherwise(-1).cast("tinyint").alias("Sign"),
        (number % 1000 + 1).alias("Version"),
        F.concat(F.lit("page "), (number % 10_000).cast("string")).alias("title"),
        (number / 7).alias("revenue"),
        F.timestamp_micros(number * 1_000_003 + 1_700_000_000_000_000).alias("start_time"),
    )


def sent(ds: sm.DataStore, folder: Path, number: int) -> float:
    """A new sink to a new folder: everything it does, from opening the engine to the last position."""
    target = sm.ClickHouseSink(f"chdb:///{folder.absolute() / f'ours_{number}'}", "visits", collapse_by="VisitID")
    sink = ds.sink("visits_log", target, name=f"round {number}")
    took = seconds(sink.run)
    assert sink.pending() == [], "everything was sent"
    shutil.rmtree(folder / f"ours_{number}")
    return took


def read_plainly(folder: Path, files: str, number: int, settings: str = "") -> float:
    """One statement over all files, as one would write it by hand: only the statement is timed."""
    place = folder.absolute() / f"theirs_{number}"
    session = chdb.session.Session(str(place))
    session.query(PLAIN)
    statement = f"INSERT INTO visits ({COLUMNS}){settings} SELECT {COLUMNS} FROM file('{files}', Parquet)"
    took = seconds(lambda: session.query(statement))
    count = int(str(session.query("SELECT count() FROM visits")))
    session.close()
    shutil.rmtree(place)
    assert count == RECORDS, "the engine took all the files"
    return took

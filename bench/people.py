"""What tables are measured on: an empty store, and made-up rows of five columns."""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import seamark as sm

COLUMNS = "id long, user_id long, at timestamp, price double, title string"


def store(folder: Path, spark: SparkSession) -> sm.DataStore:
    """An empty store in a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    return sm.DataStore(f"sqlite:///{folder}/control.db", warehouse=folder / "warehouse", spark=spark)


def people(spark: SparkSession, count: int) -> DataFrame:
    """Made-up rows, in an order that has nothing to do with their key."""
    ids = spark.range(0, count, 1, 8).select(((F.col("id") * 7919) % count).alias("id"))
    return ids.select(
        "id",
        (F.col("id") % 100_003).alias("user_id"),
        F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id")).alias("at"),
        (F.col("id") * 0.25).alias("price"),
        F.concat(F.lit("title "), F.col("id")).alias("title"),
    )

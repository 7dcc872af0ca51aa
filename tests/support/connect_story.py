"""A table's whole life through Spark Connect; run as a program, because a process has one kind of session only."""

import sys
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession

import seamark as sm
from seamark.errors import BadValue, DuplicateKey
from seamark.spark import DELTA_COORDINATES, delta_jars

COLUMNS = "id long, v string, n tinyint"


def main(folder: Path) -> None:
    spark = connect()
    ds = sm.DataStore(f"sqlite:///{folder}/control.db", folder / "warehouse", spark=spark, block_rows=40_000)
    table = ds.table("rows", COLUMNS, key="id")

    table.replace(spark.range(100_000).selectExpr("id", "concat('v', id) AS v", "cast(1 AS tinyint) AS n"))
    table.upsert(pd.DataFrame({"id": [1, -1], "v": ["a", "b"], "n": [1, 2]}))
    table.upsert(spark.range(60_000).selectExpr("id", "'y' AS v", "cast(3 AS tinyint) AS n"))
    assert table.fold().folded
    table.upsert(pd.DataFrame({"id": [1, -2], "v": ["z", "b"], "n": [1, 2]}))
    table.delete(spark.range(10, 20))
    assert table.fold().folded

    assert table.rows().count() == 99_992
    assert sorted(row.v for row in table.get_data(pd.DataFrame({"id": [1, -2, 10]})).collect()) == ["b", "z"]
    assert table.rows(as_of=99_999).where("v = concat('v', id)").count() == 100_000
    for wrong, query in (
        (DuplicateKey, "SELECT 1L id, 'a' v, 1Y n FROM range(2)"),
        (BadValue, "SELECT 1L id, 'a' v, 1000 n"),
    ):
        try:
            table.upsert(spark.sql(query))
        except wrong:
            continue
        raise AssertionError(f"{query} should be refused")
    assert ds.verify().ok
    print("told")


def connect() -> SparkSession:
    jars = delta_jars()
    assert jars is not None, DELTA_COORDINATES
    builder = SparkSession.builder.remote("local[2]").config("spark.jars", ",".join(str(path) for path in jars.paths))
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    builder = builder.config("spark.databricks.delta.snapshotPartitions", "1")
    return builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

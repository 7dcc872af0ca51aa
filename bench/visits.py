"""What diffs are measured on: a store whose diff has many visits, and news of them in four logs."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.blog import ran
from bench.measure import scaled
from bench.people import store

CHUNKS = scaled(1_000_000, 100_000)  # of all logs together: more than what is read on the driver, also when scaled
SIDE_LOGS = ("conversions", "costs", "calls")


class Visits:
    """A store with a diff whose state holds so many visits, folded."""

    def __init__(self, spark: SparkSession, folder: Path, count: int) -> None:
        self.spark = spark
        self.count = count
        self.rounds = 0
        self.times: list[float] = []  # what runs over new chunks took
        self.ds = store(folder, spark)
        self.logs = [self.ds.table("visits_log", "VisitID long, F int, title string, pages int")]
        self.logs += [self.ds.table(f"{name}_log", f"VisitID long, F int, {name} long") for name in SIDE_LOGS]
        rules = dict.fromkeys(SIDE_LOGS, "sum")
        self.diff = self.ds.diff("visits", "VisitID", "F", 1000, self.logs, rules)
        self.logs[0].append(visits(spark, F.expr("1"), 0, count))
        ran(self.ds, "visits")
        self.ds.fold()

    def chunks(self) -> list[DataFrame]:
        """News for each log, a quarter of the chunks each, spread over all visits, others each time."""
        self.rounds += 1
        share = CHUNKS // len(self.logs)
        step = self.count // share
        place = F.col("id") * step + self.rounds
        found = [visits(self.spark, F.expr("id % 2 + 1"), 0, share, place)]
        for name in SIDE_LOGS:
            rows = self.spark.range(0, share, 1, 2).select(
                place.alias("VisitID"), F.lit(1).cast("int").alias("F"), (F.col("id") % 100).alias(name)
            )
            found.append(rows)
        return found

    def feed(self) -> None:
        """Append news to every log."""
        for log, rows in zip(self.logs, self.chunks(), strict=True):
            log.append(rows)

    def plain_joins(self, target: Path) -> None:
        """What the same would be at the least by hand: the chunks of each log joined with the state, and written."""
        state = self.spark.read.format("delta").load(str(self.ds.warehouse / "visits_state" / "rows"))
        state = state.select(*[F.col(name).alias(f"old_{name}") for name in self.diff.state.schema.names])
        for log in self.logs:
            data = self.ds.warehouse / log.name / "data"
            newest = log.head.offset
            blocks = self.ds.control.index.slices(log.name, after=newest - CHUNKS // len(self.logs), upto=newest)
            chunks = self.spark.read.parquet(*[str(data / block.slice_hash) for block in blocks])
            joined = chunks.join(state, chunks.VisitID == state.old_VisitID, "left")
            joined.write.mode("overwrite").parquet(str(target / log.name))


def visits(spark: SparkSession, version: Column, first: int, count: int, place: Column | None = None) -> DataFrame:
    """Chunks of joined visits."""
    return spark.range(first, first + count, 1, 2).select(
        (F.col("id") if place is None else place).alias("VisitID"),
        version.cast("int").alias("F"),
        F.concat(F.lit("title "), F.col("id") % 1000).alias("title"),
        (F.col("id") % 30).cast("int").alias("pages"),
    )

"""Diffs: a million new chunks over a large state, and how that grows with the state."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.blog import ran
from bench.foundation import store
from bench.measure import Figure, best_of, chosen, ratio, seconds
from bench.transforms import scaled

CHUNKS = scaled(1_000_000, 100_000)  # of all logs together: more than what is read on the driver, also when scaled
MANY_VISITS = scaled(20_000_000, 400_000)
FEW_VISITS = scaled(2_000_000, 200_000)
SIDE_LOGS = ("conversions", "costs", "calls")
ROUNDS = 2


class Visits:
    """A store with a diff whose state holds so many visits, folded."""

    def __init__(self, spark: SparkSession, folder: Path, count: int) -> None:
        self.spark = spark
        self.count = count
        self.rounds = 0
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


class Bench:
    """The stores that the figures share, each made when it is first asked for."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.large_times: list[float] = []  # what runs over the large state took, once they were measured

    @cached_property
    def many(self) -> Visits:
        """A state of 20 M visits."""
        return Visits(self.spark, self.folder / "many", MANY_VISITS)

    @cached_property
    def few(self) -> Visits:
        """A state of 2 M visits."""
        return Visits(self.spark, self.folder / "few", FEW_VISITS)


def run(spark: SparkSession, folder: Path, wanted: Sequence[str] = ()) -> Iterator[Figure]:
    """The wanted figures, or all of them, one after another."""
    bench = Bench(spark, folder / "diffs")
    for figure in chosen(FIGURES, wanted):
        yield from figure(bench)
    shutil.rmtree(bench.folder, ignore_errors=True)


def taken(store_of: Visits) -> float:
    """How long a run takes over a million new chunks."""
    store_of.feed()
    time = seconds(lambda: ran(store_of.ds, "visits"))
    store_of.ds.fold("visits_state")
    return time


def new_chunks(bench: Bench) -> Iterator[Figure]:
    """A run over new chunks, against plain joins of the same chunks with the same state."""
    store_of, target = bench.many, bench.folder / "plain"

    def one_round() -> tuple[float, float]:
        ours = taken(store_of)
        return ours, seconds(lambda: store_of.plain_joins(target))

    rounds = [one_round() for _ in range(ROUNDS)]
    bench.large_times += [ours for ours, _ in rounds]
    ours, theirs = best_of(rounds)
    yield ratio(
        f"diff: {CHUNKS:,} chunks of 4 logs over {MANY_VISITS:,} visits, against plain joins", ours, theirs, 1.5
    )


def growth_of_state(bench: Bench) -> Iterator[Figure]:
    """The same chunks over a state that is ten times as large."""
    small = min(taken(bench.few) for _ in range(ROUNDS))
    large = min(bench.large_times or [taken(bench.many) for _ in range(ROUNDS)])
    yield ratio(f"diff: the same over {MANY_VISITS:,} against {FEW_VISITS:,} visits", large, small, 3.0)


FIGURES: list[Callable[[Bench], Iterator[Figure]]] = [new_chunks, growth_of_state]

"""The Spark session and the stores that figures share: each is made when a figure first asks for it, and only once."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import seamark as sm
from bench.baselines import HandWrittenFeed, round_of_changed_posts
from bench.blog import Blog
from bench.measure import PeakMemory, scaled, seconds
from bench.people import COLUMNS, people, store
from bench.shop import Shop
from bench.visits import Visits

FRESH_ROWS = scaled(10_000_000)
MANY_POSTS = scaled(10_000_000)
FEW_POSTS = scaled(100_000)
USERS = scaled(1_000_000)
MANY_ORDERS = scaled(10_000_000)
FEW_ORDERS = scaled(1_000_000, 5_000)
MANY_VISITS = scaled(20_000_000, 400_000)
FEW_VISITS = scaled(2_000_000, 200_000)


class Bench:
    """What figures share. `made` has the seconds that each shared thing took: no figure is charged for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: dict[str, float] = {}

    @cached_property
    def spark(self) -> SparkSession:
        """The session that everything is measured in."""
        with self._making("the Spark session"):
            return sm.spark_session()

    @cached_property
    def warm_tables(self) -> SparkSession:
        """The session, once Java has compiled what tables need, ours and Delta's."""
        spark = self.spark
        with self._making("warming up tables"):
            warm_up_tables(spark, self.folder / "warm")
        return spark

    @cached_property
    def warm_steps(self) -> SparkSession:
        """The session, once Java has compiled what steps need, ours and those written by hand."""
        spark = self.spark
        with self._making("warming up steps"):
            warm_up_steps(spark, self.folder / "warm")
        return spark

    @cached_property
    def fresh(self) -> Fresh:
        """10 M rows of five columns: just written, folded, and as a Delta table."""
        spark = self.warm_tables
        with self._making("10 M rows"):
            return Fresh(spark, self.folder / "fresh", FRESH_ROWS)

    @cached_property
    def large(self) -> Blog:
        """10 M posts of 1 M users, and the feed."""
        spark = self.warm_steps
        with self._making("10 M posts and their feed"):
            return Blog(spark, self.folder / "large", MANY_POSTS, USERS)

    @cached_property
    def small(self) -> Blog:
        """100 k posts, with as many profiles."""
        spark = self.warm_steps
        with self._making("100 k posts and their feed"):
            return Blog(spark, self.folder / "small", FEW_POSTS, USERS)

    @cached_property
    def shop(self) -> Shop:
        """10 M orders of 1 M customers in 100 000 regions, with extensions and payments."""
        spark = self.warm_steps
        with self._making("10 M orders and what belongs to them"):
            return Shop(spark, self.folder / "shop", MANY_ORDERS)

    @cached_property
    def small_shop(self) -> Shop:
        """1 M orders, with as many to a customer and to a region."""
        spark = self.warm_steps
        with self._making("1 M orders and what belongs to them"):
            return Shop(spark, self.folder / "small_shop", FEW_ORDERS)

    @cached_property
    def plain_feed_seconds(self) -> float:
        """How long plain Spark takes to write the feed of the large store to Delta."""
        large = self.large
        with self._making("that feed by plain Spark"):
            return min(seconds(lambda: large.plain_feed(self.folder / "plain_feed")) for _ in range(2))

    @cached_property
    def many_visits(self) -> Visits:
        """A diff's state of 20 M visits."""
        with self._making("20 M visits"):
            return Visits(self.spark, self.folder / "many_visits", MANY_VISITS)

    @cached_property
    def few_visits(self) -> Visits:
        """A diff's state of 2 M visits."""
        with self._making("2 M visits"):
            return Visits(self.spark, self.folder / "few_visits", FEW_VISITS)

    @contextmanager
    def _making(self, what: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.made[what] = time.perf_counter() - begun


class Fresh:
    """A table written at once and folded, and the same rows as a Delta table; with how long each took."""

    def __init__(self, spark: SparkSession, folder: Path, rows: int) -> None:
        few = store(folder / "few", spark).table("rows", COLUMNS, key="id")
        self.table = store(folder / "many", spark).table("rows", COLUMNS, key="id")
        self.delta = str(folder / "delta")
        with PeakMemory() as self.memory_of_tenth:
            few.replace(people(spark, rows // 10))
        with PeakMemory() as self.memory:
            self.table.replace(people(spark, rows))
        shutil.rmtree(folder / "few", ignore_errors=True)
        self.delta_seconds = seconds(lambda: people(spark, rows).write.format("delta").save(self.delta))
        self.fold_seconds = seconds(self.table.fold)


def warm_up_tables(spark: SparkSession, folder: Path) -> None:
    """Let Java compile what is measured later."""
    table = store(folder, spark).table("rows", COLUMNS, key="id")
    frame = people(spark, 200_000)
    for _ in range(2):
        table.replace(frame)
        frame.write.mode("overwrite").parquet(str(folder / "parquet"))
        frame.write.mode("overwrite").format("delta").save(str(folder / "delta"))
    table.upsert(people(spark, 1_000).withColumn("price", F.lit(1.0)))
    table.fold()
    table.get_data(pd.DataFrame({"id": [1, 2]})).collect()
    shutil.rmtree(folder, ignore_errors=True)


def warm_up_steps(spark: SparkSession, folder: Path) -> None:
    """The same for steps."""
    ours = Blog(spark, folder / "ours", 100_000, 10_000)
    theirs = HandWrittenFeed(spark, folder / "theirs")
    theirs.build(ours.posts_frame, ours.profiles_frame)
    for _ in range(3):
        round_of_changed_posts(ours, theirs)
    ours.plain_feed(folder / "plain")
    shutil.rmtree(folder, ignore_errors=True)

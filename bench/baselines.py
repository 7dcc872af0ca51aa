"""What a user would write without Seamark: the feed kept up to date by hand, and a plain Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.blog import Blog, lines, loud
from bench.measure import seconds

CHANGED_POSTS = 1_000


class HandWritten:
    """Delta tables with change data feeds, and a table that is kept up to date with them by hand.

    Written for few changes, as Seamark's own case is: what changed is collected, and sent to every join as a broadcast.
    Deletion vectors save a MERGE from writing whole files again for a few rows.
    """

    def __init__(self, spark: SparkSession, folder: Path, tables: Sequence[str], deletion_vectors: bool = True) -> None:
        self.spark = spark
        self.folder = folder
        self.deletion_vectors = deletion_vectors
        self.read_upto = dict.fromkeys(tables, 0)

    def upsert(self, name: str, key: str, changed: DataFrame) -> None:
        """Change an input."""
        merge = self._table(name).alias("t").merge(F.broadcast(changed).alias("c"), f"t.{key} = c.{key}")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def run(self) -> None:
        """Bring the table up to date with its inputs."""
        upto = {name: self._version(name) for name in self.read_upto}
        keys = self._changed_keys(upto)
        if keys is not None:
            self._merge(self._computed(keys))
        self.read_upto = upto

    def _changed_keys(self, upto: dict[str, int]) -> DataFrame | None:
        """The keys that changes of the inputs lead to; None if nothing changed."""
        raise NotImplementedError

    def _computed(self, keys: DataFrame) -> DataFrame:
        """The rows of these keys; a key without one has `there` not set."""
        raise NotImplementedError

    def _merge(self, computed: DataFrame) -> None:
        """Write the rows that differ."""
        raise NotImplementedError

    def _in_memory(self, frame: DataFrame) -> DataFrame:
        """A small frame, computed once and held by the driver."""
        return self.spark.createDataFrame(frame.toArrow())

    def _changes(self, name: str, upto: dict[str, int]) -> DataFrame:
        reader = self.spark.read.format("delta").option("readChangeFeed", "true")
        reader = reader.option("startingVersion", self.read_upto[name] + 1).option("endingVersion", upto[name])
        return reader.load(str(self.folder / name))

    def _version(self, name: str) -> int:
        return self._table(name).history(1).select("version").collect()[0].version

    def _table(self, name: str) -> DeltaTable:
        return DeltaTable.forPath(self.spark, str(self.folder / name))

    def _rows(self, name: str) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.folder / name))

    def _save(self, frame: DataFrame, name: str) -> None:
        writer = frame.write.format("delta").option("delta.enableChangeDataFeed", "true")
        writer = writer.option("delta.enableDeletionVectors", str(self.deletion_vectors).lower())
        writer.save(str(self.folder / name))


class HandWrittenFeed(HandWritten):
    """Posts, profiles and feed."""

    def __init__(self, spark: SparkSession, folder: Path, deletion_vectors: bool = True) -> None:
        super().__init__(spark, folder, ["posts", "profiles"], deletion_vectors)

    def build(self, posts: DataFrame, profiles: DataFrame) -> None:
        """Write all three tables, sorted by key."""
        self._save(posts, "posts")
        self._save(profiles, "profiles")
        self._save(lines(self._rows("posts"), self._rows("profiles")).sort("post_id"), "feed")

    def rows(self, keys: DataFrame) -> DataFrame:
        """The feed's rows of these keys."""
        return self._rows("feed").join(F.broadcast(keys), "post_id", "left_semi")

    def _changed_keys(self, upto: dict[str, int]) -> DataFrame | None:
        """The keys of posts that changed, and of all posts of profiles that changed."""
        changed = []
        if upto["posts"] > self.read_upto["posts"]:
            changed.append(self._changes("posts", upto).select("post_id"))
        if upto["profiles"] > self.read_upto["profiles"]:
            users = self._changes("profiles", upto).select(F.col("id").alias("user_id")).distinct()
            changed.append(self._rows("posts").join(F.broadcast(users), "user_id", "left_semi").select("post_id"))
        if not changed:
            return None
        return self._in_memory((changed[0] if len(changed) == 1 else changed[0].union(changed[1])).distinct())

    def _computed(self, keys: DataFrame) -> DataFrame:
        posts = self._in_memory(self._rows("posts").join(F.broadcast(keys), "post_id", "left_semi"))
        users = posts.select(F.col("user_id").alias("id")).distinct()
        profiles = self._rows("profiles").join(F.broadcast(users), "id", "left_semi")
        computed = lines(posts, F.broadcast(profiles)).withColumn("there", F.lit(True))
        return self._in_memory(keys.join(F.broadcast(computed), "post_id", "left"))

    def _merge(self, computed: DataFrame) -> None:
        merge = self._table("feed").alias("t").merge(F.broadcast(computed).alias("c"), "t.post_id = c.post_id")
        merge = merge.whenMatchedDelete("c.there IS NULL")
        merge = merge.whenMatchedUpdate("NOT (t.line <=> c.line)", {"line": "c.line"})
        merge.whenNotMatchedInsert("c.there", {"post_id": "c.post_id", "line": "c.line"}).execute()


class HandWrittenOrders(HandWritten):
    """Orders with all that belongs to them, and the view over these five tables."""

    def __init__(self, spark: SparkSession, folder: Path, tables: Mapping[str, DataFrame], select: str) -> None:
        super().__init__(spark, folder, list(tables))
        self.select = select
        for name, frame in tables.items():
            self._save(frame, name)
        self._save(self._selected({name: self._rows(name) for name in tables}).sort("id"), "order_v")

    def rows(self) -> DataFrame:
        """The view's rows."""
        return self._rows("order_v")

    def _selected(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(f"by_hand_{name}")
        text = self.select
        for name in frames:
            text = text.replace(f" {name} ", f" by_hand_{name} ")
        return self.spark.sql(text)

    def _changed_keys(self, upto: dict[str, int]) -> DataFrame | None:
        """The orders that changed, and those that changed rows of the other tables belong to."""
        moved = {name: self._changes(name, upto) for name, since in self.read_upto.items() if upto[name] > since}
        customers = [moved["customer"].select("id")] if "customer" in moved else []
        if "region" in moved:
            regions = moved["region"].select(F.col("id").alias("region_id")).distinct()
            customers.append(self._rows("customer").join(F.broadcast(regions), "region_id", "left_semi").select("id"))
        keys = [moved["orders"].select("id")] if "orders" in moved else []
        keys += [moved["order_ext"].selectExpr("order_id AS id")] if "order_ext" in moved else []
        keys += [moved["payment"].selectExpr("pay_id AS id")] if "payment" in moved else []
        if customers:
            changed = self._in_memory(reduce(DataFrame.union, customers).distinct()).withColumnRenamed(
                "id", "customer_id"
            )
            keys.append(self._rows("orders").join(F.broadcast(changed), "customer_id", "left_semi").select("id"))
        return self._in_memory(reduce(DataFrame.union, keys).distinct()) if keys else None

    def _computed(self, keys: DataFrame) -> DataFrame:
        orders = self._in_memory(self._rows("orders").join(F.broadcast(keys), "id", "left_semi"))
        customers = self._few("customer", "id", orders.select(F.col("customer_id").alias("id")))
        frames = {
            "orders": orders,
            "customer": customers,
            "region": self._few("region", "id", customers.select(F.col("region_id").alias("id"))),
            "order_ext": self._few("order_ext", "order_id", keys.select(F.col("id").alias("order_id"))),
            "payment": self._few("payment", "pay_id", keys.select(F.col("id").alias("pay_id"))),
        }
        there = self._selected(frames).withColumn("there", F.lit(True))
        return self._in_memory(keys.join(F.broadcast(there), "id", "left"))

    def _few(self, name: str, key: str, wanted: DataFrame) -> DataFrame:
        return self._in_memory(self._rows(name).join(F.broadcast(wanted.distinct()), key, "left_semi"))

    def _merge(self, computed: DataFrame) -> None:
        columns = [name for name in self._rows("order_v").columns if name != "id"]
        differs = " OR ".join(f"NOT (t.{name} <=> c.{name})" for name in columns)
        values = {name: f"c.{name}" for name in columns}
        merge = self._table("order_v").alias("t").merge(F.broadcast(computed).alias("c"), "t.id = c.id")
        merge = merge.whenMatchedDelete("c.there IS NULL").whenMatchedUpdate(differs, values)
        merge.whenNotMatchedInsert("c.there", {"id": "c.id", **values}).execute()


def plain_map(spark: SparkSession, parquet: Path, delta: Path) -> None:
    """Read Parquet, compute, write Delta: no keys, no history, no hashes."""
    loud(spark.read.parquet(str(parquet))).write.format("delta").mode("overwrite").save(str(delta))


def round_of_changed_posts(ours: Blog, theirs: HandWrittenFeed) -> tuple[float, float]:
    """The same posts changed in both, and how long each takes to follow; both must come to the same rows."""
    changed = ours.edit_posts(CHANGED_POSTS)
    frame = ours.spark.createDataFrame(changed)
    theirs.upsert("posts", "post_id", frame)
    times = seconds(ours.run), seconds(theirs.run)
    keys = changed.select(["post_id"])
    mine, other = ours.feed.get_data(keys), theirs.rows(ours.spark.createDataFrame(keys))
    if sorted(mine.collect()) != sorted(other.select(*mine.columns).collect()):
        raise RuntimeError("Seamark and the pipeline written by hand differ in what they made.")
    return times

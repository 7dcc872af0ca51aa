"""What a user would write without Seamark: the feed kept up to date by hand, and a plain Spark job."""

from __future__ import annotations

from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.blog import Blog, lines, loud
from bench.measure import seconds

CHANGED_POSTS = 1_000


class HandWrittenFeed:
    """Posts, profiles and feed as Delta tables: a run reads the change data feeds and merges what they touch.

    Written for few changes, as Seamark's own case is: what changed is collected, and sent to every join as a broadcast.
    Deletion vectors save a MERGE from writing whole files again for a few rows.
    """

    def __init__(self, spark: SparkSession, folder: Path, deletion_vectors: bool = True) -> None:
        self.spark = spark
        self.folder = folder
        self.deletion_vectors = deletion_vectors
        self.read_upto = {"posts": 0, "profiles": 0}

    def build(self, posts: DataFrame, profiles: DataFrame) -> None:
        """Write all three tables, sorted by key."""
        self._save(posts, "posts")
        self._save(profiles, "profiles")
        self._save(lines(self._rows("posts"), self._rows("profiles")).sort("post_id"), "feed")

    def upsert(self, name: str, key: str, changed: DataFrame) -> None:
        """Change an input."""
        merge = self._table(name).alias("t").merge(F.broadcast(changed).alias("c"), f"t.{key} = c.{key}")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def run(self) -> None:
        """Bring the feed up to date with both inputs."""
        upto = {name: self._version(name) for name in self.read_upto}
        keys = self._changed_keys(upto)
        if keys is not None:
            self._merge(self._computed(keys))
        self.read_upto = upto

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
        """The lines of these keys; a key whose post is gone has `there` not set."""
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

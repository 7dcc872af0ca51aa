"""What transforms are measured on: posts, the profiles of their users, and the feed made from both."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import seamark as sm
from bench.measure import seconds
from bench.people import store

POSTS = "post_id long, user_id long, content string"
PROFILES = "id long, name string"
FEED = "post_id long, line string"

BUSY_USER = 0
BUSY_USERS_POSTS = 1_000


class Blog:
    """A store with posts, profiles and the step that makes the feed, run once and folded; both are timed."""

    def __init__(self, spark: SparkSession, folder: Path, posts_count: int, users: int) -> None:
        self.spark = spark
        self.folder = folder
        self.posts_count = posts_count
        self.posts_frame, self.profiles_frame = posts(spark, posts_count, users), profiles(spark, users)
        self.editions = 0
        self.ds = store(folder, spark)
        self.posts = self.ds.table("posts", POSTS, key="post_id")
        self.feed = self.ds.table("feed", FEED, key="post_id")
        self._build()

    def _build(self) -> None:
        references = self.ds.table("profiles", PROFILES, key="id")
        self.posts.replace(self.posts_frame)
        references.replace(self.profiles_frame)
        self.ds.fold()
        inputs = [self.posts, sm.JoinSpec(references, join_keys={"user_id": "id"})]
        self.ds.add(sm.BatchTransform(lines, inputs=inputs, outputs=[self.feed], name="process_posts"))
        self.profiles = references
        self.first_run_seconds = seconds(self.run)
        self.fold_seconds = seconds(self.feed.fold)

    def plain_feed(self, delta: Path) -> None:
        """All of the feed as plain Spark makes it: no keys, no history, no hashes."""
        made = lines(self.posts.rows(), self.profiles.rows())
        made.write.format("delta").mode("overwrite").save(str(delta))

    def run(self) -> sm.StepReport:
        """Bring the feed up to date."""
        return ran(self.ds, "process_posts").steps["process_posts"]

    def edit_posts(self, count: int) -> pa.Table:
        """Change so many posts, spread over the whole table, others each time; the new rows."""
        self.editions += 1
        apart = self.posts_count // count
        changed = edited(self.posts_frame, f"post_id % {apart} = {self.editions % apart}", self.editions)
        rows = changed.toArrow()
        self.posts.upsert(rows)
        return rows

    def opened_again(self) -> sm.DataStore:
        """The same store as another program sees it: without the step."""
        return sm.DataStore(
            f"sqlite:///{self.folder}/control.db", warehouse=self.folder / "warehouse", spark=self.spark
        )


def ran(ds: sm.DataStore, *steps: str) -> sm.RunReport:
    """Run these steps, or all: what cannot be measured because it failed is reported."""
    report = ds.run(*steps)
    if not report.ok:
        told = {name: step.error or f"{step.failed} failed keys" for name, step in report.steps.items()}
        raise RuntimeError(f"the run failed: {told}")
    return report


# --- made-up rows -----------------------------------------------------------------------------------------------------


def posts(spark: SparkSession, count: int, users: int) -> DataFrame:
    """The first 1 000 posts are the busy user's, the others are spread evenly over the other users."""
    others = 1 + F.col("id") % (users - 1)
    return _posts(spark, count, F.when(F.col("id") < BUSY_USERS_POSTS, F.lit(BUSY_USER)).otherwise(others))


def posts_of_few(spark: SparkSession, count: int, users: int) -> DataFrame:
    """Each of the users that have posts has ten, and these users are spread over all."""
    writers = count // 10
    return _posts(spark, count, F.col("id") % writers * (users // writers))


def of_ten_users(count: int, number: int) -> str:
    """A condition for all posts of ten users, of the posts of few; other ones for each number."""
    writers = count // 10
    return f"post_id % {writers} % {writers // 10} = {number}"


def _posts(spark: SparkSession, count: int, user: Column) -> DataFrame:
    content = F.concat(F.lit("post number "), F.col("id")).alias("content")
    ids = spark.range(0, count, 1, 8)
    return ids.select(F.col("id").alias("post_id"), user.cast("long").alias("user_id"), content)


def profiles(spark: SparkSession, count: int) -> DataFrame:
    """As many users, by number."""
    return spark.range(0, count, 1, 8).select("id", F.concat(F.lit("user "), F.col("id")).alias("name"))


def edited(frame: DataFrame, condition: str, edition: int) -> DataFrame:
    """Some posts with other content."""
    return frame.where(condition).withColumn("content", F.concat("content", F.lit(f", edition {edition}")))


# --- what the steps compute -------------------------------------------------------------------------------------------


def lines(posts: DataFrame, profiles: DataFrame) -> DataFrame:
    """The feed: each post with its user's name before it."""
    joined = posts.join(profiles, posts.user_id == profiles.id, "left")
    return joined.selectExpr("post_id", "concat(name, ': ', content) AS line")


def loud(posts: DataFrame) -> DataFrame:
    """A simple map: the content in capitals."""
    return posts.selectExpr("post_id", "upper(content) AS content")


def counted(posts: DataFrame) -> DataFrame:
    """One row for all posts."""
    return posts.agg(F.count("*").alias("posts")).selectExpr("'all' AS what", "posts")

"""Steps: a first run, few changes to large tables, references, failing keys, and a run with nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import seamark as sm
from bench import blog
from bench.baselines import CHANGED_POSTS, HandWrittenFeed, plain_map, round_of_changed_posts
from bench.blog import BUSY_USER, BUSY_USERS_POSTS, Blog, ran
from bench.datapipe_rate import DATAPIPE, datapipe_rate
from bench.jobs import JobCounter
from bench.measure import Figure, best_of, rate, ratio, scaled, seconds, shown
from bench.people import store
from bench.stores import FEW_POSTS, MANY_POSTS, USERS, Bench

MAPPED_ROWS = scaled(1_000_000)
DATAPIPE_ROWS = scaled(20_000, 5_000)
MANY_PROFILES = scaled(10_000_000)
FAILING_BATCH = scaled(100_000, 60_000)  # more than what is computed on the driver
IDLE_STEPS = 20
IDLE_ROWS = 10_000
ROUNDS = 3


# --- a first run ------------------------------------------------------------------------------------------------------


def first_run(bench: Bench, folder: Path) -> Iterator[Figure]:
    """A simple map of 1 M rows: rows a second against Datapipe, and the time against a plain Spark job."""
    ds = store(folder, bench.warm_steps)
    posts = ds.table("posts", blog.POSTS, key="post_id")
    posts.replace(blog.posts(bench.spark, MAPPED_ROWS, USERS))
    ds.fold()
    parquet = folder / "parquet"
    posts.rows().write.parquet(str(parquet))
    plain = partial(plain_map, bench.spark, parquet, folder / "delta")
    rounds = [(seconds(first_run_of(ds, posts, number)), seconds(plain)) for number in range(ROUNDS)]
    ours, theirs = best_of(rounds)
    work = f"first run, {shown(MAPPED_ROWS)} rows"
    yield ratio(f"{work}: plain Spark, Parquet to Delta", ours, theirs, 2.5)
    their_rate = datapipe_rate(DATAPIPE_ROWS)
    yield rate(f"{work}: Datapipe {DATAPIPE}, {shown(DATAPIPE_ROWS)} rows", MAPPED_ROWS / ours, their_rate, 50)


def first_run_of(ds: sm.DataStore, posts: sm.Table, number: int) -> Callable[[], object]:
    """A step that never ran, ready to run."""
    output = ds.table(f"loud_{number}", "post_id long, content string", key="post_id")
    ds.add(sm.BatchTransform(blog.loud, inputs=[posts], outputs=[output], name=f"shout_{number}"))
    return lambda: ran(ds, f"shout_{number}")


def first_run_joined(bench: Bench, folder: Path) -> Iterator[Figure]:
    """10 M posts joined with 1 M profiles, without and with the fold after it, against plain Spark to Delta."""
    large, plain = bench.large, bench.plain_feed_seconds
    work = f"first run, {shown(MANY_POSTS)} posts joined with {shown(USERS)} profiles"
    yield ratio(f"{work}: plain Spark to Delta", large.first_run_seconds, plain, 3)
    yield ratio(f"{work}, and the fold: the same", large.first_run_seconds + large.fold_seconds, plain, 4)


# --- few changes, large tables ----------------------------------------------------------------------------------------


def changed_posts(bench: Bench, folder: Path) -> Iterator[Figure]:
    """1 000 changed of 10 M posts, joined with 1 M profiles, against the same pipeline written by hand on Delta."""
    ours, theirs = bench.large, HandWrittenFeed(bench.spark, folder)
    theirs.build(ours.posts_frame, ours.profiles_frame)
    rounds = [round_of_changed_posts(ours, theirs) for _ in range(ROUNDS)]
    work = f"{shown(CHANGED_POSTS)} changed of {shown(MANY_POSTS)} posts, {shown(USERS)} profiles"
    yield ratio(f"{work}: change data feed and MERGE", *best_of(rounds), 0.08)


def changed_posts_jobs(bench: Bench, folder: Path) -> Iterator[Figure]:
    """How many Spark jobs that batch takes."""
    jobs = most_jobs(bench.large, CHANGED_POSTS)
    work = f"{shown(CHANGED_POSTS)} changed of {shown(MANY_POSTS)} posts, with a join: jobs"
    yield Figure(work, f"{jobs} jobs", "", jobs, 2, "jobs")


def small_batch_jobs(bench: Bench, folder: Path) -> Iterator[Figure]:
    """How many Spark jobs one small batch takes, with a join."""
    jobs = most_jobs(bench.small, 100)
    yield Figure(f"100 changed of {shown(FEW_POSTS)} posts, with a join: jobs", f"{jobs} jobs", "", jobs, 2, "jobs")


def most_jobs(which: Blog, changed: int) -> int:
    """The Spark jobs of a run over so many changed posts, at the most."""
    counts = []
    for _ in range(ROUNDS):
        which.edit_posts(changed)
        with JobCounter(which.spark) as counter:
            which.run()
        counts.append(counter.jobs)
    return max(counts)


def growth(bench: Bench, folder: Path) -> Iterator[Figure]:
    """The same change to 10 M posts, against 100 k."""
    rounds = [tuple(_changed_seconds(which) for which in (bench.large, bench.small)) for _ in range(ROUNDS + 1)]
    work = f"{shown(CHANGED_POSTS)} changed of {shown(MANY_POSTS)} posts: of {shown(FEW_POSTS)}"
    yield ratio(work, *best_of(rounds), 1.5)


def _changed_seconds(which: Blog) -> float:
    which.edit_posts(CHANGED_POSTS)
    return seconds(which.run)


# --- references -------------------------------------------------------------------------------------------------------


def filtered_join(bench: Bench, folder: Path) -> Iterator[Figure]:
    """100 changed posts of 10 users: their profiles looked up among 10 M, against all profiles read."""
    ds = store(folder, bench.warm_steps)
    posts, profiles = ds.table("posts", blog.POSTS, key="post_id"), ds.table("profiles", blog.PROFILES, key="id")
    frame = blog.posts_of_few(bench.spark, FEW_POSTS, MANY_PROFILES)
    posts.replace(frame)
    profiles.replace(blog.profiles(bench.spark, MANY_PROFILES))
    for name, reference in (("filtered", sm.JoinSpec(profiles, join_keys={"user_id": "id"})), ("whole", profiles)):
        output = ds.table(f"{name}_feed", blog.FEED, key="post_id")
        ds.add(sm.BatchTransform(blog.lines, inputs=[posts, reference], outputs=[output], name=name))
    ds.fold()
    ran(ds, "filtered", "whole")
    ds.fold()

    def one_round(number: int) -> tuple[float, float]:
        posts.upsert(blog.edited(frame, blog.of_ten_users(FEW_POSTS, number), number).toArrow())
        return seconds(lambda: ran(ds, "filtered")), seconds(lambda: ran(ds, "whole"))

    rounds = [one_round(number) for number in range(ROUNDS + 1)]
    work = f"100 changed posts of 10 users, {shown(MANY_PROFILES)} profiles: all profiles read"
    yield ratio(work, *best_of(rounds), 0.05)


def one_profile(bench: Bench, folder: Path) -> Iterator[Figure]:
    """One changed profile with 1 000 posts among 10 M, against computing all posts again, by Seamark and by Spark."""
    large = bench.large
    keys, times = [], []
    for number in range(ROUNDS):
        large.profiles.upsert(pa.table({"id": [BUSY_USER], "name": [f"renamed {number}"]}))
        times.append(seconds(lambda: keys.append(large.run().keys)))
    work = f"one profile, {shown(BUSY_USERS_POSTS)} of {shown(MANY_POSTS)} posts"
    yield ratio(f"{work}: a first run over all", min(times), large.first_run_seconds, 0.5)
    yield ratio(f"{work}: plain Spark over all", min(times), bench.plain_feed_seconds, 0.5)
    worst = max(keys, key=lambda count: abs(count - BUSY_USERS_POSTS))
    yield Figure(f"{work}: keys computed", f"{worst}", f"{BUSY_USERS_POSTS}", worst, BUSY_USERS_POSTS, "keys", "=")


# --- nothing to do ----------------------------------------------------------------------------------------------------


def idle(bench: Bench, folder: Path) -> Iterator[Figure]:
    """A run of 20 settled steps: its time, its Spark jobs, and whether the rows of the tables matter."""
    few = store(folder, bench.spark)
    few.table("posts", blog.POSTS, key="post_id").replace(blog.posts(bench.spark, IDLE_ROWS, IDLE_ROWS))
    many = bench.large.opened_again()  # another program on the same store, with other steps
    for ds in (few, many):
        add_counts(ds)
        ran(ds)
        ran(ds)
    with JobCounter(bench.spark) as counter:
        ran(many)
    times = best_of((seconds(lambda: ran(many)) * 1000, seconds(lambda: ran(few)) * 1000) for _ in range(20))
    ours, theirs = (time / IDLE_STEPS for time in times)
    work = f"idle run of {IDLE_STEPS} steps on {shown(MANY_POSTS)} rows"
    yield Figure(f"{work}, per step", f"{ours:.2f} ms", "", ours, 10, "ms")
    yield Figure(f"{work}, jobs", f"{counter.jobs} jobs", "", counter.jobs, 0, "jobs")
    yield Figure(f"{work}: on {shown(IDLE_ROWS)}", f"{ours:.2f} ms", f"{theirs:.2f} ms", ours / theirs, 1.2)
    many.close()


def add_counts(ds: sm.DataStore) -> None:
    """Twenty steps that read all posts, and whose first run is quick."""
    posts = ds.table("posts")
    for number in range(IDLE_STEPS):
        output = ds.table(f"count_{number}", "what string, posts long", key="what")
        ds.add(sm.BatchTransform(blog.counted, [posts], [output], name=f"count_{number}", transform_keys=[]))


# --- failing keys -----------------------------------------------------------------------------------------------------


def failures(bench: Bench, folder: Path) -> Iterator[Figure]:
    """3 bad keys in a batch of 100 000: how many Spark jobs more than the same batch without them."""
    ds = store(folder, bench.spark)
    clean, bad = (ds.table(name, blog.POSTS, key="post_id") for name in ("clean", "bad"))
    frame = blog.posts(bench.spark, FAILING_BATCH, USERS)
    ids = [FAILING_BATCH // 9, FAILING_BATCH // 2, FAILING_BATCH - 2]
    clean.replace(frame)
    bad.replace(frame.withColumn("content", F.when(F.col("post_id").isin(ids), "bad").otherwise(F.col("content"))))
    work, kept = f"{len(ids)} bad keys of {shown(FAILING_BATCH)}", []
    for kind, function, reach in (("Spark", fussy, 100), ("pandas", fussy_pandas(), 0)):
        with_none, _ = run_counted(ds, clean, function, f"{kind}_clean")
        with_bad, committed = run_counted(ds, bad, function, f"{kind}_bad")
        kept.append(committed)
        extra = with_bad - with_none
        yield Figure(f"{work}, {kind}: without", f"{with_bad} jobs", f"{with_none} jobs", extra, reach, "more jobs")
    rest = FAILING_BATCH - len(ids)
    yield Figure(f"{work}: the others, committed", f"{min(kept)}", f"{rest}", min(kept), rest, "keys", "=")


def run_counted(ds: sm.DataStore, posts: sm.Table, function: Callable[..., object], name: str) -> tuple[int, int]:
    """A first run in one batch: its Spark jobs, and the keys that it committed."""
    output = ds.table(f"{name}_loud", "post_id long, content string", key="post_id")
    is_pandas = name.startswith("pandas")
    ds.add(sm.BatchTransform(function, inputs=[posts], outputs=[output], name=name, pandas=is_pandas))
    with JobCounter(ds.spark) as counter:
        report = ds.run(name).steps[name]
    if report.error or report.batches != 1:
        raise RuntimeError(f"step '{name}' ran in {report.batches} batches, error: {report.error}")
    return counter.jobs, output.rows().count()


def fussy(posts: DataFrame) -> DataFrame:
    """Spark's capitals, but not for a bad post."""
    content = F.when(F.col("content") == "bad", F.raise_error(F.lit("a bad post"))).otherwise(F.upper("content"))
    return posts.select("post_id", content.alias("content"))


def fussy_pandas() -> Callable[[pd.DataFrame], pd.DataFrame]:
    """The same for pandas; a function within a function, so that executors need not find this file."""

    def fussy_frame(posts: pd.DataFrame) -> pd.DataFrame:
        if (posts["content"] == "bad").any():
            raise ValueError("a bad post")
        return pd.DataFrame({"post_id": posts["post_id"], "content": posts["content"].str.upper()})

    return fussy_frame

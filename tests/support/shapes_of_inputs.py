"""Further steps for random histories: moments, references with several rows for a value, inputs that are required."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pandas as pd
from pyspark.sql import functions as F
from tests.support.shapes_of_steps import (
    IDS,
    NUMBERS,
    PANDAS,
    PROFILES,
    USERS,
    Model,
    StepShape,
    TableOf,
    checked,
    known,
    refuse_bad,
    summed,
)

import seamark as sm

POSTS = TableOf("post_id long, user_id long, n long", 1, (IDS, USERS, NUMBERS))
MEMBERS = TableOf("user_id long, region string", 2, ((1, 2, 3), ("north", "south", "east")))

# Los Angeles shows 01:30 twice in this night, and has no 02:30 on the tenth of March.
MOMENTS = (
    datetime(2024, 11, 3, 8, 30), datetime(2024, 11, 3, 9, 30), datetime(2024, 3, 10, 2, 30), datetime(2024, 3, 10, 10),
)  # fmt: skip
DAYS = (date(2024, 3, 10), date(2024, 11, 3), date(1500, 1, 1), None)


# --- moments ----------------------------------------------------------------------------------------------------------


def _declare_moments(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def for_spark(hours: Any, days: Any) -> Any:
        named = days.withColumnRenamed("day", "its day")
        joined = hours.withColumn("n", checked(broken)).join(named, F.col("day") == F.col("its day"), "left")
        return joined.selectExpr("wall AS at", "day AS back", "concat(coalesce(name, '?'), n) AS line")

    def for_pandas(hours: Any, days: Any) -> Any:
        refuse_bad(broken, hours)
        names = dict(zip(days.day, days["name"], strict=True))
        lines = [f"{names.get(day, '?')}{n}" for day, n in zip(hours.day, hours.n, strict=True)]
        return pd.DataFrame({"at": hours.wall, "back": hours.day, "line": pd.Series(lines, hours.index, dtype=object)})

    function = for_pandas if options.get("pandas") else for_spark
    reference = sm.JoinSpec("days", join_keys={"day": "day"})
    ds.add(sm.BatchTransform(function, ["hours", reference], ["told"], name="step", **options))


def _told(model: Model) -> Model:
    names = {day: name for day, name in model["days"] if day}
    midnights = {day: datetime(day.year, day.month, day.day) for day in DAYS if day}
    return {
        "told": [(at, midnights.get(day), f"{names.get(day, '?')}{n}") for at, wall, day, n in model["hours"]],
    }


# --- references with several rows for a value -------------------------------------------------------------------------


def _declare_clubs(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def step(posts: Any, members: Any) -> Any:
        joined = posts.withColumn("n", checked(broken)).join(members, "user_id")
        return joined.groupBy("region").agg(F.sum("n").alias("total"))

    reference = sm.JoinSpec("members", join_keys={"user_id": "user_id"})
    given = {"transform_keys": ["region"], **options}
    ds.add(sm.BatchTransform(step, ["posts", reference], ["by_region"], **given))


def _clubs(model: Model) -> Model:
    pairs = [(region, n) for _, user, n in model["posts"] for member, region in model["members"] if user == member]
    return {"by_region": summed(pairs)}


def _declare_regions(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def for_spark(posts: Any, members: Any) -> Any:
        joined = posts.withColumn("n", checked(broken)).join(members, "user_id", "left")
        regions = F.concat_ws(",", F.array_sort(F.collect_list("region")))
        return joined.groupBy("post_id").agg(regions.alias("regions"), F.sum("n").alias("total"))

    def for_pandas(posts: Any, members: Any) -> Any:
        refuse_bad(broken, posts)
        joined = posts.merge(members, on="user_id", how="left").sort_values(["post_id", "region"])
        lines = joined.groupby("post_id", as_index=False).agg(
            regions=("region", lambda mine: ",".join(r for r in mine if known(r))), total=("n", "sum")
        )
        return lines.astype({"regions": object})

    function = for_pandas if options.get("pandas") else for_spark
    reference = sm.JoinSpec("members", join_keys={"user_id": "user_id"})
    ds.add(sm.BatchTransform(function, ["posts", reference], ["regions"], name="step", **options))


def _regions(model: Model) -> Model:
    lines = []
    for post, user, n in model["posts"]:
        mine = sorted(region for member, region in model["members"] if member == user)
        lines.append((post, ",".join(mine), n * max(len(mine), 1)))
    return {"regions": lines}


# --- required inputs --------------------------------------------------------------------------------------------------


def _declare_required(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def for_spark(posts: Any, stats: Any, profiles: Any) -> Any:
        joined = posts.withColumn("n", checked(broken)).join(stats, "post_id", "full_outer")
        return joined.select("post_id", "n", "views")

    def for_pandas(posts: Any, stats: Any, profiles: Any) -> Any:
        refuse_bad(broken, posts)
        joined = posts.astype({"n": "Int64"}).merge(stats.astype({"views": "Int64"}), on="post_id", how="outer")
        return joined[["post_id", "n", "views"]]

    function = for_pandas if options.get("pandas") else for_spark
    required = sm.ComputeInput("profiles", join_type="inner", join_keys={"user_id": "id"})
    ds.add(sm.BatchTransform(function, ["posts", "stats", required], ["seen"], name="step", **options))


def _seen(model: Model) -> Model:
    users, views = {row[0] for row in model["profiles"]}, dict(model["stats"])
    return {"seen": [(post, n, views.get(post)) for post, user, n in model["posts"] if user in users]}


def _declare_pairs(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def for_spark(left: Any, right: Any, pairs: Any) -> Any:
        return left.withColumn("n", checked(broken)).crossJoin(right).select("a", "b", "n", "m")

    def for_pandas(left: Any, right: Any, pairs: Any) -> Any:
        refuse_bad(broken, left)
        return left.merge(right, how="cross")

    function = for_pandas if options.get("pandas") else for_spark
    inputs = ["left", "right", sm.ComputeInput("pairs", join_type="inner")]
    given = {"name": "step", "transform_keys": ["a", "b"], **options}
    ds.add(sm.BatchTransform(function, inputs, ["tied"], **given))


def _tied(model: Model) -> Model:
    left, right = dict(model["left"]), dict(model["right"])
    return {"tied": [(a, b, left[a], right[b]) for a, b in model["pairs"] if a in left and b in right]}


def _declare_switch(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def step(posts: Any, switch: Any) -> Any:
        return posts.withColumn("n", checked(broken)).select("post_id", "n")

    inputs = ["posts", sm.ComputeInput("switch", join_type="inner")]
    ds.add(sm.BatchTransform(step, inputs, ["copies"], **options))


def _copies(model: Model) -> Model:
    return {"copies": [(post, n) for post, _, n in model["posts"] if model["switch"]]}


INPUT_SHAPES: dict[str, StepShape] = {
    "moments and days": StepShape(
        {
            "hours": TableOf("at timestamp, wall timestamp_ntz, day date, n long", 1, (MOMENTS, (), DAYS, NUMBERS)),
            "days": TableOf("day date, name string", 1, (DAYS[:3], "xyz")),
        },
        {"told": TableOf("at timestamp, back timestamp, line string", 1, ())},
        _declare_moments,
        _told,
        options=PANDAS,
    ),
    "a sum by a column of several reference rows": StepShape(
        {"posts": POSTS, "members": MEMBERS},
        {"by_region": TableOf("region string, total long", 1, ())},
        _declare_clubs,
        _clubs,
    ),
    "several reference rows": StepShape(
        {"posts": POSTS, "members": MEMBERS},
        {"regions": TableOf("post_id long, regions string, total long", 1, ())},
        _declare_regions,
        _regions,
        options=PANDAS,
    ),
    "required inputs beside others": StepShape(
        {
            "posts": POSTS,
            "stats": TableOf("post_id long, views long", 1, (IDS, (1, 2))),
            "profiles": PROFILES,
        },
        {"seen": TableOf("post_id long, n long, views long", 1, ())},
        _declare_required,
        _seen,
        options=PANDAS,
    ),
    "a required pair beside its parts": StepShape(
        {
            "left": TableOf("a long, n long", 1, ((1, 2), NUMBERS)),
            "right": TableOf("b long, m long", 1, ((1, 2), (1, 2))),
            "pairs": TableOf("a long, b long", 2, ((1, 2), (1, 2))),
        },
        {"tied": TableOf("a long, b long, n long, m long", 2, ())},
        _declare_pairs,
        _tied,
        options=PANDAS,
    ),
    "a required switch": StepShape(
        {"posts": POSTS, "switch": TableOf("name string", 1, (("on",),))},
        {"copies": TableOf("post_id long, n long", 1, ())},
        _declare_switch,
        _copies,
    ),
}

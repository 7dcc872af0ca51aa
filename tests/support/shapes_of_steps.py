"""Steps of every shape for random histories: tables, functions for Spark or pandas, and oracles in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from pyspark.sql import functions as F
from tests.support.killed_workers import killed_once, through_a_worker

import seamark as sm

Row = tuple[Any, ...]
Model = dict[str, list[Row]]  # the current rows of each table
BAD = 13  # a value that a function fails on while it is broken


@dataclass(frozen=True)
class TableOf:
    """A table: its columns, how many of the first are its key, and the values that each column may have."""

    schema: str
    key: int
    values: tuple[Sequence[Any], ...]

    @property
    def names(self) -> list[str]:
        return [word.split()[0] for word in self.schema.split(", ")]


@dataclass(frozen=True)
class StepShape:
    """A step: `declare` adds it to a store, `oracle` says what its outputs are for given inputs."""

    inputs: dict[str, TableOf]
    outputs: dict[str, TableOf]
    declare: Callable[[sm.DataStore, dict[str, Any], dict[str, Any]], None]
    oracle: Callable[[Model], Model]
    steps: tuple[str, ...] = ("step",)
    options: dict[str, Sequence[Any]] = field(default_factory=dict)  # options beside those that every step may have


IDS, USERS, NUMBERS = (1, 2, 3, 4, 5), (1, 2, 3, None), (0, 1, 2, 3, BAD)
POSTS = TableOf("post_id long, user_id long, n long", 1, (IDS, USERS, NUMBERS))
PROFILES = TableOf("id long, name string, region string", 1, ((1, 2, 3), "xyz", ("north", "south", "east", None)))


def checked(broken: dict[str, Any], column: str = "n") -> Any:
    """The column itself, or while the function is broken an error for the bad value."""
    value = F.col(column)
    if broken["now"]:
        value = F.when(value == BAD, F.raise_error(F.lit("bad luck")).cast("long")).otherwise(value)
    return through_a_worker(value, broken["kill"]) if broken["kill"] else value


def refuse_bad(broken: dict[str, Any], frame: pd.DataFrame) -> None:
    if broken["kill"]:
        killed_once(broken["kill"])
    if broken["now"] and (frame["n"] == BAD).any():
        raise ValueError("bad luck")


def _posts_of(model: Model) -> list[tuple[Row, Row | None]]:
    """Each post with its profile."""
    profiles = {row[0]: row for row in model["profiles"]}
    return [(post, profiles.get(post[1])) for post in model["posts"]]


def known(value: Any) -> Any:
    """A value of a pandas frame, None where there is none."""
    return value if pd.notna(value) else None


def line_of(name: Any, n: Any) -> str:
    return f"{name or '?'}: {n}"


def _reference(join_type: str) -> Callable[..., None]:
    def declare(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
        def for_spark(posts: Any, profiles: Any) -> Any:
            joined = posts.withColumn("n", checked(broken)).join(profiles, posts.user_id == profiles.id, "left")
            return joined.selectExpr("post_id", "concat(coalesce(name, '?'), ': ', n) AS line")

        def for_pandas(posts: Any, profiles: Any) -> Any:
            refuse_bad(broken, posts)
            joined = posts.merge(profiles, left_on="user_id", right_on="id", how="left")  # doubles what is there twice
            lines = [line_of(known(name), n) for name, n in zip(joined["name"], joined.n, strict=True)]
            return pd.DataFrame({"post_id": joined.post_id, "line": pd.Series(lines, dtype=object)})

        reference = sm.ComputeInput("profiles", join_type=join_type, join_keys={"user_id": "id"})
        function = for_pandas if options.get("pandas") else for_spark
        ds.add(sm.BatchTransform(function, ["posts", reference], ["feed"], name="step", **options))

    return declare


def _feed(model: Model, required: bool) -> Model:
    pairs = [(post, profile) for post, profile in _posts_of(model) if profile or not required]
    return {"feed": [(post[0], line_of(profile and profile[1], post[2])) for post, profile in pairs]}


FEED = TableOf("post_id long, line string", 1, ())


def _declare_sum(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def for_spark(posts: Any) -> Any:
        there = posts.withColumn("n", checked(broken)).where("user_id IS NOT NULL")
        return there.groupBy("user_id").agg(F.sum("n").alias("total"))

    def for_pandas(posts: Any) -> Any:
        refuse_bad(broken, posts)
        there = posts[posts.user_id.notna()]
        return there.groupby("user_id", as_index=False).agg(total=("n", "sum"))

    function = for_pandas if options.get("pandas") else for_spark
    given = {"transform_keys": ["user_id"], **options}
    ds.add(sm.BatchTransform(function, ["posts"], ["totals"], name="step", **given))


def summed(pairs: Sequence[tuple[Any, int]]) -> list[Row]:
    """A row for each key that is there: the key and the sum of its numbers."""
    totals: dict[Any, int] = {}
    for key, n in pairs:
        totals[key] = totals.get(key, 0) + n
    return [(*(key if isinstance(key, tuple) else (key,)), total) for key, total in totals.items()]


TOTALS = TableOf("user_id long, total long", 1, ())


def _words(posts: Any, broken: dict[str, Any]) -> Any:
    checked_posts = posts.withColumn("n", checked(broken)).where("n > 0")
    return checked_posts.selectExpr("post_id", "explode(sequence(1L, n)) AS place", "user_id")


def _words_of(model: Model) -> list[Row]:
    return [(post, place, user) for post, user, n in model["posts"] for place in range(1, n + 1)]


WORDS = TableOf("post_id long, place long, user_id long", 2, ())


def _declare_words(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def step(posts: Any) -> Any:
        return _words(posts, broken)

    ds.add(sm.BatchTransform(step, ["posts"], ["words"], **options))


def _declare_two_outputs(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def step(posts: Any, profiles: Any) -> Any:
        named = posts.join(profiles, posts.user_id == profiles.id, "left")
        return named.selectExpr("post_id", "concat(coalesce(name, '?'), ': ', n) AS line"), _words(posts, broken)

    reference = sm.JoinSpec("profiles", join_keys={"user_id": "id"})
    ds.add(sm.BatchTransform(step, ["posts", reference], ["feed", "words"], **options))


def _declare_two_inputs(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def for_spark(one: Any, two: Any) -> Any:
        return one.withColumn("n", checked(broken)).join(two, "id", "full_outer").select("id", "n", "m")

    def for_pandas(one: Any, two: Any) -> Any:
        refuse_bad(broken, one)
        return one.astype({"n": "Int64"}).merge(two.astype({"m": "Int64"}), on="id", how="outer")

    function = for_pandas if options.get("pandas") else for_spark
    ds.add(sm.BatchTransform(function, ["one", "two"], ["both"], name="step", **options))


def _both(model: Model) -> Model:
    one, two = dict(model["one"]), dict(model["two"])
    return {"both": [(key, one.get(key), two.get(key)) for key in {*one, *two}]}


def _declare_boxes(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def step(image: Any, box: Any) -> Any:
        joined = image.withColumn("n", checked(broken)).join(box, "image_id", "full_outer")
        return joined.selectExpr("image_id", "box_id", "coalesce(n, 100) + coalesce(m, 0) AS total")

    given = {"transform_keys": ["image_id", "box_id"], **options}
    ds.add(sm.BatchTransform(step, ["image", "box"], ["found"], **given))


def _found(model: Model) -> Model:
    image = dict(model["image"])
    return {"found": [(i, b, image.get(i, 100) + m) for i, b, m in model["box"]]}


def _declare_cross(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def step(one: Any, two: Any) -> Any:
        return one.withColumn("n", checked(broken)).crossJoin(two).selectExpr("a", "b", "n * m AS product")

    given = {"transform_keys": ["a", "b"], **options}
    ds.add(sm.BatchTransform(step, ["one", "two"], ["pairs"], **given))


def _declare_settings(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def step(posts: Any, settings: Any) -> Any:
        factor = settings.selectExpr("coalesce(sum(factor), 0) AS factor")
        return posts.withColumn("n", checked(broken)).crossJoin(factor).selectExpr("post_id", "n * factor AS total")

    ds.add(sm.BatchTransform(step, ["posts", "settings"], ["scaled"], **options))


def _scaled(model: Model) -> Model:
    factor = sum(row[1] for row in model["settings"])
    return {"scaled": [(post, n * factor) for post, _, n in model["posts"]]}


def _declare_global(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def step(posts: Any, profiles: Any) -> Any:
        named = posts.withColumn("n", checked(broken)).join(profiles, posts.user_id == profiles.id)
        return named.groupBy("name").agg(F.sum("n").alias("total"))

    given = {"transform_keys": [], **options}
    ds.add(sm.BatchTransform(step, ["posts", "profiles"], ["by_name"], **given))


def _declare_regions(keys: Sequence[str]) -> Callable[..., None]:
    def declare(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
        def step(posts: Any, profiles: Any) -> Any:
            joined = posts.withColumn("n", checked(broken)).join(profiles, posts.user_id == profiles.id)
            named = joined.where("region IS NOT NULL").withColumn("kind", F.col("n") % 2)
            return named.groupBy(*keys).agg(F.sum("n").alias("total"))

        reference = sm.JoinSpec("profiles", join_keys={"user_id": "id"})
        given = {"transform_keys": list(keys), **options}
        ds.add(sm.BatchTransform(step, ["posts", reference], ["by_region"], **given))

    return declare


def _by_region(model: Model) -> Model:
    named = [(profile[2], post[2]) for post, profile in _posts_of(model) if profile and profile[2]]
    return {"by_region": summed(named)}


def _by_user_and_region(model: Model) -> Model:
    named = [((post[1], profile[2]), post[2]) for post, profile in _posts_of(model) if profile and profile[2]]
    return {"by_region": summed(named)}


def _declare_chain(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def sum_lines(lines: Any) -> Any:
        return lines.where("name IS NOT NULL").groupBy("name").agg(F.sum("n").alias("total"))

    def step(posts: Any, profiles: Any) -> Any:
        joined = posts.withColumn("n", checked(broken)).join(profiles, posts.user_id == profiles.id, "left")
        return joined.select("post_id", "name", "n")

    plain = {name: value for name, value in options.items() if name != "pandas"}
    ds.add(sm.BatchTransform(sum_lines, ["lines"], ["by_name"], transform_keys=["name"], **plain))
    reference = sm.JoinSpec("profiles", join_keys={"user_id": "id"})
    ds.add(sm.BatchTransform(step, ["posts", reference], ["lines"], **plain))


def _chained(model: Model) -> Model:
    lines = [(post[0], profile and profile[1], post[2]) for post, profile in _posts_of(model)]
    return {"lines": lines, "by_name": summed([(name, n) for _, name, n in lines if name])}


def _declare_log(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def step(clicks: Any) -> Any:
        there = clicks.withColumn("n", checked(broken)).where("url IS NOT NULL")
        return there.groupBy("url").agg(F.sum("n").alias("total"))

    ds.add(sm.BatchTransform(step, ["clicks"], ["by_url"], **{"transform_keys": ["url"], **options}))


BY_REGION = TableOf("region string, total long", 1, ())
BY_NAME = TableOf("name string, total long", 1, ())
PANDAS = {"pandas": (False, True)}


SHAPES: dict[str, StepShape] = {
    "a reference": StepShape(
        {"posts": POSTS, "profiles": PROFILES},
        {"feed": FEED},
        _reference("full"),
        lambda m: _feed(m, False),
        options=PANDAS,
    ),
    "a required reference": StepShape(
        {"posts": POSTS, "profiles": PROFILES},
        {"feed": FEED},
        _reference("inner"),
        lambda m: _feed(m, True),
        options=PANDAS,
    ),
    "many to one": StepShape(
        {"posts": POSTS},
        {"totals": TOTALS},
        _declare_sum,
        lambda m: {"totals": summed([(user, n) for _, user, n in m["posts"] if user])},
        options=PANDAS,
    ),
    "one to many": StepShape({"posts": POSTS}, {"words": WORDS}, _declare_words, lambda m: {"words": _words_of(m)}),
    "two inputs with one key": StepShape(
        {"one": TableOf("id long, n long", 1, (IDS, NUMBERS)), "two": TableOf("id long, m long", 1, (IDS, (1, 2)))},
        {"both": TableOf("id long, n long, m long", 1, ())},
        _declare_two_inputs,
        _both,
        options=PANDAS,
    ),
    "images and boxes": StepShape(
        {
            "image": TableOf("image_id long, n long", 1, ((1, 2, 3), NUMBERS)),
            "box": TableOf("image_id long, box_id long, m long", 2, ((1, 2, 3), (1, 2), (1, 2))),
        },
        {"found": TableOf("image_id long, box_id long, total long", 2, ())},
        _declare_boxes,
        _found,
    ),
    "a cross product": StepShape(
        {
            "one": TableOf("a long, n long", 1, ((1, 2, 3), NUMBERS)),
            "two": TableOf("b long, m long", 1, ((1, 2), (1, 2))),
        },
        {"pairs": TableOf("a long, b long, product long", 2, ())},
        _declare_cross,
        lambda m: {"pairs": [(a, b, n * k) for a, n in m["one"] for b, k in m["two"]]},
    ),
    "global settings": StepShape(
        {"posts": POSTS, "settings": TableOf("id long, factor long", 1, ((1, 2), (1, 2, 3)))},
        {"scaled": TableOf("post_id long, total long", 1, ())},
        _declare_settings,
        _scaled,
    ),
    "one global result": StepShape(
        {"posts": POSTS, "profiles": PROFILES},
        {"by_name": BY_NAME},
        _declare_global,
        lambda m: {"by_name": summed([(profile[1], post[2]) for post, profile in _posts_of(m) if profile])},
    ),
    "a sum by a column of the reference": StepShape(
        {"posts": POSTS, "profiles": PROFILES},
        {"by_region": BY_REGION},
        _declare_regions(["region"]),
        _by_region,
    ),
    "a sum by columns of both": StepShape(
        {"posts": POSTS, "profiles": PROFILES},
        {"by_region": TableOf("user_id long, region string, total long", 2, ())},
        _declare_regions(["user_id", "region"]),
        _by_user_and_region,
    ),
    "two outputs": StepShape(
        {"posts": POSTS, "profiles": PROFILES},
        {"feed": FEED, "words": WORDS},
        _declare_two_outputs,
        lambda m: {**_feed(m, False), "words": _words_of(m)},
    ),
    "chained steps": StepShape(
        {"posts": POSTS, "profiles": PROFILES},
        {"lines": TableOf("post_id long, name string, n long", 1, ()), "by_name": BY_NAME},
        _declare_chain,
        _chained,
        steps=("step", "sum_lines"),
    ),
    "a log": StepShape(
        {"clicks": TableOf("url string, n long", 0, (("x", "y", "z", None), NUMBERS))},
        {"by_url": TableOf("url string, total long", 1, ())},
        _declare_log,
        lambda m: {"by_url": summed([(url, n) for url, n in m["clicks"] if url])},
    ),
}

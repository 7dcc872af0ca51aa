"""Further steps for random histories: references that functions for pandas merge with, beside parts of the key."""

from __future__ import annotations

from typing import Any

import pandas as pd
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
    line_of,
    refuse_bad,
)

import seamark as sm


def _declare_pairs(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def for_spark(one: Any, two: Any, profiles: Any) -> Any:
        pairs = one.withColumn("n", checked(broken)).crossJoin(two)
        joined = pairs.join(profiles, pairs.user_id == profiles.id, "left")
        return joined.selectExpr("a", "b", "concat(coalesce(name, '?'), ': ', n) AS line")

    def for_pandas(one: Any, two: Any, profiles: Any) -> Any:
        refuse_bad(broken, one)
        joined = one.merge(two, how="cross").merge(profiles, left_on="user_id", right_on="id", how="left")
        lines = [line_of(known(name), n) for name, n in zip(joined["name"], joined.n, strict=True)]
        return pd.DataFrame({"a": joined.a, "b": joined.b, "line": pd.Series(lines, dtype=object)})

    function = for_pandas if options.get("pandas") else for_spark
    reference = sm.JoinSpec("profiles", join_keys={"user_id": "id"})
    given = {"transform_keys": ["a", "b"], **options}
    ds.add(sm.BatchTransform(function, ["one", "two", reference], ["pairs"], name="step", **given))


def _pairs(model: Model) -> Model:
    names = {row[0]: row[1] for row in model["profiles"]}
    return {"pairs": [(a, b, line_of(names.get(user), n)) for a, user, n in model["one"] for (b,) in model["two"]]}


def _declare_teams(ds: sm.DataStore, broken: dict[str, Any], options: dict[str, Any]) -> None:
    def for_pandas(games: Any, home: Any, away: Any) -> Any:
        refuse_bad(broken, games)
        joined = games.merge(home, left_on="home", right_on="id", how="left")
        joined = joined.merge(away, left_on="away", right_on="id", how="left", suffixes=("", "_away"))
        pairs = zip(joined["name"], joined["name_away"], joined.n, strict=True)
        lines = [f"{known(one) or '?'}{known(other) or '?'}{n}" for one, other, n in pairs]
        return pd.DataFrame({"game_id": joined.game_id, "line": pd.Series(lines, dtype=object)})

    def for_spark(games: Any, home: Any, away: Any) -> Any:
        first = home.selectExpr("id AS home", "name AS home_name")
        second = away.selectExpr("id AS away", "name AS away_name")
        joined = games.withColumn("n", checked(broken)).join(first, "home", "left").join(second, "away", "left")
        return joined.selectExpr("game_id", "concat(coalesce(home_name, '?'), coalesce(away_name, '?'), n) AS line")

    teams = [sm.JoinSpec("teams", join_keys={side: "id"}) for side in ("home", "away")]
    function = for_pandas if options.get("pandas") else for_spark
    ds.add(sm.BatchTransform(function, ["games", *teams], ["results"], name="step", **options))


def _results(model: Model) -> Model:
    names = {row[0]: row[1] for row in model["teams"]}
    return {"results": [(g, f"{names.get(h, '?')}{names.get(a, '?')}{n}") for g, h, a, n in model["games"]]}


MORE_SHAPES: dict[str, StepShape] = {
    "a table twice": StepShape(
        {
            "games": TableOf("game_id long, home long, away long, n long", 1, (IDS, USERS, USERS, NUMBERS)),
            "teams": TableOf("id long, name string", 1, ((1, 2, 3), "xyz")),
        },
        {"results": TableOf("game_id long, line string", 1, ())},
        _declare_teams,
        _results,
        options=PANDAS,
    ),
    "pairs and a reference": StepShape(
        {
            "one": TableOf("a long, user_id long, n long", 1, ((1, 2, 3), USERS, NUMBERS)),
            "two": TableOf("b long", 1, ((1, 2, 3),)),
            "profiles": PROFILES,
        },
        {"pairs": TableOf("a long, b long, line string", 2, ())},
        _declare_pairs,
        _pairs,
        options=PANDAS,
    ),
}

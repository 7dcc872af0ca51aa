"""Where runs are cut does not matter: the same records give the same state and the same net, by every merge rule."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import functions as F

from .test_histories import Entry, Log, Oracle

VISITS, MOST, MULTIPLIER = 250, 6, 1000


def in_turn(older: Any, newer: Any) -> Any:
    """Neither commutative nor associative, so that every other order or grouping shows."""
    if isinstance(older, str):
        return f"({older}{newer})"
    return F.concat(F.lit("("), older, newer, F.lit(")"))


RULES = {
    "title": "overwrite", "first": "keep", "revenue": "sum", "fee": "sum", "least": "min", "most": "max",
    "goals": "append", "words": in_turn,
}  # fmt: skip
LOGS = {
    "joined_visits": "VisitID long, y_VisitVersion int, title string, first string, revenue long, fee double, "
    "least int, most int, goals array<int>, words string, gone boolean"
}

Row = tuple[Any, ...]


def some_records(chance: random.Random) -> list[Row]:
    """What the log says of one visit: versions in any order, now and then a delete, and lives after it."""
    rows: list[Row] = []
    newest = chance.randint(0, 3)
    for _ in range(chance.randint(1, MOST)):
        newest += chance.randint(0, 2)
        fast = chance.choice([newest, newest, chance.randint(0, newest)])
        if rows and chance.random() < 0.15:
            rows.append((chance.choice([fast, None]), *[None] * len(RULES), True))
            continue
        letter = chance.choice("abcdef")
        values = (
            letter, letter.upper(), chance.randint(-5, 9), chance.choice([0.1, 1e9, -1e9]), chance.randint(0, 9),
            chance.randint(0, 9), chance.choice([[1], [2, 3], []]), letter,
        )  # fmt: skip
        rows.append((fast, *[value if chance.random() < 0.8 else None for value in values], None))
    return rows


def records_by_visit(seed: int) -> dict[int, list[Row]]:
    chance = random.Random(seed)
    told = {visit: some_records(chance) for visit in range(VISITS)}
    # of a visit that nobody knows a delete must say its version, and it does so at once
    return {v: [r for n, r in enumerate(rows) if n or r[0] is not None] for v, rows in told.items()}


def played(visits: Any, told: dict[int, list[Row]], cuts: list[range]) -> None:
    for places in cuts:
        rows = [(visit, *rows[n]) for n in places for visit, rows in told.items() if n < len(rows)]
        visits.visits(*rows)
        assert visits.run().failed == 0


def what_counts(visits: Any) -> tuple[dict[int, Row], dict[int, Counter[int]]]:
    """The state but for the slow version, and the net of the records: what stands of the fast supplier's versions."""
    state = {visit: (row[0], *row[2:]) for visit, row in visits.state().items()}
    sums: dict[int, Counter[int]] = {}
    for line in visits.records():
        sums.setdefault(line["VisitID"], Counter())[line["Version"]] += line["Sign"]
    newest = visits.newest()
    for visit, net in sums.items():
        slow = {version: count for version, count in net.items() if version >= MULTIPLIER and count}
        assert slow == ({int(newest[visit]): 1} if visit in newest else {}), visit
    left = {v: Counter({n: c for n, c in net.items() if n < MULTIPLIER and c}) for v, net in sums.items()}
    return state, {visit: net for visit, net in left.items() if net}


@pytest.mark.scenario("D32")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "fast_deletes", [False, pytest.param(True, marks=pytest.mark.long)], ids=["fast writes nothing", "fast takes back"]
)
def test_the_same_records_in_one_run_in_two_and_one_by_one(make_visits, fast_deletes):
    told = records_by_visit(seed=5 + fast_deletes)
    cuts = {
        "one": [range(MOST)],
        "two": [range(MOST // 2), range(MOST // 2, MOST)],
        "one by one": [range(n, n + 1) for n in range(MOST)],
    }
    options = {
        "logs": LOGS, "deleted": "gone", "fast_deletes": fast_deletes,
        "merge": {name: rule for name, rule in RULES.items() if rule != "overwrite"},
    }  # fmt: skip
    stores = {name: make_visits(name, **options) for name in cuts}
    for name, visits in stores.items():
        played(visits, told, cuts[name])

    log = Log("joined_visits", tuple(RULES))
    oracle = Oracle([log], RULES, MULTIPLIER, fast_deletes=fast_deletes)
    for visit, rows in told.items():
        log.entries += [
            Entry("+A", visit, r[0], tuple(zip(RULES, r[1:-1], strict=True)), gone=bool(r[-1])) for r in rows
        ]
    oracle.run()

    found = {name: what_counts(visits) for name, visits in stores.items()}
    assert found["one"][0] == {v: (known.fast, *known.state.values()) for v, known in oracle.known.items()}
    assert found["two"] == found["one"]
    assert found["one by one"] == found["one"]
    assert {name: visits.diff.too_late for name, visits in stores.items()} == dict.fromkeys(cuts, oracle.too_late)
    assert oracle.too_late > 0


@pytest.mark.scenario("D32")
def test_within_a_run_an_older_version_does_not_overwrite_a_newer_one(diffed):
    diffed.visits((1, 3, "NEW"), (1, 2, "old"))
    diffed.visits((2, 2, "old"), (2, 3, None), (2, 1, "older"))
    diffed.run()

    assert diffed.told() == {1: "-3 +1003", 2: "-3 +1003"}
    assert diffed.state() == {1: (3, 1, "NEW", None), 2: (3, 1, "old", None)}


@pytest.mark.scenario("D32")
def test_a_second_log_goes_on_where_the_first_has_come_to(diffed):
    """Logs are applied one after another: what the first says of a version, the second finds."""
    diffed.visits((1, 2, "X"))
    diffed.conversions((1, 2, 10), (1, 4, 5), (1, 3, 1))
    diffed.run()

    assert diffed.told() == {1: "-2 +1002 -1002 +2004 -4 +2"}
    assert diffed.state() == {1: (4, 2, "X", 16)}

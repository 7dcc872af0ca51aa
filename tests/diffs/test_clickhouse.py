"""Both suppliers in one table of a real ClickHouse: whoever was first, every visit nets to one row."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import seamark as sm
from seamark import faults

LOGS = {
    "joined_visits": "VisitID long, F int, title string",
    "joined_conversions": "VisitID long, F int, revenue long",
    "joined_costs": "VisitID long, F int, cost long",
}
# What a process can be killed at: in the run of the diff, and in that of its sink.
POINTS = [
    "slices-staged", "blocks-staged", "in-transaction", "committed",
    "sink-block-read", "sink-block-sent", "sink-block-marked", "sink-position-kept",
]  # fmt: skip


class Killed(BaseException):
    """The process ends here."""


class Site:
    """A site whose visits are written by a fast supplier, and corrected by a slow one, in one table."""

    def __init__(self, folder: Path, spark: object, **options: Any) -> None:
        self.ds = sm.DataStore(f"sqlite:///{folder / 'control.db'}", folder / "warehouse", spark=spark)
        self.logs = {name: self.ds.table(name, columns) for name, columns in LOGS.items()}
        self.wide = self.ds.table("wide", "VisitID long, F int, pages long, cost long", key=["VisitID", "F"])
        self.clickhouse = sm.ClickHouseSink(f"chdb:///{folder / 'clickhouse'}", table="visits")
        self.diff = self.ds.diff(
            "visits", "VisitID", "F", 1000, list(self.logs.values()), {"revenue": "sum", "cost": "sum"},
            wide=self.wide, sink=self.clickhouse, **options,
        )  # fmt: skip
        (self.sink,) = self.ds.sinks().values()
        self.sink.prepare()
        self.fast = sm.FastSupplier(self.clickhouse.insert, "VisitID", "F")
        self.versions: dict[int, int] = {}

    def publish(self, *visits: tuple[int, int], pages: int = 1, cost: int = 0) -> None:
        """The fast supplier writes versions, and sets aside what it alone knows of them."""
        rows = [{"VisitID": v, "F": f, "pages": pages + f, "cost": cost} for v, f in visits]
        self.fast.publish(rows)
        self.wide.upsert(rows)
        self.versions.update(visits)

    def bring(self, log: str, *rows: tuple[Any, ...]) -> None:
        names = self.logs[log].schema.names
        self.logs[log].append([dict(zip(names, row, strict=True)) for row in rows])

    def run(self) -> sm.RunReport:
        return self.ds.run(fail_fast=True)

    # --- what ClickHouse says -----------------------------------------------------------------------------------------

    def nets(self) -> dict[int, dict[int, int]]:
        """The sum of Sign by version, of each visit, where it is not 0."""
        found: dict[int, dict[int, int]] = defaultdict(dict)
        for row in self.clickhouse.query(
            "SELECT VisitID, Version, sum(Sign) AS net FROM visits GROUP BY VisitID, Version HAVING net != 0"
        ):
            found[row["VisitID"]][row["Version"]] = row["net"]
        return dict(found)

    def final(self) -> list[tuple[Any, ...]]:
        """The rows that FINAL gives, one a visit."""
        rows = self.clickhouse.query(
            "SELECT VisitID, Version, title, revenue, cost, pages FROM visits FINAL ORDER BY VisitID"
        )
        return [tuple(row.values()) for row in rows]

    def state(self) -> list[tuple[Any, ...]]:
        """The same as the state has it: where both suppliers know the cost, it is the sum of both."""
        rows = sorted(self.diff.state.rows().toArrow().to_pylist(), key=lambda row: row["VisitID"])
        return [
            (
                row["VisitID"],
                1000 * row["SlowVersion"] + row["F"],
                row["title"],
                row["revenue"],
                row["_wide_cost"] + (row["cost"] or 0),
                row["_wide_pages"],
            )
            for row in rows
        ]

    def sums(self, final: bool) -> dict[str, int]:
        sign, table = ("", "visits FINAL") if final else ("Sign * ", "visits")
        columns = ", ".join(f"sum({sign}{name}) AS {name}" for name in ("revenue", "cost", "pages"))
        return self.clickhouse.query(f"SELECT {columns} FROM {table}")[0]

    def check(self) -> None:
        """Only the newest version of each visit stands, with the merged state, and sums are right without FINAL."""
        state = self.state()
        assert self.nets() == {row[0]: {row[1]: 1} for row in state}
        assert self.final() == state
        assert self.sums(final=False) == self.sums(final=True)


@pytest.fixture
def site(tmp_path: Path, spark: object) -> Site:
    return Site(tmp_path, spark)


@pytest.mark.scenario("D24")
@pytest.mark.scenario("D26")
def test_every_case_nets_to_one_row_before_and_after_optimize(site):
    site.publish((1, 1), (1, 2), (2, 1), (2, 2), (4, 3), cost=5)
    site.bring("joined_visits", (1, 2, "X"), (2, 2, "X"), (4, 3, "X"))
    site.run()
    site.publish((2, 3), (3, 1), cost=7)
    site.bring("joined_conversions", (1, 2, 10), (2, 3, 20), (3, 1, 30), (4, 2, 40))  # D1, D2, D3, D11
    site.bring("joined_costs", (1, 2, 100))
    site.run()

    site.check()
    assert site.final() == [
        (1, 3002, "X", 10, 105, 3),
        (2, 2003, "X", 20, 7, 4),
        (3, 1001, None, 30, 7, 2),
        (4, 2003, "X", 40, 5, 4),
    ]
    site.clickhouse.query("OPTIMIZE TABLE visits FINAL")
    site.check()


@pytest.mark.scenario("D18")
def test_a_version_that_is_published_during_a_run_is_taken_back_by_the_next(site, monkeypatch):
    site.publish((1, 1), (1, 2))
    site.bring("joined_visits", (1, 2, "X"))
    published = []

    def publish_meanwhile(point: str) -> None:
        if point == "slices-staged" and not published:
            published.append(point)
            site.publish((1, 3))

    monkeypatch.setattr(faults, "reached", publish_meanwhile)
    site.run()
    assert published
    assert site.nets() == {1: {3: 1, 2: -1, 1002: 1}}

    site.bring("joined_visits", (1, 3, "Y"))
    site.run()
    site.check()
    assert [row[1] for row in site.final()] == [2003]


@pytest.mark.long
@pytest.mark.scenario("D25")
def test_a_block_that_comes_twice_counts_once_even_after_200_inserts_by_others(site, monkeypatch):
    site.publish((1, 1))
    site.bring("joined_visits", (1, 1, "X"))

    def die(point: str) -> None:
        if point == "sink-block-sent":
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(faults, "reached", die)
        with pytest.raises(Killed):
            site.run()
    for number in range(100, 300):
        site.fast.publish([{"VisitID": number, "F": 1, "pages": 1, "cost": 0}])
    site.run()

    assert site.nets()[1] == {1001: 1}
    assert site.final()[0] == (1, 1001, "X", None, 0, 2)


@pytest.mark.scenario("D20")
@pytest.mark.parametrize("fast_deletes", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_deleted_visit_leaves_no_row(tmp_path, spark, monkeypatch, fast_deletes):
    monkeypatch.setitem(LOGS, "joined_visits", "VisitID long, F int, title string, gone boolean")
    site = Site(tmp_path, spark, deleted="gone", fast_deletes=fast_deletes)
    site.publish((1, 1), (1, 2), (2, 1))
    site.bring("joined_visits", (1, 2, "X", None), (2, 1, "X", None))
    site.run()
    site.fast.delete(1, retract=fast_deletes)
    site.bring("joined_visits", (1, 2, None, True))
    site.run()

    site.check()
    assert [row[:2] for row in site.final()] == [(2, 1001)]
    site.publish((1, 3))
    site.bring("joined_visits", (1, 3, "Z", None))
    site.run()
    site.check()
    assert [row[:2] for row in site.final()] == [(1, 2003), (2, 1001)]


@pytest.mark.scenario("D20")
def test_runs_that_had_nothing_to_send_leave_the_table_to_the_fast_supplier_until_one_has(tmp_path, spark, monkeypatch):
    monkeypatch.setitem(LOGS, "joined_visits", "VisitID long, F int, title string, gone boolean")
    site = Site(tmp_path, spark, deleted="gone", fast_deletes=True)
    site.publish((1, 1))
    site.bring("joined_visits", (1, 1, "X", None), (1, 1, None, True))  # came and went in one run: no record
    site.fast.delete(1, retract=True)
    assert site.run().sinks[site.sink.name].records == 0
    assert site.sink.position is not None

    site.publish((2, 1))
    site.bring("joined_visits", (2, 1, "Y", None))
    site.run()
    site.check()
    assert [row[:2] for row in site.final()] == [(2, 1001)]


def test_a_table_that_was_dropped_is_filled_again(site):
    site.publish((1, 1))
    site.bring("joined_visits", (1, 1, "X"))
    site.run()
    site.clickhouse.query("DROP TABLE visits SYNC")
    site.sink.prepare()
    site.fast = sm.FastSupplier(site.clickhouse.insert, "VisitID", "F")
    site.publish((1, 1), (2, 1))
    site.bring("joined_visits", (2, 1, "Y"))
    site.run()

    site.check()


def test_arrays_are_empty_where_the_state_is(tmp_path, spark):
    ds = sm.DataStore(f"sqlite:///{tmp_path / 'control.db'}", tmp_path / "warehouse", spark=spark)
    log = ds.table("log", "VisitID long, F int, goals array<long>")
    clickhouse = sm.ClickHouseSink(f"chdb:///{tmp_path / 'clickhouse'}", table="visits")
    ds.diff("visits", "VisitID", "F", 1000, [log], {"goals": "append"}, sink=clickhouse)
    log.append([{"VisitID": 1, "F": 1, "goals": [7]}, {"VisitID": 1, "F": 1, "goals": [8]}])
    ds.run(fail_fast=True)

    rows = clickhouse.query("SELECT Sign * Version AS signed, goals FROM visits ORDER BY Version")
    assert [tuple(row.values()) for row in rows] == [(-1, []), (1001, [7, 8])]


def interleaved(site: Site, seed: int, actions: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Both suppliers at once, in an order that chance makes, with news that is late, kills, and blocks sent twice."""
    chance, diary = random.Random(seed), []
    on_the_way: list[tuple[str, tuple[Any, ...]]] = []  # news that was made and has not come in yet

    def publish() -> None:
        chosen = [(v, site.versions.get(v, 0) + 1) for v in chance.sample(range(6), chance.randint(1, 3))]
        site.publish(*chosen, pages=chance.randint(0, 9), cost=chance.randint(0, 9))
        for visit, version in chosen:
            log = chance.choice(list(LOGS))
            value = chance.choice("abc") if log == "joined_visits" else chance.randint(1, 9)
            on_the_way.extend((log, (visit, version, value)) for _ in range(chance.randint(0, 2)))
        diary.append(f"publish {chosen}")

    def bring() -> None:
        chance.shuffle(on_the_way)
        for _ in range(min(len(on_the_way), chance.randint(1, 4))):
            log, row = on_the_way.pop()
            site.bring(log, row)
            diary.append(f"{log}: {row}")

    def run() -> None:
        point, count = chance.choice([*POINTS, None, None]), chance.randint(1, 3)
        passed = []

        def die(reached: str) -> None:
            passed.extend([reached] if reached == point else [])
            if len(passed) == count:
                passed.append("dead")
                raise Killed

        with monkeypatch.context() as patched:
            patched.setattr(faults, "reached", die)
            try:
                site.run()
                diary.append("run")
            except Killed:
                diary.append(f"run, killed at {point}")

    def send_again() -> None:
        """The control database forgets how far the sink is; the target knows."""
        with site.ds.control.leases.held(f"sink:{site.sink.name}") as lease:
            site.ds.control.sinks.forget(lease, site.sink.name, site.sink.table)
        diary.append("the sink's position is lost")

    for _ in range(actions):
        (action,) = chance.choices([publish, bring, run, send_again], [4, 5, 3, 1])
        action()
    while on_the_way:
        bring()
    for visit, version in site.versions.items():
        site.bring("joined_visits", (visit, version, "last"))  # the slow supplier hears of every newest version
    site.run()
    return diary


def nets_to_one_row_each(site: Site, seed: int, actions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    diary = interleaved(site, seed, actions, monkeypatch)
    try:
        assert {row[0] for row in site.state()} == set(site.versions)
        site.check()
        again = site.run()
        assert (again.did_something, [sent.blocks for sent in again.sinks.values()]) == (False, [0])
        assert site.ds.verify(replay=True).ok
    except AssertionError as error:
        error.add_note("this is what happened:\n" + "\n".join(diary))
        raise


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_any_order_of_both_suppliers_nets_to_one_row_each(site, monkeypatch, seed):
    nets_to_one_row_each(site, seed, actions=14, monkeypatch=monkeypatch)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 106))
def test_many_orders_of_both_suppliers_net_to_one_row_each(site, monkeypatch, seed):
    nets_to_one_row_each(site, seed, actions=30, monkeypatch=monkeypatch)

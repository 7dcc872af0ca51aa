"""Random histories of a fast and a slow supplier: the slow one writes what plain Python says it should."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

_spec = importlib.util.spec_from_file_location("oracle_of_diffs", Path(__file__).with_name("oracle.py"))
oracle = importlib.util.module_from_spec(_spec)
sys.modules["oracle_of_diffs"] = oracle
_spec.loader.exec_module(oracle)

Entry, Log, Oracle = oracle.Entry, oracle.Log, oracle.Oracle
MULTIPLIER = 20
BAD = (MULTIPLIER, -1, None, 999)
RULES = {"title": "overwrite", "first": "keep", "revenue": "sum", "cost": "max", "goals": "append", "fee": "sum"}


@dataclass
class Wave:
    """What one commit to a log brings: rows, keys of rows that it loses, and the visits that they are about."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    visits: set[int] = field(default_factory=set)


class History:
    """A store, the oracle beside it, a fast supplier, and a diary of all that was done."""

    population = range(1, 7)

    def __init__(self, make_visits: Callable[..., Any], seed: int) -> None:
        self.chance = random.Random(seed)
        self.keyed_visits, self.keyed_conversions = self.chance.random() < 0.5, self.chance.random() < 0.5
        fast_deletes = self.chance.random() < 0.5
        marks = "" if self.keyed_visits else ", gone boolean"
        conversion = "ConversionID long, " if self.keyed_conversions else ""
        self.visits = make_visits(
            logs={
                "joined_visits": f"VisitID long, y_VisitVersion int, title string, first string{marks}",
                "joined_conversions": f"{conversion}VisitID long, y_VisitVersion int, revenue long, fee double",
                "joined_costs": "VisitID long, y_VisitVersion int, cost int, goals array<int>",
            },
            keys=({"joined_visits": "VisitID"} if self.keyed_visits else {})
            | ({"joined_conversions": "ConversionID"} if self.keyed_conversions else {}),
            merge={name: rule for name, rule in RULES.items() if rule != "overwrite"},
            multiplier=MULTIPLIER,
            fast_deletes=fast_deletes,
            deleted=None if self.keyed_visits else "gone",
        )
        visit_key = "VisitID" if self.keyed_visits else None
        ids = ("ConversionID",) if self.keyed_conversions else ()
        self.log = {
            "visits": Log("joined_visits", ("title", "first"), visit_key, self.keyed_visits),
            "conversions": Log("joined_conversions", (*ids, "revenue", "fee"), "C" if self.keyed_conversions else None),
            "costs": Log("joined_costs", ("cost", "goals")),
        }  # fmt: skip
        rules = RULES | dict.fromkeys(ids, "overwrite")
        self.oracle = Oracle(list(self.log.values()), rules, MULTIPLIER, fast_deletes=fast_deletes)
        self.fast_deletes = fast_deletes
        self.newest: dict[int, int] = {}  # what the fast supplier has published of visits that live
        self.told: dict[int, int] = {}  # and what the first log has told of it
        self.last: dict[int, int] = {}  # also of those that are gone
        self.rows: dict[int, tuple[Any, ...]] = {}  # the first log's row of each visit, if it is keyed
        self.conversions: dict[int, tuple[Any, ...]] = {}
        self.diary = [f"seed {seed}", f"keyed: {self.keyed_visits}, {self.keyed_conversions}", f"{fast_deletes=}"]

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(self, log: str, visit: int, *rows: tuple[Any, ...]) -> None:
        """Rows of a visit that a log brings."""
        self.visits.bring(log, *rows)

    def drop(self, log: str, visit: int, row: int) -> None:
        """A row of a visit that a keyed log loses."""
        self.visits.delete(log, (row,))

    # --- the fast supplier and the first log --------------------------------------------------------------------------

    def publish(self) -> None:
        """The fast supplier writes the next version; its chunk comes now, or with a later one."""
        visit = self.chance.choice(self.population)
        now, last = self.newest.get(visit), self.last.get(visit, -1)
        if last + 1 >= MULTIPLIER:
            return
        new = last + 1
        self.visits.fast(visit, f"+{new}" if now is None else f"-{now} +{new}")
        is_new = now is None
        self.newest[visit] = self.last[visit] = new
        if is_new or self.chance.random() < 0.7:
            self.tell(visit, new)

    def tell(self, visit: int, fast: int | None) -> None:
        title, first = (self.chance.choice(["a", "b", "c", None]) for _ in range(2))
        if fast is not None and 0 <= fast < MULTIPLIER:
            self.told[visit] = fast
        self.bring_visits([(visit, fast, title, first)])

    def bring_visits(self, rows: list[tuple[Any, ...]], *, gone: bool = False) -> None:
        self.diary.append(f"visits {rows}{' gone' if gone else ''}")
        entries = self.log["visits"].entries
        for row in rows:
            values = (("title", row[2]), ("first", row[3]))
            if not self.keyed_visits:
                entries.append(Entry("+A", row[0], row[1], values, gone=gone))
                continue
            before = self.rows.get(row[0])
            if before == row:
                continue
            if before is not None:
                was = (("title", before[2]), ("first", before[3]))
                entries.append(Entry("-C", before[0], before[1], was, row=row[0]))
            entries.append(Entry("+A" if before is None else "+C", row[0], row[1], values, row=row[0]))
            self.rows[row[0]] = row
        self.put("joined_visits", rows[0][0], *[row if self.keyed_visits else (*row, gone) for row in rows])

    def late_or_doubled(self) -> None:
        """An append-only first log brings rows of versions that were left behind, and the same visit twice."""
        living = sorted(self.told)
        if self.keyed_visits or not living:
            return
        visit = self.chance.choice(living)
        versions = [self.chance.randint(0, self.told[visit]) for _ in range(self.chance.randint(1, 3))]
        self.bring_visits([(visit, fast, self.chance.choice(["d", None]), "late") for fast in versions])

    def bad(self) -> None:
        living = sorted(self.told)
        if living:
            visit, fast = self.chance.choice(living), self.chance.choice(BAD)
            if self.chance.random() < 0.5:
                self.bring_visits([(visit, fast, "bad", None)])
            else:
                self.convert(visit, fast)

    def delete(self) -> None:
        living = sorted(self.told)
        if not living:
            return
        visit = self.chance.choice(living)
        now = self.newest.pop(visit)
        self.tell(visit, now)  # it has told of every version before it tells of the end
        del self.told[visit]
        self.conversions = {key: row for key, row in self.conversions.items() if row[0] != visit}
        if self.fast_deletes:
            self.visits.fast(visit, f"-{now}")
        if not self.keyed_visits:
            self.bring_visits([(visit, now, None, None)], gone=True)
            return
        self.diary.append(f"delete {visit}")
        row = self.rows.pop(visit)
        values = (("title", row[2]), ("first", row[3]))
        self.log["visits"].entries.append(Entry("-R", visit, row[1], values, row=visit))
        self.drop("joined_visits", visit, visit)

    # --- side logs ----------------------------------------------------------------------------------------------------

    def convert(self, visit: int | None = None, fast: Any = "some") -> None:
        living = sorted(self.told)
        if visit is None and not living:
            return
        visit = visit or self.chance.choice(living)
        fast = self.chance.randint(0, self.told[visit]) if fast == "some" else fast
        values = (self.chance.choice([1, 5, None]), self.chance.choice([0.1, 0.25, 1e9, None]))
        mine = [key for key, row in self.conversions.items() if row[0] == visit]
        number = len(self.log["conversions"].entries)
        if self.keyed_conversions and mine and self.chance.random() < 0.5:
            number = self.chance.choice(mine)  # a correction
        self.diary.append(f"conversion {number}: {(visit, fast, *values)}")
        self.put_conversion(number, (visit, fast, *values))

    def put_conversion(self, number: int, row: tuple[Any, ...]) -> None:
        def entry(op: str, row: tuple[Any, ...]) -> Any:
            ids = (("ConversionID", number),) if self.keyed_conversions else ()
            return Entry(op, row[0], row[1], (*ids, ("revenue", row[2]), ("fee", row[3])), row=number)

        entries, before = self.log["conversions"].entries, self.conversions.get(number)
        if not self.keyed_conversions:
            entries.append(entry("+A", row))
            self.put("joined_conversions", row[0], row)
        elif before != row:
            entries += [entry("-C", before), entry("+C", row)] if before else [entry("+A", row)]
            self.conversions[number] = row
            self.put("joined_conversions", row[0], (number, *row))

    def take_conversion(self) -> None:
        if self.conversions:
            number = self.chance.choice(sorted(self.conversions))
            row = self.conversions.pop(number)
            self.diary.append(f"take conversion {number}")
            values = (("ConversionID", number), ("revenue", row[2]), ("fee", row[3]))
            self.log["conversions"].entries.append(Entry("-R", row[0], row[1], values, row=number))
            self.drop("joined_conversions", row[0], number)

    def cost(self) -> None:
        living = sorted(self.told)
        if not living:
            return
        rows = []
        for _ in range(self.chance.randint(1, 3)):
            visit = self.chance.choice(living)
            goals = self.chance.choice([None, [], [1], [2, 3]])
            rows.append((visit, self.chance.randint(0, self.told[visit]), self.chance.choice([1, 7, 3, None]), goals))
        self.diary.append(f"costs {rows}")
        for visit, fast, cost, goals in rows:
            self.log["costs"].entries.append(Entry("+A", visit, fast, (("cost", cost), ("goals", goals))))
        self.put("joined_costs", rows[0][0], *rows)

    # --- runs ---------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        self.diary.append("run")
        self.visits.run()
        self.oracle.run()
        self.check()

    def give_up(self) -> None:
        failed = sorted(self.oracle.waiting)
        if failed:
            chosen = [visit for visit in failed if self.chance.random() < 0.7] or failed[:1]
            self.diary.append(f"give up {chosen}")
            assert self.visits.diff.give_up(pa.table({"VisitID": chosen})) == len(chosen)
            self.oracle.give_up(chosen)
            self.check()

    def check(self) -> None:
        """State, records and failed visits are those of the oracle."""
        columns = [name for name in self.visits.diff.spec.state_schema.names if name in self.oracle.rules]
        wanted = {
            visit: (known.fast, known.slow, *[known.state[name] for name in columns])
            for visit, known in self.oracle.known.items()
        }
        assert self.visits.state() == wanted
        written: dict[int, list[Any]] = {}
        for line in self.visits.records():
            state = {name: line[name] for name in columns}
            told = (line["Sign"], line["SlowVersion"], line["y_VisitVersion"], line["log"], state)
            written.setdefault(line["VisitID"], []).append(told)
        assert written == {visit: lines for visit, lines in self.oracle.written.items() if lines}
        assert set(self.visits.diff.failures().VisitID) == set(self.oracle.waiting)

    def settle(self) -> None:
        """All chunks are there and nobody waits: of each visit that lives one version stands, of the others none."""
        for visit, fast in sorted(self.newest.items()):
            self.tell(visit, fast)
        self.run()
        if self.oracle.waiting:
            self.diary.append("give up all")
            self.visits.diff.give_up()
            self.oracle.give_up(self.oracle.waiting)
            self.check()
        standing = self.visits.newest()
        assert set(standing) == set(self.newest)
        assert self.visits.standing() == {visit: standing.get(visit, "") for visit in self.visits.standing()}
        assert {visit: row[0] for visit, row in self.visits.state().items()} == self.newest
        assert not self.visits.run().did_something
        report = self.visits.store.verify(replay=True)
        assert report.ok, report.findings

    def unfold(self, runs: int, between: int) -> None:
        kinds = {
            self.publish: 8, self.late_or_doubled: 3, self.convert: 5, self.cost: 3, self.delete: 2, self.bad: 1,
            self.take_conversion: 2,
        }  # fmt: skip
        for _ in range(runs):
            for kind in self.chance.choices(list(kinds), list(kinds.values()), k=between):
                kind()
            self.run()
            if self.chance.random() < 0.4:
                self.give_up()
        self.settle()


class Crowd(History):
    """Many visits at once. What happens between two runs is written in a few commits: in each, a visit changes once."""

    population = range(1, 301)

    def __init__(self, make_visits: Callable[..., Any], seed: int) -> None:
        super().__init__(make_visits, seed)
        self.waves: dict[str, list[Wave]] = {name: [] for name in self.visits.logs}

    def put(self, log: str, visit: int, *rows: tuple[Any, ...]) -> None:
        self.wave_of(log, visit).rows.extend(rows)

    def drop(self, log: str, visit: int, row: int) -> None:
        self.wave_of(log, visit).dropped.append(row)

    def wave_of(self, log: str, visit: int) -> Wave:
        """The first commit in which nothing has happened to the visit yet; an append-only log needs only one."""
        waves, is_keyed = self.waves[log], bool(self.visits.logs[log].key)
        place = sum(visit in wave.visits for wave in waves) if is_keyed else 0
        if place == len(waves):
            waves.append(Wave())
        waves[place].visits.add(visit)
        return waves[place]

    def run(self) -> None:
        for log, waves in self.waves.items():
            for wave in waves:
                if wave.rows:
                    self.visits.bring(log, *wave.rows)
                if wave.dropped:
                    self.visits.delete(log, *[(row,) for row in wave.dropped])
            waves.clear()
        super().run()


def unfolded(
    make_visits: Callable[..., Any], seed: int, runs: int, between: int, kind: type[History] = History
) -> History:
    history = kind(make_visits, seed)
    try:
        history.unfold(runs, between)
    except Exception as error:
        error.add_note("\n".join(history.diary))
        raise
    return history


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(4))
def test_a_short_history_gives_what_the_oracle_gives(make_visits, seed):
    history = unfolded(make_visits, seed, runs=2, between=14)
    assert Counter(line[0] for lines in history.oracle.written.values() for line in lines)[+1] > 3


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_long_history_gives_what_the_oracle_gives(make_visits, seed):
    unfolded(make_visits, seed, runs=6, between=18)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [200])
def test_a_crowd_gives_what_the_oracle_gives(make_visits, seed):
    unfolded(make_visits, seed, runs=2, between=1000, kind=Crowd)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [201, 203])
def test_several_crowds_give_what_the_oracle_gives(make_visits, seed):
    unfolded(make_visits, seed, runs=4, between=2500, kind=Crowd)

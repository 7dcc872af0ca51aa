"""Random histories of a fast and a slow supplier: the slow one writes what plain Python says it should.

Visits live several times, runs are cut anywhere, time passes, sessions are in other time zones, the time to live is
changed between runs, and some diffs have a column that no visit changes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from tests.support.diff_oracle import Entry, Log, Oracle

MULTIPLIER = 20
BAD = (MULTIPLIER, -1, None, 999)
RULES = {"title": "overwrite", "first": "keep", "revenue": "sum", "cost": "max", "goals": "append", "fee": "sum"}
ZONES = ("UTC", "America/Los_Angeles", "Pacific/Kiritimati")
TTLS = (None, ("seen", 30), ("seen", 10), ("begun", 30))  # columns, and days


@dataclass
class Wave:
    """What one commit to a log brings: rows, keys of rows that it loses, and the visits that they are about."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    visits: set[int] = field(default_factory=set)


def counter_of(visit: int) -> int:
    """What a visit has in a column that no visit changes."""
    return visit % 3 + 7


class History:
    """A store, the oracle beside it, a fast supplier, and a diary of all that was done."""

    population = range(1, 7)

    def __init__(self, make_visits: Callable[..., Any], seed: int, clock: Any) -> None:
        self.chance, self.clock = random.Random(seed), clock
        self.keyed_visits, self.keyed_conversions = self.chance.random() < 0.5, self.chance.random() < 0.5
        fast_deletes = self.chance.random() < 0.5
        self.has_times, self.timed_conversions = self.chance.random() < 0.6, self.chance.random() < 0.5
        self.timed_conversions = self.timed_conversions and self.has_times
        self.ttl: tuple[str, int] | None = self.chance.choice(TTLS[:2]) if self.has_times else None
        self.constant = ("counter",) if seed % 2 else ()
        keep_gone = timedelta(days=400 if seed % 3 else 15)
        marks = "" if self.keyed_visits else ", gone boolean"
        constant = ", counter int" if self.constant else ""
        seen, begun = (", seen timestamp", ", begun timestamp") if self.has_times else ("", "")
        conversion = "ConversionID long, " if self.keyed_conversions else ""
        self.make = partial(
            make_visits,
            logs={
                "joined_visits": "VisitID long, y_VisitVersion int, title string, first string"
                + f"{seen}{begun}{constant}{marks}",
                "joined_conversions": f"{conversion}VisitID long, y_VisitVersion int, revenue long, fee double"
                + (seen if self.timed_conversions else "")
                + constant,
                "joined_costs": f"VisitID long, y_VisitVersion int, cost int, goals array<int>{constant}",
            },
            keys=({"joined_visits": "VisitID"} if self.keyed_visits else {})
            | ({"joined_conversions": "ConversionID"} if self.keyed_conversions else {}),
            merge={name: rule for name, rule in RULES.items() if rule != "overwrite"},
            multiplier=MULTIPLIER,
            fast_deletes=fast_deletes,
            deleted=None if self.keyed_visits else "gone",
            on_change="keep",
            keep_gone=keep_gone,
            **({"constant": list(self.constant)} if self.constant else {}),
        )
        self.visits = self.make(ttl=self.declared_ttl)
        visit_key = "VisitID" if self.keyed_visits else None
        ids = ("ConversionID",) if self.keyed_conversions else ()
        self.times = ("seen", "begun") if self.has_times else ()
        late = ("seen",) if self.timed_conversions else ()
        self.log = {
            "visits": Log(
                "joined_visits", ("title", "first", *self.times, *self.constant), visit_key, self.keyed_visits
            ),
            "conversions": Log(
                "joined_conversions",
                (*ids, "revenue", "fee", *late, *self.constant),
                "C" if self.keyed_conversions else None,
            ),
            "costs": Log("joined_costs", ("cost", "goals", *self.constant)),
        }
        rules = RULES | dict.fromkeys((*ids, *self.times, *self.constant), "overwrite")
        ttl = self.ttl[0] if self.ttl else None
        constants = dict.fromkeys(self.constant, counter_of)
        self.oracle = Oracle(
            list(self.log.values()), rules, MULTIPLIER, fast_deletes=fast_deletes, ttl=ttl, constant=constants,
            now=clock.now, keep_gone=keep_gone,
        )  # fmt: skip
        self.fast_deletes = fast_deletes
        self.newest: dict[int, int] = {}  # what the fast supplier has published of visits that live
        self.told: dict[int, int] = {}  # and what the first log has told of it
        self.last: dict[int, int] = {}  # also of those that are gone
        self.rows: dict[int, tuple[Any, ...]] = {}  # the first log's row of each visit, if it is keyed
        self.conversions: dict[int, tuple[Any, ...]] = {}
        self.diary = [
            f"seed {seed}", f"constant: {self.constant}", f"keyed: {self.keyed_visits}, {self.keyed_conversions}",
            f"{fast_deletes=}", f"keep_gone: {keep_gone.days} days", f"ttl: {self.ttl}, {self.timed_conversions}",
        ]  # fmt: skip

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(self, log: str, visit: int, *rows: tuple[Any, ...]) -> None:
        """Rows of a visit that a log brings."""
        self.visits.bring(log, *rows)

    def drop(self, log: str, visit: int, row: int) -> None:
        """A row of a visit that a keyed log loses."""
        self.visits.delete(log, (row,))

    # --- time ---------------------------------------------------------------------------------------------------------

    @property
    def declared_ttl(self) -> tuple[str, str] | None:
        return (self.ttl[0], f"{self.ttl[1]} days") if self.ttl else None

    @property
    def horizon(self) -> Any:
        return self.clock.now() - timedelta(days=self.ttl[1]) if self.ttl else None

    def change_ttl(self) -> None:
        """The diff is declared again, and its visits live for another time, by another column, or for ever."""
        if not self.has_times:
            return
        self.ttl = self.chance.choice([ttl for ttl in TTLS if ttl != self.ttl])
        self.diary.append(f"ttl: {self.ttl}")
        self.visits = self.make(ttl=self.declared_ttl).following(self.visits)
        self.oracle.ttl = self.ttl[0] if self.ttl else None

    def pass_time(self) -> None:
        if self.has_times:
            days = self.chance.choice([0.5, 3, 12])
            self.diary.append(f"{days} days pass")
            self.clock.advance(days=days)

    def moments(self) -> tuple[Any, ...]:
        """When a visit was seen and when it began, as the columns of a row."""
        return (self.moment(), self.moment()) if self.has_times else ()

    def moment(self) -> Any:
        """Some time: now and then too long ago."""
        days = self.chance.choice([0, 0, 1, 5, 20, 29, 31, None])
        return None if days is None else self.clock.now() - timedelta(days=days)

    @contextmanager
    def zone(self) -> Iterator[None]:
        """A session in one of several time zones."""
        conf, zone = self.visits.store.spark.conf, self.chance.choice(ZONES)
        before = conf.get("spark.sql.session.timeZone")
        conf.set("spark.sql.session.timeZone", zone)
        self.diary.append(f"in {zone}")
        try:
            yield
        finally:
            conf.set("spark.sql.session.timeZone", before)

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
        self.bring_visits([(visit, fast, title, first, *self.moments())])

    def bring_visits(self, rows: list[tuple[Any, ...]], *, gone: bool = False) -> None:
        self.diary.append(f"visits {rows}{' gone' if gone else ''}")
        entries = self.log["visits"].entries
        for row in rows:
            values = self.visit_values(row)
            if not self.keyed_visits:
                entries.append(Entry("+A", row[0], row[1], values, gone=gone))
                continue
            before = self.rows.get(row[0])
            if before == row:
                continue
            new = Entry("+A" if before is None else "+C", row[0], row[1], values, row=row[0])
            if before is not None:
                was = self.visit_values(before)
                entries.append(Entry("-C", before[0], before[1], was, row=row[0], then=new))
            entries.append(new)
            self.rows[row[0]] = row
        marks = () if self.keyed_visits else (gone,)
        self.put("joined_visits", rows[0][0], *[(*row, *self.counter(row[0]), *marks) for row in rows])

    def visit_values(self, row: tuple[Any, ...]) -> tuple[tuple[str, Any], ...]:
        return self.values(("title", "first", *self.times), row)

    def values(self, names: tuple[str, ...], row: tuple[Any, ...]) -> tuple[tuple[str, Any], ...]:
        """A row's values by the names of its columns, with those that its visit never changes."""
        return tuple(zip((*names, *self.constant), (*row[2:], *self.counter(row[0])), strict=True))

    def counter(self, visit: int) -> tuple[int, ...]:
        return tuple(counter_of(visit) for _ in self.constant)

    def late_or_doubled(self) -> None:
        """An append-only first log brings rows of versions that were left behind, and the same visit twice."""
        living = sorted(self.told)
        if self.keyed_visits or not living:
            return
        visit = self.chance.choice(living)
        versions = [self.chance.randint(0, self.told[visit]) for _ in range(self.chance.randint(1, 3))]
        self.bring_visits([(visit, f, self.chance.choice(["d", None]), "late", *self.moments()) for f in versions])

    def bad(self) -> None:
        living = sorted(self.told)
        if living:
            visit, fast = self.chance.choice(living), self.chance.choice(BAD)
            if self.chance.random() < 0.5:
                self.bring_visits([(visit, fast, "bad", None, *self.moments())])
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
        if self.fast_deletes:
            self.visits.fast(visit, f"-{now}")
        if not self.keyed_visits:
            self.bring_visits([(visit, now, None, None, *self.moments())], gone=True)
        else:
            self.lose_row(visit)

    def lose_row(self, visit: int) -> None:
        self.diary.append(f"delete {visit}")
        row = self.rows.pop(visit)
        self.log["visits"].entries.append(Entry("-R", visit, row[1], self.visit_values(row), row=visit))
        self.drop("joined_visits", visit, visit)

    def after_the_end(self) -> None:
        """News of a visit that is gone: of the life that is over, or of one that nobody has seen."""
        gone = sorted(visit for visit in self.last if visit not in self.newest)
        if not gone:
            return
        visit = self.chance.choice(gone)
        fast = self.chance.randint(0, self.last[visit])
        match self.chance.choice(["news", "side news", "delete", "unseen life"]):
            case "news":
                self.bring_visits([(visit, fast, "too late", None, *self.moments())])
                if self.keyed_visits and self.chance.random() < 0.5:
                    self.lose_row(visit)
            case "side news":
                self.convert(visit, min(self.last[visit] + 1, MULTIPLIER - 1))
            case "delete" if not self.keyed_visits:
                self.bring_visits([(visit, self.chance.choice([fast, None]), None, None, *self.moments())], gone=True)
            case "unseen life" if not self.keyed_visits and self.last[visit] + 1 < MULTIPLIER:
                self.last[visit] += 1
                self.visits.fast(visit, f"+{self.last[visit]}" + (f" -{self.last[visit]}" if self.fast_deletes else ""))
                self.bring_visits([(visit, self.last[visit], None, None, *self.moments())], gone=True)

    # --- side logs ----------------------------------------------------------------------------------------------------

    def convert(self, visit: int | None = None, fast: Any = "some") -> None:
        living = sorted(self.told)
        if visit is None and not living:
            return
        visit = visit or self.chance.choice(living)
        fast = self.chance.randint(0, self.told[visit]) if fast == "some" else fast
        values: tuple[Any, ...] = (self.chance.choice([1, 5, None]), self.chance.choice([0.1, 0.25, 1e9, None]))
        values += (self.moment(),) if self.timed_conversions else ()
        mine = [key for key, row in self.conversions.items() if row[0] == visit]
        number = len(self.log["conversions"].entries)
        if self.keyed_conversions and mine and self.chance.random() < 0.5:
            number = self.chance.choice(mine)  # a correction
        self.diary.append(f"conversion {number}: {(visit, fast, *values)}")
        self.put_conversion(number, (visit, fast, *values))

    def put_conversion(self, number: int, row: tuple[Any, ...]) -> None:
        def entry(op: str, row: tuple[Any, ...], then: Any = None) -> Any:
            return Entry(op, row[0], row[1], self.conversion_values(number, row), row=number, then=then)

        entries, before = self.log["conversions"].entries, self.conversions.get(number)
        if not self.keyed_conversions:
            entries.append(entry("+A", row))
            self.put("joined_conversions", row[0], (*row, *self.counter(row[0])))
        elif before != row:
            new = entry("+C" if before else "+A", row)
            entries += [entry("-C", before, new), new] if before else [new]
            self.conversions[number] = row
            self.put("joined_conversions", row[0], (number, *row, *self.counter(row[0])))

    def conversion_values(self, number: int, row: tuple[Any, ...]) -> tuple[tuple[str, Any], ...]:
        names = ("revenue", "fee", *(("seen",) if self.timed_conversions else ()))
        ids = (("ConversionID", number),) if self.keyed_conversions else ()
        return (*ids, *self.values(names, row))

    def take_conversion(self) -> None:
        if self.conversions:
            number = self.chance.choice(sorted(self.conversions))
            row = self.conversions.pop(number)
            self.diary.append(f"take conversion {number}")
            values = self.conversion_values(number, row)
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
            values = self.values(("cost", "goals"), (visit, fast, cost, goals))
            self.log["costs"].entries.append(Entry("+A", visit, fast, values))
        self.put("joined_costs", rows[0][0], *[(*row, *self.counter(row[0])) for row in rows])

    # --- runs ---------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        self.diary.append("run")
        with self.zone():
            if self.oracle.waiting and self.has_times:  # what waited may have become too late since, the bad record too
                self.visits.diff.retry()
                self.oracle.retry(self.horizon)
            self.visits.run()
        self.oracle.run(self.horizon)
        self.check()

    def give_up(self) -> None:
        failed = sorted(self.oracle.waiting)
        if failed:
            chosen = [visit for visit in failed if self.chance.random() < 0.7] or failed[:1]
            self.diary.append(f"give up {chosen}")
            assert self.visits.diff.give_up(pa.table({"VisitID": chosen})) == len(chosen)
            self.oracle.give_up(chosen, self.horizon)
            self.check()

    def check(self) -> None:
        """State, records and failed visits are those of the oracle."""
        columns = [name for name in self.visits.diff.spec.state_schema.names if name in self.oracle.rules]
        wanted = {
            visit: (known.fast, known.slow, *[known.state[name] for name in columns])
            for visit, known in self.oracle.known.items()
        }
        self.same(self.visits.state(), wanted)
        written: dict[int, list[Any]] = {}
        for line in self.visits.records():
            state = {name: line[name] for name in columns}
            told = (line["Sign"], line["SlowVersion"], line["y_VisitVersion"], line["log"], state)
            written.setdefault(line["VisitID"], []).append(told)
        self.same(written, {visit: lines for visit, lines in self.oracle.written.items() if lines})
        assert set(self.visits.diff.failures().VisitID) == set(self.oracle.waiting)
        marks = {row["VisitID"]: tuple(row.values())[1:4] for row in self.visits.rows("visits_gone")}
        self.same(marks, {visit: (mark.fast, mark.slow, mark.reason) for visit, mark in self.oracle.marks.items()})
        assert self.visits.diff.too_late == self.oracle.too_late
        if self.ttl:
            column = self.ttl[0]
            by_time = {(row["VisitID"], row[column]) for row in self.visits.lines_left(f"visits_by_{column}")}
            times = {visit: known.state[column] for visit, known in self.oracle.known.items()}
            assert by_time == {(visit, time) for visit, time in times.items() if time is not None}
        self.check_versions()

    def same(self, found: dict[int, Any], wanted: dict[int, Any]) -> None:
        """What was found of each visit is what was wanted; else show the visits of which it is not."""
        other = [visit for visit in sorted({*found, *wanted}) if found.get(visit) != wanted.get(visit)]
        assert not other, {visit: {"found": found.get(visit), "wanted": wanted.get(visit)} for visit in other[:5]}

    def check_versions(self) -> None:
        """No version of the slow supplier's is ever used twice, as long as its mark is kept."""
        for visit in self.oracle.written.keys() - self.oracle.forgotten:
            lines = self.oracle.written[visit]
            used = Counter((sign, slow, fast) for sign, slow, fast, *_ in lines if slow > 0)
            assert set(used.values()) <= {1}, visit
            by_slow = Counter(slow for sign, slow, *_ in lines if slow > 0 and sign > 0)
            assert set(by_slow.values()) <= {1}, visit

    def settle(self) -> None:
        """All chunks are there and nobody waits: of each visit that lives one version stands, of the others none."""
        for visit, fast in sorted(self.newest.items()):
            self.tell(visit, fast)
        self.run()
        if self.oracle.waiting:
            self.diary.append("give up all")
            self.visits.diff.give_up()
            self.oracle.give_up(self.oracle.waiting, self.horizon)
            self.check()
        standing = self.visits.newest()
        if not self.has_times:  # nobody knows the newest version of a visit whose news came too late
            assert set(standing) == set(self.newest)
            assert self.visits.standing() == {visit: standing.get(visit, "") for visit in self.visits.standing()}
            assert {visit: row[0] for visit, row in self.visits.state().items()} == self.newest
        assert not self.visits.run().did_something
        report = self.visits.store.verify(replay=True)
        assert report.ok, report.findings

    def unfold(self, runs: int, between: int) -> None:
        kinds = {
            self.publish: 8, self.late_or_doubled: 3, self.convert: 5, self.cost: 3, self.delete: 2, self.bad: 1,
            self.take_conversion: 2, self.after_the_end: 3, self.pass_time: 1,
        }  # fmt: skip
        for number in range(runs):
            for kind in self.chance.choices(list(kinds), list(kinds.values()), k=between):
                kind()
            if number > 0 and self.chance.random() < 0.6:
                self.change_ttl()
            self.run()
            if self.chance.random() < 0.4:
                self.give_up()
        self.settle()


class Crowd(History):
    """Many visits at once. What happens between two runs is written in a few commits: in each, a visit changes once."""

    population = range(1, 301)

    def __init__(self, make_visits: Callable[..., Any], seed: int, clock: Any) -> None:
        super().__init__(make_visits, seed, clock)
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
    make_visits: Callable[..., Any], seed: int, clock: Any, runs: int, between: int, kind: type[History] = History
) -> History:
    history = kind(make_visits, seed, clock)
    try:
        history.unfold(runs, between)
    except Exception as error:
        error.add_note("\n".join(history.diary))
        raise
    return history


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [0, *[pytest.param(seed, marks=pytest.mark.long) for seed in (1, 3, 11)]])
def test_a_short_history_gives_what_the_oracle_gives(make_visits, clock, seed):
    history = unfolded(make_visits, seed, clock, runs=2, between=14)
    assert Counter(line[0] for lines in history.oracle.written.values() for line in lines)[+1] > 3


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(100, 106))
def test_a_long_history_gives_what_the_oracle_gives(make_visits, clock, seed):
    unfolded(make_visits, seed, clock, runs=6, between=18)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [200])
def test_a_crowd_gives_what_the_oracle_gives(make_visits, clock, seed):
    unfolded(make_visits, seed, clock, runs=2, between=1000, kind=Crowd)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [201, 203])
def test_several_crowds_give_what_the_oracle_gives(make_visits, clock, seed):
    unfolded(make_visits, seed, clock, runs=4, between=2500, kind=Crowd)

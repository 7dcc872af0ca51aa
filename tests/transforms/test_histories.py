"""Random histories through steps of every shape: what comes out is what plain Python makes of the same rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from tests.support import frame_kinds, killed_workers, more_shapes, shapes_of_inputs, shapes_of_steps

import seamark as sm

for module in (killed_workers, shapes_of_steps, more_shapes, shapes_of_inputs, frame_kinds):
    cloudpickle.register_pickle_by_value(module)  # executors do not find it

SHAPES = shapes_of_steps.SHAPES | more_shapes.MORE_SHAPES | shapes_of_inputs.INPUT_SHAPES
Row = tuple[Any, ...]
ZONES = ("UTC", "America/Los_Angeles", "Pacific/Kiritimati")
OPTIONS = {"batch_rows": (2, 3, 1_000), "batch_keys": (2, 1_000), "commit": ("batch", "run")}


class History:
    """A store with one step, a model of its tables in plain Python, and a diary of all that was done."""

    def __init__(self, open_store: Callable[[], sm.DataStore], clock: Any, shape: str, seed: int, **given: Any) -> None:
        self.open_store, self.clock, self.chance = open_store, clock, random.Random(seed)
        self.shape, self.seed = SHAPES[shape], seed
        self.broken: dict[str, Any] = {"now": False, "kill": None}
        self.model: dict[str, dict[Row, Row]] = {name: {} for name in self.shape.inputs}
        choices = {**OPTIONS, **self.shape.options}
        self.options = {name: self.chance.choice(values) for name, values in choices.items()} | given
        self.returned = self.chance.choice(frame_kinds.RETURNED)
        self.diary = [f"shape {shape!r}, seed {seed}, options {self.options}, frames returned {self.returned}"]
        self.open()

    def open(self, version: int = 0) -> None:
        """Open the store as another process would, in a session of some zone; the outputs have names of a version."""
        self.ds = self.open_store()
        self.in_some_zone()
        names = {name: f"{name}_{version}" for name in self.shape.outputs} if version else {}
        self.tables = {
            name: self.ds.table(names.get(name, name), table.schema, key=table.names[: table.key] or None)
            for name, table in {**self.shape.inputs, **self.shape.outputs}.items()
        }
        broken, self.broken["now"] = self.broken["now"], False
        self.shape.declare(frame_kinds.Adding(self.ds, self.returned, self.seed, names), self.broken, self.options)
        self.ds.plan()  # reads the definitions: what is broken later is no part of them
        self.broken["now"] = broken

    def told(self) -> str:
        return "\n".join(["this history came out wrong:", *self.diary])

    # --- what may happen ----------------------------------------------------------------------------------------------

    def write(self) -> None:
        name = self.chance.choice([*self.model])
        table = self.shape.inputs[name]
        rows = [self.row(table.values) for _ in range(self.chance.randint(1, 4))]
        if table.key:
            rows = list({row[: table.key]: row for row in rows}.values())
            self.model[name].update({row[: table.key]: row for row in rows})
        else:
            self.model[name].update({(len(self.model[name]) + place,): row for place, row in enumerate(rows)})
        self.diary.append(f"{name}: write {rows}")
        (self.tables[name].upsert if table.key else self.tables[name].append)(self.frame(name, table.names, rows))

    def delete(self) -> None:
        name = self.chance.choice([*self.model])
        table = self.shape.inputs[name]
        if not table.key or not self.model[name]:
            self.write()
            return
        keys = self.chance.sample([*self.model[name]], self.chance.randint(1, min(2, len(self.model[name]))))
        for key in keys:
            del self.model[name][key]
        self.diary.append(f"{name}: delete {keys}")
        self.tables[name].delete(self.frame(name, table.names[: table.key], keys))

    def empty(self) -> None:
        name = self.chance.choice([*self.model])
        if not self.shape.inputs[name].key:
            self.write()
            return
        self.model[name].clear()
        self.diary.append(f"{name}: replace by nothing")
        self.tables[name].replace(self.frame(name, self.shape.inputs[name].names, []))

    def run(self) -> None:
        self.diary.append("run")
        self.look_at(self.ds.run())
        if not any(len(self.ds.step(name).failures()) for name in self.shape.steps):
            self.check()

    def run_with_a_killed_worker(self) -> None:
        """A worker is killed in the middle of a run, if one computes: no key is blamed, and a later run goes on."""
        steps = [self.ds.step(name) for name in self.shape.steps]
        blamed = sum(len(step.failures()) for step in steps)
        kill = self.ds.warehouse.parent / "kill"
        kill.touch()
        self.broken["kill"] = str(kill)
        report = self.ds.run()
        self.broken["kill"] = None
        was_killed = not kill.exists()
        kill.unlink(missing_ok=True)
        self.diary.append("run with a killed worker" if was_killed else "run in which no worker was killed")
        stopped = [str(step.error) for step in report.steps.values() if step.error is not None]
        # While the function is broken, a bad value may be met first: then the keys are tried again one after another.
        assert len(stopped) <= was_killed if self.broken["now"] else len(stopped) == was_killed, report
        assert all("Python worker exited unexpectedly" in text for text in stopped), stopped
        assert self.broken["now"] or sum(len(step.failures()) for step in steps) <= blamed, report

    def run_limited(self) -> None:
        limit = self.chance.randint(1, 3)
        self.diary.append(f"run with limit {limit}")
        self.look_at(self.ds.run(limit=limit))

    def run_filtered(self) -> None:
        group = self.ds.step("step").spec.shape.group
        if group:
            filters = {group[0]: self.chance.choice(self.pool(group[0]))}
            self.diary.append(f"run with filter {filters}")
            self.ds.step("step").run_full(sm.RunConfig(filters=filters))

    def run_idx(self) -> None:
        columns = self.ds.step("step").transform_keys
        keys = [tuple(self.chance.choice(self.pool(name)) for name in columns) for _ in range(2)]
        if columns:
            self.diary.append(f"run_idx {columns} {keys}")
            types = self.ds.step("step").spec.shape.key_types
            values = zip(columns, zip(*keys, strict=True), strict=True)
            rows = pa.table({name: pa.array(given, types[name]) for name, given in values})
            self.ds.step("step").run_idx(frame_kinds.in_chunks(frame_kinds.naive(rows), self.chance))

    def run_changelist(self) -> None:
        name = self.chance.choice([*self.model])
        table = self.shape.inputs[name]
        names = table.names[: table.key or 1]
        keys = [tuple(self.chance.choice(pool) for pool in table.values[: table.key or 1]) for _ in range(2)]
        self.diary.append(f"run_changelist {name} {keys}")
        self.look_at(self.ds.run_changelist(sm.ChangeList({name: self.frame(name, names, keys)})))

    def reset(self) -> None:
        step = self.chance.choice(self.shape.steps)
        inputs = self.ds.step(step).inputs
        table = self.chance.choice([None, *inputs])
        self.diary.append(f"reset {step} {table or 'all inputs'}")
        self.ds.offset_table.reset_offset(*[step, table][: 2 if table else 1])

    def in_some_zone(self) -> None:
        """The session goes on in another time zone."""
        zone = self.chance.choice(ZONES)
        self.diary.append(f"in {zone}")
        self.ds.spark.conf.set("spark.sql.session.timeZone", zone)

    def rename_outputs(self) -> None:
        """The program is started again, with other names for its outputs, or with names that they have had."""
        if len(self.shape.steps) == 1:
            version = self.chance.randint(0, 2)
            self.diary.append(f"outputs are renamed: version {version}")
            self.open(version)

    def fold(self) -> None:
        self.diary.append("fold")
        self.ds.fold()

    def break_or_mend(self) -> None:
        self.broken["now"] = not self.broken["now"]
        self.diary.append("the function breaks" if self.broken["now"] else "the function is mended")

    def retry(self) -> None:
        self.diary.append("retry")
        self.ds.step("step").retry()

    def settle(self) -> None:
        """Mend the function and let all pauses pass: a run makes everything right, and a further one does nothing."""
        self.broken["now"] = False
        self.clock.advance(days=1)
        self.diary.append("settle")
        report = self.look_at(self.ds.run())
        assert report.ok, report
        self.check()
        heads = self.ds.heads()
        again = self.ds.run()
        assert not again.did_something, again
        assert self.ds.heads() == heads
        assert [self.ds.step(name).get_changed_idx_count() for name in self.shape.steps] == [0] * len(self.shape.steps)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def look_at(self, report: sm.RunReport) -> sm.RunReport:
        for step in report.steps.values():
            if step.error is not None:
                raise step.error
            assert step.failed == 0 or self.broken["now"], step
        return report

    def check(self) -> None:
        """Every output equals what the oracle makes of the model's rows."""
        wanted = self.shape.oracle({name: list(rows.values()) for name, rows in self.model.items()})
        for name, rows in wanted.items():
            found = [tuple(map(plain, row.values())) for row in self.tables[name].rows().toArrow().to_pylist()]
            assert sorted(found, key=repr) == sorted(rows, key=repr), name

    # --- small things -------------------------------------------------------------------------------------------------

    def frame(self, table: str, names: list[str], rows: list[Row]) -> Any:
        """Literal rows as a frame, which may come in any way that a door takes."""
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        types = [self.tables[table].schema.column(name).type for name in names]
        found = pa.Table.from_arrays([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=names)
        way = self.chance.choice(frame_kinds.GIVEN)
        self.diary.append(f"  given as {way}")
        ddl = [word for word in self.shape.inputs[table].schema.split(", ") if word.split()[0] in names]
        return frame_kinds.given(found, way, ", ".join(ddl), self.ds.spark, self.chance)

    def row(self, pools: Any) -> Row:
        """Some row; a column without values of its own has those of the one before."""
        row: list[Any] = []
        for pool in pools:
            row.append(self.chance.choice(pool) if pool else row[-1])
        return tuple(row)

    def pool(self, column: str) -> Any:
        table = next(table for table in self.shape.inputs.values() if column in table.names)
        return table.values[table.names.index(column)]

    def unfold(self, actions: int, killed: int, renamed: int) -> None:
        kinds = {
            self.write: 9, self.delete: 4, self.empty: 1, self.run: 5, self.run_limited: 3, self.run_filtered: 1,
            self.run_idx: 1, self.run_changelist: 2, self.reset: 1, self.fold: 1, self.break_or_mend: 2, self.retry: 1,
            self.run_with_a_killed_worker: killed, self.in_some_zone: 1, self.rename_outputs: renamed,
        }  # fmt: skip
        self.write()
        self.write()
        for number in range(actions):
            (kind,) = self.chance.choices(list(kinds), list(kinds.values()))
            kind()
            if number == actions // 2:
                self.settle()
        self.settle()
        self.diary.append("verify")
        verified = self.ds.verify(replay=True)
        assert verified.ok, verified.findings


def plain(value: Any) -> Any:
    """A value as the model has it: moments are naive, in UTC."""
    has_zone = isinstance(value, datetime) and value.tzinfo is not None
    return value.astimezone(UTC).replace(tzinfo=None) if has_zone else value


@pytest.fixture
def unfolded(open_store: Callable[..., sm.DataStore], spark: Any, clock: Any) -> Callable[..., None]:
    """Lets a history unfold in a session of its own; whatever goes wrong is told with its diary."""

    def unfold(shape: str, seed: int, actions: int, killed: int = 2, renamed: int = 1, **given: Any) -> None:
        session = spark.newSession()
        history = History(lambda: open_store(spark=session), clock, shape, seed, **given)
        try:
            history.unfold(actions, killed, renamed)
        except Exception as error:
            error.add_note(history.told())
            raise

    return unfold


@pytest.mark.parametrize("seed", [0, 2, 4, *[pytest.param(seed, marks=pytest.mark.long) for seed in (1, 3, 5)]])
def test_a_short_history_gives_what_recomputing_gives(unfolded, seed):
    shape = list(SHAPES)[seed * 7 % len(SHAPES)]
    unfolded(shape, seed, actions=8)


@pytest.mark.scenario("T53")
@pytest.mark.scenario("T61")
@pytest.mark.parametrize("pandas", [False, True], ids=["spark", "pandas"])
def test_a_history_of_moments_in_several_zones_gives_what_recomputing_gives(unfolded, pandas):
    unfolded("moments and days", 3 + pandas, actions=9, killed=0, pandas=pandas)


@pytest.mark.scenario("X91")
@pytest.mark.parametrize(
    ("shape", "seed"), [("a sum by a column of several reference rows", 2), ("several reference rows", 11)]
)
def test_a_history_with_several_reference_rows_gives_what_recomputing_gives(unfolded, shape, seed):
    unfolded(shape, seed, actions=9, killed=0)


@pytest.mark.scenario("X92")
@pytest.mark.parametrize(
    ("shape", "seed"),
    [("required inputs beside others", 1), ("a required pair beside its parts", 3), ("a required switch", 0)],
)
def test_a_history_with_required_inputs_beside_others_gives_what_recomputing_gives(unfolded, shape, seed):
    unfolded(shape, seed, actions=9, killed=0)


@pytest.mark.scenario("X90")
def test_a_history_of_renamed_outputs_gives_what_recomputing_gives(unfolded):
    unfolded("two outputs", 31, actions=9, killed=0, renamed=8)


@pytest.mark.scenario("X97")
@pytest.mark.scenario("X98")
@pytest.mark.scenario("X108")
@pytest.mark.parametrize(
    ("shape", "pandas", "seed"),
    [
        ("many to one", False, 1),
        ("a reference", True, 4),
        ("a reference", True, 5),
        ("pairs and a reference", True, 2),
        ("pairs and a reference", True, 6),
    ],
)
def test_a_history_in_which_workers_are_killed_gives_what_recomputing_gives(unfolded, shape, pandas, seed):
    unfolded(shape, seed, actions=7, killed=5, pandas=pandas)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 102))
@pytest.mark.parametrize("shape", SHAPES)
def test_a_long_history_gives_what_recomputing_gives(unfolded, shape, seed):
    unfolded(shape, seed, actions=24)

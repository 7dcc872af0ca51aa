"""A store with logs of visits and a diff over them: written as small literal rows, read as the document writes it.

Records are shown as text, `-1002 +2002`: the sign and the version of each, in the order in which they were written.
They are read from the table's files and folded in plain Python, so that looking costs no Spark job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import seamark as sm

Row = tuple[Any, ...]

LOGS = {
    "joined_visits": "VisitID long, y_VisitVersion int, title string",
    "joined_conversions": "VisitID long, y_VisitVersion int, revenue long",
}
OWN = ("VisitID", "Sign", "SlowVersion", "y_VisitVersion", "Version", "log")


def frame_of(table: sm.Table, rows: Sequence[Row], names: Sequence[str] | None = None) -> pa.Table:
    """Literal rows as a frame with the table's columns, or some of them."""
    names = list(names or table.schema.names)
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    types = [table.schema.column(name).type for name in names]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=names)


class Visits:
    """A diff named `visits`, its logs, and a fast supplier that writes what a test says it has written."""

    def __init__(
        self,
        store: sm.DataStore,
        logs: Mapping[str, str] = LOGS,
        keys: Mapping[str, Any] | None = None,
        wide: str | None = None,
        **options: Any,
    ) -> None:
        self.store = store
        keys = keys or {}
        self.logs = {name: store.table(name, columns, key=keys.get(name)) for name, columns in logs.items()}
        self.wide = store.table("wide", wide, key=["VisitID", "y_VisitVersion"]) if wide else None
        options.setdefault("merge", {"revenue": "sum"} if logs is LOGS else None)
        options.setdefault("multiplier", 1000)
        options.setdefault("logs", list(self.logs.values()))
        self.diff = store.diff("visits", key="VisitID", fast_version="y_VisitVersion", wide=self.wide, **options)
        self._fast: dict[int, Counter[int]] = {}
        self._seen = 0

    def following(self, before: Visits) -> Visits:
        """The same diff, declared again: what was written and shown before still counts."""
        self._fast, self._seen = before._fast, before._seen
        return self

    # --- what comes in ------------------------------------------------------------------------------------------------

    def bring(self, log: str, *rows: Row) -> None:
        """Rows that a log brings: appended, or upserted if it is keyed."""
        table = self.logs[log]
        (table.upsert if table.key else table.append)(frame_of(table, rows))

    def visits(self, *rows: Row) -> None:
        self.bring("joined_visits", *rows)

    def conversions(self, *rows: Row) -> None:
        self.bring("joined_conversions", *rows)

    def delete(self, log: str, *keys: Row) -> None:
        table = self.logs[log]
        table.delete(frame_of(table, keys, table.key))

    def widen(self, *rows: Row) -> None:
        assert self.wide is not None
        self.wide.upsert(frame_of(self.wide, rows))

    def fast(self, visit: int, told: str) -> None:
        """The fast supplier has written this: `+1 -1 +2`."""
        for word in told.split():
            self._fast.setdefault(visit, Counter())[int(word[1:])] += 1 if word[0] == "+" else -1

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self, **options: Any) -> sm.StepReport:
        step = self.store.run(**options).steps["visits"]
        if step.error is not None:
            raise step.error
        return step

    # --- what came out ------------------------------------------------------------------------------------------------

    def lines(self, table: str) -> list[dict[str, Any]]:
        """The records of a table, read from its files."""
        slices = self.store.control.index.slices(table, after=None, upto=None)
        folder = Path(self.store.warehouse) / table / "data"
        return [row for entry in slices for row in pq.read_table(folder / entry.slice_hash).to_pylist()]

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows that the records of a keyed table leave standing; each record must fit the ones before."""
        standing: dict[Any, dict[str, Any]] = {}
        for line in self.lines(table):
            op = line["op"]
            row = {name: value for name, value in line.items() if name not in ("offset", "op", "system_time")}
            row.pop("event_time", None)
            if op in (sm.Op.APPEND, sm.Op.CORRECT_TO):
                assert row["VisitID"] not in standing, row
                standing[row["VisitID"]] = row
            else:
                assert dict.fromkeys(row) | standing.pop(row["VisitID"]) == row  # a column may have come since
        return [standing[key] for key in sorted(standing)]

    def lines_left(self, table: str) -> list[dict[str, Any]]:
        """The rows of a keyed table whose key is not the visit's alone, as its records leave them."""
        own, standing = self.store.table(table).schema, {}
        for line in self.lines(table):
            key = tuple(line[name] for name in own.key)
            assert (key in standing) == (line["op"] != sm.Op.APPEND), line
            standing[key] = {name: line[name] for name in own.names}
            if line["op"] == sm.Op.RETRACT:
                del standing[key]
        return list(standing.values())

    def records(self) -> list[dict[str, Any]]:
        """All records of the diff. Each holds to the rule of versions."""
        found = self.lines("visits_visit_log_slow")
        for line in found:
            assert line["op"] == sm.Op.APPEND
            assert line["Sign"] in (-1, 1)
            assert line["Version"] == line["SlowVersion"] * self.diff.spec.multiplier + line["y_VisitVersion"]
        return found

    def told(self) -> dict[int, str]:
        """What the diff wrote of each visit since this was last asked: {1: "-1002 +2002"}."""
        found = self.records()
        fresh, self._seen = found[self._seen :], len(found)
        told: dict[int, str] = {}
        for line in fresh:
            word = signed(line)
            told[line["VisitID"]] = f"{told[line['VisitID']]} {word}" if line["VisitID"] in told else word
        return told

    def story(self, visit: int) -> list[Row]:
        """All records of a visit: the signed version, and the columns of its state."""
        return [
            (signed(line), *[value for name, value in line.items() if name in self._columns])
            for line in self.records()
            if line["VisitID"] == visit
        ]

    @property
    def _columns(self) -> list[str]:
        return [name for name in self.diff.spec.log_schema.names if name not in OWN]

    def state(self) -> dict[int, Row]:
        """The state by visit: its fast and its slow version, and its columns."""
        rows = self.rows("visits_state")
        shown = [name for name in self.diff.spec.state_schema.names if name != "VisitID" and name[:6] != "_wide_"]
        return {row["VisitID"]: tuple(row[name] for name in shown) for row in rows}

    def standing(self) -> dict[int, str]:
        """The versions of each visit whose signs do not sum to 0, over both suppliers: {1: "+1002"}."""
        sums = {visit: Counter(versions) for visit, versions in self._fast.items()}
        for line in self.records():
            sums.setdefault(line["VisitID"], Counter())[line["Version"]] += line["Sign"]
        return {
            visit: " ".join(f"{count:+d}x{v}" if abs(count) > 1 else f"{'+' if count > 0 else '-'}{v}"
                            for v, count in sorted(versions.items()) if count)
            for visit, versions in sorted(sums.items())
        }  # fmt: skip

    def newest(self) -> dict[int, str]:
        """The newest version of each visit of the state, as `standing` must tell it."""
        multiplier = self.diff.spec.multiplier
        return {visit: f"+{multiplier * row[1] + row[0]}" for visit, row in self.state().items()}


def signed(line: Mapping[str, Any]) -> str:
    return f"{'+' if line['Sign'] > 0 else '-'}{line['Version']}"


@pytest.fixture
def open_store(open_store: Callable[..., sm.DataStore], spark: Any, clock: Any) -> Callable[..., sm.DataStore]:
    """Opens the store of this test, or one of several, with Spark and a clock to turn."""
    return lambda folder="store", **options: open_store(folder, **{"spark": spark, "clock": clock, **options})


@pytest.fixture
def make_visits(open_store: Callable[..., sm.DataStore]) -> Callable[..., Visits]:
    """The diff of this test with options of its own; called again, as another process would declare it."""
    return lambda folder="store", **options: Visits(open_store(folder), **options)


@pytest.fixture
def diffed(make_visits: Callable[..., Visits]) -> Visits:
    """Two append-only logs: titles from the visits, revenue, which is summed, from the conversions."""
    return make_visits()


@pytest.fixture(scope="module")
def shared_visits(tmp_path_factory: Any, spark: Any) -> Iterator[Callable[..., Visits]]:
    """Makes a diff in a store that the tests of a file look at together; or declares one `again`, in its store."""
    opened = []

    def make(again: Visits | None = None, **options: Any) -> Visits:
        folder = Path(again.store.warehouse).parent if again else tmp_path_factory.mktemp("store")
        opened.append(sm.DataStore(f"sqlite:///{folder / 'control.db'}", folder / "warehouse", spark=spark))
        return Visits(opened[-1], **options)

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def frame() -> Callable[..., pa.Table]:
    """Literal rows as a frame for a table."""
    return frame_of

"""A log of visits and its copy in ClickHouse, which a fast supplier writes to as well."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import update

import seamark as sm
from seamark.control.schema import sink_position

VISITS = "VisitID long, Sign tinyint, Version long, revenue double"


class Visits:
    """A log of visits with signs and versions, and its copy in ClickHouse."""

    def __init__(
        self, store: sm.DataStore, url: str, arrow: Any, name: str = "out", adopt: str | None = None, **options: Any
    ) -> None:
        self.store = store
        self.arrow = arrow
        self.log = store.table("visits_log", VISITS)
        self.target = sm.ClickHouseSink(url, table="visits", collapse_by="VisitID", **options)
        self.sink = store.sink("visits_log", self.target, name=name, adopt=adopt)

    def write(self, *records: tuple[int, int, int, float]) -> None:
        self.log.append(self.arrow(self.log, *records))

    def send(self) -> sm.SinkReport:
        report = self.store.run(fail_fast=True).sinks[self.sink.name]
        assert report.ok
        return report

    def sums(self) -> dict[int, int]:
        """The sum of Sign by version, over everything written."""
        rows = self.target.query("SELECT Version, sum(Sign) AS net FROM visits GROUP BY Version ORDER BY Version")
        return {row["Version"]: row["net"] for row in rows}

    def by_fast_supplier(self, *records: tuple[int, int, int]) -> None:
        visits, signs, versions = zip(*records, strict=True)
        signs = pa.array(signs, pa.int8())
        self.target.insert(pa.table({"VisitID": pa.array(visits), "Sign": signs, "Version": pa.array(versions)}))

    def is_in_doubt_again(self, blocks: int = 1) -> None:
        """As after a kill: the target has the newest blocks, and nobody has written down that it does."""
        control = self.store.control
        slices = control.index.slices("visits_log", after=None, upto=None)
        last, doubt = slices[-blocks - 1] if len(slices) > blocks else None, slices[-blocks]
        with control.database.write() as connection:
            connection.execute(update(sink_position).values(sequence=last.sequence if last else 0))
        done = f"{last.sequence}, '{last.hash}'" if last else "-1, ''"
        self.target.query(
            "INSERT INTO seamark_sink_positions SELECT sink, table_name, target, "
            f"{done}, {doubt.sequence}, '{doubt.hash}', inserts - {blocks}, written + 1, at, adopted_by, suffix, made "
            "FROM seamark_sink_positions FINAL"
        )

    def standing(self) -> dict[tuple[int, int], int]:
        """The sum of Sign by visit and version, where it is not 0."""
        rows = self.target.query("SELECT VisitID, Version, sum(Sign) AS net FROM visits GROUP BY ALL HAVING net != 0")
        return {(row["VisitID"], row["Version"]): row["net"] for row in rows}

    def forgets_its_tokens(self) -> None:
        """As after more inserts than the table remembers."""
        for window in (0, 10_000):
            self.target.query(f"ALTER TABLE visits MODIFY SETTING non_replicated_deduplication_window = {window}")

    def is_remade_from_a_copy(self) -> None:
        """The target's table is another one of the same name now, with the same rows, and knows no tokens."""
        self.target.query("CREATE TABLE copy AS visits")
        self.target.query("INSERT INTO copy SELECT * FROM visits")
        self.target.query("DROP TABLE visits SYNC")
        self.target.query("RENAME TABLE copy TO visits")


class Stopped(Exception):
    pass


def stop_at(point: str, visits: Visits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send, and stop at a point as if the process were killed there."""

    def stop(reached: str) -> None:
        if reached == point:
            raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr("seamark.faults.reached", stop)
        with pytest.raises(Stopped):
            visits.send()

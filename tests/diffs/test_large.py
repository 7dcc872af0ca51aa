"""Many records at once go through Spark frames, few are at hand: both ways give the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import seamark as sm
from seamark.tables.small import SMALL_RECORDS

MANY = SMALL_RECORDS + 4_000
KNOWN = 300  # visits that the first run has brought
WIDE = "VisitID long, y_VisitVersion int, hits long, title string"
FAILED, UNCURED, GONE, EXPIRED, BAD = 7, 8, range(10, 20), 21, 23
LOGS = {
    "joined_visits": "VisitID long, y_VisitVersion int, start_time timestamp, title string",
    "joined_conversions": "ConversionID long, VisitID long, y_VisitVersion int, revenue double",
}


class Years:
    """A diff with a wide table, a time to live, keyed logs, a visit that waits, and then a great many records."""

    def __init__(self, visits: Any, now: Any) -> None:
        self.visits, self.now = visits, now

    def begin(self) -> None:
        """A small first run: known visits, and two that wait because of a bad version."""
        ids = pa.array(range(MANY))
        for fast in (1, 2):
            self.visits.wide.upsert(
                pa.table(
                    {
                        "VisitID": ids,
                        "y_VisitVersion": pa.repeat(pa.scalar(fast, pa.int32()), MANY),
                        "hits": pc.multiply(ids, fast),
                        "title": pa.repeat("fast", MANY),
                    }
                )
            )
        self.write_visits(range(KNOWN), fast=1, title="old")
        self.visits.conversions((1, FAILED, 5_000, 10.0), (2, UNCURED, 5_000, 10.0))
        self.visits.run()

    def write_visits(self, ids: Any, *, fast: int, title: str | None) -> None:
        ids = pa.array(ids, pa.int64())
        stamp = pa.timestamp("us", "UTC")
        old = pa.scalar(self.now - timedelta(days=29), stamp)
        times = pc.if_else(pc.equal(ids, EXPIRED), old, pa.scalar(self.now, stamp))
        versions = pc.if_else(pc.equal(ids, BAD), pa.scalar(4_711, pa.int32()), pa.scalar(fast, pa.int32()))
        self.visits.logs["joined_visits"].upsert(
            pa.table(
                {
                    "VisitID": ids,
                    "y_VisitVersion": versions if fast > 1 else pa.repeat(pa.scalar(fast, pa.int32()), len(ids)),
                    "start_time": times,
                    "title": pa.array([None if n % 3 == 0 else title for n in ids.to_pylist()], pa.string()),
                }
            )
        )

    def news(self, ids: range) -> None:
        """New versions of some visits; deletes, a cure, and a double conversion among them."""
        taken = [number for number in ids if number not in (EXPIRED,)]
        self.write_visits(taken, fast=2, title="new")
        gone = [(number,) for number in GONE if number in ids]
        if gone:
            self.visits.delete("joined_visits", *gone)
            self.visits.conversions((1, FAILED, 1, 0.1), (3, FAILED, 2, 0.2), (4, FAILED, 2, 0.3))


def records(store: sm.DataStore, table: str) -> pa.Table:
    """The records of a table by visit, in the order in which they were written, without offsets and times."""
    slices = store.control.index.slices(table, after=None, upto=None)
    files = [f"{store.warehouse}/{table}/data/{entry.slice_hash}" for entry in slices]
    whole = pa.concat_tables([pq.read_table(file) for file in files])
    ordered = whole.sort_by([("VisitID", "ascending"), ("offset", "ascending")])
    return ordered.drop_columns(
        ["offset", "system_time", *(["event_time"] if "event_time" in whole.schema.names else [])]
    )


@pytest.mark.long
@pytest.mark.scenario("D13")
@pytest.mark.scenario("D21")
@pytest.mark.scenario("D24")
@pytest.mark.timeout(600)
def test_many_records_at_once_give_what_they_give_in_small_pieces(make_visits, clock):
    options = {
        "logs": LOGS, "keys": {"joined_visits": "VisitID", "joined_conversions": "ConversionID"}, "wide": WIDE,
        "merge": {"revenue": "sum"}, "ttl": ("start_time", "30 days"),
    }  # fmt: skip
    at_once, in_pieces = make_visits("at once", **options), make_visits("in pieces", **options)
    years = {visits: Years(visits, clock.now()) for visits in (at_once, in_pieces)}
    for each in years.values():
        each.begin()
        assert set(each.visits.diff.failures().VisitID) == {FAILED, UNCURED}
    clock.advance(days=2)  # one of the known visits is too old from here on

    years[at_once].news(range(MANY))
    assert at_once.run().rows_in > SMALL_RECORDS
    for piece in (range(MANY // 2), range(MANY // 2, MANY)):
        years[in_pieces].news(piece)
        assert in_pieces.run().rows_in <= SMALL_RECORDS

    for visits in (at_once, in_pieces):
        assert set(visits.diff.failures().VisitID) == {BAD, UNCURED}
    for table in ("visits_state", "visits_visit_log_slow"):
        assert records(at_once.store, table).equals(records(in_pieces.store, table)), table

    state = {row["VisitID"]: row for row in at_once.rows("visits_state")}
    assert set(range(MANY)) - set(state) == {*GONE, EXPIRED, UNCURED}
    assert (state[BAD]["y_VisitVersion"], state[BAD]["title"]) == (1, "old")
    assert state[FAILED]["revenue"] == 0.1 + 0.2 + 0.3
    assert [told for told, *_ in at_once.story(FAILED)] == ["-2", "+1002", "-1002", "+2002"]
    assert [told for told, *_ in at_once.story(GONE[0])] == ["-1", "+1001", "-1001", "+1", "-2"]
    assert [told for told, *_ in at_once.story(MANY - 1)] == ["-2", "+1002"]

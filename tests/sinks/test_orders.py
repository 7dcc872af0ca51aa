"""Which standing tables take records with a sign: their order and partitions, and the types of their columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import seamark as sm
from seamark.errors import InvalidSink, TargetMismatch, UnfitValue
from seamark.sinks.clickhouse.ddl import _items

ENGINE = "ENGINE = VersionedCollapsingMergeTree(Sign, Version)"
COLUMNS = "CounterID Int64, VisitID Int64, Sign Int8, Version Int64, day Date DEFAULT today()"


@dataclass
class Log:
    """A log of records that cancel each other by visit, and the table of somebody else that it goes to."""

    store: sm.DataStore
    url: str
    arrow: Any

    def __post_init__(self) -> None:
        self.table = self.store.table("visits_log", "CounterID long not null, VisitID long, Sign tinyint, Version long")
        self.target = sm.ClickHouseSink(self.url, table="visits", collapse_by="VisitID")

    def goes_to(self, definition: str) -> None:
        self.target.query(f"CREATE TABLE visits {definition}")
        self.store.sink("visits_log", self.target, name="out")

    def write(self, *records: tuple[int, int, int, int]) -> None:
        self.table.append(self.arrow(self.table, *records))

    def run(self) -> sm.SinkReport:
        return self.store.run().sinks["out"]

    def final(self) -> list[dict[str, Any]]:
        return self.target.query("SELECT VisitID, Version FROM visits FINAL ORDER BY VisitID, Version")


@pytest.fixture
def log(dry, folder_url, arrow) -> Log:
    return Log(dry, folder_url, arrow)


@pytest.fixture
def log_anywhere(dry, url, arrow) -> Log:
    return Log(dry, url, arrow)


# --- the order --------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("D38")
@pytest.mark.parametrize(
    ("order", "text"),
    [
        ("ORDER BY (CounterID, VisitID)", "is ordered by (CounterID, VisitID, Version), and the key of 'visits_log'"),
        ("ORDER BY (CounterID, day, VisitID)", "that differ in CounterID, day would never become one"),
        ("ORDER BY (VisitID, intDiv(CounterID, 10))", "that differ in CounterID would never become one"),
        ("ORDER BY (VisitID, Sign)", "that differ in Sign would never become one"),
        ("ORDER BY intHash32(VisitID)", "rows of two keys could become one"),
        ("PARTITION BY toYYYYMM(day) ORDER BY VisitID", "is partitioned by (toYYYYMM(day)), and the key"),
        ("PARTITION BY CounterID ORDER BY VisitID", "that differ in CounterID would never meet"),
    ],
)  # fmt: skip
def test_a_table_that_keeps_rows_of_a_visit_apart_is_refused_by_its_columns(log, order, text):
    log.goes_to(f"({COLUMNS}) {ENGINE} {order}")
    log.write((7, 1, 1, 1))
    report = log.run()
    assert isinstance(report.error, TargetMismatch)
    assert text in str(report.error)
    assert "Nothing was sent. Hint:" in str(report.error)
    assert log.final() == []


@pytest.mark.scenario("D38")
@pytest.mark.parametrize(
    "order",
    [
        "ORDER BY VisitID",
        "ORDER BY (VisitID, Version)",
        "ORDER BY (intHash32(VisitID), VisitID)",
        "ORDER BY (greatest(VisitID, 1), VisitID)",
        "PARTITION BY VisitID % 2 ORDER BY VisitID",
        "PARTITION BY (intDiv(VisitID, 10), Version % 2) ORDER BY VisitID",
    ],
)
def test_a_table_in_which_rows_of_a_visit_meet_is_taken(log, order):
    log.goes_to(f"({COLUMNS}) {ENGINE} {order}")
    log.write((7, 1, 1, 1), (7, 2, 1, 1))
    log.write((7, 1, -1, 1), (7, 1, 1, 2))
    assert log.run().error is None
    assert log.final() == [{"VisitID": 1, "Version": 2}, {"VisitID": 2, "Version": 1}]


@pytest.mark.scenario("D38")
def test_columns_beside_the_key_can_be_named_as_part_of_what_records_cancel_each_other_by(log):
    log.target = sm.ClickHouseSink(log.url, table="visits", collapse_by=["CounterID", "VisitID"])
    log.goes_to(f"({COLUMNS}) {ENGINE} ORDER BY (CounterID, VisitID)")
    log.write((7, 1, 1, 1))
    assert log.run().error is None


def test_a_sink_cannot_give_the_records_of_a_diff_another_key(dry, folder_url):
    chunks = dry.table("chunks", "VisitID long, y_VisitVersion long, CounterID long")
    dry.diff("visits", key="VisitID", fast_version="y_VisitVersion", multiplier=1000, logs=[chunks])
    for collapse_by, text in (
        (["CounterID", "VisitID"], "cancel each other by (VisitID), and collapse_by adds CounterID"),
        ("CounterID", "cancel each other by (VisitID), and collapse_by leaves out VisitID"),
    ):
        with pytest.raises(InvalidSink) as caught:
            dry.sink("visits_visit_log_slow", sm.ClickHouseSink(folder_url, table="v", collapse_by=collapse_by))
        assert text in str(caught.value)
    assert dry.sinks() == {}


@pytest.mark.parametrize(
    ("expression", "items"),
    [
        ("a", ["a"]),
        ("a, b", ["a", "b"]),
        ("f(a, g(b, c)), `d, e`, '('", ["f(a, g(b, c))", "`d, e`", "'('"]),
        ("", [""]),
    ],
)
def test_an_order_is_cut_at_its_own_commas(expression, items):
    assert _items(expression) == items


# --- types ------------------------------------------------------------------------------------------------------------

UNSIGNED = "CounterID Nullable(UInt32), VisitID UInt64, Sign Int8, Version UInt32"


@pytest.mark.scenario("D38")
def test_unsigned_ids_and_versions_are_taken(log_anywhere):
    log = log_anywhere
    log.goes_to(f"({UNSIGNED}) {ENGINE} ORDER BY VisitID")
    log.write((2**32 - 1, 2**63 - 1, 1, 2**32 - 1), (0, 0, 1, 0))
    assert log.run().error is None
    assert log.target.query("SELECT CounterID, VisitID, Version FROM visits FINAL ORDER BY VisitID") == [
        {"CounterID": 0, "VisitID": 0, "Version": 0},
        {"CounterID": 2**32 - 1, "VisitID": 2**63 - 1, "Version": 2**32 - 1},
    ]


@pytest.mark.scenario("D38")
@pytest.mark.parametrize(
    ("record", "text"),
    [
        ((7, -1, 1, 1), "in column 'VisitID', -1, and that of the target holds 0 to 18446744073709551615"),
        ((7, 1, 1, 2**32), "in column 'Version', 4294967296, and that of the target holds 0 to 4294967295"),
        ((-7, 1, 1, 1), "in column 'CounterID', -7"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name_before_its_block_is_sent(log_anywhere, record, text):
    log = log_anywhere
    log.goes_to(f"({UNSIGNED}) {ENGINE} ORDER BY VisitID")
    log.write((7, 1, 1, 1))
    log.write((7, 2, 1, 1), record)
    report = log.run()
    assert isinstance(report.error, UnfitValue)
    assert text in str(report.error)
    assert f"block {log.table.head.sequence} of 'visits_log'" in str(report.error)
    assert log.final() == [{"VisitID": 1, "Version": 1}]


def test_a_keyed_table_whose_offsets_could_not_be_held_is_refused(dry, folder_url):
    users = dry.table("users", "id long", key="id")
    target = sm.ClickHouseSink(folder_url, table="copy")
    target.query(
        "CREATE TABLE copy (id UInt32, _offset UInt32, _deleted UInt8) "
        "ENGINE = ReplacingMergeTree(_offset, _deleted) ORDER BY id"
    )
    dry.sink("users", target, name="out")
    users.upsert(pa.table({"id": [1]}))
    assert "has column '_offset' as UInt32, which does not hold UInt64" in str(dry.run().sinks["out"].error)


def test_a_table_that_does_not_fit_is_not_changed(local_visits):
    local_visits.write((1, 1, 1, 0.5))
    local_visits.target.query("CREATE TABLE visits (VisitID Int64) ENGINE = MergeTree ORDER BY VisitID")
    with pytest.raises(TargetMismatch, match="is a MergeTree"):
        local_visits.send()
    columns = local_visits.target.query("SELECT name FROM system.columns WHERE table = 'visits'")
    assert columns == [{"name": "VisitID"}]

"""Opening a project: what Spark has said of a view before is on record, and it is not asked again."""

from __future__ import annotations

from pathlib import Path

import pytest

import seamark as sm
from seamark.store import DataStore

SCRIPT = """
CREATE MATERIALIZED VIEW a PRIMARY KEY (id) AS
SELECT o.id, upper(o.note) AS note, c.name FROM orders o JOIN customer c ON c.id = o.customer_id;
CREATE MATERIALIZED VIEW b AS SELECT a.name, count(*) AS n FROM a GROUP BY a.name;
CREATE MATERIALIZED VIEW u PRIMARY KEY (k) AS
SELECT concat('o', o.id) AS k FROM orders o UNION ALL SELECT concat('c', c.name) AS k FROM customer c;
"""


class Opened:
    """A program with the shop's tables and views, that knows whether it has asked for Spark."""

    def __init__(self, folder: Path, session: object, script: str = SCRIPT, orders: str = "") -> None:
        self.asked = False

        def spark(store: DataStore) -> object:
            self.asked = True
            return session

        kind = type("Store", (DataStore,), {"spark": property(spark)})
        self.store = kind(f"sqlite:///{folder}/control.db", warehouse=folder / "warehouse")
        self.orders = self.store.table("orders", f"id long, customer_id long, note string{orders}", key="id")
        self.customer = self.store.table("customer", "id long, name string", key="id")
        self.issues = self.store.load_views(script)


@pytest.fixture
def ran(spark, tmp_path) -> Path:
    program = Opened(tmp_path, spark)
    assert program.asked
    program.orders.upsert([{"id": 1, "customer_id": 1, "note": "n"}])
    program.customer.upsert([{"id": 1, "name": "x"}])
    assert program.store.run().ok
    return tmp_path


@pytest.mark.scenario("V83")
def test_a_project_whose_views_ran_before_is_opened_without_spark(spark, ran):
    program = Opened(ran, spark)
    assert program.issues.loaded == ("a", "b", "u")
    assert program.issues.skipped == ("analysis",)
    assert {plan.mode for plan in program.store.plan().values()} == {"settled"}
    assert not program.store.run().did_something
    program.store.mv_dictionary_log()
    assert program.store.view("a").sql()
    assert not program.asked

    program.orders.upsert([{"id": 2, "customer_id": 1, "note": "m"}])
    report = program.store.run()
    assert (report.steps["a"].keys, report.steps["b"].keys, report.steps["u"].keys) == (1, 1, 1)
    assert sorted(map(tuple, program.store.table("u").rows().collect())) == [("cx",), ("o1",), ("o2",)]
    assert program.store.verify(replay=True).ok


@pytest.mark.scenario("V83")
def test_after_a_table_grew_its_views_are_analysed_once_more(spark, ran):
    grown = Opened(ran, spark, orders=", extra int")
    assert grown.asked
    assert grown.store.run().ok
    again = Opened(ran, spark, orders=", extra int")
    assert not again.asked


def test_a_view_that_is_changed_is_analysed_and_the_others_are_not_asked_about(spark, ran):
    changed = SCRIPT.replace("upper(o.note)", "lower(o.note)")
    program = Opened(ran, spark, changed)
    assert program.asked
    assert program.issues.skipped == ()
    assert program.store.run(on_change="recompute").ok
    assert not Opened(ran, spark, changed).asked
    assert Opened(ran, spark).asked  # only what was analysed last is on record


def test_a_view_with_an_error_is_never_on_record(spark, ran):
    for _ in range(2):
        with pytest.raises(sm.ViewError, match="nope"):
            Opened(ran, spark, SCRIPT.replace("upper(o.note)", "nope(o.note)"))

"""Destinations: a view that names one is carried to the target that it makes, as long as the view says so."""

from __future__ import annotations

import pytest
from tests.support.view_world import ViewWorld

import seamark as sm
from seamark.errors import InvalidSink, TargetMismatch

SCRIPT = """
CREATE ASYNC MATERIALIZED VIEW named DESTINATION ch AS
SELECT o.id AS id, c.name AS name FROM orders AS o JOIN customer AS c ON c.id = o.customer_id;
CREATE ASYNC MATERIALIZED VIEW keyed AS
SELECT #[ concat('o-', o.id) ]# AS k, o.note AS note FROM orders AS o;
"""


@pytest.fixture
def shop(spark, tmp_path) -> ViewWorld:
    shop = ViewWorld(sm.DataStore(f"sqlite:///{tmp_path}/control.db", warehouse=tmp_path / "warehouse", spark=spark))
    shop.store.destination("ch", lambda table: sm.ClickHouseSink(f"chdb:///{tmp_path}/ch", table=table, create=True))
    shop.store.table("keyed", "k string, note string", key="k")
    return shop


def sent(shop: ViewWorld) -> dict[str, list[str]]:
    """The tables that are carried, with the names of their sinks."""
    found: dict[str, list[str]] = {}
    for name, sink in shop.store.sinks().items():
        found.setdefault(sink.table, []).append(name)
    return found


def test_a_view_is_carried_where_its_statement_says(shop):
    shop.store.load_views(SCRIPT)
    shop.put("customer", (1, "x", None))
    shop.put("orders", (1, 1, "n"), (2, 1, "m"))
    (name,) = sent(shop)["named"]
    report = shop.run()
    assert (list(report.sinks), report.sinks[name].records) == ([name], 2)

    shop.store.load_views(SCRIPT)  # the same again: the same sink
    assert not shop.run().did_something
    with_both = SCRIPT.replace("VIEW keyed AS", "VIEW keyed DESTINATION ch AS")
    shop.store.load_views(with_both)
    (second,) = sent(shop)["keyed"]
    assert shop.run().sinks[second].records == 2
    sink = shop.store.sinks()[second]
    assert "_owner" not in str(sink.layout)  # hidden columns stay here

    shop.store.load_views(SCRIPT.replace("DESTINATION ch", ""))
    assert sent(shop) == {}
    with pytest.raises(InvalidSink, match="there is a destination 'ch' already"):
        shop.store.destination("ch", lambda table: None)


def test_a_target_that_cannot_take_the_view_leaves_everything_as_it_was(shop):
    shop.store.load_views(SCRIPT)

    def refuse(table: str) -> object:
        raise TargetMismatch(f"no room for {table}.")

    shop.store.destination("full", refuse)
    before = sent(shop)
    with pytest.raises(TargetMismatch, match="no room for keyed"):
        shop.store.load_views(SCRIPT.replace("VIEW keyed AS", "VIEW keyed DESTINATION full AS"))
    assert sent(shop) == before
    assert set(shop.store.views()) == {"named", "keyed"}


@pytest.mark.scenario("V52")
def test_a_destination_that_is_not_there_is_an_error(shop):
    found = shop.store.check_views(SCRIPT.replace("DESTINATION ch", "DESTINATION hc"), analyse=False)
    (error,) = [issue for issue in found if issue.is_error]
    assert error.kind == "UnknownDestination"
    assert "there is no destination 'hc'; destinations: ch." in error.message


def test_a_handler_runs_its_views_and_the_sinks_that_carry_them(shop):
    handler = "CREATE ASYNC HANDLER h PROCESS named, INPUT orders CHANGEFEED log AS STREAM;"
    shop.store.load_views(SCRIPT + handler)
    shop.put("customer", (1, "x", None))
    shop.put("orders", (1, 1, "n"))
    report = shop.store.handler("h").run()
    assert (list(report.steps), [one.records for one in report.sinks.values()]) == (["named"], [1])

"""Handlers: views that are run together, passes of all, and views with errors that never start."""

from __future__ import annotations

import time

import pytest
from tests.support.view_world import ViewWorld

import seamark as sm
from seamark.errors import HandlerHeld, InvalidStep, SeamarkError, UnknownHandler, ViewError

A = "SELECT o.id, c.name FROM orders o JOIN customer c ON c.id = o.customer_id"
B = "SELECT o.id, r.title FROM orders o JOIN region r ON r.id = o.customer_id"
INPUTS = """
    INPUT orders CHANGEFEED log AS STREAM, INPUT customer CHANGEFEED log AS STREAM,
    INPUT region CHANGEFEED log AS BATCH
"""
BOTH = f"""
CREATE MATERIALIZED VIEW a PRIMARY KEY (id) AS {A};
CREATE MATERIALIZED VIEW b PRIMARY KEY (id) AS {B};
CREATE ASYNC HANDLER h PROCESS a, PROCESS b, {INPUTS};
"""


@pytest.fixture
def shop(spark, tmp_path, clock) -> ViewWorld:
    control = f"sqlite:///{tmp_path}/control.db"
    return ViewWorld(sm.DataStore(control, warehouse=tmp_path / "warehouse", spark=spark, clock=clock))


@pytest.fixture
def loaded(shop) -> ViewWorld:
    shop.store.load_views(BOTH)
    shop.queries |= {"a": A, "b": B}
    shop.put("region", (1, "north", None))
    shop.put("customer", (1, "x", 1))
    shop.put("orders", (1, 1, "n"))
    return shop


@pytest.mark.scenario("V47")
def test_views_of_a_handler_that_share_an_input_follow_it_together(loaded):
    handler = loaded.store.handler("h")
    assert handler.views == ("a", "b")
    assert [(one.table, one.is_batch) for one in handler.inputs] == [
        ("orders", False),
        ("customer", False),
        ("region", True),
    ]
    assert list(handler.run().steps) == ["a", "b"]
    loaded.assert_equal()
    loaded.put("region", (1, "NORTH", None))
    assert [step.keys for step in handler.run().steps.values()] == [0, 0]
    assert handler.run_dictionaries().steps["b"].corrected == 1
    loaded.assert_equal()
    with pytest.raises(UnknownHandler, match="there is no handler 'hh'"):
        loaded.store.handler("hh")


@pytest.mark.scenario("V85")
def test_a_view_in_no_handler_and_a_table_without_input_are_followed_by_every_run(shop):
    warned = shop.store.load_views(
        f"""
        CREATE MATERIALIZED VIEW a PRIMARY KEY (id) AS {A};
        CREATE MATERIALIZED VIEW b PRIMARY KEY (id) AS {B};
        CREATE ASYNC HANDLER h PROCESS a, INPUT orders CHANGEFEED log AS STREAM;
        """
    )
    assert "MissingInput" in {issue.kind for issue in warned if issue.severity == "warning"}
    shop.queries |= {"a": A, "b": B}
    shop.put("orders", (1, 1, "n"))
    shop.run()
    shop.put("customer", (1, "x", 1))
    shop.put("region", (1, "north", None))
    assert [step.appended for step in shop.run().steps.values()] == [1, 1]
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V11")
@pytest.mark.scenario("V47")
def test_with_an_error_in_one_of_its_views_a_handler_does_not_start_and_says_which(shop):
    found = shop.store.load_views(BOTH.replace("r.title", "r.nope"), strict=False)
    assert (found.loaded, found.left_out) == (("a",), ("b", "h"))
    handler = shop.store.handler("h")
    for start in (handler.start, handler.run, handler.run_dictionaries):
        with pytest.raises(ViewError, match=r"IllegalOutputReference.*nope"):
            start()
    assert not handler.is_running
    for name in ("b", "h"):
        with pytest.raises(ViewError, match="nope"):
            shop.store.run(name)
    with pytest.raises(ViewError, match="nope"):
        shop.store.view("b")

    report = shop.store.run()
    assert (list(report.steps), report.ok, list(report.left_out)) == (["a"], False, ["b", "h"])
    assert "nope" in report.left_out["b"]

    shop.store.load_views(BOTH)  # put right
    assert shop.store.run().ok
    assert shop.store.handler("h").errors == []


@pytest.mark.scenario("V11")
def test_what_only_spark_finds_wrong_leaves_a_view_out_too(shop):
    found = shop.store.load_views(BOTH.replace("r.title", "nope(r.title) AS title"), strict=False)
    assert (found.ok, found.loaded, found.left_out) == (False, ("a",), ("b", "h"))


def test_a_handler_that_is_started_runs_its_views_until_it_is_stopped(loaded):
    handler = loaded.store.handler("h")
    handler.start(every=0.05)
    try:
        with pytest.raises(HandlerHeld, match="handler 'h' is at work already, held by"):
            handler.start()
        until(lambda: loaded.store.table("a").head.sequence is not None)
        loaded.put("orders", (2, 1, "m"))
        until(lambda: len(loaded.store.table("a").rows().collect()) == 2)
    finally:
        assert handler.stop()
    assert not handler.is_running
    loaded.run()
    loaded.assert_equal()
    handler.start(every=60)  # its lease was given back
    assert handler.stop()
    with pytest.raises(InvalidStep, match="every=0 is no number of seconds"):
        handler.start(every=0)


def test_a_handler_that_its_script_no_longer_has_stops(loaded):
    handler = loaded.store.handler("h")
    handler.start(every=0.05)
    loaded.store.load_views("CREATE MATERIALIZED VIEW a PRIMARY KEY (id) AS " + A)
    until(lambda: not handler.is_running)
    assert "h" not in loaded.store.handlers()


def test_a_view_that_its_own_source_no_longer_gives_is_named(loaded):
    loaded.store.load_views(f"CREATE MATERIALIZED VIEW c PRIMARY KEY (id) AS {A}", "one")
    handler = f"CREATE ASYNC HANDLER k PROCESS c, {INPUTS};"
    loaded.store.load_views(handler, "two")
    loaded.store.load_views("CREATE MATERIALIZED VIEW d AS SELECT o.id FROM orders o", "one")
    with pytest.raises(SeamarkError, match="there is no view 'c'"):
        loaded.store.handler("k").run_dictionaries()
    with pytest.raises(SeamarkError, match="there is no step 'c'"):
        loaded.store.handler("k").run()


def test_one_handler_takes_what_waits_in_the_dictionaries_of_all_views(loaded, clock):
    loaded.run()
    loaded.put("region", (1, "NORTH", None))
    passes = loaded.store.handler("sys$dictionary")
    assert passes.run().steps == {}
    clock.advance(hours=8)
    assert {name: step.keys for name, step in passes.run().steps.items()} == {"b": 1}
    loaded.put("region", (1, "n", None))
    assert passes.run_dictionaries().steps["b"].keys == 1
    loaded.put("orders", (2, 1, "m"))
    assert loaded.store.run().steps["a"].keys == 1
    loaded.assert_equal()


def until(condition) -> None:
    """Wait for a condition, at the most for a minute."""
    last = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < last, "it did not come true"
        time.sleep(0.02)

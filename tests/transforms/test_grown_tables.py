"""Programs that were started before a table grew by a column: they may not swallow what is in it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

import seamark as sm
from seamark.errors import LeaseHeld, SchemaChangeRefused
from seamark.tables.schema.growth import grow_declared

pytestmark = pytest.mark.scenario("X93")

AS_JSON = "SELECT id, to_json(struct(*)) AS doc FROM {a}"
OLD, NEW = "id long, c string", "id long, c string, d string"


def program(store: sm.DataStore, a: str = OLD, o: str = "id long, doc string", sql: str = AS_JSON) -> sm.DataStore:
    """A program with one step, from `a` to `o`."""
    tables = store.table("a", a, key="id"), store.table("o", o, key="id")
    store.add(sm.BatchTransform(sql, inputs=[tables[0]], outputs=[tables[1]], name="f", on_change="recompute"))
    return store


def positions(store: sm.DataStore) -> dict[str, int]:
    return store.offset_table.get_record_offsets(transformation_id="f")


def test_a_program_from_before_an_input_grew_is_refused_and_the_newer_one_takes_the_change(
    open_store: Any, rows: Any
) -> None:
    old = program(open_store())
    old.table("a").upsert([{"id": 1, "c": "x"}])
    old.run()
    new = program(open_store(), a=NEW)
    new.table("a").upsert([{"id": 1, "c": "x", "d": "new"}])
    before = positions(old)

    error = old.run().steps["f"].error
    assert isinstance(error, SchemaChangeRefused)
    assert "step 'f' was declared before a table of it grew: table 'a'" in error.message
    assert "column 'd'" in error.message
    assert "declare the table again" in (error.hint or "")
    assert (old.plan("f")["f"].mode, "column 'd'" in old.plan("f")["f"].reason) == ("refused", True)
    for call in (lambda s: s.run_idx([{"id": 1}]), lambda s: s.run_changelist(sm.ChangeList({"a": [{"id": 1}]}))):
        with pytest.raises(SchemaChangeRefused, match="column 'd'"):
            call(old.step("f"))
    assert positions(old) == before

    assert new.run().ok
    assert rows(new.table("o")) == [(1, '{"id":1,"c":"x","d":"new"}')]
    assert not old.run().did_something  # nothing waits: nothing can be lost


def test_an_input_that_grows_while_a_run_computes_is_read_as_it_was_pinned(open_store: Any, rows: Any) -> None:
    old, store = program(open_store()), open_store()

    def grow() -> None:
        new = store.table("a", NEW, key="id")
        new.upsert([{"id": 1, "c": "x", "d": "new"}])

    spec, plain = old.step("f").spec, old.step("f").spec.function

    def meanwhile(*frames: Any) -> Any:
        if "d" not in store.table("a").schema.names:
            grow()
        return plain(*frames)

    object.__setattr__(spec, "function", meanwhile)
    old.table("a").upsert([{"id": 1, "c": "x"}])
    assert old.run().ok
    assert positions(old) == {"a": 0}
    assert rows(old.table("o")) == [(1, '{"id":1,"c":"x"}')]
    assert isinstance(old.run().steps["f"].error, SchemaChangeRefused)
    assert positions(old) == {"a": 0}


def test_a_table_beside_the_steps_that_cannot_grow_now_does_not_lose_their_report(
    open_store: Any, rows: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    old = program(open_store())
    old.table("notes", "id long", key="id").upsert([{"id": 1}])
    old.table("a").upsert([{"id": 1, "c": "x"}])
    new = program(open_store())
    new.table("notes", "id long, text string", key="id")

    def is_reserved(*_: Any) -> None:
        raise LeaseHeld("write:notes", "somebody")

    with monkeypatch.context() as patched:
        patched.setattr("seamark.tables.schema.growth._grow", is_reserved)
        report = new.run()
    assert report.ok
    assert report.steps["f"].appended == 1
    assert "declared columns were not added to all of ['notes']" in caplog.text
    assert "text" not in open_store().table("notes").schema.names
    new.run()
    assert "text" in open_store().table("notes").schema.names


@pytest.mark.parametrize("when", ["before the run", "while it computes"])
def test_a_program_from_before_an_output_grew_is_refused(open_store: Any, rows: Any, when: str) -> None:
    old = program(open_store())
    old.table("a").upsert([{"id": 1, "c": "x"}])
    old.run()
    spec, plain = old.step("f").spec, old.step("f").spec.function
    grown = "id long, doc string, size int"

    def grow() -> None:
        newer = open_store()
        assert grow_declared([newer.table("o", grown, key="id").source], newer.control.index.heads())

    def meanwhile(*frames: Any) -> Any:
        grow()
        return plain(*frames)

    old.table("a").upsert([{"id": 2, "c": "y"}])
    if when == "before the run":
        grow()
    else:
        object.__setattr__(spec, "function", meanwhile)
    error = old.run().steps["f"].error
    assert isinstance(error, SchemaChangeRefused)
    assert "table 'o'" in error.message
    assert "column 'size'" in error.message
    assert positions(old) == {"a": 0}

    sql = "SELECT id, to_json(struct(*)) AS doc, length(c) AS size FROM {a}"
    new = program(open_store(), o=grown, sql=sql)
    assert new.run().ok
    assert rows(new.table("o")) == [(1, '{"id":1,"c":"x"}', 1), (2, '{"id":2,"c":"y"}', 1)]


def test_a_diff_from_before_a_log_grew_is_refused(open_store: Any) -> None:
    def declare(store: sm.DataStore, columns: str) -> sm.Table:
        log = store.table("visits_log", columns)
        store.diff("visits", key="id", fast_version="f", multiplier=1000, logs=[log])
        return log

    old = open_store()
    declare(old, "id long, f long, name string").append([{"id": 1, "f": 1, "name": "a"}])
    assert old.run().ok
    grown = declare(open_store(), "id long, f long, name string, city string")
    grown.append([{"id": 1, "f": 2, "name": "a", "city": "b"}])
    error = old.run().steps["visits"].error
    assert isinstance(error, SchemaChangeRefused)
    assert "column 'city'" in error.message
    assert old.plan("visits")["visits"].mode == "refused"
    assert old.offset_table.get_record_offsets("visits") == {"visits_log": 0}


def test_a_settled_program_from_before_a_table_grew_takes_over_its_rows_as_its_plan_says(open_store: Any) -> None:
    wide = open_store()
    tables = [wide.table("a", OLD, key="id"), *[wide.table(name, OLD, key="id") for name in ("o", "p")]]
    wide.add(sm.BatchTransform(lambda a: (a, a), [tables[0]], tables[1:], name="f", version="1"))
    tables[0].upsert([{"id": 1, "c": "x"}])
    assert wide.run().ok
    old = open_store()
    old.add(
        sm.BatchTransform(
            lambda a: a,
            [old.table("a", OLD, key="id")],
            [old.table("o", OLD, key="id")],
            name="f",
            version="1",
            on_change="keep",
        )
    )
    assert old.run().ok  # it takes over what the step with two outputs has read, and keeps its rows
    only = open_store()
    only.table("o", NEW, key="id")
    grow_declared([only.table("o").source], only.control.index.heads())
    with old.control.database.write() as connection:
        connection.execute(text("DELETE FROM transform_input_offset WHERE outputs = 'o'"))

    assert old.plan("f")["f"].mode == "settled"
    assert old.run().ok
    assert positions(old) == {"a": 0}

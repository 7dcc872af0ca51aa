"""Whatever an error says, it can be kept, and it gives no secret away."""

from __future__ import annotations

import json
import logging

import pytest

import seamark as sm
from seamark.errors import FunctionFailed, TooManyFailures

SECRET = "hunter2"
URL = f"postgresql://app:{SECRET}@db/prod"
TEXTS = {
    "a lone surrogate": ("cannot open b\udcffname", "ValueError: cannot open b\\udcffname"),
    "NUL": ("a\x00b", "ValueError: a\\x00b"),
    "control codes": ("\x1b[2Jgone", "ValueError: \\x1b[2Jgone"),
    "5 MB": ("x" * 5_000_000, "ValueError: " + "x" * 1964 + "… (5,000,012 letters)"),
}


@pytest.fixture
def store(control_url, tmp_path, spark):
    """A store on SQLite, and one on PostgreSQL."""
    opened = sm.DataStore(control_url, tmp_path / "warehouse", spark=spark)
    yield opened
    opened.close()


def add_numbers(store, how, text, key_type="long"):
    """A step that fails with a text on the row whose number is 3."""
    numbers = store.table("numbers", f"id {key_type}, n long", key="id")
    store.table("copies", f"id {key_type}, n long", key="id")

    def spark(numbers):
        if any(row.n == 3 for row in numbers.collect()):
            raise ValueError(text)
        return numbers

    def pandas(numbers):
        if (numbers.n == 3).any():
            raise ValueError(text)
        return numbers

    function = {"spark": spark, "pandas": pandas}[how]
    store.add(sm.BatchTransform(function, [numbers], ["copies"], name="copy", pandas=how == "pandas"))
    return numbers, store.table("copies")


@pytest.mark.scenario("X99")
@pytest.mark.parametrize("how", ["spark", "pandas"])
def test_an_error_of_any_text_is_recorded_and_the_other_keys_are_committed(store, rows, how):
    for number, (text, kept) in enumerate(TEXTS.values()):
        step = f"copy_{number}"
        numbers = store.table(f"numbers_{number}", "id long, n long", key="id")
        copies = store.table(f"copies_{number}", "id long, n long", key="id")

        def spark(numbers, text=text):
            if any(row.n == 3 for row in numbers.collect()):
                raise ValueError(text)
            return numbers

        def pandas(numbers, text=text):
            if (numbers.n == 3).any():
                raise ValueError(text)
            return numbers

        function = spark if how == "spark" else pandas
        store.add(sm.BatchTransform(function, [numbers], [copies], name=step, pandas=how == "pandas", version="1"))
        numbers.upsert([{"id": n, "n": n} for n in range(5)])

        report = store.run(step).steps[step]

        assert (report.error, report.failures) == (None, (('{"id":3}', kept),))
        assert store.step(step).failures().error.tolist() == [kept]
        assert rows(copies) == [(n, n) for n in (0, 1, 2, 4)]
        numbers.upsert([{"id": 3, "n": 33}])
        assert store.run(step).ok
        assert store.verify(copies.name, replay=True).ok


@pytest.mark.scenario("X99")
def test_a_run_that_is_stopped_by_an_error_of_any_text_is_recorded(store):
    class Odd(MemoryError):
        pass

    numbers = store.table("numbers", "id long", key="id")
    copies = store.table("copies", "id long", key="id")

    @store.transform(inputs=[numbers], outputs=[copies])
    def copy(numbers):
        raise Odd("a\udcff\x00" + "y" * 10_000)

    numbers.upsert([{"id": 1}])
    with pytest.raises(Odd):
        store.step("copy").run_full()

    newest = store.control.index.runs("copy")[0]
    assert newest.outcome == "failed"
    assert newest.error.startswith("Odd: a\\udcff\\x00yyy")
    assert newest.error.endswith("yyy… (10,008 letters)")
    assert 3990 < len(newest.error) <= 4000


@pytest.mark.scenario("X99")
@pytest.mark.parametrize("how", ["spark", "pandas"])
def test_keys_of_any_text_can_fail(store, rows, how):
    """Keys are kept with their failures: long ones, and with signs that a database or a terminal does not like."""
    numbers, copies = add_numbers(store, how, "no", key_type="string")
    odd = ["", "a\x00b", "\x1b[2J", "'; DROP TABLE run; --", '"quoted"', "line\nbreak", "🙂" * 3000, "z" * 1_000_000]
    numbers.upsert([{"id": key, "n": 3} for key in odd] + [{"id": f"good {n}", "n": n} for n in range(3)])

    report = store.run().steps["copy"]

    assert (report.error, report.failed) == (None, len(odd))
    assert sorted(store.step("copy").failures().id) == sorted(odd)
    assert rows(copies) == [(f"good {n}", n) for n in range(3)]

    numbers.upsert([{"id": odd[-1], "n": 4}])
    store.run(limit=3)
    numbers.upsert([{"id": key, "n": 4} for key in odd])
    store.step("copy").retry()
    assert store.run().ok
    assert store.step("copy").failures().empty
    assert len(rows(copies)) == len(odd) + 3
    assert store.verify("copies", replay=True).ok


# --- secrets ----------------------------------------------------------------------------------------------------------


def everything_kept(store) -> str:
    """All that the warehouse and the control database hold, as one text."""
    files = [path for path in store.warehouse.rglob("*") if path.is_file()]
    rows = [store.control.index.failed_keys(), store.control.index.runs(newest=1000)]
    return repr(rows) + "".join(path.read_bytes().decode("latin-1") for path in files)


@pytest.mark.scenario("L70")
@pytest.mark.parametrize("how", ["spark", "pandas"])
def test_a_password_in_an_error_is_masked_wherever_it_is_kept_or_shown(store, rows, caplog, how):
    parts = URL.partition(SECRET)  # the function's own source stands in the chain, and is not meant here
    numbers, _ = add_numbers(store, how, "cannot connect to " + "".join(parts))
    numbers.upsert([{"id": n, "n": n} for n in range(5)])
    told = "ValueError: cannot connect to postgresql://app:***@db/prod"

    with caplog.at_level(logging.DEBUG, "seamark"):
        report = store.run()
        with pytest.raises(FunctionFailed) as stopped:
            store.step("copy").retry(sm.RunConfig(fail_fast=True))

    assert report.steps["copy"].failures == (('{"id":3}', told),)
    assert store.step("copy").failures().error.tolist() == [told]
    assert told in str(stopped.value)
    assert told in next(run.error for run in store.control.index.runs("copy") if run.outcome == "failed")
    checkpoints = [json.loads(path.read_bytes()) for path in (store.warehouse / "copies/checkpoints").iterdir()]
    assert told in [entry["error"] for found in checkpoints for entry in found["failed"]]
    for kept in (repr(report), str(stopped.value), caplog.text, everything_kept(store)):
        assert SECRET not in kept


@pytest.mark.scenario("L70")
def test_a_password_in_what_stops_a_step_is_masked_in_its_run_and_in_the_log(store, caplog):
    parts = URL.partition(SECRET)
    numbers = store.table("numbers", "id long", key="id")
    copies = store.table("copies", "id long", key="id")

    @store.transform(inputs=[numbers], outputs=[copies], max_failed_keys=0)
    def too_many(numbers):
        raise ValueError("".join(parts))

    totals = store.table("totals", "id long", key="id")

    @store.transform(inputs=[numbers], outputs=[totals])
    def no_memory(numbers):
        raise MemoryError("".join(parts))

    numbers.upsert([{"id": 1}])
    with caplog.at_level(logging.DEBUG, "seamark"):
        report = store.run()

    assert isinstance(report.steps["too_many"].error, TooManyFailures)
    assert SECRET not in str(report.steps["too_many"].error)
    assert isinstance(report.steps["no_memory"].error, MemoryError)  # somebody else's, as it is
    assert SECRET not in caplog.text
    assert SECRET not in everything_kept(store)
    assert caplog.text.count("postgresql://app:***@db/prod") == 2
    assert all("app:***@db" in run.error for run in store.control.index.runs() if run.outcome == "failed")


@pytest.mark.scenario("X99")
@pytest.mark.parametrize(("error", "kept"), [(AssertionError(), "AssertionError"), (KeyError("n"), "KeyError: 'n'")])
def test_a_run_that_something_else_stopped_is_on_record_with_the_class_of_the_error(store, error, kept):
    numbers, _ = add_numbers(store, "spark", "")
    numbers.upsert([{"id": 1, "n": 1}])

    def stop(report, left):
        raise error

    report = store.run(on_batch=stop)

    assert report.steps["copy"].error is error
    assert store.control.index.runs("copy")[0].error == kept

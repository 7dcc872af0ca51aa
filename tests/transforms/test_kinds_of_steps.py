"""Chains that hold a definition of another kind than functions: what a program with functions makes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import seamark as sm
from seamark.tables import kinds
from seamark.tables.kinds import FUNCTIONS, Kind, kind_of
from seamark.transforms.declare.spec import StepSpec

QUERY = "SELECT id, v FROM {a} WHERE v <> 'password=hunter2'"


@pytest.fixture
def recipes(monkeypatch):
    """A kind of step whose text is run from the chain, by its own rules."""
    known = {**kinds.KINDS, "recipe": Kind(runs_from_chain=True)}
    monkeypatch.setattr(kinds, "KINDS", known)


def program(open_store) -> sm.DataStore:
    store = open_store()
    a, b = (store.table(name, "id long, v string", key="id") for name in ("a", "b"))
    store.add(sm.BatchTransform(QUERY, [a], [b], name="step", on_change="keep"))
    return store


def test_a_text_of_another_kind_is_neither_masked_nor_run_as_a_function(open_store, recipes, monkeypatch):
    store, plain = program(open_store), StepSpec.definition.func
    another = property(lambda spec: replace(plain(spec), kind="recipe", digest="of a recipe"))
    with monkeypatch.context() as patched:
        patched.setattr(StepSpec, "definition", another)
        store.table("a").upsert([{"id": 1, "v": "one"}])
        assert store.run().ok
        assert store.step("step").spec.definition.shown_source == QUERY  # what is run again stays as it is

    row = store.why("b", {"id": 1})
    assert (row.step, row.definition, row.inputs) == ("step", QUERY, ())  # nobody here knows the rows behind it

    store = program(open_store)
    store.table("a").upsert([{"id": 2, "v": "two"}])
    assert store.run().ok
    report = store.verify("b", replay=True)
    assert (report.findings, report.replayed, report.not_replayable) == ((), 1, 1)
    assert "made by another definition, which is not run from the chain" in report.skipped[0].reason
    assert len(store.why("b", {"id": 2}).inputs) == 1


def test_the_kinds_of_functions_are_those_that_steps_are_declared_with():
    assert FUNCTIONS == ("python", "pandas", "sql")
    assert not kind_of("diff").is_function
    assert kind_of("one of a later version") == Kind()

"""A run goes on from what the last commit wrote down of itself: from a checkpoint that was changed nothing is taken."""

from __future__ import annotations

import json

import pytest

import seamark as sm
from seamark.errors import ObjectChanged


@pytest.fixture
def store(ds):
    """A copy made by a step and a diff, both run once."""
    source = ds.table("source", "id long, n long", key="id")
    copy = ds.table("copy", "id long, n long", key="id")
    ds.add(sm.BatchTransform("SELECT * FROM {source}", [source], [copy], name="copying"))
    log = ds.table("log", "VisitID long, y_VisitVersion int, title string")
    ds.diff("visits", key="VisitID", fast_version="y_VisitVersion", multiplier=1000, logs=[log])
    source.upsert([{"id": 1, "n": 1}])
    log.append([{"VisitID": 1, "y_VisitVersion": 1, "title": "a"}])
    assert ds.run().ok
    source.upsert([{"id": 2, "n": 2}])
    log.append([{"VisitID": 2, "y_VisitVersion": 1, "title": "b"}])
    return ds


@pytest.mark.scenario("L68")
@pytest.mark.parametrize(("step", "table"), [("copying", "copy"), ("visits", "visits_state")])
def test_a_run_stops_at_a_checkpoint_that_was_changed_and_goes_on_when_it_is_restored(store, step, table):
    head = store.control.index.head(table)
    name = store.control.index.block_at(table, head.data_block).checkpoint_hash
    path = store.warehouse / table / "checkpoints" / name
    committed = path.read_bytes()
    path.write_text(json.dumps(json.loads(committed)))  # another spacing: it says the same, and is not what was written

    error = store.run(step).steps[step].error

    assert isinstance(error, ObjectChanged)
    assert name in str(error)
    assert "Nothing was taken from it" in str(error)
    assert store.control.index.head(table) == head
    path.write_bytes(committed)
    assert store.run(step).ok
    assert store.control.index.head(table).sequence > head.sequence

"""The names and signatures that programs are written against."""

from __future__ import annotations

import inspect

import pytest

import seamark as sm
from seamark import ledger

# name -> its parameters in order, as the contract has them; more may follow
SIGNATURES = {
    "DataStore": ["control", "warehouse", "spark", "block_rows"],
    "DataStore.table": ["self", "name", "schema", "key", "event_time"],
    "DataStore.verify": ["self", "table", "replay"],
    "DataStore.fold": ["self"],
    "DataStore.gc": ["self"],
    "Table.upsert": ["self"],
    "Table.delete": ["self"],
    "Table.replace": ["self"],
    "Table.append": ["self"],
    "Table.set_watermark": ["self"],
    "Table.rows": ["self", "as_of"],
    "Table.get_data": ["self", "idx"],
    "Table.changes": ["self", "after", "upto"],
    "Table.fold": ["self"],
    "JoinSpec": ["table", "join_keys"],
    "ComputeInput": ["dt", "join_type", "join_keys"],
    "BatchTransform": [
        "func",
        "inputs",
        "outputs",
        "name",
        "transform_keys",
        "batch_rows",
        "batch_keys",
        "commit",
        "fail_fast",
        "max_failed_keys",
        "track_keys",
        "algorithm",
        "on_change",
        "version",
        "pandas",
    ],
    "RunConfig": ["filters", "limit", "fail_fast"],
    "ChangeList": ["changes", "offsets"],
    "ChangeList.extend": ["self", "other"],
    "DataStore.transform": ["self", "inputs", "outputs", "options"],
    "DataStore.add": ["self", "step"],
    "DataStore.step": ["self", "name"],
    "DataStore.run": ["self", "steps"],
    "DataStore.run_changelist": ["self", "changes"],
    "DataStore.why": ["self", "table", "key"],
    "Step.run_full": ["self", "config"],
    "Step.run_changelist": ["self", "changes"],
    "Step.run_idx": ["self", "keys"],
    "Step.get_changed_idx": ["self"],
    "Step.get_changed_idx_count": ["self"],
    "Step.failures": ["self"],
    "Step.retry": ["self"],
    "spark_session": [],
    "ledger.encode": ["block"],
    "ledger.decode": [],
    "ledger.block_hash": [],
    "ledger.logical_hash": [],
    "ledger.multihash": [],
    "ledger.check_append": ["state", "block"],
    "ledger.Block": ["system_time", "prev_block_hash", "sequence_number", "event"],
    "ledger.AddData": [
        "prev_checkpoint",
        "prev_offset",
        "new_data",
        "new_checkpoint",
        "new_watermark",
        "new_source_state",
        "extra",
    ],
    "ledger.ExecuteTransform": ["query_inputs"],
    "ledger.DataSlice": ["logical_hash", "physical_hash", "offset_interval", "size"],
    "ledger.OffsetInterval": ["start", "end"],
    "ledger.ExecuteTransformInput": ["dataset_id", "prev_block_hash", "new_block_hash", "prev_offset", "new_offset"],
    "ledger.Checkpoint": ["physical_hash", "size"],
    "ledger.SourceState": ["source_name", "kind", "value"],
    "ledger.Seed": ["dataset_id", "dataset_kind"],
    "ledger.SetDataSchema": ["schema"],
    "ledger.DataSchema": ["fields", "extra"],
    "ledger.DataField": ["name", "type", "extra"],
    "ledger.DataTypeString": [],
    "ledger.DataTypeOption": ["inner"],
    "ledger.DataTypeList": ["item_type"],
}
FIELDS = {
    sm.Head: ["sequence", "block_hash", "offset", "system_time"],
    sm.Commit: [
        "table",
        "sequence",
        "blocks",
        "first_offset",
        "last_offset",
        "appended",
        "corrected",
        "retracted",
    ],
    sm.VerifyReport: ["blocks", "findings"],
    sm.Provenance: ["table", "key", "offset", "block", "step", "inputs"],
    sm.Finding: ["table", "block", "kind", "expected", "found", "message"],
}


def found(path: str) -> object:
    thing: object = sm
    for name in path.split("."):
        thing = getattr(thing, name)
    return thing


@pytest.mark.scenario("C33")
@pytest.mark.parametrize("path", SIGNATURES)
def test_the_contract_is_kept(path):
    parameters = list(inspect.signature(found(path)).parameters)
    wanted = SIGNATURES[path]
    assert [name for name in parameters if name in wanted] == wanted
    assert parameters[: len([name for name in wanted if name not in ("spark", "block_rows")])] == [
        name for name in wanted if name not in ("spark", "block_rows")
    ]


@pytest.mark.scenario("C33")
@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_what_comes_back_has_its_fields(kind):
    assert list(kind.__dataclass_fields__)[: len(FIELDS[kind])] == FIELDS[kind]


# what runs give: these names, in whatever order
TOLD = {
    sm.RunReport: ["ok", "seconds", "steps", "feeds", "sinks"],
    sm.StepReport: [
        *("ok", "keys", "batches", "rows_in", "appended", "corrected", "retracted"),
        *("failed", "seconds", "error", "changes"),
    ],
    sm.VerifyReport: ["ok"],
    sm.DataStore: ["offset_table"],
}
OFFSET_TABLE = {
    "get_offsets_for_transformation": [("process_posts",)],
    "get_record_offsets": [("process_posts",)],
    "update_offsets_bulk": [({("process_posts", "posts"): 1702345678.123},)],
    "reset_offset": [("process_posts", "posts"), ("process_posts",)],
    "initialize_offsets_from_transform_meta": [("process_posts", ["posts", "profiles"])],
    "get_statistics": [()],
}


@pytest.mark.scenario("C33")
@pytest.mark.scenario("X85")
@pytest.mark.parametrize("kind", TOLD, ids=lambda kind: kind.__name__)
def test_what_runs_tell_has_its_names(kind):
    known = {*dir(kind), *getattr(kind, "__dataclass_fields__", {})}
    assert [name for name in TOLD[kind] if name not in known] == []


@pytest.mark.scenario("C33")
@pytest.mark.parametrize("name", OFFSET_TABLE)
def test_the_offset_table_can_be_asked_as_the_contract_has_it(name, tmp_path):
    with sm.DataStore(f"sqlite:///{tmp_path}/control.db", tmp_path / "warehouse") as ds:
        signature = inspect.signature(getattr(ds.offset_table, name))
    for arguments in OFFSET_TABLE[name]:
        assert signature.bind(*arguments).args == tuple(arguments)


@pytest.mark.scenario("C33")
@pytest.mark.scenario("X85")
def test_what_is_not_given_has_the_value_of_the_contract():
    assert (sm.JoinSpec("posts").join_keys, sm.ComputeInput("posts").join_keys) == (None, None)
    assert sm.ComputeInput("posts").join_type == "full"
    assert (dict(sm.RunConfig().filters), sm.RunConfig().limit) == ({}, None)
    assert (dict(sm.ChangeList().changes), sm.ChangeList().offsets) == ({}, {})
    step = sm.BatchTransform(len, ["posts"], ["feed"])
    assert (step.commit, step.algorithm, step.on_change) == ("batch", "v2", "ask")
    assert (step.fail_fast, step.track_keys, step.pandas, step.version) == (False, False, False, None)
    assert step.max_failed_keys == 1_000


@pytest.mark.scenario("C33")
def test_every_public_name_says_what_the_caller_gets():
    named = [getattr(sm, name) for name in sm.__all__] + [getattr(ledger, name) for name in ledger.__all__]
    silent = [thing for thing in named if callable(thing) and not (inspect.getdoc(thing) or "").strip()]
    assert silent == []


def test_replaying_a_table_that_no_step_makes_is_refused_and_a_root_has_nothing_to_replay(tmp_path):
    ds = sm.DataStore(f"sqlite:///{tmp_path}/control.db", tmp_path / "warehouse")
    ds.table("clicks", "n long").append([{"n": 1}])
    assert ds.verify("clicks", replay=True).ok
    assert ds.verify(replay=False).blocks == 3

"""`ls`, `status`, `log` and `plan` on a terminal of 100 columns."""

import os
import re
import runpy
from pathlib import Path

import pyarrow as pa
import pytest
from rich.cells import cell_len
from tests.support.cli import surroundings_kept

from seamark import DataStore
from seamark.clock import commit_time
from seamark.control import FailedKey, RunRecord
from seamark.ledger import DatasetKind, ExecuteTransform, ExecuteTransformInput
from seamark.ledger.chain import ChainDraft
from seamark.tables.write.publish import begin_chain, data_slice, declare_schema, plan_table, publish
from seamark.tables.write.slices import write_slice
from seamark.tables.write.writing import writing

INPUTS = ["orders_of_all_customers", "customers_with_their_regions", "exchange_rates_by_day", "returned_parcels"]

PIPELINE = """\
import seamark as sm

ds = sm.DataStore()
names = {inputs}
tables = [ds.table(name, "order_id long, customer_id long, text string", key="order_id") for name in names]
report = ds.table("orders_with_amounts_in_euro", "order_id long, line string", key="order_id")


def convert(*frames):
    return frames[0].selectExpr("order_id", "text AS line")


joins = [sm.JoinSpec(table, join_keys={{"customer_id": "order_id"}}) for table in tables[1:]]
name = "convert_amounts_of_all_orders_to_euro"
ds.add(sm.BatchTransform(convert, inputs=[tables[0], *joins], outputs=[report], name=name))
ds.sink("orders_with_amounts_in_euro", sm.ClickHouseSink("chdb:///some/folder/far/away/clickhouse", table="orders"))
"""

LONG_ERROR = (
    "step 'convert_amounts_of_all_orders_to_euro' gave what its output 'orders_with_amounts_in_euro' cannot take: "
    "column 'line' is NULL in 17 rows, and there is more to say about it than fits on a line or two, or even three, "
    "of a terminal that has a hundred columns. Nothing of this batch was written.\n"
    "JVM stacktrace:\norg.apache.spark.SparkException: [A_LONG_STORY] and so on"
)
STEP = "convert_amounts_of_all_orders_to_euro"


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """A project whose names, errors and chains are long, with all that screens show; nothing of it needs Spark."""
    (tmp_path / "seamark.toml").write_text('pipeline = "pipeline.py:ds"\n')
    (tmp_path / "pipeline.py").write_text(PIPELINE.format(inputs=INPUTS))
    with surroundings_kept():
        os.chdir(tmp_path)
        declared = runpy.run_path(str(tmp_path / "pipeline.py"))
    with declared["ds"] as store:
        for table in declared["tables"]:
            table.upsert(pa.table({"order_id": [1, 2], "customer_id": [1, 2], "text": ["a", "b"]}))
        _derive(store)
        store.control.record_run(RunRecord("r", STEP, "all keys", 2e9, 2e9 + 1, outcome="failed", error=LONG_ERROR))
        failed = FailedKey(STEP, '{"order_id": 1}', 1.9e9, LONG_ERROR, attempts=3, retry_after=2.1e9)
        _fail(store, failed)
    return tmp_path


def _derive(store: DataStore) -> None:
    """A chain whose last block took records from two of its four inputs."""
    heads = store.control.index.heads()
    report = store.table("orders_with_amounts_in_euro")
    context = report.source.context
    planned = plan_table(context, report.name)
    draft = ChainDraft(planned.state, commit_time(context.clock, None))
    begin_chain(draft, DatasetKind.DERIVATIVE)
    draft.add(store.step(STEP).spec.definition.set_transform({name: heads[name].dataset_id for name in INPUTS}))
    declare_schema(draft, report.schema)
    taken = [
        ExecuteTransformInput(heads[name].dataset_id, None, heads[name].head_hash, None, heads[name].last_offset)
        for name in INPUTS[:3]
    ]
    moment = draft.system_time.replace(microsecond=0)
    rows = pa.table({"op": pa.array([0], pa.int32()), "order_id": [1], "line": ["a"]})
    with writing(context) as written:
        piece = write_slice(written.folder_of(report.name), report.schema, rows, planned.next_offset, moment)
        written.adopt_slices(planned.files, [piece])
        untouched = ExecuteTransformInput(heads[INPUTS[3]].dataset_id)
        draft.add(ExecuteTransform((*taken, untouched), new_data=data_slice(piece)))
        run = RunRecord(written.run_id, STEP, "changes", 1_700_000_000.0, 1_700_000_001.5, rows_in=3)
        publish(context, written, run, [(planned, draft)])


def _fail(store: DataStore, failed: FailedKey) -> None:
    from seamark.control.commit import save_failed_key

    store.control.database.write_retrying(lambda c: save_failed_key(store.control.database, c, failed))


SCREENS = ["ls", "status", "log orders_with_amounts_in_euro", f"log {STEP}", "plan", "failures", "log {0} --runs"]


@pytest.mark.scenario("C47")
@pytest.mark.parametrize("verb", SCREENS)
def test_at_100_columns_no_word_is_broken(wide, call, monkeypatch, verb):
    words = verb.format(INPUTS[0]).split()
    in_a_pipe = call(*words, folder=wide)
    monkeypatch.setenv("COLUMNS", "100")
    on_a_screen = call(*words)

    assert on_a_screen.code == in_a_pipe.code == 0, on_a_screen.err
    assert all(cell_len(line) <= 100 for line in on_a_screen.out.splitlines())
    whole = set(in_a_pipe.out.split())
    shown = [word for word in on_a_screen.out.split() if not set(word) <= {"─"}]
    labels = re.compile(r"(error|from|reads|writes|to|key|by|batch|holder|leads to keys by):")
    broken = [word for word in shown if word not in whole and word != "…" and not labels.fullmatch(word)]
    broken = [word for word in broken if not re.fullmatch(r"\d+|s|min", word)]  # an age may have grown meanwhile
    pieces = [word for word in whole if len(word) >= 90]  # what is longer than the line must be cut
    assert [word for word in broken if not any(word.rstrip("…") in piece for piece in pieces)] == []


@pytest.mark.scenario("C44")
@pytest.mark.scenario("C47")
def test_the_plan_of_a_changed_definition_is_cut_to_the_width(wide, call, monkeypatch):
    file = wide / "pipeline.py"
    file.write_text(file.read_text().replace("text AS line", f"concat({', '.join(['text'] * 40)}) AS line"))
    monkeypatch.setenv("COLUMNS", "100")

    told = call("plan", folder=wide)

    assert told.code == 1
    assert f"{STEP} refused: the definition of step '{STEP}'" in " ".join(told.out.split())
    assert all(cell_len(line) <= 100 for line in told.out.splitlines())
    assert f"`seamark run {STEP}` shows all of it, and what to choose from." in told.out


@pytest.mark.scenario("C47")
def test_a_row_takes_at_most_three_lines_and_of_an_error_the_first(wide, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    told = call("status", folder=wide).out
    runs = told.partition("Last runs")[2].splitlines()
    (place,) = [number for number, line in enumerate(runs) if "failed" in line.split() and STEP in line.split()]
    following = next(n for n, line in enumerate(runs[place + 1 :]) if not line.startswith("  "))
    assert following <= 2
    assert "column 'line' is NULL" in " ".join(told.split())
    assert "stacktrace" not in told
    assert f"`seamark log {STEP} --errors` shows the whole error." in told

    whole = call("log", STEP, "--errors").out
    assert "org.apache.spark.SparkException: [A_LONG_STORY] and so on" in whole
    assert call("log", "orders_with_amounts_in_euro", "--errors").out.endswith("and so on\n")


@pytest.mark.scenario("C47")
def test_inputs_with_nothing_new_are_left_out_of_the_log(wide, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    told = call("log", "orders_with_amounts_in_euro", folder=wide).out

    assert f"{INPUTS[0]}: 0 – 1" in told
    assert f"{INPUTS[1]}: 0 – 1" in told
    assert INPUTS[3] not in told
    assert "nothing new" not in told
    blocks = call("log", "orders_with_amounts_in_euro", "--json").document["blocks"]
    assert [taken["records"] for taken in blocks[0]["inputs"]] == [2, 2, 2, 0]  # programs get all of them


@pytest.mark.scenario("C45")
def test_ls_lists_rows_last_changes_and_sinks(wide, call):
    told = call("ls", folder=wide)
    document = call("ls", "--json").document
    (orders,) = [table for table in document["tables"] if table["name"] == INPUTS[0]]
    assert (orders["rows"], orders["rows_are_exact"]) == (2, True)
    assert orders["last_change"] is not None
    (line,) = [line.split() for line in told.out.splitlines() if line.startswith(INPUTS[0])]
    assert line[6] == "2"
    assert " ".join(line[-2:]) == orders["last_change"].replace("T", " ")[:19]
    name = "orders_with_amounts_in_euro->clickhouse:orders"
    assert document["sinks"] == [name]
    (carried,) = document["carried"]
    assert (carried["name"], carried["table"]) == (name, "orders_with_amounts_in_euro")
    assert f"{name}   orders_with_amounts_in_euro   table 'orders' of" in told.out

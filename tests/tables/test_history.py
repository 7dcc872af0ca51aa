"""Random histories of a keyed table, beside a plain dict that does the same."""

from functools import reduce

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

import seamark as sm
from seamark.tables.care import fold

KEYS = st.integers(0, 5)
STATE = st.dictionaries(KEYS, st.sampled_from(["a", "b", None]), max_size=5)
WRITES = st.one_of(
    st.tuples(st.just("upsert"), STATE),
    st.tuples(st.just("delete"), st.sets(KEYS, max_size=3)),
    st.tuples(st.just("replace"), STATE),
)
STEPS = st.lists(st.one_of(WRITES, WRITES, WRITES, st.just(("fold", None))), min_size=3, max_size=7)


def model_of(model, verb, what):
    """What the rows are after a step."""
    match verb:
        case "upsert":
            return model | what
        case "delete":
            return {key: value for key, value in model.items() if key not in what}
        case "replace":
            return dict(what)
    return model


def write(table, verb, what, spark_frames, spark):
    if verb == "fold":
        table.fold()
        return
    names = ["id"] if verb == "delete" else ["id", "v"]
    columns = [list(what)] if verb == "delete" else [list(what), list(what.values())]
    frame = pa.table(
        {n: pa.array(c, pa.int64() if n == "id" else pa.string()) for n, c in zip(names, columns, strict=True)}
    )
    if spark_frames:
        frame = spark.createDataFrame(frame, "id long, v string" if len(names) == 2 else "id long").repartition(3)
    getattr(table, verb)(frame)


def replayed(records):
    """The rows that the records lead to, with every record checked against what stood before it."""
    rows, before = {}, None
    for record in records:
        if before is not None and before.op == sm.Op.CORRECT_FROM:
            assert (record.op, record.id) == (sm.Op.CORRECT_TO, before.id)
        match sm.Op(record.op):
            case sm.Op.APPEND:
                assert record.id not in rows
                rows[record.id] = record.v
            case sm.Op.RETRACT | sm.Op.CORRECT_FROM:
                assert rows.pop(record.id) == record.v
            case sm.Op.CORRECT_TO:
                assert before.op == sm.Op.CORRECT_FROM
                assert before.v != record.v, "a correction that corrects nothing"
                rows[record.id] = record.v
        before = record
    return rows


@pytest.mark.scenario("T23", "T3", "T4", "T5", "T24")
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    steps=STEPS,
    spark_frames=st.booleans(),
    merge=st.booleans(),
    large=st.booleans(),
    block_rows=st.sampled_from([2, 3, 100]),
)
def test_a_table_is_a_dict_with_a_memory(
    spark, set_small, tmp_path_factory, steps, spark_frames, merge, large, block_rows
):
    folder = tmp_path_factory.mktemp("history")
    with (
        pytest.MonkeyPatch.context() as patched,
        sm.DataStore(
            f"sqlite:///{folder / 'control.db'}", folder / "warehouse", spark=spark, block_rows=block_rows
        ) as ds,
    ):
        patched.setattr(fold, "MERGE_SHARE", 100.0 if merge else 0.0)
        set_small(patched, 0 if large else 50_000)
        table = ds.table("t", "id long, v string", key="id")
        model, states = {}, {}
        for verb, what in steps:
            write(table, verb, what, spark_frames, spark)
            changed = model_of(model, verb, what)
            offset = table.head.offset
            assert (offset in states or offset is None) == (changed == model), (
                "written if and only if something differs"
            )
            model = changed
            if offset is not None:
                states[offset] = model

        if not states:
            assert table.head.sequence == -1
            return
        # every state that ever was, in one job
        each = [table.rows(as_of=offset).withColumn("as_of", F.lit(offset)) for offset in states]
        found = {offset: {} for offset in states}
        for row in reduce(lambda one, other: one.unionByName(other), each).collect():
            assert row.id not in found[row.as_of], "one row a key"
            found[row.as_of][row.id] = row.v
        assert found == states
        assert replayed(table.changes().collect()) == model
        assert ds.verify().ok

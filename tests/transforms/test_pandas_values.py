"""Values that pandas would change: they come to the function, and back from it, as they are."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import seamark as sm
from seamark.control import FailedKey
from seamark.steps.rows.changelist import join_frames
from seamark.steps.rows.pandas_rows import to_pandas
from seamark.steps.running.failures import failure_frame
from seamark.tables.frame import LocalFrame
from seamark.tables.frames import check_frame
from seamark.tables.schema.table_schema import declare

BIG = 2**53 + 1  # as a float it would be 2^53


@pytest.mark.scenario("X88")
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bigint", [BIG, None]),
        ("array<bigint>", [[BIG, None], [1], None]),
        ("array<bigint>", [[BIG, 2], [], None]),
        ("array<array<bigint>>", [[[BIG, None], None]]),
        ("struct<a:bigint>", [{"a": BIG}, {"a": None}, None]),
        ("struct<l:array<bigint>>", [{"l": [BIG, None]}, {"l": None}]),
        ("struct<s:struct<a:bigint>>", [{"s": {"a": BIG}}, {"s": None}, {"s": {"a": None}}]),
    ],
)
def test_large_whole_numbers_beside_nulls_stay_what_they_are_however_deep(kind: str, values: list[Any]) -> None:
    schema = declare("t", f"v {kind}", None, None)
    rows = pa.table({"v": pa.array(values, schema.arrow.field("v").type)})

    back = check_frame("t", schema, to_pandas(rows))

    assert isinstance(back, LocalFrame)
    assert back.rows.column("v").to_pylist() == values


@pytest.mark.scenario("X88")
def test_columns_of_whole_numbers_are_what_they_were_beside_arrays(ds: sm.DataStore, rows: Any) -> None:
    basket = ds.table("basket", "id long, n long, items array<long>, one struct<a:long>", key="id")
    told = ds.table("told", "id long, kinds string, items array<long>, one struct<a:long>", key="id")

    def hand_on(basket: pd.DataFrame) -> pd.DataFrame:
        return basket.assign(kinds=f"{basket.id.dtype} {basket.n.dtype}")[["id", "kinds", "items", "one"]]

    ds.add(sm.BatchTransform(hand_on, [basket], [told], pandas=True, transform_keys=["id"]))
    basket.upsert([{"id": 1, "n": None, "items": [BIG, None], "one": {"a": BIG}}])
    ds.run(fail_fast=True)
    basket.upsert([{"id": 2, "n": 1, "items": [BIG, 1], "one": {"a": None}}])
    ds.run(fail_fast=True)

    assert rows(told) == [(1, "int64 Int64", [BIG, None], {"a": BIG}), (2, "int64 int64", [BIG, 1], {"a": None})]


def test_failed_keys_and_joined_change_lists_keep_large_numbers_beside_nulls() -> None:
    failed = [FailedKey("step", text, 0.0, "bad", 1, None) for text in (f'{{"k":{BIG}}}', '{"k":null}')]
    assert list(failure_frame(failed, ["k"], {"k": pa.int64()}).k) == [BIG, pd.NA]

    one, other = [{"k": BIG, "l": [BIG, None]}], [{"k": None, "l": None}]
    joined = join_frames(one, other)
    assert (list(joined.k), list(joined.l[0])) == ([BIG, pd.NA], [BIG, None])

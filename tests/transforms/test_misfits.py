"""Values and rows that an output cannot take: who is blamed for them, and what is nobody's."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import seamark as sm
from seamark.errors import BadOutput, TooManyFailures
from seamark.tables.frame import SparkFrame
from seamark.transforms.compute import pandas_call
from seamark.transforms.keying import Results


@pytest.mark.parametrize("bad", [1.5, "thirteen"], ids=["a value that does not fit", "a value of another kind"])
def test_one_value_that_does_not_fit_fails_its_key_in_a_function_for_pandas(
    ds: sm.DataStore, rows: Any, bad: Any
) -> None:
    numbers = ds.table("numbers", "id long", key="id")
    one, two = (ds.table(name, "id long, x long", key="id") for name in ("one", "two"))

    def hand_on(numbers: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        values = [bad if n == 13 else n for n in numbers.id]
        return numbers.assign(x=1), numbers.assign(x=pd.Series(values, numbers.index, dtype=object))

    ds.add(sm.BatchTransform(hand_on, [numbers], [one, two], pandas=True))
    numbers.upsert([{"id": n} for n in range(20)])
    report = ds.run().steps["hand_on"]

    assert (report.error, [key for key, _ in report.failures]) == (None, ['{"id":13}'])
    assert "'x'" in report.failures[0][1]
    assert rows(two) == [(n, n) for n in range(20) if n != 13]
    assert rows(one) == [(n, 1) for n in range(20) if n != 13]


def test_one_value_that_does_not_fit_fails_its_key_where_spark_rows_come_back_as_pandas(
    ds: sm.DataStore, rows: Any
) -> None:
    numbers, out = ds.table("numbers", "id long, x double", key="id"), ds.table("out", "id long, x long", key="id")

    @ds.transform(inputs=[numbers], outputs=[out])
    def hand_on(numbers):
        return numbers.toPandas()

    numbers.upsert([{"id": n, "x": 1.5 if n == 3 else float(n)} for n in range(6)])
    report = ds.run().steps["hand_on"]
    assert (report.error, [key for key, _ in report.failures]) == (None, ['{"id":3}'])
    assert "the value 1.5 does not fit column 'x'" in report.failures[0][1]
    assert rows(out) == [(n, n) for n in range(6) if n != 3]


@pytest.mark.parametrize("pandas", [False, True], ids=["for Spark", "for pandas"])
def test_a_value_of_another_kind_fails_its_key_also_where_that_is_tried_alone(
    ds: sm.DataStore, rows: Any, pandas: bool
) -> None:
    prices, out = ds.table("prices", "id long, x string", key="id"), ds.table("out", "id long, x long", key="id")

    def read(prices: Any) -> pd.DataFrame:
        given = prices if pandas else prices.toPandas()
        return pd.DataFrame({"id": given.id, "x": [int(x) if x.isdigit() else x for x in given.x]})

    step = ds.add(sm.BatchTransform(read, [prices], [out], pandas=pandas))
    prices.upsert([{"id": n, "x": "three" if n == 3 else str(n)} for n in range(5)])
    assert [key for key, _ in step.run_full().failures] == ['{"id":3}']
    assert rows(out) == [(n, n) for n in range(5) if n != 3]

    again = step.run_full()  # of this key alone, and so of texts alone
    assert [(key, "'x' is string, expected bigint" in text) for key, text in again.failures] == [('{"id":3}', True)]
    assert "Nothing was written" not in again.failures[0][1]  # the batch of the other keys was
    prices.upsert([{"id": 7, "x": "seven"}])
    assert [key for key, _ in step.run_full().failures] == ['{"id":7}']
    assert [key for key, _ in step.retry().failures] == ['{"id":3}', '{"id":7}']
    prices.upsert([{"id": 3, "x": "3"}, {"id": 7, "x": "7"}])
    assert step.run_full().ok
    assert rows(out) == [(n, n) for n in (0, 1, 2, 3, 4, 7)]


def test_a_column_instead_of_a_frame_stops_the_step(ds: sm.DataStore) -> None:
    numbers, out = ds.table("numbers", "id long", key="id"), ds.table("out", "id long", key="id")
    step = ds.add(sm.BatchTransform(lambda numbers: numbers.id, [numbers], [out], pandas=True, name="give"))
    numbers.upsert([{"id": 1}])
    with pytest.raises(BadOutput, match="was given a Series"):
        step.run_full()


@pytest.mark.parametrize("pandas", [False, True], ids=["for Spark", "for pandas"])
def test_a_row_without_a_key_from_an_outer_join_is_nobodys_also_as_pandas(
    ds: sm.DataStore, rows: Any, pandas: bool
) -> None:
    left = ds.table("left", "a long, n long", key="a")
    both = ds.table("both", "a long, b long", key=["a", "b"])
    out = ds.table("out", "a long, b long, n long", key=["a", "b"])

    def tie(left: Any, both: Any) -> pd.DataFrame:
        if not pandas:
            left, both = left.toPandas(), both.toPandas()
        return left.merge(both, on="a", how="outer").astype("Int64")[["a", "b", "n"]]

    ds.add(sm.BatchTransform(tie, [left, both], [out], transform_keys=["a", "b"], pandas=pandas))
    left.upsert([{"a": 1, "n": 1}, {"a": 2, "n": 2}])
    both.upsert([{"a": 1, "b": 1}, {"a": 3, "b": 3}])
    assert ds.run(fail_fast=True).ok
    assert rows(out) == [(1, 1, 1), (3, 3, None)]


@pytest.mark.parametrize("in_spark", [False, True], ids=["local", "in Spark"])
def test_a_row_with_its_key_that_lacks_a_value_it_needs_is_refused_and_not_left_out(
    ds: sm.DataStore, set_small: Any, monkeypatch: pytest.MonkeyPatch, in_spark: bool
) -> None:
    if in_spark:
        set_small(monkeypatch, 0)
    left, both = ds.table("left", "a long, n long", key="a"), ds.table("both", "a long, b long", key=["a", "b"])
    ds.table("out", "a long, b long, n long NOT NULL", key=["a", "b"])
    sql = "SELECT a, b, n FROM {left} FULL JOIN {both} USING (a)"
    ds.add(sm.BatchTransform(sql, [left, both], ["out"], name="tie", transform_keys=["a", "b"]))
    left.upsert([{"a": 1, "n": 1}, {"a": 2, "n": 2}])
    both.upsert([{"a": 1, "b": 1}, {"a": 3, "b": 3}])
    with pytest.raises(BadOutput, match="'n'"):
        ds.step("tie").run_full()


def test_failed_keys_of_a_large_batch_for_pandas_are_counted_and_only_so_many_are_held(
    ds: sm.DataStore, spark: Any, set_small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, out = ds.table("numbers", "id long", key="id"), ds.table("out", "id long", key="id")

    def refuse(numbers: pd.DataFrame) -> pd.DataFrame:
        if (numbers.id >= 3).any():
            raise ValueError("too large")
        return numbers

    ds.add(sm.BatchTransform(refuse, [numbers], [out], pandas=True, max_failed_keys=2))
    numbers.upsert([{"id": n} for n in range(10)])
    set_small(monkeypatch, 0)
    with pytest.raises(TooManyFailures, match=r"7 keys failed, more than max_failed_keys=2\..*too large"):
        ds.step("refuse").run_full()

    lines = spark.range(7).selectExpr("id", "'bad' AS `its error`", "id = 6 AS `it is fatal`")
    results = Results([])
    held = pandas_call.held_failures(SparkFrame(lines), results, 2, lambda: lines.sparkSession)
    assert (held.num_rows, results.further) == (3, 4)
    assert held.column("id")[0] == pa.scalar(6)  # what stops the step is not among those that are left out

"""The document's table of six blocks, line by line, and the invariant that it keeps."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from seamark.diffs.compute.blocks import Fast, Side, delete_blocks, late_blocks, six_blocks

# (block, sign, S, F, state); of a visit that is not known, the old versions are None
Told = tuple[int, int, int, int, str | None]
Case = tuple[int | None, int | None, int | None]

GRID: list[Case] = [
    (slow, fast, new)
    for slow, fast in [(None, None), (1, 0), (1, 2), (4, 2), (7, 999)]
    for new in (0, 1, 2, 3, 999)
]  # fmt: skip


def written_by(spark: Any, cases: list[Case], kind: str) -> dict[Case, list[Told]]:
    """What the lines of some blocks write for each case: one Spark job."""
    frame = spark.createDataFrame(cases, "old_S long, old_F long, new_F long")
    state = {"x": F.when(F.col("old_F").isNotNull(), F.lit("old"))}
    old = Side(F.col("old_S"), Fast(F.col("old_F")), state)
    new = Side(F.lit(1).cast("bigint"), Fast(F.col("new_F")), {"x": F.lit("new")})
    merged = {"x": F.lit("old + new")}
    lines = {
        "six": lambda: six_blocks(old, new, merged),
        "late": lambda: late_blocks(old, new, merged),
        "all": lambda: (*six_blocks(old, new, merged), *late_blocks(old, new, merged)),
        "delete": lambda: delete_blocks(old, Fast(F.greatest("old_F", "new_F")), fast_deletes=False),
        "fast delete": lambda: delete_blocks(old, Fast(F.greatest("old_F", "new_F")), fast_deletes=True),
    }[kind]()
    each = [
        F.when(
            line.condition,
            F.struct(
                F.lit(line.block).alias("block"),
                F.lit(line.sign).alias("sign"),
                line.slow.alias("S"),
                line.fast.version.alias("F"),
                line.state.get("x", F.lit(None).cast("string")).alias("x"),
            ),
        )
        for line in lines
    ]
    told = frame.select("*", F.filter(F.array(*each), lambda line: line.isNotNull()).alias("lines")).collect()
    return {(row.old_S, row.old_F, row.new_F): [tuple(line) for line in row.lines] for row in told}


@pytest.fixture(scope="module")
def six(spark: Any) -> dict[Case, list[Told]]:
    return written_by(spark, GRID, "six")


def block(told: dict[Case, list[Told]], number: int) -> dict[Case, Told]:
    return {case: line for case, lines in told.items() for line in lines if line[0] == number}


KNOWN = [case for case in GRID if case[1] is not None and case[1] <= case[2]]
MOVED_ON = [case for case in GRID if case[1] is not None and case[1] < case[2]]
UNKNOWN = [case for case in GRID if case[1] is None]


@pytest.mark.scenario("D4")
def test_block_1_takes_back_what_stood(six):
    assert block(six, 1) == {(s, f, new): (1, -1, s, f, "old") for s, f, new in KNOWN}


@pytest.mark.scenario("D4")
def test_block_2_adds_the_merged_state_at_the_next_slow_version(six):
    assert block(six, 2) == {(s, f, new): (2, +1, s + 1, new, "old + new") for s, f, new in KNOWN}


@pytest.mark.scenario("D2")
def test_block_3_takes_back_the_newer_version_of_the_fast_supplier(six):
    assert block(six, 3) == {case: (3, -1, 0, case[2], None) for case in MOVED_ON}


@pytest.mark.scenario("D2")
def test_block_4_gives_back_the_older_version_of_the_fast_supplier(six):
    assert block(six, 4) == {case: (4, +1, 0, case[1], None) for case in MOVED_ON}


@pytest.mark.scenario("D3")
def test_block_5_adds_the_first_slow_version_of_an_unknown_visit(six):
    assert block(six, 5) == {case: (5, +1, 1, case[2], "new") for case in UNKNOWN}


@pytest.mark.scenario("D3")
def test_block_6_takes_back_the_fast_version_of_an_unknown_visit(six):
    assert block(six, 6) == {case: (6, -1, 0, case[2], None) for case in UNKNOWN}


@pytest.mark.scenario("D5")
def test_the_blocks_together_are_the_three_cases_of_the_document(six):
    same = six[(1, 2, 2)]
    assert same == [(1, -1, 1, 2, "old"), (2, +1, 2, 2, "old + new")]
    assert six[(1, 2, 3)] == [
        (1, -1, 1, 2, "old"),
        (2, +1, 2, 3, "old + new"),
        (3, -1, 0, 3, None),
        (4, +1, 0, 2, None),
    ]
    assert six[(None, None, 1)] == [(6, -1, 0, 1, None), (5, +1, 1, 1, "new")]
    assert six[(1, 2, 1)] == []  # news of a version that was left behind is in none of the six
    assert {case: len(lines) for case, lines in six.items()} == {
        (s, f, new): 2 if f is None or f == new else 4 if f < new else 0 for s, f, new in GRID
    }


@pytest.mark.scenario("D11")
def test_late_news_is_merged_at_the_version_that_the_visit_has(spark):
    late = written_by(spark, GRID, "late")
    for (slow, fast, new), lines in late.items():
        if fast is not None and fast > new:
            assert lines == [(7, -1, slow, fast, "old"), (8, +1, slow + 1, fast, "old + new")]
        else:
            assert lines == []


@pytest.mark.scenario("D20")
@pytest.mark.scenario("D27")
def test_a_delete_takes_back_what_the_fast_supplier_leaves_standing(spark):
    cases = [(1, 2, 2), (1, 2, None), (1, 2, 3), (None, None, 4), (None, None, None)]
    told = written_by(spark, cases, "delete")

    assert told[(1, 2, 2)] == told[(1, 2, None)] == [(9, -1, 1, 2, "old")]
    assert told[(1, 2, 3)] == [(9, -1, 1, 2, "old"), (10, +1, 0, 2, None), (11, -1, 0, 3, None)]
    assert told[(None, None, 4)] == [(11, -1, 0, 4, None)]
    assert told[(None, None, None)] == []


@pytest.mark.scenario("D20")
@pytest.mark.scenario("D27")
def test_a_delete_gives_back_the_version_that_the_fast_supplier_takes_back_itself(spark):
    cases = [(1, 2, 2), (1, 2, None), (1, 2, 3), (None, None, 4)]
    told = written_by(spark, cases, "fast delete")

    both = [(9, -1, 1, 2, "old"), (10, +1, 0, 2, None)]
    assert told == {(1, 2, 2): both, (1, 2, None): both, (1, 2, 3): both, (None, None, 4): []}


# --- the invariant ----------------------------------------------------------------------------------------------------

known = st.tuples(st.integers(1, 50), st.integers(0, 20))
visit = st.tuples(st.one_of(st.just((None, None)), known), st.integers(0, 20)).map(lambda told: (*told[0], told[1]))
batches = st.lists(visit, min_size=1, max_size=60)


def sums(slow: int | None, fast: int | None) -> Counter[tuple[int, int]]:
    """What the slow supplier's records of a visit sum to, by (S, F): the invariant of the design."""
    return Counter() if fast is None else Counter({(0, fast): -1, (slow, fast): +1})


def added(before: Counter[tuple[int, int]], lines: list[Told]) -> dict[tuple[int, int], int]:
    after = Counter(before)
    for _, sign, slow, fast, _ in lines:
        after[(slow, fast)] += sign
    return {place: count for place, count in after.items() if count}


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(batch=batches)
def test_after_any_news_the_invariant_holds_again(spark, batch):
    for (slow, fast, new), lines in written_by(spark, sorted(set(batch), key=str), "all").items():
        newest = new if fast is None else max(fast, new)
        assert added(sums(slow, fast), lines) == dict(sums((slow or 0) + 1, newest))
        assert sum(sign for _, sign, *_ in lines) == 0
        assert len({(s, f) for _, sign, s, f, _ in lines if sign < 0}) == sum(1 for line in lines if line[1] < 0)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(batch=batches, fast_deletes=st.booleans())
def test_after_any_delete_both_suppliers_sum_to_nothing(spark, batch, fast_deletes):
    """The fast supplier has published every version up to the newest, and on a delete takes it back or does not."""
    kind = "fast delete" if fast_deletes else "delete"
    for (slow, fast, told), lines in written_by(spark, sorted(set(batch), key=str), kind).items():
        newest = told if fast is None else max(fast, told)
        left = Counter(sums(slow, fast))
        left[(0, newest)] += 0 if fast_deletes else 1
        assert added(left, lines) == {}

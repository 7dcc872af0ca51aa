"""Cutting sorted runs into slices, as pure functions, against a plain sorted list."""

from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.tables.row_bytes import bytes_of_rows
from seamark.tables.schema.table_schema import declare
from seamark.tables.write.cuts import CutPlan, SizeLimit, cut_in_order, cut_sorted, cut_table
from seamark.tables.write.sorted_runs import RunReader, cut_runs, read_stretches, write_run

ROOM = 1 << 40  # more bytes than any of these changes has


def slices_of(bounds, runs):
    """The records of each slice, as the slice's task would merge them."""
    cut = []
    for begin, end in pairwise(bounds):
        pieces = [run[start:stop] for run, start, stop in zip(runs, begin, end, strict=True)]
        cut.append(sorted(record for piece in pieces for record in piece))
    return cut


def sorted_slices(runs, rows, values=ROOM, sizes=()):
    keys = [lambda n, run=run: (run[n][0],) for run in runs]
    plan = CutPlan(SizeLimit(rows, values), sizes)
    return slices_of(cut_sorted([len(run) for run in runs], keys, totals_of(runs), plan), runs)


def slices_on_driver(runs, rows, values=ROOM, sizes=()):
    whole = sorted(record for run in runs for record in run)
    ops, weights = np.array([op for _, op, _ in whole]), np.array([weight for _, _, weight in whole], np.int64)
    return [whole[begin:end] for begin, end in cut_table(ops, weights, CutPlan(SizeLimit(rows, values), sizes))]


def totals_of(runs):
    """For each run, the bytes of values before a record."""
    sums = [list(accumulate((weight for _, _, weight in run), initial=0)) for run in runs]
    return [lambda n, upto=upto: upto[n] for upto in sums]


@st.composite
def changes(draw):
    """Records (key, op, bytes) of a change without doubled keys, over runs; both images of a correction in one run."""
    wanted = draw(st.sets(st.integers(0, 200), max_size=60))
    count = draw(st.integers(1, 6))
    runs = [[] for _ in range(count)]
    for key in sorted(wanted):
        run = runs[draw(st.integers(0, count - 1))]
        for op in draw(st.sampled_from([[0], [1], [2, 3]])):
            run.append((key, op, draw(st.integers(0, 9))))
    return runs


@given(changes(), st.integers(2, 12))
def test_sorted_runs_are_cut_as_one_sorted_list_would_be(runs, block_rows):
    whole = sorted(record for run in runs for record in run)

    found = sorted_slices(runs, block_rows)

    assert [record for piece in found for record in piece] == whole
    for piece, following in zip(found, [*found[1:], []], strict=False):
        assert len(piece) <= block_rows
        if following:
            room = block_rows - len(piece)
            assert piece, "a slice is never empty"
            assert piece[-1][1] != 2, "a slice never ends between the records of a correction"
            # as many as fit: one record less only where a correction would be cut in two
            assert room == 0 or (room == 1 and following[0][1] == 2)


@pytest.mark.scenario("T55", "L55")
@given(changes(), st.integers(2, 12), st.integers(1, 40))
def test_a_slice_holds_no_more_bytes_than_it_may_unless_one_key_has_more(runs, block_rows, block_bytes):
    whole = sorted(record for run in runs for record in run)

    found = sorted_slices(runs, block_rows, block_bytes)

    assert [record for piece in found for record in piece] == whole
    for piece, following in zip(found, [*found[1:], []], strict=False):
        values, rows = sum(weight for _, _, weight in piece), len(piece)
        assert piece
        assert values <= block_bytes or len({key for key, _, _ in piece}) == 1
        if following:
            next_key = [record for record in following if record[0] == following[0][0]]
            assert piece[-1][0] != next_key[0][0], "a slice never ends between the records of a key"
            fits = values + sum(weight for _, _, weight in next_key) <= block_bytes
            assert not fits or rows + len(next_key) > block_rows, "as many as fit"


@pytest.mark.scenario("T55", "L46")
@given(changes(), st.integers(2, 12), st.integers(1, 40))
def test_the_cuts_do_not_depend_on_how_records_lie_in_runs(runs, block_rows, block_bytes):
    one_run = [sorted(record for run in runs for record in run)]

    several = sorted_slices(runs, block_rows, block_bytes)

    assert several == sorted_slices(one_run, block_rows, block_bytes)
    assert several == slices_on_driver(runs, block_rows, block_bytes)


@given(changes(), st.integers(2, 12), st.integers(1, 40))
def test_what_was_cut_once_is_cut_in_the_same_places_whatever_the_limits_are_now(runs, block_rows, block_bytes):
    once = sorted_slices(runs, block_rows, block_bytes)
    sizes = tuple(len(piece) for piece in once)

    assert sorted_slices(runs, 7, 11, sizes) == once
    assert slices_on_driver(runs, 7, 11, sizes) == once


@given(st.lists(st.lists(st.integers(0, 5), max_size=12), min_size=1, max_size=4), st.integers(2, 6))
def test_a_doubled_key_is_never_torn_apart(keys, block_rows):
    """Records with one key always meet in one slice, however many there are: that is where a doubled key is seen."""
    runs = [[(key, 0, 1) for key in sorted(run)] for run in keys]
    found = sorted_slices(runs, block_rows)

    assert sorted(r for piece in found for r in piece) == sorted(r for run in runs for r in run)
    where = {}
    for place, piece in enumerate(found):
        assert piece
        for key, _, _ in piece:
            assert where.setdefault(key, place) == place


@pytest.mark.scenario("T55")
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=6), st.integers(1, 12), st.integers(1, 30)
)
def test_runs_in_order_are_cut_one_after_another(weights, block_rows, block_bytes):
    runs, count = [], 0
    for run in weights:
        runs.append([(count + number, 0, weight) for number, weight in enumerate(run)])
        count += len(run)
    plan = CutPlan(SizeLimit(block_rows, block_bytes))

    found = slices_of(cut_in_order([len(run) for run in runs], totals_of(runs), plan), runs)

    assert found == slices_on_driver(runs, block_rows, block_bytes)
    assert [record for piece in found for record in piece] == [record for run in runs for record in run]
    assert all(sum(weight for _, _, weight in piece) <= block_bytes or len(piece) == 1 for piece in found)


def test_runs_hold_moments_as_the_table_does_whatever_the_session_shows_them_as(tmp_path):
    """In New York it was half past one twice in that night, and the clock went back in between."""
    schema = declare("t", "at timestamp, v long", "at", None)
    start = datetime(2026, 11, 1, 5, tzinfo=UTC)
    moments = [start + timedelta(minutes=10 * number) for number in range(12)]
    runs = []
    for order in (0, 1):
        mine = pa.array(moments[order::2], pa.timestamp("us", tz="America/New_York"))
        columns = {"op": pa.array([0] * len(mine), pa.int32()), "at": mine, "v": pa.array(range(len(mine)), pa.int64())}
        runs.append(write_run(iter([pa.RecordBatch.from_pydict(columns)]), str(tmp_path), schema, order))

    reader = RunReader(runs[0].path, schema.key)
    slices = [read_stretches(piece) for piece in cut_runs(runs, schema.key, CutPlan(SizeLimit(rows=5)))]

    assert [reader.key(number) for number in range(reader.rows)] == [(moment,) for moment in moments[::2]]
    assert reader.stretch(0, 1).schema.field("at").type == schema.arrow.field("at").type
    assert [sorted(piece.column("at").to_pylist()) for piece in slices] == [moments[:5], moments[5:10], moments[10:]]


NESTED = pa.struct([("t", pa.string()), ("l", pa.list_(pa.list_(pa.string()))), ("n", pa.int32())])
VALUES = [
    (pa.int64(), [1, None], [8, 8]),
    (pa.bool_(), [True, None], [1, 1]),
    (pa.decimal128(10, 2), [None, None], [16, 16]),
    (pa.string(), ["äb", None, ""], [3, 0, 0]),
    (pa.binary(), [b"123", None], [3, 0]),
    (pa.list_(pa.int32()), [[1, None], [], None, [3]], [8, 0, 0, 4]),
    (pa.list_(pa.string()), [["a", None, "bcd"], None, []], [4, 0, 0]),
    (NESTED, [{"t": "abc", "l": [["x"], None, ["yz", ""]], "n": 1}, None], [3 + 3 + 4, 4]),
    (pa.map_(pa.int64(), pa.string()), [[(1, "ab"), (2, None)], None, []], [18, 0, 0]),
]


@pytest.mark.scenario("T55")
@pytest.mark.parametrize(("kind", "values", "expected"), VALUES, ids=[str(kind) for kind, _, _ in VALUES])
def test_the_bytes_of_a_row_follow_from_its_values_alone(kind, values, expected):
    table = pa.table({"v": pa.array(values, kind)})
    padded = pa.table({"v": pa.array([values[0], *values, values[0]], kind)}).slice(1, len(values))
    chunked = pa.concat_tables([table.slice(n, 1) for n in range(len(values))])

    assert [bytes_of_rows(one).tolist() for one in (table, padded, chunked)] == [expected] * 3

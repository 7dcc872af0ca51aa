"""Cutting sorted runs into slices, as pure functions, against a plain sorted list."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from seamark.tables.runs import RunReader, cut_in_order, cut_runs, cut_sorted, read_stretches, write_run
from seamark.tables.schema import declare


def slices_of(bounds, runs):
    """The records of each slice, as the slice's task would merge them."""
    cut = []
    for begin, end in pairwise(bounds):
        pieces = [run[start:stop] for run, start, stop in zip(runs, begin, end, strict=True)]
        cut.append(sorted(record for piece in pieces for record in piece))
    return cut


def keys_of(runs):
    return [lambda n, run=run: (run[n][0],) for run in runs]


@st.composite
def changes(draw):
    """Records (key, op) of a change without doubled keys, spread over runs; both images of a correction in one run."""
    wanted = draw(st.sets(st.integers(0, 200), max_size=60))
    count = draw(st.integers(1, 6))
    runs = [[] for _ in range(count)]
    for key in sorted(wanted):
        run = runs[draw(st.integers(0, count - 1))]
        run.extend(draw(st.sampled_from([[(key, 0)], [(key, 1)], [(key, 2), (key, 3)]])))
    return runs


@given(changes(), st.integers(2, 12))
def test_sorted_runs_are_cut_as_one_sorted_list_would_be(runs, block_rows):
    whole = sorted(record for run in runs for record in run)

    found = slices_of(cut_sorted([len(run) for run in runs], keys_of(runs), block_rows), runs)

    assert [record for piece in found for record in piece] == whole
    for piece, following in zip(found, [*found[1:], []], strict=True):
        assert len(piece) <= block_rows
        if following:
            room = block_rows - len(piece)
            assert piece, "a slice is never empty"
            assert piece[-1][1] != 2, "a slice never ends between the records of a correction"
            # as many as fit: one record less only where a correction would be cut in two
            assert room == 0 or (room == 1 and following[0][1] == 2)


@given(changes(), st.integers(2, 12))
def test_the_cuts_do_not_depend_on_how_records_lie_in_runs(runs, block_rows):
    one_run = [sorted(record for run in runs for record in run)]

    several = slices_of(cut_sorted([len(run) for run in runs], keys_of(runs), block_rows), runs)
    single = slices_of(cut_sorted([len(one_run[0])], keys_of(one_run), block_rows), one_run)

    assert several == single


@given(st.lists(st.lists(st.integers(0, 5), max_size=12), min_size=1, max_size=4), st.integers(2, 6))
def test_a_doubled_key_is_never_torn_apart(keys, block_rows):
    """Records with one key always meet in one slice, however many there are: that is where a doubled key is seen."""
    runs = [[(key, 0) for key in sorted(run)] for run in keys]
    found = slices_of(cut_sorted([len(run) for run in runs], keys_of(runs), block_rows), runs)

    assert sorted(r for piece in found for r in piece) == sorted(r for run in runs for r in run)
    where = {}
    for place, piece in enumerate(found):
        for key, _ in piece:
            assert where.setdefault(key, place) == place


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(1, 12))
def test_runs_in_order_are_cut_by_number_alone(rows, block_rows):
    runs, start = [], 0
    for count in rows:
        runs.append(list(range(start, start + count)))
        start += count

    found = slices_of(cut_in_order(rows, None, block_rows), runs)

    whole = list(range(start))
    assert found == [whole[i : i + block_rows] for i in range(0, start, block_rows)]


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
    slices = [read_stretches(piece) for piece in cut_runs(runs, schema.key, 5)]

    assert [reader.key(number) for number in range(reader.rows)] == [(moment,) for moment in moments[::2]]
    assert reader.stretch(0, 1).schema.field("at").type == schema.arrow.field("at").type
    assert [sorted(piece.column("at").to_pylist()) for piece in slices] == [moments[:5], moments[5:10], moments[10:]]

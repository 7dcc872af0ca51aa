"""Cutting sorted runs into slices, as pure functions, against a plain sorted list."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from seamark.tables.runs import cut_in_order, cut_sorted


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

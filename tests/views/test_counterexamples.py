"""The histories by which looser rules were found wrong, by hand: each view ends equal to its query.

Those about settling doubled keys (B11) and about images in memory (B10) are tested where that is done.
"""

import pytest
from tests.support.view_simulation.keeping import Kept
from tests.support.view_simulation.sql import Query, Source

ID, A, B, C = range(4)


def eq(one, other):
    return ("eq", (0, *one), (0, *other))


def lit(column, value, sign="lit"):
    return (sign, (0, *column), value)


def col(*column):
    return ("col", (0, *column))


def from_(table="t0", **more):
    return Source("from", table, **more)


def grouped(sources, unit, where=()):
    return Query(sources, where, "group", unit, aggregates=[("count*", None)])


def happens(view, dictionaries, rows, *happenings):
    tables = ["t0", "t1", "t2"]
    kept = Kept(view, tables, dictionaries, rows)
    for happening in happenings:
        kept.happen(happening)
    assert kept.stands == kept.from_scratch()
    return kept


B1 = grouped([from_(), Source("inner", "t1", on=[eq((1, ID), (0, A))])], [col(0, B)])
B1_ROWS = {"t0": [(1, 0, 7, 0)], "t1": [(0, 0, 0, 0)]}
B1_CHANGES = (("put", "t1", 0, None), ("put", "t0", 1, (1, None, 7, 0)))


@pytest.mark.scenario("V96")
def test_b1_a_dictionary_pass_first_finds_the_group_among_versions():
    happens(B1, ["t1"], B1_ROWS, *B1_CHANGES, ("page", 9, 0), ("stream",))


@pytest.mark.scenario("V96")
def test_b1_batches_input_after_input_find_the_group_among_versions():
    happens(B1, [], B1_ROWS, *B1_CHANGES, ("by input", ("t1", "t0"), 2, False), ("stream",))


@pytest.mark.scenario("V96")
def test_b2_an_image_of_the_leftmost_source_with_null_is_never_pruned():
    view = Query([from_(), Source("left", "t1", on=[eq((1, A), (0, A))])])
    kept = happens(view, [], {}, ("put", "t0", 1, (1, None, 0, 0)), ("stream",))
    assert kept.stands == {(1,): [(1, None, 0, 0, None, None, None, None)]}


@pytest.mark.scenario("V96")
def test_b2_null_counts_only_in_a_column_by_which_the_path_leaves():
    sources = [from_(), Source("inner", "t1", on=[eq((1, A), (0, A))]), Source("left", "t2", on=[eq((2, ID), (1, B))])]
    happens(Query(sources), [], {"t0": [(1, 0, 0, 0)]}, ("put", "t1", 1, (1, 0, None, 0)), ("stream",))


@pytest.mark.scenario("V96")
def test_b3_a_literal_in_the_on_of_another_left_source_prunes_nothing():
    view = Query([from_(), Source("left", "t1", on=[eq((1, A), (0, A)), lit((0, B), 1)])])
    kept = happens(view, [], {}, ("put", "t0", 1, (1, 0, 0, 0)), ("stream",))
    assert kept.actions[0].literals == ()


@pytest.mark.scenario("V96")
def test_b3_is_null_over_a_left_source_prunes_nothing():
    view = Query([from_(), Source("left", "t1", on=[eq((1, A), (0, A))])], [("isnull", (0, 1, B))])
    happens(view, [], {"t0": [(1, 0, 0, 0)]}, ("put", "t1", 1, (1, 0, 5, 0)), ("stream",))


@pytest.mark.scenario("V96")
def test_b3_a_literal_outside_a_window_does_not_reach_into_it():
    ranks = Query([from_()], [], "window", [col(0, A)], outs=[col(0, B)], order=(0, 0, C))
    view = Query([Source("from", query=ranks)], [lit((0, 1), 0)])
    happens(view, [], {"t0": [(1, 0, 0, 1)]}, ("put", "t0", 2, (2, 0, 5, 0)), ("stream",))


@pytest.mark.scenario("V96")
def test_b4_the_closure_does_not_lead_through_a_left_source():
    sources = [
        from_(),
        Source("left", "t1", on=[eq((1, A), (0, ID)), eq((1, A), (0, B))]),
        Source("left", "t2", on=[eq((2, A), (0, B))]),
    ]
    happens(Query(sources), [], {"t0": [(1, 0, 2, 0)]}, ("put", "t2", 1, (1, 2, 0, 0)), ("stream",))


@pytest.mark.scenario("V96")
def test_b4_a_path_does_not_lead_through_a_left_source():
    sources = [from_(), Source("inner", "t2"), Source("left", "t1", on=[eq((2, A), (0, A)), eq((2, B), (1, B))])]
    kept = happens(Query(sources), [], {"t0": [(1, 0, 0, 0)]}, ("put", "t2", 1, (1, 0, 0, 0)), ("stream",))
    assert kept.actions[1].kind == "every key"


@pytest.mark.scenario("V96")
def test_b5_a_unit_column_of_a_left_source_is_not_transformed():
    view = grouped([from_(), Source("left", "t1", on=[eq((1, ID), (0, ID))])], [col(1, A)])
    kept = happens(view, [], {"t0": [(1, 0, 0, 0)]}, ("put", "t1", 1, (1, 5, 0, 0)), ("stream",))
    assert kept.actions[1].kind == "grab"


@pytest.mark.scenario("V96")
def test_b6_two_left_sources_change_together():
    sources = [from_(), *(Source("left", t, on=[eq((i, ID), (0, ID))]) for i, t in ((1, "t1"), (2, "t2")))]
    view = grouped(sources, [("coal", (0, 1, A), 9), ("coal", (0, 2, A), 9)])
    changes = ("put", "t1", 1, (1, 5, 0, 0)), ("put", "t2", 1, (1, 6, 0, 0))
    kept = happens(view, [], {"t0": [(1, 0, 0, 0)]}, *changes, ("stream",))
    assert list(kept.stands) == [(5, 6)]


@pytest.mark.scenario("V96")
def test_b7_an_aggregate_in_where_of_a_grouped_view():
    inner = Query([from_("t1")], [("eq", (0, 0, B), (1, 0, ID))], outs=[col(0, ID)])
    view = grouped([from_()], [col(0, B)], [("scal", (0, 0, A), "max", inner, (0, 0, A))])
    rows = {"t0": [(1, 5, 7, 0)], "t1": [(1, 5, 1, 0)]}
    happens(view, [], rows, ("put", "t1", 1, (1, 6, 1, 0)), ("stream",))


@pytest.mark.scenario("V96")
def test_b8_a_cut_pass_moves_to_the_end_of_its_interval():
    view = Query([from_(), Source("inner", "t1", on=[eq((1, ID), (0, A))])])
    changes = ("put", "t1", 1, (1, 0, 0, 0)), ("put", "t1", 2, (2, 0, 0, 0))
    happens(view, ["t1"], {"t0": [(1, 2, 0, 0)]}, *changes, ("page", 9, 1), ("full", "stream"))


@pytest.mark.scenario("V96")
def test_b9_the_partition_of_null_is_read_from_all_leftmost_rows():
    sources = [from_(), Source("left", "t1", on=[eq((1, ID), (0, A))])]
    view = Query(sources, [], "window", [col(1, B)], outs=[col(0, ID)], order=(0, 0, C))
    kept = happens(view, [], {}, ("put", "t0", 1, (1, 0, 0, 0)), ("stream",))
    assert kept.plan.leftmost.whole_for_null == (0,)


@pytest.mark.scenario("V96")
def test_b9_a_source_is_not_read_by_the_on_of_a_later_left_source():
    sources = [from_(), Source("inner", "t2"), Source("left", "t1", on=[eq((2, A), (0, A)), eq((2, B), (1, B))])]
    kept = happens(Query(sources), [], {"t2": [(1, 0, 0, 0)]}, ("put", "t0", 1, (1, 0, 0, 0)), ("stream",))
    assert len(kept.stands) == 1


@pytest.mark.scenario("V96")
def test_b12_null_safe_equality_leads_nowhere():
    sources = [from_(), Source("left", "t1", on=[eq((1, A), (0, A))])]
    sources.append(Source("left", "t2", on=[("nse", (0, 2, B), (0, 1, B))]))
    rows = {"t0": [(1, 0, 0, 0)]}
    kept = happens(Query(sources), [], rows, ("put", "t2", 1, (1, 0, None, 0)), ("stream",))
    assert kept.actions[2].kind == "every key"


@pytest.mark.scenario("V96")
def test_b12_not_in_leads_nowhere():
    view = Query([from_()], [("in", True, (0, 0, A), Query([from_("t1")], outs=[col(0, A)]))])
    kept = happens(view, [], {"t0": [(1, 0, 0, 0)]}, ("put", "t1", 1, (1, None, 0, 0)), ("stream",))
    assert kept.stands == {}
    assert kept.actions[1].kind == "every key"

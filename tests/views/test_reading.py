"""In which order, and by which values, the rows of some units are read."""

import pytest
from tests.support.views import paths

from seamark.views.paths.reading import LeftmostRead, Lookup, reading_plan


@pytest.mark.scenario("V94")
def test_a_view_of_six_tables_is_read_in_levels():
    found = paths(
        """SELECT o.id, c.name, r.title, x.memo, p.kind, s.value FROM orders o JOIN customer c ON c.id = o.customer_id
        LEFT JOIN region r ON r.id = c.region_id LEFT JOIN order_ext x ON x.order_id = o.id
        LEFT JOIN payment p ON p.order_id = o.id JOIN settings s ON s.code = 58"""
    )
    plan = reading_plan(found)
    assert plan.leftmost == LeftmostRead(0, ((0, "id"),))
    assert plan.levels == (
        (
            Lookup(1, ((0, "customer_id", "id"),)),
            Lookup(3, ((0, "id", "order_id"),)),
            Lookup(4, ((0, "id", "order_id"),)),
        ),
        (Lookup(2, ((1, "region_id", "id"),)),),
        (Lookup(5),),
    )


def test_a_group_by_a_joined_column_is_read_from_that_side():
    plan = reading_plan(
        paths("SELECT c.region_id, count(*) AS n FROM orders o JOIN customer c ON c.id = o.customer_id GROUP BY 1")
    )
    assert (plan.leftmost.source, plan.leftmost.columns) == (1, ((0, "region_id"),))
    assert [(hop.after, hop.upto, hop.pairs) for hop in plan.leftmost.hops] == [(1, 0, (("id", "customer_id"),))]
    assert plan.leftmost.whole_for_null == ()


def test_a_computed_group_is_read_from_all_leftmost_rows():
    plan = reading_plan(paths("SELECT upper(note) AS n, count(*) AS c FROM orders GROUP BY upper(note)"))
    assert plan.leftmost == LeftmostRead(None)

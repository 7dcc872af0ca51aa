"""The corpus: each SELECT has the unit and paths that stand in front of it, or its refusal at line and column."""

import pytest
from tests.support.view_fixtures import Case, cases, described
from tests.support.views import linked

from seamark.views.plain_sql.read import tables_of

CASES = cases()


@pytest.mark.scenario("V69")
@pytest.mark.parametrize("case", CASES, ids=[f"{case.file}: {case.name}" for case in CASES])
def test_a_select_has_the_unit_and_paths_in_front_of_it(case: Case):
    assert described(case.select) == case.expected


@pytest.mark.parametrize("case", [c for c in CASES if not c.is_refused], ids=lambda case: case.name)
def test_the_tables_are_those_that_sqlglot_finds(case: Case):
    for part in linked(case.select).parts:
        assert {(s.table, s.place) for s in part.tables} == set(tables_of(part.text.text))


def test_the_corpus_is_large_enough_and_a_third_of_it_is_refused():
    assert len(CASES) >= 80
    assert sum(case.is_refused for case in CASES) * 3 >= len(CASES)

"""Units found by paths, against the query from scratch: random views and changes, and the counterexamples by hand."""

from random import Random

import pytest
from tests.support.view_simulation.keeping import Kept
from tests.support.view_simulation.random_views import random_case
from tests.support.view_simulation.text import text_of


def broken(seed: str) -> str | None:
    """What a random history ends with that is not right, or None."""
    case = random_case(Random(seed))
    kept = Kept(case.view, case.tables, case.dictionaries, case.rows)
    for i, happening in enumerate(case.happenings):
        kept.happen(happening)
        if happening[0] == "full" and not kept.is_right:
            right = kept.from_scratch()
            return (
                f"{seed} after {i}: {text_of(case.view)}\n{case.rows}\n{case.dictionaries}\n"
                f"{case.happenings[: i + 1]}\n"
                f"stands {kept.stands}\nright {right}\n{kept.actions}"
            )
    return None


def test_random_views_are_kept_right():
    assert [found for n in range(600) if (found := broken(f"short {n}"))] == []


@pytest.mark.long
def test_many_random_views_are_kept_right():
    assert [found for n in range(8_000) if (found := broken(f"long {n}"))] == []

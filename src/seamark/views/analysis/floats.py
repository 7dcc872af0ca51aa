"""Aggregates of floats: what they give depends on the order in which rows are added up, which nothing decides."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from seamark.tables.schema.types import arrow_type
from seamark.views.analysis.scratch import RefusedQuery, Scratch
from seamark.views.issues import MvIssue, issue_in
from seamark.views.model import MvComputation, MvPart, MvQuery
from seamark.views.paths.lineage import Lineage
from seamark.views.paths.types import type_of
from seamark.views.plain_sql.signs import Signs
from seamark.views.sql.texts import Changes, part_text

_FUNCTIONS = """
    avg mean sum try_avg try_sum std stddev stddev_pop stddev_samp variance var_pop var_samp covar_pop covar_samp corr
    skewness kurtosis regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
"""
_ADDING_UP = frozenset(_FUNCTIONS.split())


def float_issues(part: MvPart, scratch: Scratch) -> Iterator[MvIssue]:
    """The aggregates of a part, those of its subqueries too, that add up floats."""
    if part.query is None:
        return
    signs, lineage = Signs(part.text.text), Lineage(part)
    at = {sign.start: index for index, sign in enumerate(signs.all)}
    for query in lineage.queries():
        for computation in query.computations():
            for place in computation.aggregates:
                index = at[place.start]
                name = signs[index].text.casefold()
                if name in _ADDING_UP and _is_float(
                    part, lineage, query, computation, _argument(signs, index), scratch
                ):
                    message = f"{name}() adds up floats: in another order of rows the last digits are others"
                    yield issue_in("FloatingAggregate", message, part.text, place.start)


def _argument(signs: Signs, index: int) -> str:
    """The first argument of a call, in its own words."""
    begin, end = index + 2, signs.partner[index + 1]
    lo, hi = signs.split(begin, end)[0]
    if signs[lo].word in ("DISTINCT", "ALL"):
        lo += 1
    return signs.place(lo, hi).of(signs.text)


def _is_float(
    part: MvPart, lineage: Lineage, query: MvQuery, computation: MvComputation, argument: str, scratch: Scratch
) -> bool:
    if query is lineage.top:
        tables = scratch.relations.by_number(part)
        text = part_text(part, Changes(tables, columns=f"max({argument}) AS seamark_argument"))
        try:
            return _floats(arrow_type(scratch.types_of(text).fields[0].dataType))
        except RefusedQuery:  # it stands where no column can take its place, such as in HAVING over a subquery
            return False
    same = [r for r in computation.references if ".".join(r.words).casefold() == argument.replace(" ", "").casefold()]
    return bool(same) and _floats(type_of(lineage, same[0]))


def _floats(kind: pa.DataType | None) -> bool:
    return kind is not None and bool(pa.types.is_floating(kind))

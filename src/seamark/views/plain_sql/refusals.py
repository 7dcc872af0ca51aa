"""Why a SELECT cannot be kept by units, and what to write instead: one line each."""

from __future__ import annotations

from seamark.views.model import MvRefusal
from seamark.views.places import MvPlace

FULL = 'refresh="full" computes the whole view again'

_REASONS: dict[str, tuple[str, str]] = {
    "LIMIT": ("which rows are in depends on all others", FULL),
    "OFFSET": ("which rows are in depends on all others", FULL),
    "FULL JOIN": ("it gives rows without a left-most row", "write a LEFT JOIN, and a UNION ALL part for the others"),
    "RIGHT JOIN": ("it gives rows without a left-most row", "write a LEFT JOIN, and a UNION ALL part for the others"),
    "UNION": ("equal rows of different origin are one", "write UNION ALL, and a DISTINCT view over it"),
    "INTERSECT": ("equal rows of different origin are one", "write UNION ALL, and a DISTINCT view over it"),
    "EXCEPT": ("equal rows of different origin are one", "write UNION ALL, and a DISTINCT view over it"),
    "UNION ALL in a subquery": ("there is no one left-most table", "make the union a view of its own"),
    "ROLLUP": ("it makes groups of several kinds", "write one UNION ALL part for each kind"),
    "CUBE": ("it makes groups of several kinds", "write one UNION ALL part for each kind"),
    "GROUPING SETS": ("it makes groups of several kinds", "write one UNION ALL part for each kind"),
    "an aggregate without GROUP BY": ("it makes one row of everything", FULL),
    "a window": ("its windows have no partition in common, so the partition is everything", f"PARTITION BY, or {FULL}"),
    "LATERAL": ("rows are made of other rows by a construct that is not followed", f"a generator in SELECT; or {FULL}"),
    "PIVOT": ("columns are made of rows by a construct that is not followed", f"one expression per column; or {FULL}"),
    "UNPIVOT": ("rows are made of columns by a construct that is not followed", f"stack(…) in SELECT; or {FULL}"),
    "TABLESAMPLE": ("which rows are in is left to chance", "a condition in WHERE"),
    "WITH RECURSIVE": ("a row depends on rows of the same query", FULL),
    "QUALIFY": (
        "a condition on a window is followed only where the window is in a subquery",
        f"a WHERE over a subquery that has the window as a column; or {FULL}",
    ),
    "a * in an expression": ("the columns that it means are not followed there", f"name the columns; or {FULL}"),
    "IDENTIFIER": ("a column that a text names is not followed", f"write the column itself; or {FULL}"),
    "NATURAL JOIN": ("what it joins by is not written", "write ON or USING"),
    "VALUES": ("its rows are of no table", "make them a table"),
    "a query without FROM": ("its rows are of no table", "make them a table"),
    "a table function": ("its rows are of no table", f"make them a table; or {FULL}"),
    "a join in parentheses": ("the order of the joins is not that of the text", "write the joins one after another"),
    "names for a table's columns": ("its columns are renamed by their order", "rename them in a subquery"),
    "time travel": ("it reads a table as it was", f"read the table as it is; or {FULL}"),
    "|>": ("pipe syntax is not followed", "write the query with SELECT"),
    "a group by a query": (
        "a row's group depends on other rows, through the query",
        "join the table; or make the inner query a view of its own",
    ),
    "a group over groups": (
        "a row's group depends on other rows, through an aggregate, a window or a query in FROM",
        "make the inner query a view of its own",
    ),
    "DISTINCT over groups": (
        "equal rows of different groups are one",
        "select the groups too; or make the inner query a view of its own",
    ),
    "a partition over groups": (
        "a row's partition depends on an aggregate",
        "partition by GROUP BY expressions; or make the inner query a view of its own",
    ),
}


def refusal(what: str, place: MvPlace) -> MvRefusal:
    """That something has no unit, for its reason."""
    reason, way_out = _REASONS[what]
    return MvRefusal(f"{what}: {reason}", way_out, place)


class Refused(Exception):
    """A construct behind which the text is not read on."""

    def __init__(self, found: MvRefusal) -> None:
        super().__init__(found.reason)
        self.refusal = found

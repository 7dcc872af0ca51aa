"""What `seamark sql` prints: the queries that the runs of a view amount to, and its table, each with what it is for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from seamark.views.model import MvPart
from seamark.views.passes.pace import PAGE_UNITS
from seamark.views.paths.actions import Paths, paths_of
from seamark.views.sql.ddl import Dialect, ProposedColumn, create_table
from seamark.views.sql.queries import path_query, refresh_query
from seamark.views.sql.units import page_query, units_query

if TYPE_CHECKING:
    from seamark.views.spec import ViewSpec


def view_sql(spec: ViewSpec, dialect: Dialect) -> str:
    """The text, runnable over the view's tables and the relations `changed` and `keys`."""
    schema = spec.keying.output.schema.visible
    columns = tuple(ProposedColumn(column.name, column.type, column.nullable) for column in schema.columns)
    pieces = [("the table", create_table(spec.name, columns, schema.key, dialect))]
    for part in spec.target.parts:
        pieces += _queries(spec, part)
    return "\n\n".join(f"-- {what}\n{text};" for what, text in pieces) + "\n"


def _queries(spec: ViewSpec, part: MvPart) -> Iterator[tuple[str, str]]:
    of = f" of part '{part.alias}'" if len(spec.target.parts) > 1 else ""
    yield f"the query{of}", part.text.text.strip()
    if spec.target.is_full:
        return
    paths = paths_of(part)
    yield f"refresh{of}: the rows of the units in `keys`", refresh_query(part, paths.unit)
    for action in paths.actions:
        alias = part.source(action.source).alias
        kind = f"{action.kind} ({type(action).__name__})"
        yield (
            f"from changed images of '{action.table}' ({alias}){of} to {_found(paths)}: {kind}",
            path_query(paths, action),
        )
    if not paths.unit.is_owner:
        yield f"from left-most rows in `keys`{of} to the groups that they belong to", units_query(paths)
    yield f"a page of a scan{of}: the units after those in `keys`", page_query(paths, PAGE_UNITS)


def _found(paths: Paths) -> str:
    return "units" if paths.unit.is_owner else "units, or keys of left-most rows"

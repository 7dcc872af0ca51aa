"""What can be said of a view once its tables are known: columns, types, joins and paths."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from seamark.errors import did_you_mean
from seamark.tables.schema.types import spark_name
from seamark.transforms.declare.shape import is_exact_number
from seamark.views.checks.batches import Batches
from seamark.views.issues import MvIssue, issue_at, issue_in
from seamark.views.model import MvJoinSource, MvPart, MvQuery, MvReference, MvSubqueryKind, MvTarget, MvUnitKind
from seamark.views.paths.actions import ActionEveryKey, ActionKeysGrab, Paths, paths_of
from seamark.views.paths.lineage import Lineage, plain_reference
from seamark.views.paths.types import type_of
from seamark.views.places import MvPlace
from seamark.views.table_info import MvTableInfo, Tables


def source_issues(part: MvPart, tables: Tables) -> Iterator[MvIssue]:
    """Tables that are not there, or are called otherwise."""
    for source in part.tables:
        name = str(source.table)
        if name in tables.names():
            continue
        other = next((known for known in tables.names() if known.casefold() == name.casefold()), None)
        if other is not None:
            message = f"the table is called '{other}', not '{name}'"
            yield issue_in("MismatchedSourceTable", message, part.text, source.place.start)
        else:
            message = f"there is no table '{name}'; {did_you_mean(name, tables.names(), 'tables')}"
            yield issue_in("UnknownSourceTable", message, part.text, source.place.start)


def destination_issues(target: MvTarget, destinations: Collection[str]) -> Iterator[MvIssue]:
    """A destination that is not there."""
    if target.destination is not None and target.destination not in destinations:
        hint = did_you_mean(target.destination, sorted(destinations), "destinations")
        message = f"there is no destination '{target.destination}'; {hint}"
        yield issue_at("UnknownDestination", message, target.script, target.destination_place)


def output_issues(target: MvTarget, table: MvTableInfo | None, *, is_stored: bool = False) -> Iterator[MvIssue]:
    """What the view selects, against the table that is declared for it, and its parts against each other."""
    if table is None and target.is_document and not is_stored:
        message = f"there is no table '{target.name}': it is created as `seamark sql {target.name}` proposes"
        yield issue_at("MissingTargetTable", message, target.script, target.place)
    for part in target.parts:
        for column in part.columns if table is not None else ():
            if table is not None and column.star is None and table.column(column.name) is None:
                hint = did_you_mean(column.name, table.columns, "columns")
                message = f"table '{table.name}' has no column '{column.name}'; {hint}"
                yield issue_in("UnknownOutputColumn", message, part.text, column.place.start)
    if table is not None:
        yield from _required(target, table)
    for part in target.parts[1:]:
        yield from _mismatch(target.parts[0], part)


def _required(target: MvTarget, table: MvTableInfo) -> Iterator[MvIssue]:
    for part in target.parts:
        names = {column.name.casefold() for column in part.columns}
        if part.query is None:
            continue
        for column in table.schema.columns:
            if not column.nullable and column.name not in table.schema.key and column.name.casefold() not in names:
                message = f"table '{table.name}' needs a value in '{column.name}', which the view does not select"
                yield issue_in("RequiredColumnMissing", message, part.text, part.query.place.start)


def _mismatch(first: MvPart, other: MvPart) -> Iterator[MvIssue]:
    if first.query is None or other.query is None:
        return
    names = [[column.name.casefold() for column in part.columns] for part in (first, other)]
    if names[0] != names[1]:
        listed = [", ".join(column.name for column in part.columns) for part in (first, other)]
        message = f"part '{first.alias}' has the columns {listed[0]}, part '{other.alias}' {listed[1]}"
        yield issue_at("UnionMismatch", message, other.text.script, other.place)
        return
    lineages = (Lineage(first), Lineage(other))
    for one, two in zip(first.columns, other.columns, strict=True):
        types = type_of(lineages[0], one.value), type_of(lineages[1], two.value)
        if types[0] is not None and types[1] is not None and not are_alike(types[0], types[1]):
            message = (
                f"column '{two.name}' is {spark_name(types[0])} in part '{first.alias}', {spark_name(types[1])} here"
            )
            yield issue_in("UnionMismatch", message, other.text, two.place.start)


def are_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether Spark puts values of two types in one column without making them something else."""
    numbers = ("whole number", "float")
    return one == other or (kind_of(one) in numbers and kind_of(other) in numbers)


def kind_of(found: pa.DataType) -> str | None:
    """What sort of plain value a type holds, None for arrays and structs: values of one kind compare by themselves.

    Whole numbers and floats do not: two of the former may equal the same one of the latter. Nor do a moment and a wall
    clock: whether they are equal depends on the session's time zone.
    """
    if pa.types.is_nested(found) or pa.types.is_null(found):
        return None
    if is_exact_number(found):
        return "whole number"
    return "float" if pa.types.is_floating(found) else str(found)


# --- joins and paths --------------------------------------------------------------------------------------------------


def join_issues(part: MvPart, batches: Batches, *, hints: bool) -> Iterator[MvIssue]:
    """What the joins of a linked part mean for the ways from a change to its rows."""
    if part.query is None:
        return
    paths = paths_of(part)
    yield from _join_types(paths)
    yield from _undeclared(part)
    for action in paths.actions:
        source = part.source(action.source)
        if isinstance(action, ActionEveryKey) and not batches.is_batch(action.table):
            message = (
                f"no equality leads from '{source.alias}' to the left-most table: "
                f"a change of '{action.table}' computes every key"
            )
            yield issue_in("KeyExtractionImpossible", message, part.text, source.place.start)
    leftmost = part.source(paths.unit.leftmost)
    if batches.is_batch(str(leftmost.table)):
        message = f"'{leftmost.table}' is the left-most table: as BATCH, new rows wait for the dictionary pass"
        yield issue_in("BatchLeftmost", message, part.text, leftmost.place.start)
    if hints:
        yield from _indexes(paths)


def unit_issues(part: MvPart) -> Iterator[MvIssue]:
    """A left-most table without key."""
    if part.query is None:
        return
    paths = paths_of(part)
    leftmost = paths.facts.lineage.leftmost
    if paths.unit.kind is MvUnitKind.OWNER and leftmost.info is not None and not leftmost.info.schema.key:
        message = (
            f"'{leftmost.table}' is append-only: its rows have no key by which theirs could be found again. "
            "Give it a key, or write GROUP BY"
        )
        yield issue_in("UnkeyedLeftmost", message, part.text, leftmost.place.start)


def _join_types(paths: Paths) -> Iterator[MvIssue]:
    lineage = paths.facts.lineage
    for query in lineage.queries():
        for place, left, right in _compared(query):
            types = [type_of(lineage, side) for side in (left, right)]
            kinds = [kind_of(found) for found in types if found is not None]
            if len(kinds) == 2 and None not in kinds and kinds[0] != kinds[1]:
                shown = [f"'{side.shown}' is {spark_name(t)}" for side, t in zip((left, right), types, strict=True)]
                message = f"{' and '.join(shown)}: their values do not compare"
                yield issue_in("JoinTypes", message, paths.part.text, place.start)


def _compared(query: MvQuery) -> Iterator[tuple[MvPlace, MvReference, MvReference]]:
    """Plain columns whose equality leads from rows to rows: by `=`, and by IN with the columns of a query."""
    for condition in (*(c for source in query.sources for c in source.conditions), *query.where):
        if condition.columns is not None:
            yield (condition.computation.place, *condition.columns)
        for subquery in condition.computation.queries:
            if subquery.kind is MvSubqueryKind.IN and subquery.is_conjunct:
                for left, column in zip(subquery.left, subquery.query.columns, strict=False):
                    right = plain_reference(column.value)
                    if left is not None and right is not None:
                        yield condition.computation.place, left, right


def _undeclared(part: MvPart) -> Iterator[MvIssue]:
    assert part.query is not None
    for computation in part.query.computations():
        if computation.declared is None:
            continue
        declared = {(r.source, r.column) for r in computation.declared}
        for reference in computation.references:
            if reference.source is not None and (reference.source, reference.column) not in declared:
                message = f"the expression uses '{reference.shown}', which COMPUTE ON does not name"
                yield issue_in("UndeclaredColumn", message, part.text, reference.place.start)


def _indexes(paths: Paths) -> Iterator[MvIssue]:
    lookups: dict[tuple[int, tuple[str, ...]], MvJoinSource] = {}
    for action in paths.actions:
        for hop in action.hops if isinstance(action, ActionKeysGrab) else ():
            columns = tuple(dict.fromkeys(column for _, column in hop.pairs))
            lookups[hop.upto, columns] = paths.part.source(hop.upto)
    for source in paths.part.tables:
        into = [there for equality in paths.facts.equalities for _, there in equality.read_into()]
        columns = tuple(sorted({there.column for there in into if there.source == source.number}))
        if columns and source.number != paths.unit.leftmost:
            lookups[source.number, columns] = source
    for (_, columns), source in lookups.items():
        if source.info is not None and not source.info.key.starts_with(columns):
            message = (
                f"'{source.table}' is looked up by {', '.join(columns)}, which its key "
                f"({', '.join(source.info.schema.key) or 'none'}) does not begin with: more of it is read"
            )
            yield issue_in("MissingJoinIndex", message, paths.part.text, source.place.start)

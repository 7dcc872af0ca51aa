"""What can be said of views and handlers together, without knowing their tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from seamark.tables.schema.table_schema import is_reserved
from seamark.views.context import MvContext, MvHandler
from seamark.views.issues import MvIssue, issue_at, issue_in
from seamark.views.model import MvJoinSource, MvLiteral, MvPart, MvReference, MvRefresh, MvTarget

_UNFIT = re.compile(r"[ ,;{}()\n\t=.`]")


def target_issues(target: MvTarget) -> Iterator[MvIssue]:
    """The issues of one linked view that need no metadata."""
    for part in target.parts:
        yield from _columns(target, part)
        yield from _orders(part)
        if target.refresh is MvRefresh.INCREMENTAL:
            yield from _refusals(target, part)
        if target.is_document:
            for source in part.sources:
                yield from _conditions(part, source)
    if target.refresh is not MvRefresh.INCREMENTAL and not target.tables:
        message = f"view '{target.name}' reads no table: nothing would ever compute it. Instead: make its rows a table"
        yield issue_at("NotIncremental", message, target.script, target.place)


def _columns(target: MvTarget, part: MvPart) -> Iterator[MvIssue]:
    seen: set[str] = set()
    for column in part.columns:
        name = column.name.casefold()
        if column.star is not None:
            continue
        if name in seen:
            message = f"view '{target.name}' has two columns called '{column.name}'"
            yield issue_in("DuplicateColumn", message, part.text, column.place.start)
        seen.add(name)
        if is_reserved(name):
            message = f"view '{target.name}': a column cannot be called '{column.name}', a name of Seamark's own"
            yield issue_in("ReservedName", message, part.text, column.place.start)
        elif _UNFIT.search(column.name):
            message = f"view '{target.name}': a table cannot have a column called '{column.name}'"
            yield issue_in("ReservedName", message, part.text, column.place.start)


def _orders(part: MvPart) -> Iterator[MvIssue]:
    if any(found.reason.startswith(("LIMIT", "OFFSET")) for found in part.refusals):
        return
    for place in part.notes:
        message = "ORDER BY without LIMIT changes no row of a table: it is ignored"
        yield issue_in("OrderIgnored", message, part.text, place.start)


def _refusals(target: MvTarget, part: MvPart) -> Iterator[MvIssue]:
    for found in part.refusals:
        message = f"view '{target.name}' cannot be kept by what changed. {found.reason}. Instead: {found.way_out}"
        yield issue_in("NotIncremental", message, part.text, found.place.start)


def _conditions(part: MvPart, source: MvJoinSource) -> Iterator[MvIssue]:
    """The document's conditions are between the joined table and one before it, or a constant."""
    for condition in source.conditions:
        sides = (condition.left, condition.right)
        aliases = {s.words[0].casefold() for s in sides if isinstance(s, MvReference)}
        if all(isinstance(side, MvLiteral) for side in sides):
            why = "it compares two constants"
        elif aliases == {source.alias.casefold()} and not any(isinstance(s, MvLiteral) for s in sides):
            why = f"both its sides are of '{source.alias}'"
        elif source.alias.casefold() not in aliases:
            why = f"neither side is of '{source.alias}', the table that is joined"
        else:
            continue
        place = condition.computation.place.start
        yield issue_in("IllegalJoinCondition", f"this is no condition of a join: {why}", part.text, place)


# --- views and handlers together --------------------------------------------------------------------------------------


def handler_issues(context: MvContext) -> Iterator[tuple[str, MvIssue]]:
    """The issues of handlers that need no metadata, each with the name of its handler."""
    for handler in context.handlers:
        for issue in _empty(handler):
            yield handler.name, issue
    yield from _several_handlers(context)


def context_issues(context: MvContext) -> Iterator[MvIssue]:
    """The issues of views together that need no metadata."""
    yield from _cycles(context)
    for target in context.targets:
        if target.is_document and context.handler_of(target.name) is None:
            message = f"view '{target.name}' is processed by no handler: all its tables are followed as streams"
            yield issue_at("UselessView", message, target.script, target.place)


def _empty(handler: MvHandler) -> Iterator[MvIssue]:
    for found, word in ((handler.processed, "PROCESS"), (handler.inputs, "INPUT")):
        if not found:
            message = f"handler '{handler.name}' has no {word}"
            yield issue_at("EmptyHandler", message, handler.script, handler.place)


def _several_handlers(context: MvContext) -> Iterator[tuple[str, MvIssue]]:
    first: dict[str, MvHandler] = {}
    for handler in context.handlers:
        for view in handler.processed:
            before = first.setdefault(view.name, handler)
            if before is not handler:
                message = f"view '{view.name}' is processed by handler '{before.name}' already"
                yield handler.name, issue_at("ViewMultiHandlers", message, handler.script, view.place)


def _cycles(context: MvContext) -> Iterator[MvIssue]:
    for member, cycle in cycles(context).items():
        target = context.target(member)
        if target is not None:
            message = f"views read each other in a circle: {' → '.join((*cycle, cycle[0]))}"
            yield issue_at("CyclicViews", message, target.script, target.place)


def cycles(context: MvContext) -> Mapping[str, tuple[str, ...]]:
    """For the first view of each circle, in the order of the scripts, the members of the circle."""
    reads = {target.name: [t for t in target.tables if context.target(t)] for target in context.targets}
    done: set[str] = set()
    found: dict[str, tuple[str, ...]] = {}
    for start in reads:
        if start in done:
            continue
        way = _way_back(start, reads)
        if way is not None:
            found[start] = way
            done |= set(way)
    return found


def _way_back(start: str, reads: Mapping[str, list[str]]) -> tuple[str, ...] | None:
    """The shortest way from a view over those that it reads to itself."""
    ways: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    while ways:
        way = ways.pop(0)
        for read in reads[way[-1]]:
            if read == start:
                return way
            if read not in seen:
                seen.add(read)
                ways.append((*way, read))
    return None

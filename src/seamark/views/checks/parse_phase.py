"""What can be said of statements alone: names that are given twice, and names that nothing has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from seamark.errors import did_you_mean
from seamark.views.context import MvHandler
from seamark.views.issues import MvIssue, issue_at, issue_in
from seamark.views.language.script import Reading
from seamark.views.model import MvTarget
from seamark.views.places import MvScript

RESERVED_HANDLERS = "sys$"


def parse_issues(reading: Reading, known_views: Collection[str] = ()) -> Iterator[MvIssue]:
    """The issues of the phase `parse`; `known_views` are views that other sources define."""
    yield from reading.issues
    yield from _doubled_views(reading)
    for target in reading.targets:
        yield from _doubled_parts(target)
        yield from _unnamed_columns(target)
    yield from _doubled_handlers(reading)
    for handler in reading.handlers:
        yield from _handler_name(handler)
        yield from _doubled_inputs(handler)
        if not reading.issues:  # a view that could not be read is not unknown
            yield from _unknown_views(handler, {target.name for target in reading.targets} | set(known_views))


def taken_issues(reading: Reading, known_views: Mapping[str, str]) -> Iterator[tuple[str, MvIssue]]:
    """Views that another source defines already, each with its name. Only these are wrong, not all of the source."""
    places = {name.casefold(): place for name, place in known_views.items()}
    for target in reading.targets:
        if target.name.casefold() in places:
            message = f"view '{target.name}' is defined already, {places[target.name.casefold()]}"
            yield target.name, issue_at("DuplicateView", message, target.script, target.place)


def shown_place(script: MvScript, place: int) -> str:
    """A place as people write it: file, line and column."""
    line, column = script.position(place)
    return f"{script.name + ':' if script.name else ''}{line}:{column}"


def _doubled_views(reading: Reading) -> Iterator[MvIssue]:
    first: dict[str, MvTarget] = {}
    for target in reading.targets:
        before = first.setdefault(target.name.casefold(), target)
        if before is not target:
            message = f"view '{target.name}' is defined already, at {shown_place(before.script, before.place)}"
            yield issue_at("DuplicateView", message, target.script, target.place)


def _doubled_parts(target: MvTarget) -> Iterator[MvIssue]:
    seen: set[str] = set()
    for part in target.parts:
        if part.alias.casefold() in seen:
            message = f"view '{target.name}' has two parts called '{part.alias}'"
            yield issue_at("DuplicateViewPart", message, target.script, part.place)
        seen.add(part.alias.casefold())


def _unnamed_columns(target: MvTarget) -> Iterator[MvIssue]:
    for part in target.parts:
        for column in part.columns:
            if not column.name:
                message = f"view '{target.name}': this column has no name; write AS and one behind it"
                yield issue_in("ParserError", message, part.text, column.place.start)


def _doubled_handlers(reading: Reading) -> Iterator[MvIssue]:
    first: dict[str, MvHandler] = {}
    for handler in reading.handlers:
        before = first.setdefault(handler.name.casefold(), handler)
        if before is not handler:
            message = f"handler '{handler.name}' is defined already, at {shown_place(before.script, before.place)}"
            yield issue_at("DuplicateHandler", message, handler.script, handler.place)


def _handler_name(handler: MvHandler) -> Iterator[MvIssue]:
    if handler.name.casefold().startswith(RESERVED_HANDLERS):
        message = f"'{handler.name}' cannot be a handler's name: those that begin with '{RESERVED_HANDLERS}' are ours"
        yield issue_at("IllegalHandlerName", message, handler.script, handler.place)


def _doubled_inputs(handler: MvHandler) -> Iterator[MvIssue]:
    seen: set[str] = set()
    for found in handler.inputs:
        if found.table in seen:
            message = f"handler '{handler.name}' has the input '{found.table}' twice"
            yield issue_at("DuplicateInput", message, handler.script, found.place)
        seen.add(found.table)


def _unknown_views(handler: MvHandler, known: Collection[str]) -> Iterator[MvIssue]:
    for view in handler.processed:
        if view.name not in known:
            hint = did_you_mean(view.name, sorted(known), "views")
            message = f"handler '{handler.name}' processes '{view.name}', which no statement defines; {hint}"
            yield issue_at("UnknownView", message, handler.script, view.place)

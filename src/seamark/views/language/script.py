"""Reading a script: its views and handlers, and an issue for each statement that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seamark.views.context import MvHandler
from seamark.views.issues import MvIssue, issue_at, issue_in
from seamark.views.language import tree
from seamark.views.language.parse import Unreadable, parse_statement
from seamark.views.language.to_select import is_balanced, make_part
from seamark.views.language.tokens import UnknownSign
from seamark.views.lexer import Statement, statements
from seamark.views.model import MvPart, MvRefresh, MvTarget
from seamark.views.places import MvPlace, MvScript, MvText, Paste
from seamark.views.plain_sql.read import read_select
from seamark.views.plain_sql.signs import UnreadableSelect


@dataclass(frozen=True)
class Reading:
    """What a script says: views and handlers, not yet linked, and what could not be read."""

    targets: tuple[MvTarget, ...] = ()
    handlers: tuple[MvHandler, ...] = ()
    issues: tuple[MvIssue, ...] = ()

    def __add__(self, other: Reading) -> Reading:
        return Reading(self.targets + other.targets, self.handlers + other.handlers, self.issues + other.issues)


def read_script(text: str, name: str | None = None) -> Reading:
    """The views and handlers of a script; each statement that cannot be read is one issue, and the next is read."""
    script = MvScript(text, name)
    found = statements(text)
    if not found:
        message = "there is no statement: write CREATE ASYNC MATERIALIZED VIEW … or CREATE MATERIALIZED VIEW …"
        return Reading(issues=(issue_at("ParserError", message, script, 0),))
    reading = Reading()
    for statement in found:
        reading += _statement(statement, script)
    return reading


def read_view(
    name: str,
    select: str,
    key: Sequence[str] | None = None,
    refresh: MvRefresh = MvRefresh.INCREMENTAL,
    dictionaries: Sequence[str] = (),
) -> Reading:
    """A view whose SELECT is given by itself. Its issues count lines and columns in the SELECT."""
    script = MvScript(select, name)
    try:
        parts = read_select(MvText.whole(script))
    except UnreadableSelect as trouble:
        return Reading(issues=(_unreadable(trouble, MvText.whole(script)),))
    keys = None if key is None else tuple(key)
    target = MvTarget(name, parts, script, 0, keys, 0, refresh, dictionaries=tuple(dictionaries), is_select=True)
    return Reading((target,))


def _statement(statement: Statement, script: MvScript) -> Reading:
    if statement.unclosed is not None:
        message = "a text, a quoted name, a comment or #[ is not closed"
        return Reading(issues=(issue_at("LexerError", message, script, statement.unclosed),))
    begin = statement.place.start
    try:
        found = parse_statement(statement.place.of(script.text), begin, script)
    except UnknownSign as trouble:
        offset = begin + trouble.offset
        message = f"{script.text[offset]!r} is no sign of the language"
        return Reading(issues=(issue_at("LexerError", message, script, offset),))
    except Unreadable as trouble:
        return Reading(issues=(issue_at("ParserError", trouble.message, script, begin + trouble.offset),))
    except RecursionError:
        return Reading(issues=(issue_at("ParserError", "the statement is nested too deeply", script, begin),))
    if isinstance(found, MvHandler):
        return Reading(handlers=(found,))
    return _plain_view(found, script) if found.rest is not None else _view(found, script)


def _plain_view(view: tree.View, script: MvScript) -> Reading:
    assert view.rest is not None
    begin = view.rest.place
    paste = Paste(script)
    paste.add(MvText.whole(script), MvPlace(begin, begin + len(view.rest.text)))
    text = paste.done()
    try:
        parts = read_select(text)
    except UnreadableSelect as trouble:
        return Reading(issues=(_unreadable(trouble, text),))
    return Reading((_target(view, parts, script, is_document=False),))


def _view(view: tree.View, script: MvScript) -> Reading:
    parts: list[MvPart] = []
    issues = [issue for part in view.parts for issue in _unbalanced(part, script)]
    if issues:
        return Reading(issues=tuple(issues))
    for part in view.parts:
        try:
            parts.append(make_part(part, script))
        except UnreadableSelect as trouble:
            place = _plain_place(part)
            issues.append(issue_at("ParserError", trouble.message, script, place))
        except RecursionError:
            issues.append(issue_at("ParserError", "an expression is nested too deeply", script, part.select.place))
    if issues:
        return Reading(issues=tuple(issues))
    return Reading((_target(view, tuple(parts), script, is_document=True),))


def _plain_place(part: tree.Part) -> int:
    """Where Spark SQL stands in the part: what cannot be read is in it."""
    found = [e for e in (part.select.where, part.select.groups) if e is not None and not e.is_opaque]
    return found[0].place if found else part.select.place


def _unbalanced(part: tree.Part, script: MvScript) -> list[MvIssue]:
    """Expressions that do not close what they open: no SELECT can be made of them."""
    message = "the expression is empty, or does not close what it opens"
    found = [
        issue_at("SqlCustomColumnError", f"column '{column.name.text}': {message}", script, column.value.blamed)
        for column in part.select.columns
        if isinstance(column.value, tree.Expression) and not is_balanced(column.value.text)
    ]
    where = part.select.where
    if where is not None and where.is_opaque and not is_balanced(where.text):
        found.append(issue_at("SqlCustomFilterError", message, script, where.blamed))
    return found


def _target(view: tree.View, parts: tuple[MvPart, ...], script: MvScript, *, is_document: bool) -> MvTarget:
    destination = view.destination
    return MvTarget(
        view.name.text,
        parts,
        script,
        view.name.place,
        None if view.key is None else tuple(name.text for name in view.key),
        view.key[0].place if view.key else view.name.place,
        view.refresh,
        None if destination is None else destination.text,
        view.name.place if destination is None else destination.place,
        is_document=is_document,
    )


def _unreadable(trouble: UnreadableSelect, text: MvText) -> MvIssue:
    kind = "LexerError" if trouble.is_lexical else "ParserError"
    return issue_in(kind, trouble.message, text, trouble.offset)

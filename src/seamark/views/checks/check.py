"""All checks in their order: a parse error ends them, and a view with errors is not checked further."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from seamark.tables.schema.table_schema import Column, TableSchema
from seamark.views.checks.batches import Batches
from seamark.views.checks.fallback import as_refreshed
from seamark.views.checks.feeds_phase import dictionary_issues, feed_issues, input_issues
from seamark.views.checks.key_checks import key_issues
from seamark.views.checks.link_phase import context_issues, cycles, handler_issues, target_issues
from seamark.views.checks.metadata_phase import (
    destination_issues,
    join_issues,
    output_issues,
    source_issues,
    unit_issues,
)
from seamark.views.checks.parse_phase import parse_issues, taken_issues
from seamark.views.context import MvContext
from seamark.views.issues import PHASES, MvIssue, MvIssues
from seamark.views.language.script import Reading
from seamark.views.linking.link import Linked, link_part
from seamark.views.model import MvColumn, MvTarget
from seamark.views.paths.keys import key_of
from seamark.views.paths.lineage import Lineage
from seamark.views.paths.types import is_nullable, type_of
from seamark.views.table_info import MvTableInfo, Tables

# Takes what has no error so far, and says what Spark thinks of the queries of each view; None if it need not be asked.
Analyse = Callable[["Checked"], Iterable[tuple[str, MvIssue]] | None]


@dataclass(frozen=True)
class Checked:
    """What was checked: the linked context, the issues, the tables with the views among them, and what has errors.

    `errors` are those that are blamed on one view or handler, by its name.
    """

    context: MvContext
    issues: MvIssues
    tables: Tables
    declared: Tables  # without the views
    wrong_views: frozenset[str] = frozenset()
    wrong_handlers: frozenset[str] = frozenset()
    errors: Mapping[str, tuple[MvIssue, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Surroundings:
    """What a project has beside the views that are checked."""

    tables: Tables
    destinations: Collection[str] = ()
    stored: Collection[str] = ()  # names of tables that have rows, perhaps those of views
    known_views: Mapping[str, str] = field(default_factory=dict)  # those of other sources, and where they are defined


def check(
    reading: Reading, surroundings: Surroundings, *, hints: bool = False, analyse: Analyse | None = None
) -> Checked:
    """All issues of what was read; the phases that were not gone through are in `issues.skipped`."""
    parsed = list(parse_issues(reading, surroundings.known_views))
    if any(issue.is_error for issue in parsed):
        context = MvContext(reading.targets, reading.handlers)
        return Checked(context, MvIssues(parsed, PHASES[1:]), surroundings.tables, surroundings.tables)
    checking = _Checking(reading, surroundings, hints, list(parsed))
    for name, issue in taken_issues(reading, surroundings.known_views):
        checking.note(name, [issue])
    checking.link()
    checking.metadata()
    checking.feeds()
    checked = checking.done(() if analyse is not None else ("analysis",))
    if analyse is None:
        return checked
    analysed = analyse(checked)
    for view, issue in analysed or ():
        checking.note(view, [issue])
    return checking.done(("analysis",) if analysed is None else ())


class _WithViews:
    """The tables of a project, and the views that were checked so far as tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._views: dict[str, MvTableInfo | None] = {}

    def find(self, name: str) -> MvTableInfo | None:
        """What is known of the table or view of this name, or None."""
        return self._tables.find(name) or self._views.get(name)

    def names(self) -> tuple[str, ...]:
        """The names of all tables and views."""
        return tuple(dict.fromkeys((*self._tables.names(), *self._views)))

    def add(self, name: str, info: MvTableInfo | None) -> None:
        """Let a view be read like a table; None where its columns are not known."""
        self._views[name] = info


@dataclass
class _Checking:
    reading: Reading
    surroundings: Surroundings
    hints: bool
    issues: list[MvIssue]
    targets: dict[str, MvTarget] = field(default_factory=dict)
    wrong_views: set[str] = field(default_factory=set)
    wrong_handlers: set[str] = field(default_factory=set)
    errors: dict[str, list[MvIssue]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tables = _WithViews(self.surroundings.tables)
        self.targets = {target.name: target for target in self.reading.targets}

    @property
    def context(self) -> MvContext:
        return MvContext(tuple(self.targets.values()), self.reading.handlers)

    def done(self, skipped: Iterable[str]) -> Checked:
        """What was found."""
        found = MvIssues(self.issues, skipped)
        wrong = frozenset(self.wrong_views)
        handlers = self.wrong_handlers | {h.name for h in self.reading.handlers if wrong & set(h.views)}
        declared = self.surroundings.tables
        errors = {name: tuple(listed) for name, listed in self.errors.items()}
        return Checked(self.context, found, self.tables, declared, wrong, frozenset(handlers), errors)

    def note(self, view: str, found: Iterable[MvIssue]) -> bool:
        """Take the issues of a view; whether it is still without error."""
        if self._blame(view, found):
            self.wrong_views.add(view)
        return view not in self.wrong_views

    def _blame(self, name: str, found: Iterable[MvIssue]) -> list[MvIssue]:
        """Take the issues of a view or handler; gives its errors among them."""
        listed = list(found)
        self.issues += listed
        errors = [issue for issue in listed if issue.is_error]
        if errors:
            self.errors.setdefault(name, []).extend(errors)
        return errors

    # --- phases -------------------------------------------------------------------------------------------------------

    def link(self) -> None:
        """Names within the statements."""
        for name, target in self.targets.items():
            linked = [link_part(part, None, strict=target.is_document) for part in target.parts]
            found = target.with_parts(tuple(each.part for each in linked))
            issues = [issue for each in linked for issue in each.issues]
            if name not in self.wrong_views:
                self.note(name, [*issues, *target_issues(found)])
            self.targets[name] = found
        for cycle in cycles(self.context).values():
            self.wrong_views |= set(cycle)
        self.issues += context_issues(self.context)
        for handler, issue in handler_issues(self.context):
            self._blame(handler, [issue])
            self.wrong_handlers.add(handler)

    def metadata(self) -> None:
        """Each view against the tables, after the views that it reads."""
        read = {target.name: target for target in self.reading.targets}
        for target in self.context.in_order():
            self._check_view(target.name, read[target.name])
        for handler in self.reading.handlers:
            found = list(input_issues(handler, self.tables))
            self._blame(handler.name, found)
            if found:
                self.wrong_handlers.add(handler.name)

    def _check_view(self, name: str, read: MvTarget) -> None:
        """A view's own checks; it can be read by others even if it has errors, as far as its columns are known."""
        found = [link_part(part, self.tables, strict=read.is_document) for part in read.parts]
        target = read.with_parts(tuple(each.part for each in found))
        table = self.surroundings.tables.find(name)
        if name not in self.wrong_views:
            target = as_refreshed(target, table)
            self.targets[name] = target
            self._check_linked(target, found)
        if table is None:
            self.tables.add(name, as_table(target))

    def _check_linked(self, target: MvTarget, found: list[Linked]) -> None:
        name = target.name
        own = self.surroundings.tables.find(name)
        unknown = [issue for part in target.parts for issue in source_issues(part, self.tables)]
        linking = [issue for each in found for issue in each.issues]
        seen = set(self.issues)
        links = [issue for issue in (*unknown, *linking) if issue not in seen]
        links += destination_issues(target, self.surroundings.destinations)
        links += dictionary_issues(target, self.tables)
        if not self.note(name, links):
            return
        again = [i for i in target_issues(target) if i not in seen]  # `*` is known now
        if not self.note(name, [*again, *output_issues(target, own, is_stored=name in self.surroundings.stored)]):
            return
        if not target.is_full and not self.note(name, [i for p in target.parts for i in unit_issues(p)]):
            return
        self.note(name, key_issues(target, own))
        if not target.is_full:
            batches = Batches.of(target, self.context.handler_of(name))
            for part in target.parts:
                self.note(name, join_issues(part, batches, hints=self.hints))

    def feeds(self) -> None:
        """Handlers against the changefeeds of their tables."""
        for handler in self.reading.handlers:
            if handler.name in self.wrong_handlers or self.wrong_views & set(handler.views):
                continue
            if self._blame(handler.name, feed_issues(handler, self.context, self.tables)):
                self.wrong_handlers.add(handler.name)


def as_table(target: MvTarget) -> MvTableInfo | None:
    """A linked view as a table that another view reads, or None while its columns are not known.

    The type of a column is null where only Spark can tell it.
    """
    part = target.parts[0]
    if part.query is None:
        columns = tuple(Column(name, pa.null(), nullable=True) for name in part.names)
    elif any(column.star is not None for column in part.columns):
        columns = ()
    else:
        lineage = Lineage(part)
        columns = tuple(_as_column(lineage, column) for column in part.columns)
    if not columns:
        return None
    names = {column.name.casefold(): column.name for column in columns}
    key = tuple(names[name.casefold()] for name in key_of(target, None).columns if name.casefold() in names)
    known = tuple(replace(column, nullable=column.nullable and column.name not in key) for column in columns)
    return MvTableInfo(target.name, TableSchema(known, key))


def _as_column(lineage: Lineage, column: MvColumn) -> Column:
    is_computed = lineage.column(column.value) is None
    nullable = is_computed or is_nullable(lineage, column)
    return Column(column.name, type_of(lineage, column.value) or pa.null(), nullable)

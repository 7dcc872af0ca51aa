"""The views of a store: loaded from sources or declared one by one, each a step of the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.config import ViewSettings
from seamark.errors import UnknownView, ViewError
from seamark.steps.running.pipeline import Pipeline
from seamark.steps.running.run_config import OnChange
from seamark.tables.catalog import Catalog
from seamark.tables.context import TableContext
from seamark.tables.schema.table_schema import Column, TableSchema
from seamark.tables.table import Table
from seamark.views.analysis.analyse import analysis
from seamark.views.analysis.memory import Record, digests, known_analyses, record_of
from seamark.views.analysis.parts import analysed_views
from seamark.views.checks.batches import Batches
from seamark.views.checks.check import Checked, Surroundings, check
from seamark.views.checks.parse_phase import shown_place
from seamark.views.context import MvHandler
from seamark.views.handler import DICTIONARIES, DictionaryHandler, RunSteps, ViewHandler
from seamark.views.issues import MvIssues
from seamark.views.keying import ViewKeying
from seamark.views.language.script import Reading, read_view
from seamark.views.model import MvRefresh, MvTarget
from seamark.views.paths.keys import key_of
from seamark.views.sources import CatalogTables, Source, as_path, read_views
from seamark.views.spec import (
    AnalysedView,
    ViewOptions,
    ViewSpec,
    gives_each_key_once,
    view_units,
    with_hidden,
)
from seamark.views.view import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = ""  # the source of all texts that were loaded without a name


@dataclass(frozen=True)
class _Loaded:
    """What one source gave. `left_out` has the errors by which views are not there, and handlers cannot run."""

    views: tuple[str, ...] = ()
    handlers: tuple[MvHandler, ...] = ()
    left_out: Mapping[str, MvIssues] = field(default_factory=dict)


@dataclass
class ViewRegistry:
    """Checks views, makes steps of them, and replaces them when their source is loaded again.

    `carry` is called with all views before a load is done: it carries those that have a destination there. `run_steps`
    is what handlers run their views by.
    """

    context: TableContext
    catalog: Catalog
    pipeline: Pipeline
    session: Callable[[], SparkSession]
    wait: float
    settings: ViewSettings
    destinations: Collection[str]
    carry: Callable[[Iterable[View]], None]
    run_steps: RunSteps
    _loaded: dict[str, _Loaded] = field(default_factory=dict)
    _views: dict[str, View] = field(default_factory=dict)
    _made: set[str] = field(default_factory=set)  # tables that views have declared
    _handlers: dict[str, ViewHandler] = field(default_factory=dict)

    # --- looking ------------------------------------------------------------------------------------------------------

    def view(self, name: str) -> View:
        """The view of this name; the errors by which it was left out, if it was."""
        if name not in self._views:
            self.refuse_left_out([name])
            raise UnknownView(name, list(self._views))
        return self._views[name]

    def views(self) -> dict[str, View]:
        """All views by name."""
        return dict(self._views)

    def left_out(self) -> dict[str, MvIssues]:
        """What was left out when its source was loaded, views and handlers by name, with the errors of each."""
        return {name: errors for loaded in self._loaded.values() for name, errors in loaded.left_out.items()}

    def refuse_left_out(self, names: Iterable[str]) -> None:
        """Raise the errors of the first name that was left out, if one was."""
        left_out = self.left_out()
        for name in names:
            if name in left_out and name not in self._views:
                raise ViewError(left_out[name])

    def handlers(self) -> dict[str, ViewHandler]:
        """All handlers by name, and the one of all passes over dictionaries."""
        return {**self._handlers, DICTIONARIES: self._passes}

    @cached_property
    def _passes(self) -> DictionaryHandler:
        return DictionaryHandler(DICTIONARIES, self.views, self.run_steps, self.context.control.leases)

    def check(self, source: Source | Sequence[Source], *, hints: bool = False, analyse: bool = True) -> MvIssues:
        """All issues of views and handlers. Nothing is changed."""
        return self._checked(read_views(source), hints=hints, analyse=analyse, known={}).issues

    # --- declaring and loading ----------------------------------------------------------------------------------------

    def declare(
        self,
        name: str,
        select: str,
        key: str | Sequence[str] | None,
        refresh: MvRefresh,
        dictionaries: Sequence[str],
        options: ViewOptions,
    ) -> View:
        """Add a view by its SELECT; one of this name that was declared before is replaced."""
        keys = (key,) if isinstance(key, str) else None if key is None else tuple(key)
        reading = read_view(name, select, keys, refresh, dictionaries)
        self._load(f"view {name}", reading, options, strict=True)
        return self._views[name]

    def load(
        self,
        source: Source | Sequence[Source],
        name: str | None = None,
        *,
        strict: bool = True,
        on_change: OnChange | None = None,
    ) -> MvIssues:
        """Load the views and handlers of a source in place of what it gave before."""
        options = ViewOptions() if on_change is None else ViewOptions(on_change=on_change)
        return self._load(name or _name_of(source), read_views(source), options, strict=strict)

    def _load(self, source: str, reading: Reading, options: ViewOptions, *, strict: bool) -> MvIssues:
        before = self._loaded.get(source, _Loaded())
        known = self._defined_elsewhere(before)
        checked = self._checked(reading, hints=False, analyse=True, known=known, recall=self._recall)
        issues = checked.issues
        if strict and not issues.ok:
            raise ViewError(issues)
        right = [] if "link" in issues.skipped else self._right(checked)
        stopped = [name for name in before.views if name not in {target.name for target in right}]
        left_out = _left_out(source, reading, checked, right)
        with self._all_or_nothing():
            for name in before.views:
                self.pipeline.exclude(self._views.pop(name))
            for spec, record in self._specs(checked, right, options):
                view = View(self.context, spec, self.pipeline.makers, self.wait, issues, self.settings, record)
                self.pipeline.include(view)
                self._views[spec.name] = view
            names = tuple(target.name for target in right)
            self._loaded[source] = _Loaded(names, checked.context.handlers, left_out)
            self.carry(self._views.values())
        self._assign_handlers()
        loaded = sorted(target.name for target in right)
        return issues.with_outcome(loaded=loaded, left_out=left_out, stopped=stopped)

    def _defined_elsewhere(self, own: _Loaded) -> dict[str, str]:
        """The views that other sources gave, and where each is defined."""
        found = {}
        for source, loaded in self._loaded.items():
            for name in loaded.views if loaded is not own else ():
                target = self._views[name].target
                script = target.script if target.script.name else replace(target.script, name=source or "another text")
                place = shown_place(script, target.place)
                found[name] = f'by ds.view("{name}", …)' if target.is_select else f"at {place}"
        return found

    def _assign_handlers(self) -> None:
        """Let each view know the handler that it belongs to, and which of its tables are dictionaries."""
        declared = [handler for loaded in self._loaded.values() for handler in loaded.handlers]
        handlers = {name: handler for handler in declared for name in handler.views}
        for name, view in self._views.items():
            handler = handlers.get(name)
            batches = Batches.of(view.target, handler).tables & view.spec.sources.keys()
            view.handler = "" if handler is None else handler.name
            view.spec = replace(view.spec, deferred=frozenset(batches))
        self._handlers = self._working(declared)

    def _working(self, declared: Iterable[MvHandler]) -> dict[str, ViewHandler]:
        """The handlers as they run: one that is at work continues as it is declared now, one that is gone stops."""
        left_out, leases = self.left_out(), self.context.control.leases
        found: dict[str, ViewHandler] = {}
        for handler in declared:
            name = handler.name
            found[name] = self._handlers.get(name) or ViewHandler(name, self.views, self.run_steps, leases)
            found[name].declare(handler.views, handler.inputs, left_out.get(name, MvIssues()))
        for name in self._handlers.keys() - found.keys():
            self._handlers[name].stop(timeout=0.0)
        return found

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Put everything back as it was if a view is refused while others are in place already."""
        steps, views, tables = dict(self.pipeline.steps), dict(self._views), dict(self.catalog.declared)
        makers, made, loaded = dict(self.context.makers), set(self._made), dict(self._loaded)
        try:
            yield
        except BaseException:
            self.pipeline.steps, self._views, self.catalog.declared, self._made = steps, views, tables, made
            self._loaded = loaded
            self.context.makers.clear()
            self.context.makers.update(makers)
            raise

    @staticmethod
    def _right(checked: Checked) -> list[MvTarget]:
        """The views without an error that read no view with one, each after those that it reads."""
        wrong = set(checked.wrong_views)
        right = []
        for target in checked.context.in_order():
            if target.name in wrong or wrong & set(target.tables):
                wrong.add(target.name)
            else:
                right.append(target)
        return right

    def _checked(
        self,
        reading: Reading,
        *,
        hints: bool,
        analyse: bool,
        known: Mapping[str, str],
        recall: Callable[[Checked], Mapping[str, AnalysedView]] = lambda _: {},
    ) -> Checked:
        made_by_views = {target.name for target in reading.targets} - set(self._declared_by_hand())
        tables = CatalogTables(self.catalog, without=made_by_views)
        stored = self.context.control.index.heads().keys()
        surroundings = Surroundings(tables, self.destinations, stored, known)
        return check(reading, surroundings, hints=hints, analyse=analysis(self.session, recall) if analyse else None)

    def _declared_by_hand(self) -> Iterator[str]:
        """The tables that the program declares itself; those of views are made to fit their SELECTs."""
        return (name for name in self.catalog.declared if name not in self._made)

    # --- steps --------------------------------------------------------------------------------------------------------

    def _recall(self, checked: Checked) -> dict[str, AnalysedView]:
        """What Spark has said before of views that have not changed since."""
        return known_analyses(checked, self.context.control.views.all())

    def _specs(
        self, checked: Checked, targets: Iterable[MvTarget], options: ViewOptions
    ) -> Iterator[tuple[ViewSpec, Record | None]]:
        """The views as steps, with what is to be put on record of each; the table of each is known to the next."""
        tables, before, current = CatalogTables(self.catalog), self._recall(checked), digests(checked)
        for target, analysed in analysed_views(self.session, targets, tables, before):
            record = None if target.name in before else record_of(current[target.name], analysed)
            yield ViewSpec(target, self._keying(target, analysed, options), options), record

    def _keying(self, target: MvTarget, analysed: AnalysedView, options: ViewOptions) -> ViewKeying:
        by_hand = target.name in set(self._declared_by_hand())
        schema = (
            self.catalog.declared[target.name].schema
            if by_hand
            else proposed_schema(analysed, key_of(target, None).columns)
        )
        units = view_units(target, analysed, schema)
        made = self.catalog.declare_schema(target.name, with_hidden(schema, units))
        if not by_hand:
            self._made.add(target.name)
        return ViewKeying(
            step=target.name,
            sources={name: self.catalog.known(name).source.visible for name in target.tables},
            output=made.source,
            units=units,
            gives_each_key_once=gives_each_key_once(units, schema),
            why_all_rows=target.why_full,
            batch_keys=options.batch_keys,
        )


def proposed_schema(analysed: AnalysedView, key: Sequence[str]) -> TableSchema:
    """The columns of a view in the types that Spark found, those of the key NOT NULL."""
    keys = {name.casefold() for name in key}
    columns = tuple(Column(name, kind, name.casefold() not in keys) for name, kind in analysed.columns.items())
    by_name = {column.name.casefold(): column.name for column in columns}
    return TableSchema(columns, tuple(by_name[name.casefold()] for name in key))


def _left_out(source: str, reading: Reading, checked: Checked, right: Sequence[MvTarget]) -> dict[str, MvIssues]:
    """What of a source cannot be loaded, views and handlers by name, with the errors that are to blame."""
    errors = [issue for issue in checked.issues if issue.is_error]
    if not errors:
        return {}
    loaded = {target.name for target in right}
    needs = {target.name: target.tables for target in reading.targets if target.name not in loaded}
    for handler in reading.handlers:
        if handler.name in checked.wrong_handlers or needs.keys() & set(handler.views) or not loaded:
            needs[handler.name] = handler.views
    found = {}
    for name, others in needs.items():
        blamed = [issue for each in (name, *others) for issue in checked.errors.get(each, ())]
        found[name] = MvIssues(blamed or errors)
    return found or {source or "the text": MvIssues(errors)}


def _name_of(source: Source | Sequence[Source]) -> str:
    if isinstance(source, Sequence) and not isinstance(source, str):
        return ", ".join(map(_name_of, source))
    if isinstance(source, Table):
        return f"table {source.name}"
    return TEXTS if isinstance(source, str) and as_path(source) is None else str(Path(str(source)))

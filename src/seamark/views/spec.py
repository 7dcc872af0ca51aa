"""A view as a step: what it reads and writes, what its rows are made by, and how it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from seamark.control import outputs_key
from seamark.errors import BadOutput, SeamarkError, TableError
from seamark.steps.definition.definition import Definition
from seamark.steps.past.history import PastCommit, stored_source
from seamark.steps.past.replay import NotReplayed
from seamark.steps.running.run_config import OnChange
from seamark.tables.frame import CheckedFrame
from seamark.tables.kinds import VIEW
from seamark.tables.read.source import TableSource
from seamark.tables.schema.table_schema import Column, TableSchema
from seamark.transforms.declare.declaration import BATCH_ROWS, MAX_FAILED_KEYS, Algorithm, CommitUnit
from seamark.transforms.keying import GatheredRows, Read
from seamark.transforms.past_keying import blocks_at_commit
from seamark.views.keying import ViewKeying
from seamark.views.meaning import digest
from seamark.views.model import MvTarget
from seamark.views.past import keying_at_commit, keying_from_chain
from seamark.views.paths.actions import paths_of
from seamark.views.paths.keys import multiplied, transform_keys
from seamark.views.refresh.units import PART, PartUnits, ViewUnits
from seamark.views.sql.queries import owner_names
from seamark.views.statement import statement_of


@dataclass(frozen=True)
class ViewOptions:
    """What was said of how a view runs."""

    batch_rows: int = BATCH_ROWS
    batch_keys: int | None = None
    fail_fast: bool = False
    max_failed_keys: int = MAX_FAILED_KEYS
    on_change: OnChange = "ask"
    commit: CommitUnit = "batch"
    algorithm: Algorithm = "v2"


@dataclass(frozen=True)
class ViewSpec:
    """A linked view with its table. `deferred` are its dictionaries: tables whose changes wait for a pass."""

    target: MvTarget
    keying: ViewKeying
    options: ViewOptions = ViewOptions()
    deferred: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The view's name."""
        return self.target.name

    @property
    def definition(self) -> Definition:
        """What its rows are made by."""
        return Definition(
            step=self.name,
            kind=VIEW,
            function=self.name,
            source=statement_of(self.target),
            digest=digest(self.target),
            inputs=tuple((table, False, ()) for table in self.sources),
            outputs=(self.name,),
            keys=self.keying.keys,
        )

    @property
    def sources(self) -> Mapping[str, TableSource]:
        """The tables that it reads, each once, by name."""
        return self.keying.sources

    @property
    def outputs(self) -> tuple[TableSource, ...]:
        """Its table."""
        return self.keying.outputs

    @property
    def written(self) -> tuple[TableSource, ...]:
        """The same."""
        return self.keying.outputs

    @property
    def may_have_written(self) -> tuple[TableSource, ...]:
        """The same."""
        return self.keying.outputs

    @property
    def filled(self) -> tuple[str, ...]:
        """The table that its positions and failed units are about."""
        return (self.name,)

    @property
    def outputs_key(self) -> str:
        """The same as the control database names it."""
        return outputs_key(self.filled)

    @property
    def keys_table(self) -> None:
        """None: a view keeps no table of processed keys."""
        return None

    def why_not_keep(self, older: Definition) -> str | None:
        """Why rows of an older text cannot be kept: their hidden columns would not say which units they belong to."""
        units = self.keying.units
        try:
            before = keying_from_chain(self.keying.context, older).units if older.kind == VIEW else None
        except NotReplayed:
            before = None
        if before is not None and before.keys == units.keys and (not units.are_hidden or before.owners == units.owners):
            return None
        return "the units that its rows belong to are others now"

    def processed(self, gathered: GatheredRows, failed: pa.Table | None, read: Read) -> CheckedFrame | None:
        """None: a view keeps no table of processed keys."""
        return None

    def keying_of(self, commit: PastCommit) -> ViewKeying | None:
        """The units as they were when a commit was made, by today's text or the one that made it."""
        definition = commit.definition
        if definition is None or definition.kind != VIEW:
            return None
        if not self.definition.agrees_with(definition):
            return keying_at_commit(self.keying.context, definition, commit)
        at, context = blocks_at_commit(self.keying.context, definition, commit), self.keying.context
        sources = {name: stored_source(context, name, at.get(name)).visible for name in self.sources}
        output = stored_source(context, self.name, at.get(self.name))
        return replace(self.keying, sources=sources, output=output, at=commit)

    def explain(self, output: TableSource, error: TableError) -> SeamarkError:
        """An error about rows that do not fit the view's table, as one that names the view."""
        return BadOutput(
            f"view '{self.name}' gave what its table cannot take: {error.what} Nothing of this batch was written.",
            hint=error.hint,
        )


# --- units and the table ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnalysedView:
    """What Spark says of a view: the types of its columns, and of the values of each part's unit."""

    columns: Mapping[str, pa.DataType]
    units: tuple[tuple[pa.DataType, ...], ...]


def view_units(target: MvTarget, analysed: AnalysedView, schema: TableSchema) -> ViewUnits:
    """The columns of a view's rows that hold their units: of its key if that has them in equal types, else hidden."""
    if target.is_full:
        return ViewUnits((), {}, tuple(map(PartUnits.whole, target.parts)))
    paths = [paths_of(part) for part in target.parts]
    names = transform_keys(paths[0].part, paths[0].unit, schema.key) if len(paths) == 1 else None
    if names is not None and _are_equal(names, analysed.units[0], schema):
        types = {name: schema.column(name).type for name in names}
        return ViewUnits(names, types, (PartUnits.of(paths[0], names),))
    types = {PART: pa.string(), **_owner_types(analysed.units)}
    units = tuple(PartUnits.of(each, owner_names(len(each.unit.columns))) for each in paths)
    return ViewUnits(tuple(types), types, units, are_hidden=True)


def _are_equal(names: tuple[str, ...], unit: tuple[pa.DataType, ...], schema: TableSchema) -> bool:
    return all(schema.column(name).type == kind for name, kind in zip(names, unit, strict=True))


def _owner_types(units: tuple[tuple[pa.DataType, ...], ...]) -> dict[str, pa.DataType]:
    """The types of the hidden columns: those of the units, or text where parts differ."""
    most = max(map(len, units))
    types: dict[str, pa.DataType] = {}
    for place, name in enumerate(owner_names(most)):
        found = {unit[place] for unit in units if place < len(unit)}
        types[name] = found.pop() if len(found) == 1 else pa.string()
    return types


def with_hidden(schema: TableSchema, units: ViewUnits) -> TableSchema:
    """The schema of a view's table, with the columns that hold units where its key does not."""
    if not units.are_hidden:
        return schema
    hidden = tuple(Column(name, kind, True, hidden=True) for name, kind in units.types.items())
    return replace(schema, columns=(*schema.columns, *hidden))


def gives_each_key_once(units: ViewUnits, schema: TableSchema) -> bool:
    """Whether no two rows can have one key, and none NULL in a column that needs a value, however the tables change."""
    if units.are_hidden or len(units.parts) != 1 or not units.keys:
        return False
    part = units.parts[0]
    if not part.unit.is_owner or set(units.keys) != set(schema.key) or set(schema.required) > set(schema.key):
        return False
    lineage = part.paths.facts.lineage
    return next(multiplied(lineage), None) is None and next(lineage.generators(), None) is None

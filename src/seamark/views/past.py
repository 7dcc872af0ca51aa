"""A view as its table's chain holds it: its text read again, over the tables as they were."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.steps.definition.definition import Definition
from seamark.steps.past.history import PastCommit, stored_source
from seamark.steps.past.replay import NotReplayed
from seamark.tables.context import TableContext
from seamark.tables.schema.table_schema import TableSchema
from seamark.transforms.declare.safe_sql import UnsafeSql, checked_query
from seamark.transforms.past_keying import blocks_at_commit
from seamark.views.keying import ViewKeying
from seamark.views.language.script import read_script
from seamark.views.linking.link import link_part
from seamark.views.model import MvTarget
from seamark.views.paths.actions import paths_of
from seamark.views.refresh.units import PART, PartUnits, ViewUnits
from seamark.views.sql.queries import owner_names
from seamark.views.sql.texts import with_tables
from seamark.views.table_info import KnownTables, MvTableInfo


def keying_from_chain(
    context: TableContext,
    definition: Definition,
    at: Mapping[str, int] | None = None,
    *,
    commit: PastCommit | None = None,
    with_hidden: bool = False,
) -> ViewKeying:
    """The units of a view by an older definition; `at` gives the block of each table whose schema it had.

    `with_hidden` lets rows of its tables have their hidden columns. `NotReplayed` if its text can no longer be read.
    """
    blocks = at or {}
    (name,) = definition.outputs
    stored = {table: stored_source(context, table, blocks.get(table)) for table, _, _ in definition.inputs}
    sources = stored if with_hidden else {table: source.visible for table, source in stored.items()}
    output = stored_source(context, name, blocks.get(name))
    infos = KnownTables.of(*(MvTableInfo(table, source.schema.visible) for table, source in sources.items()))
    target = _linked(definition, infos)
    units = units_as_stored(target, definition.keys, output.schema)
    return ViewKeying(step=definition.step, sources=sources, output=output, units=units, at=commit)


def keying_at_commit(context: TableContext, definition: Definition, commit: PastCommit) -> ViewKeying:
    """The units of a view as they were when another text than today's made a commit.

    The text comes from the chain, so from strangers: `NotReplayed` unless it is a plain query over its inputs.
    """
    keying = keying_from_chain(context, definition, blocks_at_commit(context, definition, commit), commit=commit)
    for part in keying.units.parts:
        names = {source.number: "{" + str(source.table) + "}" for source in part.part.tables}
        try:
            checked_query(with_tables(part.part, names), list(keying.sources))
        except UnsafeSql as error:
            raise NotReplayed(f"its SQL is not run: {error}") from None
    return keying


def _linked(definition: Definition, tables: KnownTables) -> MvTarget:
    reading = read_script(definition.source)
    if reading.issues or len(reading.targets) != 1:
        said = "; ".join(issue.message for issue in reading.issues) or "it is no single statement"
        raise NotReplayed(f"its text cannot be read: {said}")
    (target,) = reading.targets
    linked = [link_part(part, tables, strict=target.is_document) for part in target.parts]
    trouble = next((issue.message for each in linked for issue in each.issues if issue.is_error), None)
    if trouble is not None:
        raise NotReplayed(f"its text does not fit its tables any more: {trouble}")
    return target.with_parts(tuple(each.part for each in linked))


def units_as_stored(target: MvTarget, keys: tuple[str, ...], schema: TableSchema) -> ViewUnits:
    """The columns that hold a view's units, as its table has them; none where all rows are one."""
    if target.is_full or not keys:
        return ViewUnits((), {}, tuple(map(PartUnits.whole, target.parts)))
    types = {name: schema.column(name).type for name in keys}
    paths = [paths_of(part) for part in target.parts]
    if PART not in keys:
        return ViewUnits(keys, types, (PartUnits.of(paths[0], keys),))
    parts = tuple(PartUnits.of(each, owner_names(len(each.unit.columns))) for each in paths)
    return ViewUnits(keys, types, parts, are_hidden=True)

"""The queries that refreshing a view amounts to, over its tables and the relations `changed` and `keys`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.views.model import MvPart, MvUnitKind
from seamark.views.paths.actions import Action, ActionEveryKey, ActionKeysGrab, ActionKeysTransform, Paths
from seamark.views.paths.facts import quoted
from seamark.views.paths.lineage import plain_reference
from seamark.views.paths.units import MvUnit, UnitColumn, selectable
from seamark.views.sql.texts import Changes, part_text, with_tables

CHANGED = "changed"  # images of one table's records
KEYS = "keys"  # units


@dataclass(frozen=True)
class Relations:
    """What the relations of a query are called: the tables, each by its own name, and `changed` and `keys`."""

    tables: Mapping[str, str] = field(default_factory=dict)
    changed: str = CHANGED
    keys: str = KEYS

    def table(self, name: str) -> str:
        """What a table is called."""
        return self.tables.get(name) or quoted(name)

    def by_number(self, part: MvPart) -> dict[int, str]:
        """What the tables of a part are called, by the number of their occurrence, where it is another name."""
        return {s.number: self.tables[str(s.table)] for s in part.tables if str(s.table) in self.tables}


AS_THEY_ARE = Relations()


def owner_names(count: int) -> tuple[str, ...]:
    """The names of the hidden columns that hold a unit of so many values."""
    return tuple("_owner" if number == 1 else f"_owner_{number}" for number in range(1, count + 1))


def unit_names(unit: MvUnit) -> tuple[str, ...]:
    """The columns of `keys`: the left-most table's key, or those that hold a group."""
    if unit.is_owner:
        return tuple(column.leaf.column for column in unit.columns if column.leaf is not None)
    return owner_names(len(unit.columns))


def refresh_query(part: MvPart, unit: MvUnit, relations: Relations = AS_THEY_ARE, *, with_owners: bool = False) -> str:
    """The part's SELECT for the units in `keys`; `with_owners` puts the hidden columns before the others."""
    columns = ""
    if with_owners:
        shown = zip(selectable(part, unit), owner_names(len(unit.columns)), strict=True)
        columns = ", ".join(f"{text} AS {quoted(name)}" for text, name in shown if text is not None)
    tables = relations.by_number(part)
    if unit.kind is MvUnitKind.ALL:
        return with_tables(part, tables)
    alias = _unused(part)
    same = [
        f"{alias}.{quoted(name)} IS NOT DISTINCT FROM {_inside(part, unit, column)}"
        for name, column in zip(unit_names(unit), unit.columns, strict=True)
    ]
    condition = f"EXISTS (SELECT 1 FROM {relations.keys} AS {alias} WHERE {' AND '.join(same)})"
    return part_text(part, Changes(tables, unit.query, condition, columns))


def path_query(paths: Paths, action: Action, relations: Relations = AS_THEY_ARE) -> str:
    """The query from changed images of one source to units, or for groups to keys of the left-most table.

    Where no equality leads on, it gives all of them as soon as one image is left.
    """
    if isinstance(action, ActionKeysTransform):
        return _transform(paths, action, relations)
    if isinstance(action, ActionEveryKey):
        return _every_key(paths, action, relations)
    hops = action.hops if isinstance(action, ActionKeysGrab) else ()
    last = f"h{len(hops)}" if hops else CHANGED
    lines = [f"SELECT DISTINCT {_key(paths, last)}", _from_changed(relations)]
    alias = CHANGED
    for number, hop in enumerate(hops, 1):
        here = f"h{number}"
        same = [f"{here}.{quoted(other)} = {alias}.{quoted(one)}" for one, other in hop.pairs]
        conditions = [*same, *(f"({literal.sql(here)})" for literal in hop.literals)]
        table = relations.table(str(paths.part.source(hop.upto).table))
        lines.append(f"JOIN {table} AS {here} ON {' AND '.join(conditions)}")
        alias = here
    return "\n".join([*lines, *_where(_literals(action))])


def _from_changed(relations: Relations) -> str:
    alias = "" if relations.changed == CHANGED else f" AS {CHANGED}"
    return f"FROM {relations.changed}{alias}"


def _transform(paths: Paths, action: ActionKeysTransform, relations: Relations) -> str:
    names = zip(action.columns, unit_names(paths.unit), strict=True)
    shown = ", ".join(f"{CHANGED}.{quoted(column)} AS {quoted(name)}" for column, name in names)
    known = [f"{CHANGED}.{quoted(column)} IS NOT NULL" for column in action.leaves_by]
    lines = [f"SELECT DISTINCT {shown}", _from_changed(relations), *_where([*_literals(action), *known])]
    return "\n".join(lines)


def _every_key(paths: Paths, action: ActionEveryKey, relations: Relations) -> str:
    table = relations.table(str(paths.part.source(paths.unit.leftmost).table))
    some = "\n  ".join([f"SELECT 1 {_from_changed(relations)}", *_where(_literals(action))])
    return f"SELECT DISTINCT {_key(paths, 'l')}\nFROM {table} AS l\nWHERE EXISTS (\n  {some}\n)"


def _key(paths: Paths, alias: str) -> str:
    """The left-most table's key; all columns of one without."""
    info = paths.facts.lineage.leftmost.info
    names = info.schema.key or info.columns if info is not None else ()
    return ", ".join(f"{alias}.{quoted(name)}" for name in names) or f"{alias}.*"


def _literals(action: Action) -> list[str]:
    return [literal.sql(CHANGED) for literal in action.literals]


def _where(conditions: list[str]) -> list[str]:
    return [f"WHERE {' AND '.join(f'({condition})' for condition in conditions)}"] if conditions else []


def _inside(part: MvPart, unit: MvUnit, column: UnitColumn) -> str:
    """A value of the unit as it is written in the query that decides it."""
    assert unit.query is not None
    expression = column.expression
    if expression is None:
        assert column.leaf is not None
        return f"{quoted(unit.query.sources[0].alias)}.{quoted(column.leaf.column)}"
    reference = plain_reference(expression)
    # A column that `*` stands for has no words of its own.
    return ".".join(map(quoted, reference.words)) if reference is not None else f"({expression.text})"


def _unused(part: MvPart) -> str:
    """A name that no source of the part has."""
    used = {word.casefold() for word in part.text.text.replace("`", " ").replace(".", " ").split()}
    return next(name for name in (KEYS, *(f"{KEYS}_{n}" for n in range(2, 1_000))) if name not in used)

"""What can be said of a view's key: is it there, is it one row's, can its rows be found again by their unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from seamark.tables.schema.types import spark_name
from seamark.views.checks.metadata_phase import kind_of
from seamark.views.issues import MvIssue, issue_at, issue_in
from seamark.views.model import MvColumn, MvLiteral, MvPart, MvTarget, MvUnitKind
from seamark.views.paths.keys import KeyChoice, holds_key_of, key_of, multiplied, transform_keys
from seamark.views.paths.lineage import Lineage
from seamark.views.paths.types import is_nullable, type_of
from seamark.views.paths.units import MvUnit, UnitColumn, selectable, unit_of
from seamark.views.table_info import MvTableInfo

UnitTypes = Sequence[pa.DataType | None]
"""The types of a unit's values, None where one is not known."""


def key_issues(target: MvTarget, table: MvTableInfo | None) -> Iterator[MvIssue]:
    """The issues of a linked view's key; `table` is the one of its name, if there is one."""
    declared = table.schema.key if table is not None else None
    key = key_of(target, declared)
    several = [*_several_rows(target, key), *_parts_collide(target, key)]
    yield from several
    if target.key is not None and declared and _folded(target.key) != _folded(declared):
        message = f"PRIMARY KEY is ({', '.join(target.key)}), that of table '{target.name}' is ({', '.join(declared)})"
        yield issue_at("KeyMismatch", message, target.script, target.key_place)
        return
    if not any(issue.is_error for issue in several):
        yield from _not_produced(target, key)
    for part in target.parts:
        if part.query is not None:
            yield from _nullable(part, key)
            yield from _complex(target, part, key)
    if not target.is_full:
        yield from owner_issues(target, key)


def _folded(names: tuple[str, ...]) -> set[str]:
    return {name.casefold() for name in names}


def _several_rows(target: MvTarget, key: KeyChoice) -> Iterator[MvIssue]:
    for part in target.parts:
        if part.query is None or target.is_full:
            continue
        lineage = Lineage(part)
        for query, source in multiplied(lineage):
            message = f"several rows of '{source.alias}' may join one row before it"
            if not key.is_chosen:
                message += ", and no key tells them apart: write PRIMARY KEY (…)"
                yield issue_in("SeveralRowsPerKey", message, part.text, source.place.start)
            elif not holds_key_of(lineage, key.columns, query, source):
                message += f", and the key ({', '.join(key.columns)}) does not hold what tells them apart"
                yield issue_in("SeveralRowsPerKey", message, part.text, source.place.start, "warning")
        generator = next(lineage.generators(), None)
        if generator is not None and not key.is_chosen and unit_of(part).kind is not MvUnitKind.GROUP:
            message = "a generator gives several rows, and no key tells them apart: write PRIMARY KEY (…)"
            yield issue_in("SeveralRowsPerKey", message, part.text, generator.place.start)


def _parts_collide(target: MvTarget, key: KeyChoice) -> Iterator[MvIssue]:
    """Parts whose rows nothing tells from those of a part before them, in a key that nobody has chosen."""
    if key.is_chosen or not key.columns:
        return
    for number, part in enumerate(target.parts):
        other = next((before for before in target.parts[:number] if not _differ(before, part, key.columns)), None)
        if other is not None:
            message = (
                f"rows of parts '{other.alias}' and '{part.alias}' can have the same key ({', '.join(key.columns)}), "
                "and would fail: write PRIMARY KEY (…), with a constant of each part in it if need be"
            )
            yield issue_at("SeveralRowsPerKey", message, part.text.script, part.place, "warning")


def _differ(one: MvPart, other: MvPart, key: tuple[str, ...]) -> bool:
    """Whether a key column is one constant in one part and another in the other."""
    for name in key:
        values = [column.value for column in (_column(one, name), _column(other, name)) if column is not None]
        constants = {value.value for value in values if isinstance(value, MvLiteral)}
        if len(values) == len(constants) == 2:
            return True
    return False


def _column(part: MvPart, name: str) -> MvColumn | None:
    return part.query.column(name) if part.query is not None else None


def _not_produced(target: MvTarget, key: KeyChoice) -> Iterator[MvIssue]:
    if not key.columns:
        message = f"view '{target.name}' has no key: its columns hold none that tells rows apart. Write PRIMARY KEY (…)"
        yield issue_at("KeyNotProduced", message, target.script, target.place)
        return
    for part in target.parts:
        names = {column.name.casefold() for column in part.columns}
        known = part.query is not None and all(column.star is None for column in part.columns)
        for name in key.columns if known else ():
            if name.casefold() not in names:
                message = f"the key column '{name}' is not among the columns of part '{part.alias}'"
                place = target.key_place if target.key is not None else part.place
                yield issue_at("KeyNotProduced", message, target.script, place)


def _nullable(part: MvPart, key: KeyChoice) -> Iterator[MvIssue]:
    lineage = Lineage(part)
    for column in part.columns:
        if column.name.casefold() in _folded(key.columns) and is_nullable(lineage, column):
            message = f"the key column '{column.name}' may be NULL: rows with NULL in the key fail"
            yield issue_in("NullableKey", message, part.text, column.place.start)


def _complex(target: MvTarget, part: MvPart, key: KeyChoice) -> Iterator[MvIssue]:
    unit, lineage = unit_of(part), Lineage(part)
    owner = {column.leaf for column in unit.columns}
    if unit.kind is not MvUnitKind.OWNER or target.is_full:
        return
    for column in part.columns:
        computation = column.computation
        if column.name.casefold() not in _folded(key.columns) or computation is None or computation.plain is not None:
            continue
        used = {lineage.column(reference) for reference in computation.used}
        if not computation.is_readable or computation.queries or not used <= owner:
            message = f"the key column '{column.name}' is computed of more than the key of the left-most table"
            yield issue_in("ComplexKeyGeneration", message, part.text, column.place.start)


# --- owners -----------------------------------------------------------------------------------------------------------


def owner_issues(target: MvTarget, key: KeyChoice) -> Iterator[MvIssue]:
    """Units by which rows could not be found again, where their key does not hold them."""
    units = [unit_of(part) for part in target.parts]
    for part, unit in zip(target.parts, units, strict=True):
        yield from _out_of_reach(part, unit)
    types = [
        [unit_type(part, column) for column in unit.columns] for part, unit in zip(target.parts, units, strict=True)
    ]
    yield from unit_type_issues(target, key, types)


def unit_type_issues(target: MvTarget, key: KeyChoice, types: Sequence[UnitTypes]) -> Iterator[MvIssue]:
    """Units of types by which no row could be found again; a type is None where it is not known."""
    units = [unit_of(part) for part in target.parts]
    if len(target.parts) == 1 and transform_keys(target.parts[0], units[0], key.columns) is not None:
        return
    parts = list(zip(target.parts, units, types, strict=True))
    for part, unit, found in parts:
        yield from _no_keys(part, unit, found)
    for part, unit, found in parts[1:]:
        yield from _different(*parts[0], part, unit, found)


def _out_of_reach(part: MvPart, unit: MvUnit) -> Iterator[MvIssue]:
    if part.query is None:
        return
    for column, text in zip(unit.columns, selectable(part, unit), strict=True):
        if text is None:
            first = part.leftmost
            shown = f"{part.source(unit.leftmost).table}.{column.shown}" if unit.is_owner else column.shown
            message = f"'{shown}', by which rows are found again, does not come out of '{first.alias}': select it there"
            yield issue_in("OwnerOutOfReach", message, part.text, first.place.start)


def unit_type(part: MvPart, column: UnitColumn) -> pa.DataType | None:
    """The type of a value of a part's unit, as far as it is known without Spark."""
    lineage = Lineage(part)
    if column.expression is not None:
        return type_of(lineage, column.expression)
    if column.leaf is None:
        return None
    info = part.source(column.leaf.source).info
    found = info.column(column.leaf.column) if info is not None else None
    return found.type if found is not None else None


def _no_keys(part: MvPart, unit: MvUnit, types: UnitTypes) -> Iterator[MvIssue]:
    for column, found in zip(unit.columns, types, strict=True):
        if found is not None and pa.types.is_null(found):
            message = f"rows would be found again by '{column.shown}', which is of a type that no table can hold"
            place = column.expression.place.start if column.expression else part.leftmost.place.start
            yield issue_in("UnsupportedKeyType", message, part.text, place)
        elif found is not None and (pa.types.is_floating(found) or pa.types.is_nested(found)):
            which = "floats" if pa.types.is_floating(found) else "arrays and structs"
            message = f"rows would be found again by '{column.shown}', a {spark_name(found)}: {which} are no keys"
            place = column.expression.place.start if column.expression else part.leftmost.place.start
            yield issue_in("UnsupportedKeyType", message, part.text, place)


def _different(
    first: MvPart, one: MvUnit, ones: UnitTypes, part: MvPart, other: MvUnit, others: UnitTypes
) -> Iterator[MvIssue]:
    """Owners of parts with different types are kept as text: only what has one way to be written can be."""
    lefts, rights = zip(one.columns, ones, strict=True), zip(other.columns, others, strict=True)
    for (left, left_type), (right, right_type) in zip(lefts, rights, strict=False):
        types = left_type, right_type
        if None in types or types[0] == types[1]:
            continue
        for found in types:
            if found is not None and not (
                pa.types.is_integer(found) or pa.types.is_date(found) or kind_of(found) == "string"
            ):
                message = (
                    f"part '{first.alias}' is found again by '{left.shown}' and part '{part.alias}' by "
                    f"'{right.shown}', of types that cannot stand in one column"
                )
                yield issue_at("UnsupportedKeyType", message, part.text.script, part.place)
                break

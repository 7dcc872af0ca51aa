"""Keeping a tiny view by changes: units are found by the product's paths, and their rows read by its plan."""

from __future__ import annotations

import re
from typing import Any
from zlib import crc32

from tests.support.view_simulation.sql import (
    COLUMNS,
    Query,
    Row,
    leaves_of,
    may_join,
    number,
    result,
    sort_key,
    unit_of_binding,
)
from tests.support.view_simulation.text import text_of
from tests.support.views import linked, table

from seamark.views.paths.actions import (
    Action,
    ActionEveryKey,
    ActionKeysGrab,
    ActionKeysTransform,
    ActionSync,
    Paths,
    paths_of,
)
from seamark.views.paths.facts import LiteralCondition
from seamark.views.paths.reading import reading_plan
from seamark.views.table_info import KnownTables

Record = tuple[Row | None, Row | None]
_AT = {name: i for i, name in enumerate(COLUMNS)}
_FORMS = [
    (re.compile(r"t\.`(\w+)` (=|<>) (\d+)"), "constant"),
    (re.compile(r"t\.`(\w+)` IS (NOT )?NULL"), "null"),
    (re.compile(r"coalesce\(t\.`(\w+)`, (\d+)\) = (\d+)"), "coalesce"),
    (re.compile(r"t\.`(\w+)` (=|<=>|<) t\.`(\w+)`"), "columns"),
]


def passes(literal: LiteralCondition, row: Row) -> bool:
    """Whether a row passes a literal condition, whose text is read anew."""
    text = literal.sql("t")
    for form, kind in _FORMS:
        found = form.fullmatch(text)
        if found is None:
            continue
        one = row[_AT[found[1]]]
        if kind == "constant":
            return one is not None and (one == int(found[3])) == (found[2] == "=")
        if kind == "null":
            return (one is None) == (found[2] is None)
        if kind == "coalesce":
            return bool((int(found[2]) if one is None else one) == int(found[3]))
        other = row[_AT[found[3]]]
        if found[2] == "<=>":
            return bool(one == other)
        return one is not None and other is not None and bool(one == other if found[2] == "=" else one < other)
    raise AssertionError(f"a literal condition of a form that the tests do not know: {text}")


def linked_paths(view: Query) -> Paths:
    """The paths that the product finds in a tiny view's text."""
    tables = KnownTables.of(*(table(f"t{i}", "id long, a long, b long, c long", "id") for i in range(6)))
    (part,) = linked(text_of(view), tables).parts
    assert not part.refusals
    return paths_of(part)


class Kept:
    """A view that is kept: its tables with their logs, how far each is read, and the rows that stand by unit."""

    def __init__(self, view: Query, tables: list[str], dictionaries: list[str], rows: dict[str, list[Row]]) -> None:
        self.view = view
        self.leaves = number(view)
        self.paths = linked_paths(view)
        self.actions: list[Action] = list(self.paths.actions)
        self.leaf_of = {action.source: leaf for leaf, action in enumerate(self.actions)}
        assert [action.table for action in self.actions] == self.leaves
        self.plan = reading_plan(self.paths)
        self.is_owner = self.paths.unit.is_owner
        self.leftmost = self.leaf_of[self.paths.unit.leftmost]
        self.unit_query = view
        while self.unit_query.kind == "plain" and self.unit_query.sources[0].query is not None:
            self.unit_query = self.unit_query.sources[0].query
        self.tables, self.dictionaries = tables, list(dictionaries)
        self.log: dict[str, list[Record]] = {name: [] for name in tables}
        self.rows: dict[str, dict[int, Row]] = {name: {} for name in tables}
        for name in tables:
            for row in rows.get(name, ()):
                self.put(name, row[0], row)
        self.read_upto = {name: len(self.log[name]) for name in tables}
        self.stands = self.from_scratch()
        self.page: tuple[dict[str, int], Any] | None = None

    def put(self, name: str, key: int, row: Row | None) -> None:
        old = self.rows[name].get(key)
        if old == row:
            return
        self.log[name].append((old, row))
        self.rows[name].pop(key, None)
        if row is not None:
            self.rows[name][key] = row

    def from_scratch(self) -> dict[Row, list[Row]]:
        return result(self.view, {leaf: list(self.rows[name].values()) for leaf, name in enumerate(self.leaves)})

    def waiting(self) -> dict[str, list[Record]]:
        return {name: self.log[name][self.read_upto[name] :] for name in self.tables}

    # --- finding units ------------------------------------------------------------------------------------------------

    def images(self, action: Action, records: list[Record]) -> list[Row]:
        """The images that may change a unit."""
        used = [_AT[name] for name in action.used]
        found = []
        for old, new in records:
            if old is not None and new is not None and all(old[c] == new[c] for c in used):
                continue
            found += [row for row in (old, new) if row is not None and all(passes(x, row) for x in action.literals)]
        leaves_by = [_AT[name] for name in action.leaves_by]
        return [row for row in found if all(row[c] is not None for c in leaves_by)]

    def versions(self, name: str) -> list[Row]:
        """The rows at the pins, and both images of every waiting record."""
        found = dict.fromkeys(self.rows[name].values())
        for old, new in self.waiting()[name]:
            found.update(dict.fromkeys(row for row in (old, new) if row is not None))
        return list(found)

    def find(self, changed: dict[str, list[Record]]) -> set[Row] | None:
        """The units that changed records may concern; None for every unit."""
        units: set[Row] = set()
        keys: set[Any] = set()
        for action in self.actions:
            images = self.images(action, changed.get(action.table, []))
            if not images:
                continue
            match action:
                case ActionEveryKey():
                    return None
                case ActionSync():
                    keys |= {row[0] for row in images}
                case ActionKeysTransform():
                    units |= {tuple(row[_AT[name]] for name in action.columns) for row in images}
                case ActionKeysGrab():
                    keys |= {row[0] for row in self.grabbed(action, images)}
        if self.is_owner:
            return units | {(key,) for key in keys}
        return units | self.units_of(keys)

    def grabbed(self, action: ActionKeysGrab, rows: list[Row]) -> list[Row]:
        for hop in action.hops:
            name = self.leaves[self.leaf_of[hop.upto]]
            there = list(self.rows[name].values()) if self.is_owner else self.versions(name)
            values = {tuple(row[_AT[one]] for one, _ in hop.pairs) for row in rows}
            values = {value for value in values if None not in value}
            rows = [row for row in there if tuple(row[_AT[other]] for _, other in hop.pairs) in values]
            rows = [row for row in rows if all(passes(literal, row) for literal in hop.literals)]
        return rows

    def units_of(self, keys: set[Any]) -> set[Row]:
        """The groups or partitions that left-most rows with these keys belonged to at any moment."""
        if not keys:
            return set()
        inside = set(leaves_of(self.unit_query))
        data = {leaf: self.versions(self.leaves[leaf]) for leaf in inside}
        data[self.leftmost] = [row for row in data[self.leftmost] if row[0] in keys]
        waiting = {leaf for leaf in inside if self.waiting()[self.leaves[leaf]]}
        return {unit_of_binding(self.unit_query, b, 0) for b in may_join(self.unit_query, data, waiting)}

    # --- runs ---------------------------------------------------------------------------------------------------------

    def refresh(self, units: set[Row] | None) -> None:
        if units is None:
            self.stands = self.from_scratch()
            return
        right = result(self.view, self.read(units))
        for unit in units:
            if unit in right:
                self.stands[unit] = right[unit]
            else:
                self.stands.pop(unit, None)

    def read(self, units: set[Row]) -> dict[int, list[Row]]:
        """The rows that the product would read for these units, level by level."""
        here = {number: list(self.rows[self.leaves[leaf]].values()) for number, leaf in self.leaf_of.items()}
        data = {self.paths.unit.leftmost: self.leftmost_rows(units, here)}
        for level in self.plan.levels:
            found = {}
            for lookup in level:
                rows = here[lookup.source]
                for source, one, other in lookup.by:
                    values = {row[_AT[one]] for row in data[source]} - {None}
                    rows = [row for row in rows if row[_AT[other]] in values]
                found[lookup.source] = rows
            data |= found
        return {self.leaf_of[number]: rows for number, rows in data.items()}

    def leftmost_rows(self, units: set[Row], here: dict[int, list[Row]]) -> list[Row]:
        read = self.plan.leftmost
        if read.source is None or any(unit[n] is None for unit in units for n in read.whole_for_null):
            return here[self.paths.unit.leftmost]
        values = {tuple(unit[n] for n, _ in read.columns) for unit in units}
        rows = [row for row in here[read.source] if tuple(row[_AT[name]] for _, name in read.columns) in values]
        for hop in read.hops:
            found = {tuple(row[_AT[one]] for one, _ in hop.pairs) for row in rows}
            found = {value for value in found if None not in value}
            rows = [row for row in here[hop.upto] if tuple(row[_AT[other]] for _, other in hop.pairs) in found]
        return rows

    def all_units(self) -> set[Row]:
        return set(self.from_scratch()) | set(self.stands)

    def stream(self) -> list[str]:
        return [name for name in self.tables if name not in self.dictionaries]

    def happen(self, happening: Any) -> None:
        match happening:
            case ("put", name, key, row):
                self.put(name, key, row)
            case ("stream",):
                waiting = self.waiting()
                self.refresh(self.find({name: waiting[name] for name in self.stream()}))
                for name in self.stream():
                    self.read_upto[name] = len(self.log[name])
            case ("limit", most, seed):
                found = self.find({name: self.waiting()[name] for name in self.stream()})
                found = self.all_units() if found is None else found
                self.refresh(set(sorted(found, key=lambda u: crc32(repr((seed, *u)).encode()))[:most]))
            case ("by input", order, count, is_cut):
                self.by_input([name for name in order if name not in self.dictionaries][:count], is_cut)
            case ("page", most, cut):
                self.dictionary_page(most, cut)
            case ("full", first):
                self.full(first)

    def by_input(self, names: list[str], is_cut: bool) -> None:
        """Batches input after input; what is not among them waits, as after a kill."""
        for name in names:
            end = len(self.log[name])
            if is_cut:
                end = self.read_upto[name] + (end - self.read_upto[name] + 1) // 2
            self.refresh(self.find({name: self.log[name][self.read_upto[name] : end]}))
            self.read_upto[name] = end

    def dictionary_page(self, most: int, cut: int) -> None:
        if not self.dictionaries:
            return
        if self.page is None:
            ends = {n: len(self.log[n]) for n in self.dictionaries}
            if cut:
                ends = {n: min(end, self.read_upto[n] + cut) for n, end in ends.items()}
            self.page = (ends, None)
        ends, cursor = self.page
        found = self.find({n: self.log[n][self.read_upto[n] : ends[n]] for n in self.dictionaries})
        found = self.all_units() if found is None else found
        units = sorted((u for u in found if cursor is None or sort_key(u) > cursor), key=sort_key)
        self.refresh(set(units[:most]))
        if len(units) > most:
            self.page = (ends, sort_key(units[most - 1]))
            return
        self.read_upto |= {n: max(self.read_upto[n], end) for n, end in ends.items()}
        self.page = None

    def full(self, first: str) -> None:
        if first == "stream":
            self.happen(("stream",))
        while self.page is not None or any(self.read_upto[n] < len(self.log[n]) for n in self.dictionaries):
            self.dictionary_page(99, 0)
        self.happen(("stream",))

    @property
    def is_right(self) -> bool:
        return self.stands == self.from_scratch()

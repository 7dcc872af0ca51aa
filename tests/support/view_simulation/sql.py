"""Tiny SQL: queries as values, their rows computed from scratch, and the text that the product reads.

A row is (id, a, b, c). References are (level, source, column): level 1 is the query around. Expressions are
('col', ref) or ('coal', ref, value). Conditions are ('eq' | 'nse' | 'lt', ref, ref), ('lit' | 'ne', ref, value),
('isnull' | 'notnull', ref), ('coal', ref, default, value), ('exists', negated, query), ('in', negated, ref, query),
('scal', ref, function, query, ref inside), ('or', condition, condition).
"""

from __future__ import annotations

from typing import Any

COLUMNS = ("id", "a", "b", "c")
Row = tuple[Any, ...]
Data = dict[int, list[Row]]


class Source:
    """One source of a query: a table, or a query of its own. `leaf` is the number of a table's occurrence."""

    def __init__(self, kind: str, table: str | None = None, query: Query | None = None, on: list[Any] | None = None):
        self.kind, self.table, self.query, self.on = kind, table, query, list(on or [])
        self.leaf = -1
        self.alias = ""

    @property
    def width(self) -> int:
        return len(COLUMNS) if self.query is None else len(self.query.outputs)


class Query:
    """`kind` is plain, group or window; `unit` are the group or partition expressions."""

    def __init__(
        self, sources: list[Source], where: Any = (), kind: str = "plain", unit: Any = (), outs: Any = (), **more: Any
    ):
        self.sources, self.where, self.kind = sources, list(where), kind
        self.unit, self.outs = list(unit), list(outs)
        self.aggregates: list[tuple[str, Any]] = list(more.get("aggregates", ()))
        self.having: int | None = more.get("having")
        self.order: Any = more.get("order")
        self.distinct: bool = more.get("distinct", False)
        self.data: Data = {}

    @property
    def outputs(self) -> list[Any]:
        if self.kind == "plain":
            return self.outs
        if self.kind == "group":
            return [*self.unit, *([("agg",)] * len(self.aggregates))]
        return [*self.unit, *self.outs, ("agg",)]


def number(query: Query, leaves: list[str] | None = None) -> list[str]:
    """Give every occurrence of a table its number, in the order of the text; the tables by number."""
    leaves = [] if leaves is None else leaves
    for source in query.sources:
        if source.table is not None:
            source.leaf = len(leaves)
            leaves.append(source.table)
        else:
            number(source.query, leaves)
        for condition in source.on:
            for inner in queries_of(condition):
                number(inner, leaves)
    for condition in query.where:
        for inner in queries_of(condition):
            number(inner, leaves)
    return leaves


def queries_of(condition: Any) -> list[Query]:
    match condition[0]:
        case "exists":
            return [condition[2]]
        case "in" | "scal":
            return [condition[3]]
        case "or":
            return [*queries_of(condition[1]), *queries_of(condition[2])]
    return []


def leaves_of(query: Query) -> list[int]:
    found: list[int] = []
    for source in query.sources:
        found += source_leaves(source)
        found += [leaf for condition in source.on for q in queries_of(condition) for leaf in leaves_of(q)]
    return found + [leaf for condition in query.where for q in queries_of(condition) for leaf in leaves_of(q)]


def source_leaves(source: Source) -> list[int]:
    return [source.leaf] if source.query is None else leaves_of(source.query)


# --- rows from scratch ------------------------------------------------------------------------------------------------


def value(reference: Any, binding: Any, outer: Any) -> Any:
    level, source, column = reference
    return (binding if level == 0 else outer)[source][column]


def computed(expression: Any, binding: Any) -> Any:
    found = value(expression[1], binding, None)
    return expression[2] if expression[0] == "coal" and found is None else found


def holds(condition: Any, binding: Any, outer: Any, data: Data) -> bool | None:
    """SQL's answer: True, False, or None where it is not known."""
    match condition:
        case ("eq", one, other):
            return _compared(value(one, binding, outer), value(other, binding, outer), lambda x, y: x == y)
        case ("lt", one, other):
            return _compared(value(one, binding, outer), value(other, binding, outer), lambda x, y: x < y)
        case ("nse", one, other):
            return bool(value(one, binding, outer) == value(other, binding, outer))
        case ("lit", one, constant):
            return _compared(value(one, binding, outer), constant, lambda x, y: x == y)
        case ("ne", one, constant):
            return _compared(value(one, binding, outer), constant, lambda x, y: x != y)
        case ("isnull", one):
            return value(one, binding, outer) is None
        case ("notnull", one):
            return value(one, binding, outer) is not None
        case ("coal", one, default, constant):
            found = value(one, binding, outer)
            return bool((default if found is None else found) == constant)
        case ("exists", negated, query):
            rows = bindings(query, data, binding) if query.kind == "plain" else rows_of(query, data, binding)
            return bool(rows) != negated
        case ("in", negated, one, query):
            found = _member(value(one, binding, outer), [row[0] for row in rows_of(query, data, binding)])
            return found if not negated or found is None else not found
        case ("scal", one, function, query, column):
            found = aggregate(function, column, bindings(query, data, binding))
            return _compared(value(one, binding, outer), found, lambda x, y: x == y)
        case ("or", one, other):
            sides = (holds(one, binding, outer, data), holds(other, binding, outer, data))
            return True if True in sides else None if None in sides else False
    raise ValueError(condition)


def _compared(one: Any, other: Any, compare: Any) -> bool | None:
    return None if one is None or other is None else bool(compare(one, other))


def _member(one: Any, values: list[Any]) -> bool | None:
    if not values:
        return False
    if one is None:
        return None
    return True if one in values else None if None in values else False


def bindings(query: Query, data: Data, outer: Any = None) -> list[Any]:
    """The joined rows of a query that pass its conditions."""
    found: list[Any] = [()]
    for source in query.sources:
        rows = data[source.leaf] if source.query is None else rows_of(source.query, data, None)
        nulls = (None,) * source.width
        joined: list[Any] = []
        for binding in found:
            longer = [(*binding, row) for row in rows]
            hits = [b for b in longer if all(holds(c, b, outer, data) for c in source.on)]
            if source.kind in ("inner", "left", "from"):
                joined += hits or ([(*binding, nulls)] if source.kind == "left" else [])
            elif bool(hits) == (source.kind == "semi"):
                joined.append((*binding, nulls))
        found = joined
    return [b for b in found if all(holds(c, b, outer, data) for c in query.where)]


def aggregate(function: str, reference: Any, found: list[Any]) -> Any:
    if function == "count*":
        return len(found)
    values = [b[reference[1]][reference[2]] for b in found]
    values = [v for v in values if v is not None]
    if function == "count":
        return len(values)
    if not values:
        return None
    return {"sum": sum, "min": min, "max": max}[function](values)


def rows_of(query: Query, data: Data, outer: Any) -> list[Row]:
    found = bindings(query, data, outer)
    if query.kind == "plain":
        return [tuple(computed(e, b) for e in query.outs) for b in found]
    units: dict[Row, list[Any]] = {}
    for binding in found:
        units.setdefault(tuple(computed(e, binding) for e in query.unit), []).append(binding)
    return [row for unit, members in units.items() for row in unit_rows(query, unit, members)]


def unit_rows(query: Query, unit: Row, members: list[Any]) -> list[Row]:
    if query.kind == "group":
        count = query.having
        if count is not None and (len(members) < count if count > 0 else len(members) != -count):
            return []
        return [unit + tuple(aggregate(function, column, members) for function, column in query.aggregates)]
    order = [sort_key((b[query.order[1]][query.order[2]],)) for b in members]
    return [
        (*unit, *(computed(e, b) for e in query.outs), sum(other < own for other in order))
        for b, own in zip(members, order, strict=True)
    ]


def sort_key(row: Row) -> Any:
    return tuple((v is not None, 0 if v is None else v) for v in row)


def unit_of_binding(query: Query, binding: Any, width: int) -> Row:
    """The unit that a joined row belongs to; `width` is the number of columns of a left-most subquery's unit."""
    if query.kind == "plain":
        return tuple(binding[0][:width])
    return tuple(computed(e, binding) for e in query.unit)


def unit_width(query: Query) -> int:
    if query.kind != "plain":
        return len(query.unit)
    return 1 if query.sources[0].query is None else unit_width(query.sources[0].query)


def result(query: Query, data: Data) -> dict[Row, list[Row]]:
    """The rows of the whole view, by unit."""
    units: dict[Row, list[Any]] = {}
    for binding in bindings(query, data):
        units.setdefault(unit_of_binding(query, binding, unit_width(query)), []).append(binding)
    found = {}
    for unit, members in units.items():
        plain = query.kind == "plain"
        rows = [sum(b, ()) for b in members] if plain else unit_rows(query, unit, members)
        if rows:
            found[unit] = sorted(rows, key=sort_key)
    return found


def may_join(query: Query, data: Data, waiting: set[int]) -> list[Any]:
    """Joined rows over versions: at least all that stood at any moment.

    SEMI and ANTI sources and conditions with queries are left out, and a LEFT-joined source with waiting records, a
    LEFT-joined query always, gives its row of NULLs beside its matches.
    """
    found: list[Any] = [()]
    for source in query.sources:
        nulls = (None,) * source.width
        if source.kind in ("semi", "anti"):
            found = [(*b, nulls) for b in found]
            continue
        if source.query is None:
            rows = data[source.leaf]
        else:
            inner = may_join(source.query, data, waiting)
            rows = [tuple(computed(e, b) for e in source.query.outs) for b in inner]
        also_null = source.query is not None or source.leaf in waiting
        plain = [c for c in source.on if not queries_of(c)]
        joined = []
        for binding in found:
            longer = [(*binding, row) for row in rows]
            hits = [b for b in longer if all(holds(c, b, None, data) for c in plain)]
            joined += hits
            if source.kind == "left" and (also_null or not hits):
                joined.append((*binding, nulls))
        found = joined
    plain = [c for c in query.where if not queries_of(c)]
    return [b for b in found if all(holds(c, b, None, data) for c in plain)]

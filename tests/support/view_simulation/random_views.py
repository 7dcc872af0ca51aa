"""Random views over tiny tables, with random changes and runs."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.support.view_simulation.sql import COLUMNS, Query, Row, Source

WIDTH = len(COLUMNS)


@dataclass
class Case:
    """A view, its tables, which of them are dictionaries, their first rows, and what happens then."""

    view: Query
    tables: list[str]
    dictionaries: list[str]
    rows: dict[str, list[Row]]
    happenings: list[Any]


def random_case(r: Random) -> Case:
    tables = [f"t{i}" for i in range(r.choice([1, 2, 2, 3, 3, 4]))]
    view = random_view(r, tables)
    dictionaries = [name for name in tables if r.random() < 0.25]
    rows = {name: [random_row(r, key) for key in range(r.randrange(0, 5))] for name in tables}
    return Case(view, tables, dictionaries, rows, list(_happenings(r, tables, rows)))


def random_row(r: Random, key: int) -> Row:
    return (key, *(r.choice([None, 0, 1, 2]) for _ in range(WIDTH - 1)))


def _happenings(r: Random, tables: list[str], rows: dict[str, list[Row]]) -> Any:
    current = {name: {row[0]: row for row in rows[name]} for name in tables}
    before: dict[str, list[Row]] = {name: [] for name in tables}
    for _ in range(r.randrange(6, 22)):
        if r.random() >= 0.68:
            yield _random_run(r, tables)
            continue
        name, key = r.choice(tables), r.randrange(5)
        old = current[name].get(key)
        new = _changed(r, key, old, before[name])
        if new == old:
            continue
        if old is not None:
            before[name].append(old)
        current[name].pop(key, None)
        if new is not None:
            current[name][key] = new
        yield ("put", name, key, new)
    yield ("full", r.choice(["dictionaries", "stream"]))


def _changed(r: Random, key: int, old: Row | None, before: list[Row]) -> Row | None:
    """Another row: new, gone, changed in one column, or one that stood before."""
    if before and r.random() < 0.2:
        return (key, *r.choice(before)[1:])
    if old is None:
        return random_row(r, key)
    if r.random() < 0.25:
        return None
    column = r.randrange(1, WIDTH)
    return (*old[:column], r.choice([None, 0, 1, 2]), *old[column + 1 :])


def _random_run(r: Random, tables: list[str]) -> Any:
    match r.choice(["stream", "limit", "by input", "page", "page", "full"]):
        case "limit":
            return ("limit", r.randrange(1, 3), r.randrange(9))
        case "by input":
            order = r.sample(tables, len(tables))
            return ("by input", tuple(order), r.randrange(1, len(tables) + 1), r.random() < 0.3)
        case "page":
            return ("page", r.randrange(1, 4), r.choice([0, 0, 1, 2]))
        case "full":
            return ("full", r.choice(["dictionaries", "stream"]))
    return ("stream",)


# --- views ------------------------------------------------------------------------------------------------------------


def random_view(r: Random, tables: list[str]) -> Query:
    kind = r.choice(["plain", "group", "window", "distinct"])
    inner = ["plain", "group", "window"] if kind == "plain" else ["plain"]
    sources = []
    for i in range(r.choice([1, 2, 2, 3, 3, 4])):
        join = "from" if i == 0 else r.choice(["inner", "inner", "left", "left", "left", "semi", "anti"])
        is_query = r.random() < 0.2
        sources.append(
            Source(join, query=_subquery(r, tables, r.choice(inner))) if is_query else Source(join, r.choice(tables))
        )
    widths = [source.width for source in sources]
    for i in range(1, len(sources)):
        _join(r, sources, widths, i)
    seen = [i for i, source in enumerate(sources) if source.kind not in ("semi", "anti")]

    def column() -> Any:
        i = r.choice(seen)
        return (0, i, r.randrange(widths[i]))

    where = list(_where(r, tables, seen, widths, column))
    if kind == "plain":
        return Query(sources, where)
    unit = [_maybe_computed(r, column()) for _ in range(r.choice([1, 1, 2]))]
    if kind == "window":
        return Query(sources, where, "window", unit[:1], outs=[("col", column()), ("col", column())], order=column())
    aggregates = [("count*", None), (r.choice(["sum", "min", "max", "count"]), column())]
    if kind == "distinct":
        return Query(sources, where, "group", unit, distinct=True)
    return Query(sources, where, "group", unit, aggregates=aggregates, having=r.choice([None, None, 2]))


def _maybe_computed(r: Random, column: Any) -> Any:
    return ("col", column) if r.random() < 0.65 else ("coal", column, r.randrange(3))


def _join(r: Random, sources: list[Source], widths: list[int], i: int) -> None:
    before = [k for k in range(i) if sources[k].kind not in ("semi", "anti")]
    source = sources[i]
    if source.kind == "inner" and r.random() < 0.06:
        return
    for _ in range(r.choice([1, 1, 1, 2])):
        other = r.choice(before)
        sign = "nse" if r.random() < 0.04 else "lt" if r.random() < 0.05 else "eq"
        source.on.append((sign, (0, i, r.randrange(widths[i])), (0, other, r.randrange(widths[other]))))
    if r.random() < 0.3:
        source.on.append(_literal(r, [i], widths))
    if r.random() < 0.12:
        source.on.append(_literal(r, before, widths))


def _literal(r: Random, seen: list[int], widths: list[int]) -> Any:
    i = r.choice(seen)
    reference = (0, i, r.randrange(widths[i]))
    match r.choice(["lit", "lit", "ne", "isnull", "notnull", "coal"]):
        case ("lit" | "ne") as sign:
            return (sign, reference, r.randrange(3))
        case "coal":
            return ("coal", reference, r.randrange(3), r.randrange(3))
        case sign:
            return (sign, reference)


def _subquery(r: Random, tables: list[str], kind: str) -> Query:
    sources = [Source("from", r.choice(tables))]
    if r.random() < 0.4:
        on = [("eq", (0, 1, r.randrange(WIDTH)), (0, 0, r.randrange(WIDTH)))]
        sources.append(Source(r.choice(["inner", "left", "anti", "semi"]), r.choice(tables), on=on))
    seen = [i for i, source in enumerate(sources) if source.kind not in ("semi", "anti")]
    where = [_literal(r, seen, [WIDTH] * 2)] if r.random() < 0.3 else []

    def column() -> Any:
        return ("col", (0, r.choice(seen), r.randrange(WIDTH)))

    if kind == "window":
        return Query(sources, where, "window", [column()], outs=[column(), column()], order=column()[1])
    if kind == "plain":
        return Query(sources, where, outs=[("col", (0, 0, 0)), column(), column()])
    unit = [column() if r.random() < 0.85 else ("coal", column()[1], r.randrange(3)) for _ in range(r.choice([1, 2]))]
    aggregates = [("count*", None)] if r.random() < 0.5 else [(r.choice(["sum", "min", "count"]), column()[1])]
    return Query(sources, where, "group", unit, aggregates=aggregates, having=r.choice([None, None, None, 2]))


def _where(r: Random, tables: list[str], seen: list[int], widths: list[int], column: Any) -> Any:
    def outer() -> Any:
        return (1, *column()[1:])

    if r.random() < 0.25:
        yield _literal(r, seen, widths)
    if r.random() < 0.08 and len(seen) > 1:
        yield ("eq", column(), column())
    if r.random() < 0.2:
        exists = _exists(r, tables, outer)
        yield ("or", exists, _literal(r, seen, widths)) if r.random() < 0.2 else exists
    if r.random() < 0.06:
        literal = [_literal(r, [0], [WIDTH])] if r.random() < 0.3 else []
        inner = Query([Source("from", r.choice(tables))], literal, outs=[("col", (0, 0, r.randrange(WIDTH)))])
        yield ("in", r.random() < 0.4, column(), inner)
    if r.random() < 0.08:
        inner = Query([Source("from", r.choice(tables))], [("eq", (0, 0, r.randrange(WIDTH)), outer())])
        inner.outs = [("col", (0, 0, 0))]
        yield ("scal", column(), r.choice(["max", "min", "count*", "sum"]), inner, (0, 0, r.randrange(1, WIDTH)))
    if r.random() < 0.03:
        own = r.randrange(WIDTH)
        inner = Query(
            [Source("from", r.choice(tables))],
            [("eq", (0, 0, own), outer())],
            "group",
            [("col", (0, 0, own))],
            aggregates=[("count*", None)],
            having=r.choice([2, -1]),
        )
        yield ("exists", r.random() < 0.5, inner)


def _exists(r: Random, tables: list[str], outer: Any) -> Any:
    sources = [Source("from", r.choice(tables))]
    if r.random() < 0.35:
        on = [("eq", (0, 1, r.randrange(WIDTH)), (0, 0, r.randrange(WIDTH)))]
        sources.append(Source(r.choice(["inner", "left", "anti"]), r.choice(tables), on=on))
    where = [("eq", (0, 0, r.randrange(WIDTH)), outer())]
    if r.random() < 0.2:
        where.append(_literal(r, [0], [WIDTH]))
    if r.random() < 0.08:
        where.append(("lit", outer(), r.randrange(3)))
    return ("exists", r.random() < 0.5, Query(sources, where, outs=[("col", (0, 0, 0))]))

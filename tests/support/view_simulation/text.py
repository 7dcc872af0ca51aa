"""The text of a tiny query, as somebody would write it for Spark."""

from __future__ import annotations

from typing import Any

from tests.support.view_simulation.sql import COLUMNS, Query, Source

_SIGNS = {"eq": "=", "nse": "<=>", "lt": "<"}
_JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "semi": "LEFT SEMI JOIN", "anti": "LEFT ANTI JOIN"}


def text_of(query: Query) -> str:
    """The SELECT of a whole view."""
    return _Writer().select(query, None, top=True)


class _Writer:
    def __init__(self) -> None:
        self._aliases = 0

    def select(self, query: Query, outer: Query | None, *, top: bool = False) -> str:
        for source in query.sources:
            source.alias = f"s{self._aliases}"
            self._aliases += 1
        shown = ", ".join(self._list(query, top=top))
        text = f"SELECT {'DISTINCT ' if query.distinct else ''}{shown} FROM "
        text += " ".join(self._source(s, query, outer) for s in query.sources)
        if query.where:
            text += " WHERE " + " AND ".join(self._condition(c, query, outer) for c in query.where)
        if query.kind == "group" and not query.distinct:
            text += " GROUP BY " + ", ".join(self._expression(e, query) for e in query.unit)
        if query.having is not None:
            text += f" HAVING count(*) {'>=' if query.having > 0 else '='} {abs(query.having)}"
        return text

    def _list(self, query: Query, *, top: bool) -> list[str]:
        if query.kind == "plain" and top:
            seen = [s for s in query.sources if s.kind not in ("semi", "anti")]
            names = [f"{s.alias}.{column_name(s, j)}" for s in seen for j in range(s.width)]
        elif query.kind == "plain":
            names = [self._expression(e, query) for e in query.outs]
        elif query.kind == "group":
            aggregates = [self._aggregate(f, ref, query) for f, ref in query.aggregates]
            names = [*(self._expression(e, query) for e in query.unit), *aggregates]
        else:
            unit = [self._expression(e, query) for e in query.unit]
            order = self._reference(query.order, query, None)
            rank = f"rank() OVER (PARTITION BY {', '.join(unit)} ORDER BY {order}) - 1"
            names = [*unit, *(self._expression(e, query) for e in query.outs), rank]
        return [f"{name} AS o{i}" for i, name in enumerate(names)]

    def _aggregate(self, function: str, reference: Any, query: Query) -> str:
        return "count(*)" if function == "count*" else f"{function}({self._reference(reference, query, None)})"

    def _source(self, source: Source, query: Query, outer: Query | None) -> str:
        item = source.table if source.query is None else f"({self.select(source.query, None)})"
        join = "" if source.kind == "from" else ("CROSS JOIN " if not source.on else _JOINS[source.kind] + " ")
        on = " ON " + " AND ".join(self._condition(c, query, outer) for c in source.on) if source.on else ""
        return f"{join}{item} {source.alias}{on}"

    def _expression(self, expression: Any, query: Query) -> str:
        shown = self._reference(expression[1], query, None)
        return shown if expression[0] == "col" else f"coalesce({shown}, {expression[2]})"

    def _reference(self, reference: Any, query: Query, outer: Query | None) -> str:
        level, number, column = reference
        source = (query if level == 0 else outer).sources[number]
        return f"{source.alias}.{column_name(source, column)}"

    def _condition(self, condition: Any, query: Query, outer: Query | None) -> str:
        def name(reference: Any) -> str:
            return self._reference(reference, query, outer)

        match condition:
            case (("eq" | "nse" | "lt") as sign, one, other):
                return f"{name(one)} {_SIGNS[sign]} {name(other)}"
            case (("lit" | "ne") as sign, one, constant):
                return f"{name(one)} {'=' if sign == 'lit' else '<>'} {constant}"
            case ("isnull", one):
                return f"{name(one)} IS NULL"
            case ("notnull", one):
                return f"{name(one)} IS NOT NULL"
            case ("coal", one, default, constant):
                return f"coalesce({name(one)}, {default}) = {constant}"
            case ("exists", negated, inner):
                return f"{'NOT ' if negated else ''}EXISTS ({self.select(inner, query)})"
            case ("in", negated, one, inner):
                return f"{name(one)} {'NOT ' if negated else ''}IN ({self.select(inner, query)})"
            case ("scal", one, function, inner, column):
                shown = self.select(inner, query)
                first = shown.split(" FROM ", 1)[1]
                return f"{name(one)} = (SELECT {self._aggregate(function, column, inner)} AS o0 FROM {first})"
            case ("or", one, other):
                return f"({self._condition(one, query, outer)} OR {self._condition(other, query, outer)})"
        raise ValueError(condition)


def column_name(source: Source, column: int) -> str:
    return COLUMNS[column] if source.query is None else f"o{column}"

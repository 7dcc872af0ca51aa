"""The query from left-most rows to the groups or partitions that they belonged to at any moment.

It runs over versions of each source: the rows at the pins and both images of every record that waits. It need only find
enough. So SEMI and ANTI sources and conditions with queries are left out, for what they said of a version may not be
known any more; and a LEFT-joined source with waiting records gives, beside its matches, its row of NULLs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from seamark.views.model import MvComputation, MvJoinCondition, MvJoinKind, MvJoinSource, MvQuery, MvReference, MvValue
from seamark.views.paths.actions import Paths
from seamark.views.paths.facts import quoted, rendered
from seamark.views.sql.queries import KEYS, unit_names

_KEPT = "seamark_kept"  # whether a LEFT-joined row is looked for, or its row of NULLs is given


def units_query(
    paths: Paths,
    versions: Mapping[int, str] | None = None,
    waiting: Collection[int] | None = None,
    keys: str | None = KEYS,
) -> str:
    """The units of the left-most rows whose keys are in `keys`.

    `versions` are the relations to read instead of the tables, by the number of the occurrence; `waiting` the
    occurrences that have waiting records, all of them if it is None. Without `keys` all left-most rows are meant.
    """
    unit = paths.unit
    assert unit.query is not None, "a part that was not read has no units"
    writer = _Writer(paths, versions or {}, waiting, keys)
    shown = [
        f"{writer.expression(unit.query, column.expression)} AS {quoted(name)}"
        for column, name in zip(unit.columns, unit_names(unit), strict=True)
        if column.expression is not None
    ]
    return f"SELECT DISTINCT {', '.join(shown)}\n{writer.tables(unit.query)}"


def page_query(paths: Paths, most: int) -> str:
    """The units of a page of a scan: so many after the last one in `keys`, from the first one where it is empty.

    Units of rows that stand and that the tables no longer give are added to these.
    """
    names = ", ".join(map(quoted, unit_names(paths.unit)))
    if paths.unit.is_owner:
        table = quoted(str(paths.part.source(paths.unit.leftmost).table))
        units = f"SELECT DISTINCT {names}\nFROM {table}"
    else:
        units = units_query(paths, keys=None)
    after = f"coalesce(struct({names}) > (SELECT max(struct({names})) FROM {KEYS}), true)"
    return f"SELECT {names} FROM (\n{units}\n)\nWHERE {after}\nORDER BY {names} LIMIT {most}"


@dataclass(frozen=True)
class _Writer:
    paths: Paths
    versions: Mapping[int, str]
    waiting: Collection[int] | None
    keys: str | None

    def tables(self, query: MvQuery) -> str:
        """FROM and WHERE."""
        lines = [line for source in query.sources for line in self._source(query, source)]
        plain = list(self._conditions(query, query.where))
        return "\n".join([*lines, *([f"WHERE {' AND '.join(plain)}"] if plain else [])])

    def _source(self, query: MvQuery, source: MvJoinSource) -> Iterator[str]:
        if not source.kind.is_seen:
            return
        item = f"{self._item(source)} AS {quoted(self._alias(source))}"
        if source.kind is MvJoinKind.FROM:
            yield f"FROM {item}"
            return
        conditions = list(self._conditions(query, source.conditions))
        if source.kind is not MvJoinKind.LEFT:
            yield f"JOIN {item} ON {' AND '.join(conditions)}" if conditions else f"CROSS JOIN {item}"
            return
        if self._gives_nulls(source):
            kept = f"{_KEPT}_{source.number}"
            yield f"CROSS JOIN (SELECT true AS {_KEPT} UNION ALL SELECT false AS {_KEPT}) AS {kept}"
            conditions.append(f"{kept}.{_KEPT}")
        yield f"LEFT JOIN {item} ON {' AND '.join(conditions) or 'true'}"

    def _gives_nulls(self, source: MvJoinSource) -> bool:
        return source.query is not None or self.waiting is None or source.number in self.waiting

    def _item(self, source: MvJoinSource) -> str:
        if source.query is not None:
            listed = [f"{self._value(source.query, c.value)} AS {quoted(c.name)}" for c in source.query.columns]
            return f"(SELECT {', '.join(listed)}\n{self.tables(source.query)})"
        table = self.versions.get(source.number, quoted(str(source.table)))
        if source.number != self.paths.unit.leftmost or self.keys is None:
            return table
        info = source.info
        names = (info.schema.key or info.columns) if info is not None else ()
        same = " AND ".join(f"{KEYS}.{quoted(name)} IS NOT DISTINCT FROM v.{quoted(name)}" for name in names)
        keys = self.keys if self.keys == KEYS else f"{self.keys} AS {KEYS}"
        return f"(SELECT v.* FROM {table} AS v WHERE EXISTS (SELECT 1 FROM {keys} WHERE {same}))"

    def _alias(self, source: MvJoinSource) -> str:
        return source.alias or f"source_{source.number}"

    # --- expressions, with the alias of every column written out ------------------------------------------------------

    def _conditions(self, query: MvQuery, conditions: Iterable[MvJoinCondition]) -> Iterator[str]:
        for condition in conditions:
            columns = condition.columns
            if condition.computation.queries:
                continue
            if columns is not None:
                yield f"{self._name(query, columns[0])} = {self._name(query, columns[1])}"
            else:
                yield f"({self.expression(query, condition.computation)})"

    def _value(self, query: MvQuery, value: MvValue) -> str:
        if isinstance(value, MvComputation):
            return self.expression(query, value)
        return self._name(query, value) if isinstance(value, MvReference) else value.text

    def expression(self, query: MvQuery, computation: MvComputation) -> str:
        """An expression of a query in its own words, its columns with their aliases."""
        plain = computation.plain
        if plain is not None:
            return self._name(query, plain)
        return rendered(computation, lambda reference: self._name(query, reference))

    def _name(self, query: MvQuery, reference: MvReference) -> str:
        source = next((found for found in query.sources if found.number == reference.source), None)
        if source is None:
            return ".".join(map(quoted, reference.words))
        fields = reference.words[-1:] if reference.is_field and len(reference.words) < 3 else reference.words[2:]
        return ".".join(map(quoted, (self._alias(source), reference.column, *fields)))

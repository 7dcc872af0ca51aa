"""The types of a part's columns, as far as they can be told without Spark."""

from __future__ import annotations

import re

import pyarrow as pa

from seamark.tables.schema.ddl import parse_type
from seamark.views.model import MvColumn, MvComputation, MvJoinCondition, MvLiteral, MvQuery, MvReference, MvValue
from seamark.views.paths.lineage import LeafColumn, Lineage

_CAST = re.compile(r"(?:try_)?cast \( [^()]* as ([^()]+(?: \( [\d ,]+ \))?) \)")
_CALL = re.compile(r"(\w+) \( [^()]* \)")
_TEXTS = frozenset({"concat", "concat_ws", "lower", "upper", "trim", "substr", "substring", "replace"})
_COUNTS = frozenset({"count", "count_if", "approx_count_distinct"})
_RANKS = frozenset({"row_number", "rank", "dense_rank"})
_SAME = frozenset({"min", "max", "first", "last", "any_value"})


def type_of(lineage: Lineage, value: MvValue) -> pa.DataType | None:
    """The type of a value, or None where only Spark can tell."""
    if isinstance(value, MvLiteral):
        if isinstance(value.value, str):
            return pa.string()
        return pa.int32() if -(2**31) <= value.value < 2**31 else pa.int64()
    if isinstance(value, MvReference):
        return None if value.is_field else _of_reference(lineage, value)
    return _of_computation(lineage, value)


def column_type(lineage: Lineage, query: MvQuery, name: str) -> pa.DataType | None:
    """The type of an output column of a query."""
    column = query.column(name)
    return None if column is None else type_of(lineage, column.value)


def is_nullable(lineage: Lineage, column: MvColumn) -> bool:
    """Whether an output column may be NULL, as far as it is plain: by its table, or because it is LEFT-joined.

    Not if WHERE leaves out the rows in which it is.
    """
    leaf = lineage.column(column.value)
    if leaf is None or any(_excludes_null(lineage, condition, leaf) for condition in lineage.top.where):
        return False
    source = lineage.items[leaf.source]
    found = source.info.column(leaf.column) if source.info is not None else None
    return leaf.source in lineage.nullable(lineage.top) or (found is not None and found.nullable)


def _excludes_null(lineage: Lineage, condition: MvJoinCondition, leaf: LeafColumn) -> bool:
    """Whether a condition is about this column alone, and never true where it is NULL."""
    references = condition.computation.references
    return condition.rejects_null and bool(references) and all(lineage.column(one) == leaf for one in references)


def _of_reference(lineage: Lineage, reference: MvReference) -> pa.DataType | None:
    if reference.source is None:
        return None
    source = lineage.items[reference.source]
    if source.query is not None:
        return column_type(lineage, source.query, reference.column)
    found = source.info.column(reference.column) if source.info is not None else None
    return None if found is None or pa.types.is_null(found.type) else found.type


def _of_computation(lineage: Lineage, computation: MvComputation) -> pa.DataType | None:
    if computation.plain is not None:
        return _of_reference(lineage, computation.plain)
    cast = _CAST.fullmatch(computation.signs)
    if cast is not None:
        return parse_type(cast[1].replace(" ", ""))
    signs, over, _ = computation.signs.partition(" over ")
    call = _CALL.fullmatch(signs)
    if call is None:
        return None
    if call[1] in _TEXTS:
        return pa.string()
    if call[1] in _COUNTS:
        return pa.int64()
    if call[1] in _RANKS and over:
        return pa.int32()
    return _of_aggregate(lineage, call[1], computation)


def _of_aggregate(lineage: Lineage, function: str, computation: MvComputation) -> pa.DataType | None:
    if not computation.references:
        return None
    reference = computation.references[0]
    if f"{function} ( {' . '.join(reference.words).casefold()} )" != computation.signs or reference.is_field:
        return None
    found = _of_reference(lineage, reference)
    if function in _SAME:
        return found
    if function == "sum" and found is not None:
        return pa.int64() if pa.types.is_integer(found) else pa.float64() if pa.types.is_floating(found) else None
    return None

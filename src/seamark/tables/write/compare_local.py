"""What a small write changes, found on the driver: the same records as `compare` finds in Spark, without its jobs.

A distributed comparison has half a dozen jobs, which would take nearly all the time of a write of a thousand rows. Here
one job at most fetches the rows with its keys, and Arrow compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from seamark.ledger import Op
from seamark.tables.far_times import python_values
from seamark.tables.ordering import Key, ordered
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.write.slices import OP


@dataclass(frozen=True, slots=True)
class StandingRows:
    """The current rows, and the index of the row of each key."""

    rows: pa.Table
    places: dict[Key, int]

    @staticmethod
    def from_versions(schema: TableSchema, versions: pa.Table) -> StandingRows:
        """From all versions (`offset`, `op`, columns) in any order: the newest of each key, unless it is retracted."""
        # Cast before keys are made: Python compares times of one zone by the wall clock, which shows one hour a year
        # twice.
        rows = versions.select(list(schema.names)).cast(schema.arrow)
        newest: dict[Key, tuple[int, int, int]] = {}
        offsets, ops = versions.column("offset").to_pylist(), versions.column(OP).to_pylist()
        for place, (key, offset, op) in enumerate(zip(_keys(schema, rows), offsets, ops, strict=True)):
            if key not in newest or offset > newest[key][0]:
                newest[key] = (offset, op, place)
        live = [(key, place) for key, (_, op, place) in newest.items() if op != Op.RETRACT]
        return StandingRows(
            _take(rows, [place for _, place in live]), {key: number for number, (key, _) in enumerate(live)}
        )

    @staticmethod
    def from_rows(schema: TableSchema, rows: pa.Table) -> StandingRows:
        """From the current rows themselves, with or without `_offset`."""
        own = rows.select(list(schema.names)).cast(schema.arrow)
        return StandingRows(own, {key: place for place, key in enumerate(_keys(schema, own))})


def upserted(schema: TableSchema, rows: pa.Table, standing: StandingRows) -> pa.Table:
    """Records that append new rows and correct those that differ."""
    places = [standing.places.get(key) for key in _keys(schema, rows)]
    added = [number for number, place in enumerate(places) if place is None]
    known = [(number, place) for number, place in enumerate(places) if place is not None]
    new = _take(rows, [number for number, _ in known])
    old = _take(standing.rows, [place for _, place in known])
    differs = _differs(schema, new, old)
    return _records(
        schema,
        (Op.APPEND, _take(rows, added)),
        (Op.CORRECT_FROM, old.filter(differs)),
        (Op.CORRECT_TO, new.filter(differs)),
    )


def replaced(schema: TableSchema, rows: pa.Table, standing: StandingRows) -> pa.Table:
    """The same, and records that retract the standing rows that are not among the new ones."""
    coming = set(_keys(schema, rows))
    gone = [place for key, place in standing.places.items() if key not in coming]
    return pa.concat_tables(
        [upserted(schema, rows, standing), _records(schema, (Op.RETRACT, _take(standing.rows, gone)))]
    )


def retracted(schema: TableSchema, standing: StandingRows) -> pa.Table:
    """Records that retract all standing rows."""
    return _records(schema, (Op.RETRACT, standing.rows))


def _keys(schema: TableSchema, rows: pa.Table) -> list[Key]:
    columns = [[ordered(value) for value in python_values(rows.column(name))] for name in schema.key]
    return list(zip(*columns, strict=True))


def _take(rows: pa.Table, places: Sequence[int]) -> pa.Table:
    return rows.take(pa.array(places, pa.int64()))


def _records(schema: TableSchema, *parts: tuple[Op, pa.Table]) -> pa.Table:
    tables = []
    for op, rows in parts:
        ops = pa.repeat(pa.scalar(int(op), pa.int32()), rows.num_rows)
        tables.append(rows.select(list(schema.names)).add_column(0, pa.field(OP, pa.int32(), nullable=False), ops))
    return pa.concat_tables(tables)


def _differs(schema: TableSchema, new: pa.Table, old: pa.Table) -> pa.Array:
    """Where two tables of equal length differ, compared as Spark's `<=>` compares."""
    same = pa.array([True] * new.num_rows, pa.bool_())
    for name in schema.values:
        same = pc.and_(same, _same(new.column(name), old.column(name)))
    return pc.invert(same)


def _same(new: pa.ChunkedArray, old: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_nested(new.type):
        pairs = zip(python_values(new), python_values(old), strict=True)
        return pa.array([_comparable(one) == _comparable(other) for one, other in pairs], pa.bool_())
    same = pc.fill_null(pc.equal(new, old), False)
    if pa.types.is_floating(new.type):  # NaN equals NaN
        both_nan = pc.and_(pc.fill_null(pc.is_nan(new), False), pc.fill_null(pc.is_nan(old), False))
        same = pc.or_(same, both_nan)
    return pc.or_(same, pc.and_(new.is_null(), old.is_null()))


def _comparable(value: Any) -> Any:
    """A nested value in which NaN equals NaN."""
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    if isinstance(value, dict):
        return {name: _comparable(item) for name, item in value.items()}
    return ordered(value)

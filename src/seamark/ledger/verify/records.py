"""The rules inside a slice: offsets, times and ops, NULLs, and the order of keys within a commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]

from seamark.clock import to_millis
from seamark.ledger.data_types import DataField, DataType, DataTypeOption, DataTypeStruct
from seamark.ledger.events import Op
from seamark.ledger.verify.columns import SliceColumns

_IN_A_MILLISECOND = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_OPS = {int(op) for op in Op}


class Trouble(NamedTuple):
    """The first thing that is wrong with a slice: its kind, both values, and a sentence about it."""

    kind: str
    expected: str
    found: str
    what: str


@dataclass(slots=True)
class RecordRules:
    """Checks the records of one slice, batch after batch.

    `last_key` is the key of the record before, of an earlier slice of the same commit too; a key comes once within a
    commit, or as the two records of a correction.
    """

    columns: SliceColumns
    moment: datetime
    next_offset: int
    last_key: pa.RecordBatch | None = None
    last_op: int | None = None

    def check(self, batch: pa.RecordBatch) -> Trouble | None:
        """The first thing that is wrong with the next records, or None."""
        if batch.num_rows == 0:
            return None
        trouble = (
            self._nulls(batch) or self._offsets(batch) or self._times(batch) or self._ops(batch) or self._keys(batch)
        )
        self.next_offset += batch.num_rows
        return trouble

    def end(self) -> Trouble | None:
        """What is wrong with the slice as a whole: it may not end between the two records of a correction."""
        if self.last_op != Op.CORRECT_FROM:
            return None
        return Trouble("ops", "+C after -C", "the end", "its slice ends between the two records of a correction")

    def _nulls(self, batch: pa.RecordBatch) -> Trouble | None:
        for name in self.columns.required():
            column = batch.column(name)
            if column.null_count:
                place = self.next_offset + pc.index(column.is_null(), True).as_py()
                what = f"record {place} lacks a value that it must have"
                return Trouble("nulls", f"a value in '{name}'", "NULL", what)
        schema = self.columns.schema
        for column in schema.fields if schema else ():
            if _lacks_within(column, batch.column(column.name)):
                what = f"a field within '{column.name}' that must have a value is NULL"
                return Trouble("nulls", f"a value in each field of '{column.name}'", "NULL", what)
        return None

    def _offsets(self, batch: pa.RecordBatch) -> Trouble | None:
        first, offsets = self.next_offset, _numbers(batch.column(self.columns.names.offset))
        wrong = np.flatnonzero(offsets != np.arange(first, first + len(offsets), dtype=np.int64))
        if len(wrong) == 0:
            return None
        place = int(wrong[0])
        what = f"record {first + place} of its slice has another offset"
        return Trouble("offsets", str(first + place), str(offsets[place]), what)

    def _times(self, batch: pa.RecordBatch) -> Trouble | None:
        column = batch.column(self.columns.names.system_time)
        times, unit, wanted = _numbers(column), column.type.unit, to_millis(self.moment)
        is_it = times == wanted // 1000 if unit == "s" else times // _IN_A_MILLISECOND[unit] == wanted
        wrong = np.flatnonzero(~is_it)
        if len(wrong) == 0:
            return None
        found = f"{int(times[wrong[0]])} {unit} after 1970"  # it may be no time that Python can hold
        expected = f"{self.moment}, {wanted} ms after 1970"
        return Trouble("system time", expected, found, "its records have another system time")

    def _ops(self, batch: pa.RecordBatch) -> Trouble | None:
        ops = _numbers(batch.column(self.columns.names.op))
        known = (Op.APPEND,) if self.columns.key == () else tuple(Op)
        strange = np.flatnonzero(~np.logical_or.reduce([ops == op for op in known]))
        if len(strange):
            place, found = self.next_offset + int(strange[0]), int(ops[strange[0]])
            wanted = ", ".join(f"{int(op)} ({op.sign})" for op in known)
            shown = f"{found} ({Op(found).sign})" if found in _OPS else str(found)
            return Trouble("ops", wanted, shown, f"record {place} has an op that it cannot have")
        before = np.concatenate([[-1 if self.last_op is None else self.last_op], ops[:-1]])
        self.last_op = int(ops[-1])
        broken = np.flatnonzero((before == Op.CORRECT_FROM) != (ops == Op.CORRECT_TO))
        if len(broken) == 0:
            return None
        what = f"record {self.next_offset + int(broken[0])} breaks the two records of a correction"
        return Trouble("ops", "-C followed by +C", Op(int(ops[broken[0]])).sign, what)

    def _keys(self, batch: pa.RecordBatch) -> Trouble | None:
        key = self.columns.key
        if not key:
            return None
        keys = batch.select(list(key))
        first = self.next_offset
        if self.last_key is not None:
            keys, first = pa.concat_batches([self.last_key, keys]), first - 1
        self.last_key = keys.slice(keys.num_rows - 1)
        if keys.num_rows < 2:
            return None
        less, equal = _compared(keys.columns)
        ops = _numbers(batch.column(self.columns.names.op))
        pair = (ops == Op.CORRECT_TO)[-len(less) :]  # what comes before it is its -C: that was looked at above
        broken = np.flatnonzero(np.where(pair, ~equal, ~less))
        if len(broken) == 0:
            return None
        place = int(broken[0]) + 1
        shown = {name: str(keys.column(name)[place]) for name in key}
        what = f"record {first + place} is out of order: within a commit each key comes once, and after lesser ones"
        if pair[broken[0]]:
            what = f"record {first + place} corrects another key than the record before it"
        return Trouble("order", "records sorted by key", str(shown), what)


def _numbers(column: pa.Array) -> np.ndarray:
    """The values of a column of integers or times that has no NULL."""
    plain = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column
    values: np.ndarray = plain.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values


def _compared(columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """For each row but the first whether the row before is less, and whether it is equal, column after column."""
    count = len(columns[0]) - 1
    less, equal = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    for column in columns:
        one, other = column.slice(0, count), column.slice(1)
        if pa.types.is_boolean(column.type):
            one, other = one.cast(pa.int8()), other.cast(pa.int8())
        is_less, is_equal = _flags(pc.less(one, other)), _flags(pc.equal(one, other))
        if pa.types.is_floating(column.type):  # NaN is one value, greater than all others
            nan, after = _flags(pc.is_nan(one)), _flags(pc.is_nan(other))
            is_less, is_equal = is_less | (~nan & after), is_equal | (nan & after)
        less |= equal & is_less
        equal &= is_equal
    return less, equal


def _flags(array: pa.Array) -> np.ndarray:
    flags: np.ndarray = array.to_numpy(zero_copy_only=False)
    return flags.astype(np.bool_)


def _lacks_within(declared: DataField, column: pa.Array) -> bool:
    """Whether a struct, or one inside it, has NULL in a field that must have a value."""
    kind = _inner(declared.type)
    if not isinstance(kind, DataTypeStruct):
        return False
    for field, child in zip(kind.fields, column.flatten(), strict=True):
        if not isinstance(field.type, DataTypeOption) and child.null_count > column.null_count:
            return True
        if _lacks_within(field, child):
            return True
    return False


def _inner(kind: DataType) -> DataType:
    return kind.inner if isinstance(kind, DataTypeOption) else kind

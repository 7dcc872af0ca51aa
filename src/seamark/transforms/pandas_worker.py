"""What runs on the executors for a pandas function: whole keys in, rows or errors out. No Spark in here."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamark.errors import FrameMismatch, TableError
from seamark.tables.frames import LocalFrame, check_frame
from seamark.tables.schema import TableSchema
from seamark.transforms.keys import comparable

if TYPE_CHECKING:
    import pandas as pd

# A call is given whole keys, together about this many rows: many calls of a few rows each would be slow.
CHUNK_ROWS = 10_000
TAG, NUMBER, ERROR, FATAL = "its input", "its output", "its error", "it is fatal"


@dataclass(frozen=True)
class WholeInput:
    """An input that every call gets whole: at hand, or in files that the executors can read."""

    number: int
    rows: pa.Table | None
    paths: tuple[str, ...] = ()

    def frame(self) -> pd.DataFrame:
        """The input's rows."""
        if self.rows is not None:
            return to_pandas(self.rows)
        return to_pandas(pa.concat_tables([pq.read_table(path) for path in self.paths]))


@dataclass(frozen=True)
class Worker:
    """The function, pickled, and what it is called with; Spark sends it to the executors and calls it once a task."""

    function: bytes
    columns: tuple[str, ...]
    inputs: tuple[pa.Schema, ...]
    whole: tuple[WholeInput, ...]
    outputs: tuple[tuple[str, TableSchema], ...]
    answer: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function's rows for all keys of a task, and a line for each key that it fails on."""
        fixed = {entry.number: entry.frame() for entry in self.whole}
        function = pickle.loads(self.function)
        for chunk in whole_keys(batches, self.columns):
            yield from self._compute(function, chunk, _starts(chunk, self.columns), fixed)

    def _compute(
        self, function: Callable[..., Any], chunk: pa.Table, starts: list[int], fixed: dict[int, pd.DataFrame]
    ) -> Iterator[pa.RecordBatch]:
        """Compute the keys that begin at these rows; where that fails, one half and then the other."""
        try:
            answer = function(*self._frames(chunk, fixed))
        except Exception as error:
            if len(starts) == 1:
                yield self._line(chunk, f"{type(error).__name__}: {error}", fatal=False)
                return
            half = len(starts) // 2
            cut = starts[half] - starts[0]
            yield from self._compute(function, chunk.slice(0, cut), starts[:half], fixed)
            yield from self._compute(function, chunk.slice(cut), starts[half:], fixed)
            return
        try:
            yield from self._rows(answer)
        except TableError as error:
            yield self._line(chunk, error.message.replace("Nothing was written.", "").strip(), fatal=True)

    def _frames(self, chunk: pa.Table, fixed: dict[int, pd.DataFrame]) -> list[pd.DataFrame]:
        frames = []
        for number, schema in enumerate(self.inputs):
            if number in fixed:
                frames.append(fixed[number].copy())
                continue
            mine = chunk.filter(pc.equal(chunk.column(TAG), number)).column(f"in {number}").combine_chunks()
            rows = pa.Table.from_arrays(mine.flatten(), names=schema.names) if len(mine) else schema.empty_table()
            frames.append(to_pandas(rows.cast(schema)))
        return frames

    def _rows(self, answer: Any) -> Iterator[pa.RecordBatch]:
        given = list(answer) if isinstance(answer, list | tuple) else [answer]
        if len(given) != len(self.outputs) or any(frame is None for frame in given):
            found = "nothing" if answer is None else f"{len(given)} frame(s)"
            raise FrameMismatch(f"the function returned {found} for {len(self.outputs)} output(s).")
        for number, ((name, schema), frame) in enumerate(zip(self.outputs, given, strict=True)):
            checked = check_frame(name, schema, frame)
            if not isinstance(checked, LocalFrame):
                raise FrameMismatch(f"table '{name}' was given a Spark frame by a function for pandas.")
            if checked.rows.num_rows:
                rows = checked.rows.combine_chunks().to_batches()[0]
                yield self._answer(rows.num_rows, {NUMBER: _repeat(number, rows), f"out {number}": _structs(rows)})

    def _line(self, chunk: pa.Table, error: str, *, fatal: bool) -> pa.RecordBatch:
        key = {name: chunk.column(name).slice(0, 1).combine_chunks() for name in self.columns}
        return self._answer(1, {**key, ERROR: pa.array([error[:2000]]), FATAL: pa.array([fatal])})

    def _answer(self, count: int, values: dict[str, pa.Array]) -> pa.RecordBatch:
        arrays = [
            values[field.name].cast(field.type) if field.name in values else pa.nulls(count, field.type)
            for field in self.answer
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.answer)


def _repeat(number: int, rows: pa.RecordBatch) -> pa.Array:
    return pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows)


def _structs(rows: pa.RecordBatch) -> pa.Array:
    return pa.StructArray.from_arrays(rows.columns, fields=[field.with_nullable(True) for field in rows.schema])


def to_pandas(rows: pa.Table) -> pd.DataFrame:
    """Rows as pandas has them; whole numbers stay whole where some are NULL, and moments keep their zone."""
    import pandas as pd

    nullable = {pa.int8(): pd.Int8Dtype(), pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype()}
    nullable |= {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame = rows.to_pandas()
    for name in rows.column_names:
        column = rows.column(name)
        if column.null_count and column.type in nullable:
            frame[name] = pd.array(column.to_pylist(), dtype=nullable[column.type])
    return frame


def whole_keys(batches: Iterator[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Sorted rows in chunks that never part the rows of a key."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        waiting.append(batch)
        count += batch.num_rows
        if count >= CHUNK_ROWS:
            table = pa.Table.from_batches(waiting)
            last = _starts(table, columns)[-1]
            if last:
                yield table.slice(0, last)
                rest = table.slice(last).combine_chunks()
                waiting, count = rest.to_batches(), rest.num_rows
    if waiting:
        yield pa.Table.from_batches(waiting)


def _starts(table: pa.Table, columns: Sequence[str]) -> list[int]:
    """The rows at which a new key begins."""
    keys = comparable(table.select(list(columns)))
    return [place for place, key in enumerate(keys) if place == 0 or key != keys[place - 1]]

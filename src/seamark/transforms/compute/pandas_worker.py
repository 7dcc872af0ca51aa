"""What runs on the executors for a pandas function: whole keys in, rows or errors out. No session in here."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamark.errors import BadValue, FrameMismatch, TableError
from seamark.spark.causes import OwnTrouble, is_of_the_machine
from seamark.steps.rows.pandas_rows import to_pandas
from seamark.tables.frames import OtherKinds, check_returned_frame
from seamark.tables.ordering import comparable
from seamark.tables.schema.table_schema import TableSchema
from seamark.texts import storable, words_of
from seamark.transforms.compute.returned import describe_returned, frames_returned

if TYPE_CHECKING:
    import pandas as pd

# A call is given whole keys, together about this many rows or bytes: many calls of a few rows each would be slow.
CHUNK_ROWS = 10_000
CHUNK_BYTES = 64 << 20
TAG, RECORD, NUMBER, ERROR, FATAL = "its input", "its record", "its output", "its error", "it is fatal"


@dataclass(frozen=True)
class WholeInput:
    """An input that every call gets whole: in memory, or in files that the executors can read."""

    number: int
    rows: pa.Table | None
    paths: tuple[str, ...] = ()

    def frame(self, schema: pa.Schema) -> pd.DataFrame:
        """The input's rows, in the table's types: files hold moments as the session's clocks show them."""
        if self.rows is not None:
            return to_pandas(self.rows.cast(schema))
        rows = pa.concat_tables([pq.read_table(path) for path in self.paths])
        return to_pandas(rows.select(schema.names).cast(schema))


@dataclass(frozen=True)
class Worker:
    """The function, pickled, and what it is called with; Spark sends it to the executors and calls it once a task."""

    function: bytes
    columns: tuple[str, ...]
    inputs: tuple[pa.Schema, ...]
    whole: tuple[WholeInput, ...]
    outputs: tuple[tuple[str, TableSchema], ...]
    answer: pa.Schema
    own_trouble: OwnTrouble
    may_lack_keys: bool = False  # whether a returned row without a key is dropped instead of refused

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function's rows for all keys of a task, and a line for each key that it fails on."""
        with self.own_trouble.marking():
            fixed = {entry.number: entry.frame(self.inputs[entry.number]) for entry in self.whole}
        function = pickle.loads(self.function)
        for chunk in whole_keys(batches, self.columns):
            yield from self._compute(function, chunk, _starts(chunk, self.columns), fixed)

    def _compute(
        self,
        function: Callable[..., Any],
        chunk: pa.Table,
        starts: list[int],
        fixed: dict[int, pd.DataFrame],
        *,
        by_value: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Compute the keys that begin at these rows; where that fails, one half and then the other.

        `by_value` says that what was returned for these and other keys did not fit because of some value.
        """
        with self.own_trouble.marking():
            frames = self._frames(chunk, fixed)
        try:
            answer = function(*frames)
        except Exception as error:
            if is_no_keys_fault(error):
                raise self.own_trouble.error(error) from error
            yield from self._blame(function, chunk, starts, fixed, words_of(error), by_value=by_value)
            return
        try:
            rows = list(self._rows(answer))
        except TableError as error:
            text = error.what
            # A value that does not fit is that of some key; columns that are not there are missing for all of them.
            if by_value or isinstance(error, BadValue | OtherKinds):
                yield from self._blame(function, chunk, starts, fixed, text, by_value=True)
                return
            rows = [self._line(chunk, f"{text} ({error.hint})" if error.hint else text, fatal=True)]
        yield from rows

    def _blame(
        self,
        function: Callable[..., Any],
        chunk: pa.Table,
        starts: list[int],
        fixed: dict[int, pd.DataFrame],
        text: str,
        *,
        by_value: bool,
    ) -> Iterator[pa.RecordBatch]:
        """A line for the key that the function fails on; of several, one half is computed and then the other."""
        if len(starts) == 1:
            yield self._line(chunk, text, fatal=False)
            return
        half = len(starts) // 2
        cut = starts[half] - starts[0]
        yield from self._compute(function, chunk.slice(0, cut), starts[:half], fixed, by_value=by_value)
        yield from self._compute(function, chunk.slice(cut), starts[half:], fixed, by_value=by_value)

    def _frames(self, chunk: pa.Table, fixed: dict[int, pd.DataFrame]) -> list[pd.DataFrame]:
        frames = []
        for number, schema in enumerate(self.inputs):
            if number in fixed:
                frames.append(fixed[number].copy())
                continue
            mine = _each_once(chunk.filter(pc.equal(chunk.column(TAG), number))).column(f"in {number}").combine_chunks()
            rows = pa.Table.from_arrays(mine.flatten(), names=schema.names) if len(mine) else schema.empty_table()
            frames.append(to_pandas(rows.cast(schema)))
        return frames

    def _rows(self, answer: Any) -> Iterator[pa.RecordBatch]:
        given = frames_returned(answer, len(self.outputs))
        if given is None:
            raise FrameMismatch(f"the function returned {describe_returned(answer)} for {len(self.outputs)} output(s).")
        for number, ((name, schema), frame) in enumerate(zip(self.outputs, given, strict=True)):
            checked = check_returned_frame(name, schema, frame, with_nulls=self.may_lack_keys)
            if checked.in_memory is None:
                raise FrameMismatch(f"table '{name}' was given a Spark frame by a function for pandas.")
            for rows in checked.in_memory.to_batches():
                if rows.num_rows:
                    yield self._answer(rows.num_rows, {NUMBER: _repeat(number, rows), f"out {number}": _structs(rows)})

    def _line(self, chunk: pa.Table, error: str, *, fatal: bool) -> pa.RecordBatch:
        key = {name: chunk.column(name).slice(0, 1).combine_chunks() for name in self.columns}
        return self._answer(1, {**key, ERROR: pa.array([storable(error)]), FATAL: pa.array([fatal])})

    def _answer(self, count: int, values: dict[str, pa.Array]) -> pa.RecordBatch:
        arrays = [
            values[field.name].cast(field.type) if field.name in values else pa.nulls(count, field.type)
            for field in self.answer
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.answer)


def is_no_keys_fault(error: BaseException) -> bool:
    """Whether an error of a function for pandas is about the machine or its storage.

    The class says so: `MemoryError`, and `OSError` itself, which is what a full disk or a lost file system gives. Its
    kinds for one thing that is named (`FileNotFoundError`, or an image library's own) are about a row.
    """
    return type(error) is OSError or is_of_the_machine(error)


def _each_once(rows: pa.Table) -> pa.Table:
    """Rows of an input without repetitions: what several keys of a call name came with each of them."""
    records = rows.column(RECORD).to_numpy()
    _, first = np.unique(records, return_index=True)
    return rows if len(first) == len(records) else rows.take(pa.array(np.sort(first)))


def _repeat(number: int, rows: pa.RecordBatch) -> pa.Array:
    return pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows)


def _structs(rows: pa.RecordBatch) -> pa.Array:
    return pa.StructArray.from_arrays(rows.columns, fields=[field.with_nullable(True) for field in rows.schema])


def whole_keys(batches: Iterator[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Sorted rows in chunks that never part the rows of a key."""
    waiting: list[pa.RecordBatch] = []
    for piece in _pieces(batches):
        waiting.append(piece)
        if sum(b.num_rows for b in waiting) >= CHUNK_ROWS or sum(b.nbytes for b in waiting) >= CHUNK_BYTES:
            table = pa.Table.from_batches(waiting)
            last = _starts(table, columns)[-1]
            if last:
                yield table.slice(0, last)
                waiting = table.slice(last).combine_chunks().to_batches()
    if waiting:
        yield pa.Table.from_batches(waiting)


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of no more bytes than a call is given: Spark's own may be larger."""
    for batch in batches:
        rows = max(1, batch.num_rows * CHUNK_BYTES // max(batch.nbytes, 1))
        yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def _starts(table: pa.Table, columns: Sequence[str]) -> list[int]:
    """The rows at which a new key begins."""
    keys = comparable(table.select(list(columns)))
    return [place for place, key in enumerate(keys) if place == 0 or key != keys[place - 1]]

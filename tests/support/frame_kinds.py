"""The same rows in several kinds of frames: in chunks that may be empty, from pandas, naive, from Spark."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

import seamark as sm

GIVEN = ("arrow", "chunks", "naive", "pandas", "spark")
RETURNED = ("as it is", "chunks", "pandas")
UTC_MICROS = pa.timestamp("us", tz="UTC")


def in_chunks(rows: pa.Table, chance: random.Random) -> pa.Table:
    """The rows in chunks, and before, between and after these some that are empty."""
    pieces, start = [rows.slice(0, 0)], 0
    while start < rows.num_rows:
        length = chance.randint(0, 2)
        pieces.append(rows.slice(start, length))
        start += length
    return pa.concat_tables([*pieces, rows.slice(0, 0)])


def naive(rows: pa.Table) -> pa.Table:
    """The rows with their moments as wall clocks of UTC."""
    types = [pa.timestamp("us") if field.type == UTC_MICROS else field.type for field in rows.schema]
    return rows.cast(pa.schema([field.with_type(kind) for field, kind in zip(rows.schema, types, strict=True)]))


def as_pandas(rows: pa.Table) -> pd.DataFrame:
    """The rows as pandas has them, with an index that says nothing."""
    frame = rows.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get, date_as_object=True)
    return frame.set_index(pd.Index([7] * len(frame)))


def given(rows: pa.Table, way: str, ddl: str, session: Any, chance: random.Random) -> Any:
    """The rows as somebody gives them; `ddl` has their columns as Spark declares them."""
    if way == "spark":
        return session.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], ddl)
    if way == "pandas":
        return as_pandas(naive(rows))
    return {"arrow": rows, "chunks": in_chunks(rows, chance), "naive": in_chunks(naive(rows), chance)}[way]


def returning(function: Callable[..., Any], way: str, seed: int) -> Callable[..., Any]:
    """The function, whose frames come back another way."""

    def changed(frame: Any) -> Any:
        rows = frame.toArrow() if hasattr(frame, "toArrow") else pa.Table.from_pandas(frame, preserve_index=False)
        return in_chunks(rows, random.Random(seed)) if way == "chunks" else as_pandas(rows)

    @functools.wraps(function)
    def other(*frames: Any) -> Any:
        answer = function(*frames)
        return tuple(map(changed, answer)) if isinstance(answer, tuple) else changed(answer)

    return function if way == "as it is" else other


@dataclasses.dataclass
class Adding:
    """What a shape adds its steps to: the store, with functions that give frames another way and outputs renamed."""

    store: sm.DataStore
    way: str
    seed: int
    names: dict[str, str]

    def add(self, transform: sm.BatchTransform) -> None:
        outputs: Sequence[Any] = [self.names.get(str(name), name) for name in transform.outputs]
        function = returning(transform.func, self.way, self.seed)
        name = transform.name or transform.func.__name__
        self.store.add(dataclasses.replace(transform, func=function, outputs=outputs, name=name))

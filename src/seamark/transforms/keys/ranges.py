"""Going through all keys: where they are cut into ranges of about equally many."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from seamark.spark.frames import arrow_rows
from seamark.steps.rows.keys import key_texts, value_from_json
from seamark.steps.rows.scope import AllKeys, KeyRange, cut_into_ranges
from seamark.tables.frame import quoted
from seamark.tables.read.rows import count_versions, read_images
from seamark.tables.read.to_driver import collect_small
from seamark.tables.small import fits_on_driver
from seamark.transforms.declare.shape import Input, Shape

KEYS_A_ROW = 4  # keys are narrow: so many times as many of them as of rows are looked at on the driver


def ranges_of_all_keys(shape: Shape, read: Mapping[str, int | None], batch_keys: int) -> list[KeyRange | AllKeys]:
    """Ranges of at most about `batch_keys` keys that cover all there are, and all that there might be."""
    group = shape.group
    holders = [i for i in shape.plain if set(group) <= set(i.columns)] if group and not shape.looked_up else []
    if not holders or sum(rows_at_most(i, read) for i in holders) <= batch_keys:
        return [AllKeys(group)]
    total = sum(rows_at_most(i, read) for i in holders)
    keys = every_key(holders, read, group)
    bounds = _exact_bounds(shape, keys, batch_keys, total)
    return cut_into_ranges(group, _near_bounds(shape, keys, batch_keys) if bounds is None else bounds)


def rows_at_most(source: Input, read: Mapping[str, int | None]) -> int:
    """How many rows an input has at a record, at the most."""
    upto = read[source.table]
    return 0 if upto is None else count_versions(source.source, upto=upto)


def every_key(holders: Sequence[Input], read: Mapping[str, int | None], columns: Sequence[str]) -> DataFrame:
    """The distinct values of some key columns over inputs that have them."""
    names = [quoted(name) for name in columns]
    frames = [read_images(i.source, upto=read[i.table]).select(*names) for i in holders]
    union = frames[0]
    for frame in frames[1:]:
        union = union.unionByName(frame)
    return union.distinct()


def _exact_bounds(shape: Shape, keys: DataFrame, batch_keys: int, total: int) -> list[tuple[Any, ...]] | None:
    """Bounds from all keys, looked at on the driver; None if they are too many or too large for it."""
    if not fits_on_driver(total // KEYS_A_ROW):
        return None
    columns = {name: shape.key_types[name] for name in keys.columns}
    ordered = collect_small(keys.orderBy(*[quoted(name) for name in keys.columns]), columns, total, total)
    if ordered is None:
        return None
    places = range(batch_keys - 1, ordered.num_rows - 1, batch_keys)
    return [tuple(column[place].as_py() for column in ordered.columns) for place in places]


def _near_bounds(shape: Shape, keys: DataFrame, batch_keys: int) -> list[tuple[Any, ...]]:
    """Bounds from every n-th key of each sorted partition: the driver sees a few keys a range, not all of them."""
    step = max(1, batch_keys // 16)

    def sample(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        place = task.partitionId() if task else 0
        count, last = 0, None
        for batch in batches:
            for number in range(batch.num_rows):
                count += 1
                if count == step:
                    yield _sampled(place, count, batch.slice(number, 1))
                    count = 0
            last = batch.slice(batch.num_rows - 1, 1) if batch.num_rows else last
        if count and last is not None:
            yield _sampled(place, count, last)

    ordered = keys.orderBy(*[quoted(name) for name in keys.columns])
    found = arrow_rows(ordered.mapInArrow(sample, "place int, weight long, key string"))
    return _greedy(shape, keys.columns, found, batch_keys)


def _sampled(place: int, weight: int, row: pa.RecordBatch) -> pa.RecordBatch:
    text = key_texts(pa.Table.from_batches([row]))[0]
    return pa.RecordBatch.from_arrays(
        [pa.array([place], pa.int32()), pa.array([weight], pa.int64()), pa.array([text])], ["place", "weight", "key"]
    )


def _greedy(shape: Shape, columns: Sequence[str], found: pa.Table, batch_keys: int) -> list[tuple[Any, ...]]:
    # Within a partition the samples come in order, and partitions of a sorted frame follow one another.
    samples = sorted(enumerate(found.to_pylist()), key=lambda entry: (entry[1]["place"], entry[0]))
    bounds: list[tuple[Any, ...]] = []
    filled = 0
    for number, (_, sample) in enumerate(samples):
        filled += sample["weight"]
        following = samples[number + 1][1]["weight"] if number + 1 < len(samples) else 0
        if following and filled + following > batch_keys:
            key = json.loads(sample["key"])
            bounds.append(tuple(value_from_json(key[name], shape.key_types[name]) for name in columns))
            filled = 0
    return bounds

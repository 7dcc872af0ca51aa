"""Every key of a function: the inputs whose rows have them, and the keys themselves."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.tables.frame import quoted
from seamark.tables.read.rows import read_images
from seamark.tables.read.source import TableSource
from seamark.transforms.declare.shape import Shape
from seamark.transforms.keys.ranges import every_key, rows_at_most
from seamark.transforms.keys.select import with_keys


def key_holders(shape: Shape) -> list[TableSource]:
    """The inputs whose rows have the columns that keys are computed by; none where keys cannot be cut into ranges."""
    if not shape.group or shape.looked_up:
        return []
    return [source.source for source in shape.plain if set(shape.group) <= set(source.columns)]


def all_keys(shape: Shape, read: Mapping[str, int | None]) -> DataFrame:
    """Every key, or group of keys, that the inputs of a function have."""
    if shape.looked_up:
        rows = with_keys(shape, read_images(shape.primary.source, upto=read[shape.primary.table]), read)
        return rows.select(*[quoted(name) for name in shape.keys]).distinct()
    return every_key(key_holders(shape), read, shape.group)


def every_key_at_most(shape: Shape, read: Mapping[str, int | None]) -> int:
    """How many keys the inputs have, at the most."""
    holders = key_holders(shape) or [shape.primary.source]
    return sum(rows_at_most(source, read) for source in holders)


def keys_of_groups(shape: Shape, groups: DataFrame, read: Mapping[str, int | None]) -> DataFrame:
    """All transform keys of some groups: what an outer join of the inputs has there."""
    if set(groups.columns) == set(shape.keys):
        return groups.select(*[F.col(quoted(name)) for name in shape.keys])
    joined = groups
    for source in shape.plain:
        part = source.part_of(shape.keys)
        if not part:
            continue
        rows = read_images(source.source, upto=read[source.table]).select(*[quoted(n) for n in part]).distinct()
        shared = [name for name in part if name in joined.columns]
        joined = joined.join(rows, shared, "left") if shared else joined.crossJoin(rows)
    return joined.select(*[F.col(quoted(name)) for name in shape.keys]).distinct()

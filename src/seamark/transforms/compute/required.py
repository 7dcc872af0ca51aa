"""Inputs without which a key is not computed: which rows of the other inputs, and of the result, are left."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.spark.frames import spark_frame
from seamark.steps.rows.keys import comparable
from seamark.tables.frames import CheckedFrame, LocalFrame, SparkFrame, quoted
from seamark.tables.read.rows import TableSource, all_of
from seamark.transforms.declare.shape import Input, Shape

Frames = dict[int, CheckedFrame]  # by the number of the input


def needed_inputs(shape: Shape) -> list[Input]:
    """The plain inputs that a key must have a row in; a required reference speaks for the primary's rows."""
    by_reference = any(source.required for source in shape.references)
    return [source for source in shape.plain if source.required or (by_reference and source is shape.primary)]


def only_met(shape: Shape, frames: Frames, needed: Sequence[Input]) -> bool:
    """Leave out of the plain inputs the rows of keys that one of the `needed` inputs has no row for.

    False if one of them has no row at all, so that no key is computed.
    """
    return all(_leave_out(shape, frames, source) for source in needed)


def _leave_out(shape: Shape, frames: Frames, needed: Input) -> bool:
    rows = frames[shape.inputs.index(needed)]
    others = [place for place, other in enumerate(shape.inputs) if other is not needed and not other.is_reference]
    shared = {place: needed.part_of(shape.inputs[place].part_of(shape.keys)) for place in others}
    # What the others share with it falls away by itself where it is empty: whether it is need not be asked of Spark.
    must_ask = not shape.keys or any(not columns for columns in shared.values())
    if _is_empty(rows) if must_ask else isinstance(rows, LocalFrame) and rows.rows.num_rows == 0:
        return False
    for place, columns in shared.items():
        if columns:
            frames[place] = _with_keys_of(shape.inputs[place].source, frames[place], rows, columns)
    return True


def result_of_met(
    shape: Shape, frames: Sequence[CheckedFrame], output: TableSource, result: CheckedFrame
) -> CheckedFrame:
    """The rows of a result whose keys every needed input has a row for.

    Inputs that have only parts of the key cannot be rid of a key: each of its parts may belong to another key, too,
    and the function may tie them together all the same.
    """
    if all(set(shape.keys) <= set(source.columns) for source in shape.plain):
        return result
    for source in needed_inputs(shape):
        columns = source.part_of(shape.keys)
        if columns:
            result = _with_keys_of(output, result, frames[shape.inputs.index(source)], columns)
    return result


def _is_empty(rows: CheckedFrame) -> bool:
    return rows.rows.num_rows == 0 if isinstance(rows, LocalFrame) else rows.frame.isEmpty()


def _with_keys_of(
    source: TableSource, rows: CheckedFrame, needed: CheckedFrame, columns: Sequence[str]
) -> CheckedFrame:
    """The rows whose values in some columns the needed rows have, too."""
    if isinstance(rows, LocalFrame) and isinstance(needed, LocalFrame):
        there = set(comparable(needed.rows.select(list(columns))))
        kept = [key in there for key in comparable(rows.rows.select(list(columns)))]
        return LocalFrame(rows.rows.filter(pa.array(kept, pa.bool_())))
    one, two = as_spark(source, rows), as_spark(source, needed)
    keys = two.select(*[F.col(quoted(name)).alias(f"its {name}") for name in columns])
    same = [one[quoted(name)].eqNullSafe(keys[quoted(f"its {name}")]) for name in columns]
    return SparkFrame(one.join(keys, all_of(same), "left_semi"))


def with_partner(
    source: TableSource, rows: CheckedFrame, partners: CheckedFrame, pairs: Sequence[tuple[str, str]]
) -> CheckedFrame:
    """Rows of the primary that a reference has a row for."""
    if isinstance(rows, LocalFrame) and isinstance(partners, LocalFrame):
        there = set(comparable(partners.rows.select([theirs for _, theirs in pairs])))
        mine = comparable(rows.rows.select([name for name, _ in pairs]))
        return LocalFrame(rows.rows.filter(pa.array([key in there for key in mine], pa.bool_())))
    frame, other = as_spark(source, rows), as_spark(source, partners)
    same = [frame[quoted(mine)] == other[quoted(theirs)] for mine, theirs in pairs]
    return SparkFrame(frame.join(other, all_of(same), "left_semi"))


def as_spark(source: TableSource, rows: CheckedFrame) -> DataFrame:
    """Rows as a Spark frame, wherever they are."""
    return rows.frame if isinstance(rows, SparkFrame) else spark_frame(source.context.session(), rows.rows)

"""Inputs without which a key is not computed: which rows of the other inputs, and of the result, are left."""

from __future__ import annotations

from collections.abc import Sequence

from seamark.tables.frame import CheckedFrame, by_name
from seamark.tables.read.source import TableSource
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
    if rows.is_empty() if must_ask else rows.is_known_empty:
        return False
    for place, columns in shared.items():
        if columns:
            frames[place] = frames[place].semi_join(rows, by_name(columns), needed.source.context.session)
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
            needed = frames[shape.inputs.index(source)]
            result = result.semi_join(needed, by_name(columns), output.context.session)
    return result

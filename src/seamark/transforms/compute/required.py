"""Required inputs: rows of other inputs, and of the result, are dropped for keys without a row in one of them."""

from __future__ import annotations

from collections.abc import Sequence

from seamark.tables.frame import CheckedFrame, by_name
from seamark.tables.read.source import TableSource
from seamark.transforms.declare.shape import Input, Shape

Frames = dict[int, CheckedFrame]  # by the number of the input


def needed_inputs(shape: Shape) -> list[Input]:
    """The plain inputs that a key must have a row in; a required reference makes the primary one of them."""
    by_reference = any(source.required for source in shape.references)
    return [source for source in shape.plain if source.required or (by_reference and source is shape.primary)]


def drop_unmatched_keys(shape: Shape, frames: Frames, needed: Sequence[Input]) -> bool:
    """Drop rows of the plain inputs, in place, whose keys have no row in one of the `needed` inputs.

    False if one of them has no row at all, so that no key is computed.
    """
    return all(_drop_unmatched(shape, frames, source) for source in needed)


def _drop_unmatched(shape: Shape, frames: Frames, needed: Input) -> bool:
    rows = frames[shape.inputs.index(needed)]
    others = [place for place, other in enumerate(shape.inputs) if other is not needed and not other.is_reference]
    shared = {place: needed.part_of(shape.inputs[place].part_of(shape.keys)) for place in others}
    # Where all others share columns with it, an empty input empties them by the join: no need to ask Spark for it.
    must_ask = not shape.keys or any(not columns for columns in shared.values())
    if rows.is_empty() if must_ask else rows.is_known_empty:
        return False
    for place, columns in shared.items():
        if columns:
            frames[place] = frames[place].semi_join(rows, by_name(columns), needed.source.context.session)
    return True


def matched_result(
    shape: Shape, frames: Sequence[CheckedFrame], output: TableSource, result: CheckedFrame
) -> CheckedFrame:
    """The rows of a result whose keys every needed input has a row for.

    From inputs that have only part of the key, a key cannot be dropped: each part may belong to another key too, and
    the function may still join the parts.
    """
    if all(set(shape.keys) <= set(source.columns) for source in shape.plain):
        return result
    for source in needed_inputs(shape):
        columns = source.part_of(shape.keys)
        if columns:
            needed = frames[shape.inputs.index(source)]
            result = result.semi_join(needed, by_name(columns), output.context.session)
    return result

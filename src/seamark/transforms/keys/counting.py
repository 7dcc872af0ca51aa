"""How many keys a batch computes: from rows in memory or counts of files if possible, otherwise counted in Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seamark.steps.rows.scope import AllKeys, KeyFrame, KeyValues
from seamark.tables.frame import CheckedFrame, Session, union_of
from seamark.tables.read.snapshot import snapshot_at
from seamark.transforms.compute.gather import Gathered
from seamark.transforms.declare.shape import Shape


def count_scope(gathered: Gathered, read: Mapping[str, int | None]) -> int:
    """How many keys of a scope were computed: listed keys all count, others only if an input has a row for them."""
    scope, shape = gathered.scope, gathered.shape
    if not shape.keys or not gathered.is_met:
        return 0 if gathered.holds_no_key else 1
    if isinstance(scope, KeyValues | KeyFrame) and shape.shares_all_keys and not any(i.required for i in shape.inputs):
        return scope.values.num_rows if isinstance(scope, KeyValues) else scope.frame.count()
    if isinstance(scope, AllKeys):
        known = _rows_exactly(shape, read)
        if known is not None:
            return known
    return _count(gathered)


def _rows_exactly(shape: Shape, read: Mapping[str, int | None]) -> int | None:
    """The number of keys, if it is the number of rows of one table, and that is known without counting."""
    if len(shape.plain) != 1 or any(i.required for i in shape.inputs) or set(shape.keys) != _key_of(shape):
        return None
    source = shape.primary.source
    return snapshot_at(source, read[source.name]).row_count


def _key_of(shape: Shape) -> set[str]:
    return set(shape.primary.source.schema.key)


def _count(gathered: Gathered) -> int:
    shape = gathered.shape
    if shape.looked_up:
        return gathered.scope.values.num_rows if isinstance(gathered.scope, KeyValues) else 0
    if len(shape.plain) == 1 and set(shape.keys) == _key_of(shape):
        return gathered.frames[shape.inputs.index(shape.primary)].count()  # each row has a key of its own
    parts = []
    for source, frame in zip(shape.inputs, gathered.frames, strict=True):
        columns = source.part_of(shape.keys)
        if source.is_reference or not columns:
            continue
        parts.append((columns, frame))
    widest = max((len(columns) for columns, _ in parts), default=0)
    session = shape.primary.source.context.session
    kinds = {columns: [f for c, f in parts if c == columns] for columns, _ in parts if len(columns) == widest}
    counts = [_distinct(columns, frames, session) for columns, frames in kinds.items()]
    if shape.group:
        counts.append(_distinct(shape.group, [f for c, f in parts if set(shape.group) <= set(c)], session))
    return max(counts, default=0)


def _distinct(columns: Sequence[str], frames: Sequence[CheckedFrame], session: Session) -> int:
    """How many different values some frames have in these columns."""
    return union_of([frame.select(columns) for frame in frames], session).distinct().count() if frames else 0

"""Keys as the scope of a batch: from frames of keys, or from what the checkpoint of a commit says."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pyarrow as pa

from seamark.steps.past.checkpoint import Checkpoint
from seamark.steps.past.history import read_at_commit
from seamark.steps.rows.keys import columns_of, key_from_json, keys_of
from seamark.steps.rows.scope import AllKeys, KeyFrame, KeyRange, KeyValues, Scope
from seamark.tables.computed import computed
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, union_of
from seamark.tables.small import fits_on_driver
from seamark.transforms.keying import ChangedBlocks, Keying
from seamark.transforms.keys.select import joined_keys


def joined_scope(keying: Keying, columns: tuple[str, ...], frames: Sequence[CheckedFrame], stack: ExitStack) -> Scope:
    """Frames of keys as one scope: in memory if they are few, else computed once and kept in files."""
    schema = pa.schema([pa.field(name, keying.key_types[name]) for name in columns])
    there = [frame for frame in frames if not frame.is_known_empty] or frames[:1]
    typed = [LocalFrame(frame.to_arrow(schema)) if frame.in_memory is not None else frame for frame in there]
    union = union_of([frame.select(columns) for frame in typed], keying.context.session).distinct()
    kept = stack.enter_context(computed(keying.context, union, schema))
    return as_scope(keying.context, columns, kept)


def as_scope(context: TableContext, columns: tuple[str, ...], keys: CheckedFrame) -> Scope:
    """Keys that are computed already, each once, as a scope: listed if they are few."""
    local = keys.in_memory
    if local is not None and fits_on_driver(local.num_rows, local.nbytes):
        return KeyValues(local)
    return KeyFrame(columns, keys.to_spark(context.session))


def scope_of_commit(keying: Keying, checkpoint: Checkpoint, stack: ExitStack) -> Scope | None:
    """The keys that a commit computed, from its checkpoint; None if it computed none."""
    if checkpoint.range is not None:
        mark = checkpoint.range
        bounds = [b if b is None else key_from_json(mark.columns, b, keying.key_types) for b in (mark.after, mark.upto)]
        return AllKeys(mark.columns) if bounds == [None, None] else KeyRange(mark.columns, *bounds)
    changes = changes_taken(keying.context, checkpoint)
    before = checkpoint.selected_at or {table: since for table, (since, _) in checkpoint.taken.items()}
    read = read_at_commit(checkpoint)
    found = list(keying.changed_keys(changes, read, {**dict.fromkeys(read), **before}))
    columns = columns_of(checkpoint.keys[0]) if checkpoint.keys else found[0].columns if found else None
    if columns is None:
        return None
    if not columns:
        return AllKeys()
    same = [entry for entry in found if entry.columns == columns]
    frames: list[CheckedFrame] = [joined_keys(same, keying.context.session)] if same else []
    given = LocalFrame(keys_of(checkpoint.keys, columns, keying.key_types))
    return joined_scope(keying, columns, [*frames, given], stack)


def changes_taken(context: TableContext, checkpoint: Checkpoint) -> list[ChangedBlocks]:
    """The records of inputs whose keys a commit computed."""
    index = context.control.index
    taken = checkpoint.taken.items()
    return [ChangedBlocks(table, tuple(index.slices(table, after=since, upto=upto))) for table, (since, upto) in taken]

"""The rows that a step's function is given for a scope: primary inputs by key, references by the values they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa

from seamark.spark.frames import arrow_rows
from seamark.steps.rows.fetch import OFFSET, read_for
from seamark.steps.rows.scope import AllKeys, KeyFrame, KeyRange, KeyValues, Scope, rows_within
from seamark.tables.computed import computed
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, SparkFrame, as_its, quoted, same_as_its, union_of
from seamark.tables.ordering import comparable, distinct, in_order
from seamark.tables.read.in_process import row_schema
from seamark.tables.read.rows import read_images
from seamark.tables.read.source import TableSource
from seamark.tables.schema.table_schema import Column as TableColumn
from seamark.tables.schema.table_schema import TableSchema
from seamark.transforms.compute.required import drop_unmatched_keys, needed_inputs
from seamark.transforms.declare.shape import Input, Shape
from seamark.transforms.keying import LoadedRows
from seamark.transforms.keys.every import all_keys
from seamark.transforms.keys.hops import fitting
from seamark.transforms.keys.select import with_keys


@dataclass(frozen=True)
class Gathered:
    """The rows of each input, in order, with the hidden `_offset`."""

    shape: Shape
    scope: Scope
    frames: tuple[CheckedFrame, ...]
    read: Mapping[str, int | None]  # the record up to which each input was read
    is_met: bool = True  # False if a required input has no row at all, so that no key is computed

    @property
    def are_local(self) -> bool:
        """Whether all of them are in memory."""
        return all(frame.in_memory is not None for frame in self.frames)

    @property
    def holds_no_key(self) -> bool:
        """Whether it is known that no input has a row for any key of the scope, so that there is nothing to compute."""
        if not self.is_met or not self.shape.keys:  # the single global result is computed even from no rows
            return not self.is_met
        pairs = zip(self.shape.inputs, self.frames, strict=True)
        own = [frame for source, frame in pairs if has_scope(self.shape, self.scope, source)]
        return bool(own) and all(frame.is_known_empty for frame in own)

    def narrowed(self, scope: Scope) -> Gathered:
        """The rows for a part of the scope: of a reference those that the part's own rows name.

        A reference left as it was would bring the bad row of one key into the calls for all others.
        """
        if self.shape.looked_up:  # the rows do not have their keys: they are looked up again
            return gather(self.shape, scope, self.read, {})
        frames: list[CheckedFrame] = []
        for source, frame in zip(self.shape.inputs, self.frames, strict=True):
            if not has_scope(self.shape, scope, source) or source.is_reference:
                frames.append(frame)
            else:
                frames.append(rows_within(scope, source.source, frame))
        primary = self.shape.inputs.index(self.shape.primary)
        if has_scope(self.shape, scope, self.shape.primary):
            for place, source in enumerate(self.shape.inputs):
                if source.is_reference:
                    frames[place] = _named_rows(frames[place], source, frames[primary])
        left = dict(enumerate(frames))
        is_met = self.is_met and drop_unmatched_keys(self.shape, left, needed_inputs(self.shape))
        return replace(self, scope=scope, frames=tuple(left.values()), is_met=is_met)

    @property
    def is_narrowed_by_values(self) -> bool:
        """Whether a part of the scope is taken by listed keys: rows in memory, and rows that have no keys of theirs."""
        return self.are_local or bool(self.shape.looked_up)

    def kept(self, context: TableContext, stack: ExitStack) -> Gathered:
        """The same rows, computed: every further call would compute them again."""
        if self.shape.looked_up:
            return self  # a part of the scope is read on its own
        frames: list[CheckedFrame] = []
        for source, frame in zip(self.shape.inputs, self.frames, strict=True):
            schema = pa.schema([pa.field(OFFSET, pa.int64()), *source.source.schema.arrow])
            frames.append(stack.enter_context(computed(context, frame.select(schema.names), schema)))
        return replace(self, frames=tuple(frames))

    def sorted_keys(self) -> pa.Table:
        """The keys of a scope that any input has rows for, in Spark's order."""
        scope, shape = self.scope, self.shape
        if isinstance(scope, KeyValues):
            return in_order(scope.values)
        if shape.looked_up:
            return in_order(self._looked_up_keys())
        columns = list(scope.columns or shape.group)
        pieces: list[pa.Table] = []
        for source, frame in zip(shape.inputs, self.frames, strict=True):
            if not has_scope(shape, KeyRange(tuple(columns), None, None), source):
                continue
            pieces.append(frame.select(columns).distinct().to_arrow())
        if not pieces:
            return pa.table({})
        types = pa.schema([pa.field(name, shape.key_types[name]) for name in columns])
        return in_order(distinct(pa.concat_tables([piece.cast(types) for piece in pieces])))

    def processed_keys(self) -> CheckedFrame:
        """The keys that inputs which have whole keys have rows for, each once."""
        columns = self.shape.keys
        frames = [
            frame.select(columns)
            for source, frame in zip(self.shape.inputs, self.frames, strict=True)
            if not source.is_reference and set(columns) <= set(source.columns)
        ]
        return union_of(frames, self.shape.primary.source.context.session).distinct()

    def _looked_up_keys(self) -> pa.Table:
        """The keys of a scope that references have: those of the primary's rows, and the reference's own."""
        shape, scope = self.shape, self.scope
        keys = all_keys(shape, self.read)
        home = shape.home_reference(shape.looked_up[0])
        if set(shape.keys) <= set(home.columns):
            own = read_images(home.source, upto=self.read[home.table])
            keys = keys.unionByName(own.select(*[quoted(name) for name in shape.keys])).distinct()
        if isinstance(scope, KeyFrame):
            wanted = as_its(scope.frame, scope.columns)
            keys = keys.join(wanted, same_as_its(keys, wanted, scope.columns), "left_semi")
        types = pa.schema([pa.field(name, shape.key_types[name]) for name in shape.keys])
        return arrow_rows(keys).select(list(shape.keys)).cast(types)


def has_scope(shape: Shape, scope: Scope, source: Input) -> bool:
    """Whether an input's rows are distinct by the scope's columns."""
    if source.is_reference:
        return False
    return bool(scope.columns) and set(scope.columns) <= set(source.columns) and not shape.looked_up


def gather(shape: Shape, scope: Scope, read: Mapping[str, int | None], loaded: Mapping[str, LoadedRows]) -> Gathered:
    """The rows of every input that belong to a scope, as the inputs were at the given records."""
    frames: dict[int, CheckedFrame] = {}
    for place, source in enumerate(shape.inputs):
        if not source.is_reference:
            frames[place] = _plain_rows(shape, scope, source, read, loaded.get(source.table))
    # Drop unmatched keys first: their rows need no lookup in references.
    is_met = drop_unmatched_keys(shape, frames, [source for source in shape.plain if source.required])
    primary = shape.inputs.index(shape.primary)
    for place, source in enumerate(shape.inputs):
        if source.is_reference:
            frames[place] = _reference_rows(shape, scope, source, frames[primary], read, loaded.get(source.table))
            if source.required:
                session = source.source.context.session
                frames[primary] = frames[primary].semi_join(frames[place], source.join_keys, session, null_safe=False)
    if any(source.required for source in shape.references):  # they have left out rows of the primary, and so keys
        is_met = is_met and drop_unmatched_keys(shape, frames, needed_inputs(shape))
    return Gathered(shape, scope, tuple(frames[place] for place in range(len(shape.inputs))), read, is_met)


def _plain_rows(
    shape: Shape, scope: Scope, source: Input, read: Mapping[str, int | None], loaded: LoadedRows | None
) -> CheckedFrame:
    upto = read[source.table]
    if shape.looked_up and source is shape.primary and not isinstance(scope, AllKeys):
        return _rows_with_keys(shape, scope, read)
    if not has_scope(shape, scope, source):
        return read_for(source.source, AllKeys(), upto)
    if isinstance(scope, KeyValues):
        return _rows_of_values(source.source, scope.values, upto, loaded)
    return read_for(source.source, scope, upto)


def _rows_of_values(source: TableSource, values: pa.Table, upto: int | None, loaded: LoadedRows | None) -> CheckedFrame:
    """The rows with these values. Those that are in change records already are not read again."""
    if loaded is None or set(values.column_names) != set(source.schema.key):
        return read_for(source, KeyValues(values), upto)
    recorded = set(comparable(loaded.records.select(values.column_names)))
    missing = values.filter(pa.array([key not in recorded for key in comparable(values)], pa.bool_()))
    wanted = set(comparable(values))
    mine = [key in wanted for key in comparable(loaded.records.select(values.column_names))]
    records = loaded.records.filter(pa.array(mine, pa.bool_()))
    live = LoadedRows(records).live().drop_columns(["op"])
    rows = live.rename_columns([OFFSET, *source.schema.names]).cast(row_schema(source, source.schema.names))
    if missing.num_rows == 0 or upto is None:
        return LocalFrame(rows)
    others = read_for(source, KeyValues(missing), upto).in_memory
    if others is not None:
        return LocalFrame(pa.concat_tables([rows, others]))
    return read_for(source, KeyValues(values), upto)


def _rows_with_keys(shape: Shape, scope: Scope, read: Mapping[str, int | None]) -> SparkFrame:
    """Rows of the primary whose keys, found through references, belong to a scope."""
    source = shape.primary.source
    keys = TableSchema(tuple(TableColumn(name, shape.key_types[name], True) for name in shape.keys), shape.keys)
    rows = with_keys(shape, read_images(source, upto=read[shape.primary.table]), read)
    chosen = scope.choice(replace(source, schema=keys)).of(rows)
    mine = chosen.select(OFFSET, *[quoted(name) for name in source.schema.names])
    # a row that belongs to several of the keys is given once
    return SparkFrame(mine.dropDuplicates([OFFSET]) if shape.fans_out else mine)


# --- references -------------------------------------------------------------------------------------------------------


def _reference_rows(
    shape: Shape,
    scope: Scope,
    reference: Input,
    primary: CheckedFrame,
    read: Mapping[str, int | None],
    loaded: LoadedRows | None,
) -> CheckedFrame:
    """The reference's rows that the primary's rows really name: real pairs of values, never a product of columns."""
    source, upto = reference.source, read[reference.table]
    if shape.looked_up and shape.home_reference(shape.looked_up[0]) is reference:
        return _home_rows(shape, scope, reference, primary, upto)
    if primary.in_memory is None:
        rows = SparkFrame(read_images(source, upto=upto).drop("event_time"))
        # Finding the values that so many rows name would read these rows again: the whole reference is cheaper.
        return rows if isinstance(scope, AllKeys | KeyRange) else _named_rows(rows, reference, primary)
    values = named_values(primary.in_memory, reference.join_keys, source)
    if values.num_rows == 0 or upto is None:
        return LocalFrame(row_schema(source, source.schema.names).empty_table())
    return _rows_of_values(source, values, upto, loaded)


def _home_rows(shape: Shape, scope: Scope, reference: Input, primary: CheckedFrame, upto: int | None) -> SparkFrame:
    """Rows of the reference that has the keys: those that primary rows name, and those of the scope that nobody names.

    A function that starts from the reference gives a key its row though no row of the primary belongs to it.
    """
    images = read_images(reference.source, upto=upto).drop("event_time")
    if isinstance(scope, AllKeys):
        return SparkFrame(images)
    named = _named_rows(SparkFrame(images), reference, primary).to_spark(shape.primary.source.context.session)
    if not set(scope.columns) <= set(reference.columns):
        return SparkFrame(named)
    return SparkFrame(named.unionByName(scope.choice(reference.source).of(images)).dropDuplicates([OFFSET]))


def _named_rows(rows: CheckedFrame, reference: Input, by: CheckedFrame) -> CheckedFrame:
    """The reference's rows that these rows of the primary name."""
    theirs_first = [(theirs, mine) for mine, theirs in reference.join_keys]
    return rows.semi_join(by, theirs_first, reference.source.context.session, null_safe=False)


def named_values(rows: pa.Table, pairs: Sequence[tuple[str, str]], source: TableSource) -> pa.Table:
    """The distinct tuples that rows hold in joined columns, under the reference's names and types, without NULLs."""
    arrays = [rows.column(mine) for mine, _ in pairs]
    names = [theirs for _, theirs in pairs]
    table = pa.Table.from_arrays(arrays, names=names).drop_null()
    return fitting(distinct(table), {name: source.schema.column(name).type for name in names})

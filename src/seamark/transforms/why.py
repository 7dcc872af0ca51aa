"""Provenance: from a row to the block that made it, and on to the input records behind it, down to the roots."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from seamark.errors import FrameMismatch, NoSuchRow
from seamark.ledger import ExecuteTransform, Op
from seamark.tables.context import TableContext
from seamark.tables.frames import CheckedFrame, LocalFrame, SparkFrame, check_frame, quoted
from seamark.tables.read.rows import TableSource, choose_values, read_changes
from seamark.tables.read.to_driver import first_small
from seamark.tables.schema.table_schema import check_columns
from seamark.transforms.checkpoint import ReadAt
from seamark.transforms.definition import Definition
from seamark.transforms.fetch import OFFSET, read_for
from seamark.transforms.gather import gather
from seamark.transforms.history import checkpoint_of, definition_at, shape_then, stored_source
from seamark.transforms.scope import AllKeys, KeyValues, filter_rows
from seamark.transforms.shape import Input, Shape


@dataclass(frozen=True)
class Provenance:
    """Where a row came from: the record that made it, its block, the step, and the input rows that it was made of.

    `inputs` are provenances themselves, down to root records. `omitted` counts input rows that were not followed;
    `definition` is the step's source as it was in force; `row` holds the row's values.
    """

    table: str
    key: Mapping[str, Any]
    offset: int
    block: str
    step: str | None = None
    inputs: tuple[Provenance, ...] = ()
    row: Mapping[str, Any] | None = None
    omitted: int = 0
    definition: str | None = None
    mode: str | None = None

    def walk(self) -> Iterator[Provenance]:
        """This row and all rows behind it."""
        yield self
        for behind in self.inputs:
            yield from behind.walk()


def provenance(context: TableContext, source: TableSource, key: Mapping[str, Any], most: int) -> Provenance:
    """The provenance of the row with a key as it stands, or `NoSuchRow`."""
    wanted = _key_row(source, key)
    head = context.control.index.head(source.name)
    found = read_for(source, KeyValues(wanted), head.last_offset if head else None)
    rows = _rows(source, found, 1)
    if not rows:
        shown = ", ".join(f"{name}={value}" for name, value in key.items())
        raise NoSuchRow(
            f"table '{source.name}' has no row with {shown}.",
            hint=f"`seamark show {source.name}` lists its rows; a row that was deleted has no provenance.",
        )
    return _behind(context, source, rows[0], most)


def _key_row(source: TableSource, key: Mapping[str, Any]) -> pa.Table:
    schema = source.schema
    if not schema.key:
        raise FrameMismatch(
            f"table '{source.name}' is append-only: its records have no key to ask by.",
            hint=f"`seamark log {source.name}` shows its blocks.",
        )
    if not isinstance(key, Mapping):
        raise FrameMismatch(
            f"the key of a row is a mapping of columns to values, and not {key!r}.",
            hint="give one such as {" + ", ".join(f"'{name}': …" for name in schema.key) + "}.",
        )
    check_columns(source.name, schema.key, list(key))
    missing = [name for name in schema.key if name not in key]
    if missing:
        raise FrameMismatch(
            f"the key of table '{source.name}' has more columns: {', '.join(missing)}.",
            hint=f"give all of {', '.join(schema.key)}.",
        )
    checked = check_frame(source.name, schema, [dict(key)], only_key=True)
    assert isinstance(checked, LocalFrame)
    return checked.rows


def _behind(context: TableContext, source: TableSource, row: Mapping[str, Any], most: int) -> Provenance:
    """The provenance of a row that is at hand with its `_offset`."""
    offset = row[OFFSET]
    entry = context.control.index.slices(source.name, after=offset - 1, upto=offset)[0]
    values = {name: value for name, value in row.items() if name != OFFSET}
    key = {name: row[name] for name in source.schema.key} or values
    event = context.files(source.name).block(entry.hash).event
    checkpoint = checkpoint_of(context, source.name, entry)
    definition = definition_at(context, source.name, entry.sequence)
    if not isinstance(event, ExecuteTransform) or checkpoint is None or definition is None:
        return Provenance(source.name, key, offset, entry.hash, row=values)
    inputs: list[Provenance] = []
    omitted = 0
    if definition.kind == "diff":
        found = _log_records(context, definition, values, checkpoint.read, most)
    else:
        found = _input_rows(context, shape_then(context, definition), values, checkpoint.read, most)
    for behind, rows, left in found:
        inputs += [_behind(context, behind, one, most) for one in rows]
        omitted += left
    return Provenance(
        table=source.name,
        key=key,
        offset=offset,
        block=entry.hash,
        step=definition.step,
        inputs=tuple(inputs),
        row=values,
        omitted=omitted,
        definition=definition.source,
        mode=checkpoint.mode,
    )


def _input_rows(
    context: TableContext, shape: Shape, row: Mapping[str, Any], read: Mapping[str, Any], most: int
) -> Iterator[tuple[TableSource, list[dict[str, Any]], int]]:
    """The rows of each input that a row was made of, at the positions that its commit read them, and how many more."""
    positions = {table: at.offset for table, at in read.items()}
    scope: AllKeys | KeyValues = AllKeys()
    if shape.group:
        arrays = [pa.array([row[name]], shape.key_types[name]) for name in shape.group]
        scope = KeyValues(pa.Table.from_arrays(arrays, names=list(shape.group)))
    gathered = gather(shape, scope, positions, {})
    seen: set[tuple[str, int]] = set()
    for source, frame in zip(shape.inputs, gathered.frames, strict=True):
        rows = _of_the_key(shape, source, frame, row)
        count = rows.rows.num_rows if isinstance(rows, LocalFrame) else rows.frame.count()
        first = _rows(source.source, rows, most)
        fresh = [one for one in first if (source.table, one[OFFSET]) not in seen]
        seen.update((source.table, one[OFFSET]) for one in fresh)
        yield source.source, fresh, count - len(first)


def _log_records(
    context: TableContext, definition: Definition, row: Mapping[str, Any], read: Mapping[str, ReadAt], most: int
) -> Iterator[tuple[TableSource, list[dict[str, Any]], int]]:
    """The newest records of each log of a diff that brought news of a visit, up to where its commit read them.

    Of the wide table these are the ones of the version that the visit has.
    """
    facts, _ = json.JSONDecoder().raw_decode(definition.source)
    for table, at in read.items():
        source = stored_source(context, table)
        if at.offset is None:
            continue
        # Not every table of a diff has the version: in the one by time its rows are about all of them.
        version = [facts["fast_version"]] if table == facts["wide"] and facts["fast_version"] in row else []
        names = [*definition.keys, *version]
        values = pa.table({name: pa.array([row[name]], source.schema.column(name).type) for name in names})
        records = choose_values(source, values).of(read_changes(source, after=None, upto=at.offset))
        news = records.where(F.col("op").isin(int(Op.APPEND), int(Op.CORRECT_TO)))
        news = news.withColumnRenamed("offset", OFFSET).select(OFFSET, *map(quoted, source.schema.names))
        rows = _rows(source, SparkFrame(news.orderBy(F.desc(OFFSET))), most)
        yield source, list(reversed(rows)), news.count() - len(rows)


def _of_the_key(shape: Shape, source: Input, rows: CheckedFrame, row: Mapping[str, Any]) -> CheckedFrame:
    """Rows of an input that has more of the key than the group: those of this very key."""
    part = source.part_of(shape.keys)
    if source.is_reference or not isinstance(rows, LocalFrame) or set(part) <= set(shape.group):
        return rows
    arrays = [pa.array([row[name]], shape.key_types[name]) for name in part]
    return LocalFrame(filter_rows(KeyValues(pa.Table.from_arrays(arrays, names=list(part))), rows.rows))


def _rows(source: TableSource, found: CheckedFrame, most: int) -> list[dict[str, Any]]:
    """The first rows, at most so many, and fewer where they are large."""
    if isinstance(found, LocalFrame):
        return found.rows.slice(0, most).to_pylist()
    columns = {OFFSET: pa.int64(), **{column.name: column.type for column in source.schema.columns}}
    return first_small(found.frame, columns, most).to_pylist()

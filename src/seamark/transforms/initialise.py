"""First offsets for a step that is known to have processed some keys: never past a record that was not processed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.control import Mode, Position, RunRecord
from seamark.errors import InvalidStep, did_you_mean
from seamark.spark.frames import arrow_rows
from seamark.steps.running.commit import Covered, position_at
from seamark.steps.standing.known import Known
from seamark.steps.standing.own_rows import adopt_rows
from seamark.steps.standing.pins import Pending
from seamark.tables.context import TableContext
from seamark.tables.frame import its, quoted
from seamark.tables.read.choice import all_of
from seamark.tables.read.records import read_slices
from seamark.tables.read.rows import read_images
from seamark.tables.write.publish import Progress
from seamark.tables.write.transaction import Transaction
from seamark.tables.write.writing import writing
from seamark.transforms.backlog import Backlog, backlog_of
from seamark.transforms.declare.shape import Input, Shape
from seamark.transforms.declare.spec import StepSpec
from seamark.transforms.keying import LAST, ChangedBlocks, KeyedSpec
from seamark.transforms.keys.processed import processed_keys
from seamark.transforms.keys.tracking import unprocessed


def initialise_offsets(context: TableContext, spec: KeyedSpec, tables: Sequence[str]) -> dict[str, float]:
    """Set a step's positions as far as every older record is known to be processed; gives the times that were set."""
    for table in tables:
        if table not in spec.sources:
            raise InvalidStep(
                f"step '{spec.name}' does not read table '{table}'. No offset was set.",
                hint=did_you_mean(table, list(spec.sources), f"Inputs of '{spec.name}'"),
            )
    adopt_rows(context, spec)
    backlog = backlog_of(context, spec, Known.of(context))
    if not any(output.name in backlog.heads for output in spec.written):
        return {}  # it never ran
    if not isinstance(spec, StepSpec) or spec.keys_table is None:
        raise InvalidStep(
            f"step '{spec.name}' does not keep the keys that it has processed. No offset was set.",
            hint="declare it with track_keys=True; a step without that has its offsets from its own runs.",
        )
    head = backlog.heads.get(spec.keys_table.name)
    if head is None or head.last_offset is None:
        return {}
    standing = processed_keys(spec.keys_table, spec.definition, head.last_offset)
    positions = []
    for entry in backlog.pending:
        if entry.table in tables:
            found = _processed_up_to(context, spec.shape, backlog, entry, standing)
            if found is not None:
                positions.append(position_at(context, spec.name, found, backlog.generation(entry.table)))
    _move(context, spec, positions)
    return {p.input_table: p.update_ts for p in positions if p.update_ts is not None}


def _processed_up_to(
    context: TableContext, shape: Shape, backlog: Backlog, entry: Pending, standing: DataFrame
) -> Covered | None:
    """The newest commit of an input before its first record that is not known to be processed, or None."""
    pinned = Covered(entry.table, entry.pin.dataset_id, entry.pin.block_hash, entry.pin.sequence, entry.pin.offset)
    if entry.pin.offset is None:
        return pinned  # no record in it could have been missed
    first = _first_unprocessed(context, shape, backlog, entry, standing)
    blocks = context.control.index.slices(entry.table, after=None, upto=entry.pin.offset)
    if first is None:
        return pinned
    commits = {block.system_time for block in blocks if (block.last_offset or 0) >= first}
    done = [block for block in blocks if block.system_time not in commits]
    if not done:
        return None
    last = done[-1]
    return Covered(entry.table, entry.pin.dataset_id, last.hash, last.sequence, last.last_offset)


def _first_unprocessed(
    context: TableContext, shape: Shape, backlog: Backlog, entry: Pending, standing: DataFrame
) -> int | None:
    """The first record for which a key is not known to have been read that far."""
    blocks = tuple(context.control.index.slices(entry.table, after=None, upto=entry.pin.offset))
    firsts = []
    for source in (i for i in shape.inputs if i.table == entry.table):
        spoken = _spoken_keys(shape, source, ChangedBlocks(entry.table, blocks), backlog.read)
        left = unprocessed(backlog.spec.keying, spoken, entry.table, standing)
        firsts.append(arrow_rows(left.agg(F.min(LAST))).column(0)[0].as_py())
    return min((first for first in firsts if first is not None), default=None)


def _spoken_keys(shape: Shape, source: Input, changes: ChangedBlocks, read: Mapping[str, int | None]) -> DataFrame:
    """Each record of an input with each key that it leads to."""
    if not source.is_reference:
        records = read_slices(source.source, changes.blocks)
        return records.select(*[F.col(quoted(name)) for name in shape.keys], F.col(LAST))
    renamed = records_of(source, changes)
    rows = read_images(shape.primary.source, upto=read[shape.primary.table])
    same = [rows[quoted(mine)] == renamed[quoted(its(theirs))] for mine, theirs in source.join_keys]
    joined = rows.join(renamed, all_of(same))
    return joined.select(*[F.col(quoted(name)) for name in shape.keys], F.col(LAST))


def records_of(reference: Input, changes: ChangedBlocks) -> DataFrame:
    """All records of a reference: the columns by which it is joined, and their offsets."""
    theirs = dict.fromkeys(name for _, name in reference.join_keys)
    records = read_slices(reference.source, changes.blocks)
    return records.select(*[F.col(quoted(name)).alias(its(name)) for name in theirs], F.col(LAST))


def _move(context: TableContext, spec: KeyedSpec, positions: Sequence[Position]) -> None:
    if not positions:
        return
    now = context.clock.now().timestamp()
    progress = Progress(positions=tuple(positions), outputs=spec.outputs_key)
    with writing(context) as run:
        record = RunRecord(run.run_id, spec.name, Mode.INITIALISE.value, started=now, ended=now)
        Transaction(context, run).commit(record, progress=progress)

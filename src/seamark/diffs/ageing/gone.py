"""Visits that have left the state: the marks that they left, and the rows that those left with which grew too old.

A visit that was deleted has left nothing behind. One that grew too old wrote nothing when it left, so that its last
version remains: if it comes back, that version is taken back, and for that its row is looked up where the state's own
log retracted it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.clock import to_millis
from seamark.control import BlockEntry
from seamark.diffs.compute.visit_columns import Applying, asleep, gone
from seamark.diffs.declare.spec import EXPIRED, REASON, DiffLog, DiffSpec
from seamark.diffs.standing import as_frame, beside
from seamark.ledger import Op
from seamark.spark.frames import arrow_rows
from seamark.steps.rows.fetch import OFFSET, read_for
from seamark.steps.rows.scope import KeyValues
from seamark.tables.frame import LocalFrame, quoted
from seamark.tables.ordering import comparable
from seamark.tables.read.choice import all_of, choose_values
from seamark.tables.read.records import read_slices
from seamark.tables.read.rows import read_images
from seamark.tables.read.source import TableSource


@dataclass(frozen=True)
class Departed:
    """The marks of the visits of a run, and the rows of those that may come back after they grew too old."""

    marks: DataFrame | None = None
    rows: DataFrame | None = None

    def beside(self, spec: DiffSpec, visits: DataFrame, *, few: bool) -> DataFrame:
        """The visits with their marks, under `gone …`, and their rows, under `asleep …`."""
        if self.marks is not None:
            visits = beside(spec, visits, spec.gone, self.marks, gone, few=few)
        if self.rows is not None:
            visits = beside(spec, visits, spec.state, self.rows, asleep, few=few)
        return visits

    def how(self, *, keep_intermediate: bool) -> Applying:
        """How logs are applied to visits with these beside them."""
        return Applying(keep_intermediate, marks=self.marks is not None, asleep=self.rows is not None)


def departed_among(
    spec: DiffSpec, touched: pa.Table, records: Mapping[str, pa.Table], marks_upto: int | None, state_upto: int | None
) -> Departed:
    """What the visits of a few records have left, by key."""
    if marks_upto is None:
        return Departed()
    marks = read_for(spec.gone, KeyValues(touched), marks_upto).to_arrow()
    if marks.num_rows == 0:
        return Departed()
    frame = as_frame(spec.gone, LocalFrame(marks))
    coming = _coming_back(spec, marks.filter(pc.equal(marks.column(REASON), EXPIRED)), records)
    if coming.num_rows == 0:
        return Departed(frame)
    moments = _moments(spec.gone, marks_upto, coming.column(OFFSET).to_pylist())
    blocks = _blocks_at(spec.state, state_upto, moments)
    chosen = choose_values(spec.state, coming.select(list(spec.key_names)))
    return Departed(frame, _left_with(spec, chosen.of(read_slices(spec.state, blocks))))


def _coming_back(spec: DiffSpec, marks: pa.Table, records: Mapping[str, pa.Table]) -> pa.Table:
    """The marks of visits that a record may wake: one of a greater version, in a log that can."""
    if marks.num_rows == 0:
        return marks
    names, fast = list(spec.key_names), spec.fast_version.name
    newest: dict[Any, int] = {}
    for log in _waking(spec):
        table = records[log.name].filter(records[log.name].column(fast).is_valid())
        for key, version in zip(comparable(table.select(names)), table.column(fast).to_pylist(), strict=True):
            newest[key] = max(version, newest.get(key, version))
    versions = zip(comparable(marks.select(names)), marks.column(fast).to_pylist(), strict=True)
    return marks.filter(pa.array([newest.get(key, mark) > mark for key, mark in versions], pa.bool_()))


def _waking(spec: DiffSpec) -> list[DiffLog]:
    """The logs whose records can begin another life of a visit, or end one that nobody has seen."""
    return [log for log in spec.logs if log.number == 1 or log.deletes_by is not None]


def departed_of(
    spec: DiffSpec, records: Mapping[str, DataFrame], marks_upto: int | None, state_upto: int | None
) -> Departed:
    """The same for many records: all marks are joined to their visits."""
    if marks_upto is None:
        return Departed()
    marks = read_images(spec.gone, upto=marks_upto)
    names, fast = spec.key_names, quoted(spec.fast_version.name)
    expired = marks.where(F.col(REASON) == EXPIRED)
    moments: set[int] = set()
    for log in _waking(spec):
        unread = records[log.name]
        same = [expired[quoted(name)] == unread[quoted(name)] for name in names]
        waking = expired.join(unread, all_of([*same, unread[fast] > expired[fast]]), "left_semi")
        found = arrow_rows(waking.select(F.unix_millis("event_time").alias("at")).distinct())
        moments.update(found.column("at").to_pylist())
    own = marks.select(*map(quoted, spec.gone.schema.names))
    if not moments:
        return Departed(own)
    left = _left_with(spec, read_slices(spec.state, _blocks_at(spec.state, state_upto, moments)))
    # Others may have been deleted in the same commits: these have taken back what they wrote.
    keys = expired.select(*[F.col(quoted(name)).alias(f"gone {name}") for name in names])
    same = [left[quoted(name)] == keys[quoted(f"gone {name}")] for name in names]
    return Departed(own, left.join(keys, all_of(same), "left_semi"))


# --- where a visit left -----------------------------------------------------------------------------------------------


def _moments(source: TableSource, upto: int, offsets: Sequence[int]) -> set[int]:
    """When the commits were made that hold some records, in milliseconds."""
    blocks = source.context.control.index.slices(source.name, after=min(offsets) - 1, upto=upto)
    ends = [block.last_offset or 0 for block in blocks]
    return {to_millis(blocks[bisect_left(ends, offset)].system_time) for offset in offsets}


def _blocks_at(source: TableSource, upto: int | None, moments: set[int]) -> list[BlockEntry]:
    """The blocks of a table of the commits that were made at some moments: all tables of a commit have the same."""
    blocks = source.context.control.index.slices(source.name, after=None, upto=upto)
    return [block for block in blocks if to_millis(block.system_time) in moments]


def _left_with(spec: DiffSpec, records: DataFrame) -> DataFrame:
    """The rows that visits left the state with, from records of its log: of each the last one."""
    retracted = records.where(F.col("op") == int(Op.RETRACT))
    names = spec.state_schema.names
    whole = F.max_by(F.struct(*map(quoted, names)), "offset").alias("its last")
    grouped = retracted.groupBy(*[F.col(quoted(name)).alias(f"its {name}") for name in spec.key_names]).agg(whole)
    return grouped.select("`its last`.*")


# --- marks that are forgotten -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forgetting:
    """The marks that have been kept for long enough: those that records after < offset <= upto of their log left.

    The log of the marks is in the order of time, so that no other record needs to be looked at.
    """

    after: int | None
    upto: int
    before: datetime

    @staticmethod
    def due(spec: DiffSpec, after: int | None, upto: int | None, before: datetime) -> Forgetting | None:
        """What is to be forgotten of marks that are older than a moment, after what was forgotten already."""
        if upto is None or (after is not None and after >= upto):
            return None
        blocks = spec.gone.context.control.index.slices(spec.gone.name, after=after, upto=upto)
        old = [block.last_offset for block in blocks if block.system_time < before and block.last_offset is not None]
        return Forgetting(after, max(old), before) if old else None

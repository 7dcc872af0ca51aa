"""One record after another: what becomes of a visit with each record of a log, as in a run of its own.

Everything is an expression over columns, so that one record is applied in the same way to a row of a frame and, where a
log brings several records of a visit, inside a reduction over them.

A visit may live several times. A delete ends a life, and leaves its newest fast version as a mark; the next life begins
with a record of the first log whose version is greater. Whatever else is not newer than the mark is about a life that
is over: it comes too late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from seamark.diffs.compute.merge import MergeColumn
from seamark.diffs.declare.spec import DiffLog, DiffSpec

NO_VERSION = "CAST(NULL AS BIGINT)"
HEARD = "its heard"


@dataclass(frozen=True)
class Record:
    """A record of a log: its offset, its fast version, what it does, and the values that it brings."""

    offset: Column
    fast: Column
    takes_back: Column
    deletes: Column
    values: Mapping[str, Column]


@dataclass(frozen=True)
class Life:
    """What is known of a visit while the records of one log are applied.

    `fast` is the version of the current life, NULL if there is none, and `newest` the greatest that this log has for
    it. `mark` is the newest version of the lives that are over, NULL if there is none. `same` says whether it is
    still the life from before the log, and `ended` holds the newest version of each life that the log has ended. `late`
    counts records that came too late; `lacks_version` is whether a delete did not say which version it ends;
    `too_large` names a column whose sum does not fit; `heard` holds the offsets of the records that brought or ended a
    life, where that matters. `state` has the columns that the log brings.
    """

    fast: Column
    newest: Column
    mark: Column
    same: Column
    ended: Column
    late: Column
    lacks_version: Column
    too_large: Column
    heard: Column
    state: Mapping[str, Column]

    @property
    def facts(self) -> dict[str, Column]:
        """All that is known, by name. No column of a table has a space in its name."""
        return {
            "its fast": self.fast,
            "its newest": self.newest,
            "its mark": self.mark,
            "its same": self.same,
            "its ended": self.ended,
            "its late": self.late,
            "lacks version": self.lacks_version,
            "its sum": self.too_large,
            HEARD: self.heard,
            **self.state,
        }

    @staticmethod
    def of(facts: Mapping[str, Column], columns: list[str]) -> Life:
        """The same from its facts."""
        return Life(
            fast=facts["its fast"],
            newest=facts["its newest"],
            mark=facts["its mark"],
            same=facts["its same"],
            ended=facts["its ended"],
            late=facts["its late"],
            lacks_version=facts["lacks version"],
            too_large=facts["its sum"],
            heard=facts[HEARD],
            state={name: facts[name] for name in columns},
        )


def columns_of(spec: DiffSpec, log: DiffLog) -> list[MergeColumn]:
    """The columns of the state that a log brings."""
    return [column for column in spec.columns if log.has(column.name)]


def applied(spec: DiffSpec, log: DiffLog, life: Life, record: Record) -> Life:
    """What is known after one record of a log."""
    happens = _Happening.of(log, life, record)
    at_the_end = F.greatest(life.fast, record.fast)  # of a life that ends
    nothing = F.expr(NO_VERSION)
    state, too_large = {}, [life.too_large]
    for column in columns_of(spec, log):
        stands = life.state[column.name]
        state[column.name], overflows = _applied_value(column, happens, stands, life, record)
        too_large += [F.when(overflows, F.lit(column.name))] if overflows is not None else []
    return Life(
        fast=F.when(happens.counts, at_the_end).when(happens.ends, nothing).otherwise(life.fast),
        newest=F.when(happens.counts, F.greatest(life.newest, record.fast))
        .when(happens.ends, nothing)
        .otherwise(life.newest),
        mark=F.when(happens.ends, at_the_end).otherwise(life.mark),
        same=life.same & ~happens.ends,
        ended=F.when(happens.ends, F.concat(life.ended, F.array(at_the_end))).otherwise(life.ended)
        if log.deletes_by is not None
        else life.ended,
        late=life.late + F.when(happens.is_late, 1).otherwise(0),
        lacks_version=life.lacks_version | happens.lacks_version,
        too_large=F.coalesce(*too_large),
        heard=F.when(happens.counts | happens.ends, F.concat(life.heard, F.array(record.offset))).otherwise(life.heard)
        if spec.constant
        else life.heard,
        state=state,
    )


@dataclass(frozen=True)
class _Happening:
    """What a record does to a visit: at most one of these holds."""

    counts: Column  # it brings news of the current life, or begins one
    undoes: Column  # it takes back what it brought before
    ends: Column  # it ends a life, be it one that nobody has seen
    is_late: Column  # it is about a life that is over
    lacks_version: Column  # it ends a visit that nobody knows, and does not say at which version

    @staticmethod
    def of(log: DiffLog, life: Life, record: Record) -> _Happening:
        lives, marked = life.fast.isNotNull(), life.mark.isNotNull()
        is_newer = life.mark.isNull() | F.coalesce(record.fast > life.mark, F.lit(False))
        # A delete may not know its version: then it ends the current life.
        of_this_life = lives & (is_newer | record.fast.isNull())
        begins = ~lives & is_newer if log.number == 1 else ~lives & ~marked
        brings = ~record.deletes & ~record.takes_back
        takes = ~record.deletes & record.takes_back
        counts = brings & ((lives & is_newer) | begins)
        undoes = takes & lives & is_newer
        ends = record.deletes & (of_this_life | (~lives & is_newer & record.fast.isNotNull()))
        is_late = marked & ~counts & ~undoes & ~ends
        lacks_version = record.deletes & ~lives & ~marked & record.fast.isNull()
        return _Happening(counts, undoes, ends, is_late, lacks_version)


def _applied_value(
    column: MergeColumn, happens: _Happening, stands: Column, life: Life, record: Record
) -> tuple[Column, Column | None]:
    """What is known of a column after a record, and whether that is a sum that does not fit; None if it is no sum."""
    comes, lives = record.values[column.name], life.fast.isNotNull()
    newer = column.merged(stands, comes)
    merged = newer
    if column.has_sides:  # a record of a version that was left behind is the older side, not the newer one
        merged = F.when(record.fast < life.fast, column.merged(comes, stands)).otherwise(newer)
    undone = column.undone(stands, comes)
    after = (
        F.when(happens.counts, F.when(lives, merged).otherwise(comes))
        .when(happens.undoes, undone)
        .when(happens.ends, F.lit(None).cast(column.spark_type))
        .otherwise(stands)
    )
    if column.rule != "sum":
        return after, None
    added = happens.counts & lives & stands.isNotNull() & comes.isNotNull() & merged.isNull()
    return after, added | (happens.undoes & comes.isNotNull() & undone.isNull())

"""Columns that a visit never changes, by which its target may be ordered: one value in all records of a life.

The versions of a life are all greater than the one at which the life before it ended, so they tell lives apart. It does
not matter which records a run reads together, or whether they led to a record of the diff. A record that comes too late
for its life says nothing of it: the value of a life that is over may not be known any more.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from seamark.diffs.compute.lives import Record
from seamark.diffs.compute.news import brought_by
from seamark.diffs.compute.visit_columns import (
    ENDS,
    WIDE_BY_VERSION,
    applied_name,
    heard_name,
    old,
    stored_side,
    written_records,
)
from seamark.diffs.declare.spec import DiffLog, DiffSpec
from seamark.tables.frame import quoted
from seamark.tables.schema.types import spark_name

# Of one thing that is said of a column: of which life, what, and whether that life is to be looked at for it.
_LIFE, _VALUE, _COUNTS, _IS_DELETE, _VALUES = "its life", "its value", "it counts", "of a delete", "its values"
_WRITTEN = "its written"


def constant_stages(spec: DiffSpec) -> list[dict[str, Column]]:
    """The columns that the others here go by: what is written of a visit, what is said, and the values of each life.

    Each is computed once: they are long, and used in many places.
    """
    said = {_said_name(name): _said(spec, _col(_WRITTEN), name) for name in spec.constant}
    lives = {_lives_name(name): _lives(_col(_said_name(name))) for name in spec.constant}
    return [{_WRITTEN: written_records(spec)}, said, lives]


def constant_trouble(spec: DiffSpec) -> Column:
    """Why a life of a visit does not have one value of each constant column, as text; NULL if each has."""
    reasons = [F.lit(None).cast("string")]
    for name in spec.constant:
        values = F.transform(_col(_lives_name(name)), lambda life: life[_VALUES])
        always_null = f"its constant column '{name}' is NULL in all that is known of it"
        reasons.append(F.when(F.exists(values, lambda of_life: F.size(of_life) == 0), F.lit(always_null)))
        several = F.get(F.filter(values, lambda of_life: F.size(of_life) > 1), F.lit(0))
        first, second = (F.get(several, F.lit(place)).cast("string") for place in (0, 1))
        reasons.append(F.concat(F.lit(f"its constant column '{name}' changes from "), first, F.lit(" to "), second))
    return F.coalesce(*reasons)


def with_constants(spec: DiffSpec) -> Column:
    """The records of a visit with the constants of their life: those with an empty state must meet the others too."""

    def fill(record: Column) -> Column:
        life = _life_of(record[spec.fast_version.name])
        for name in spec.constant:
            mine = F.filter(_col(_lives_name(name)), lambda known: known[_LIFE] == life)
            record = record.withField(quoted(name), F.get(F.get(mine, F.lit(0))[_VALUES], F.lit(0)))
        return record

    return F.transform(_col(_WRITTEN), fill)


def _col(name: str) -> Column:
    return F.col(quoted(name))


def _said_name(column: str) -> str:
    return f"said {column}"


def _lives_name(column: str) -> str:
    return f"lives {column}"


def _lives(said: Column) -> Column:
    """The lives that have a row, a record or a value, each with the values that it has in a column."""
    lives = F.array_distinct(F.transform(F.filter(said, lambda one: one[_COUNTS]), lambda one: one[_LIFE]))
    return F.transform(lives, lambda life: F.struct(life.alias(_LIFE), _values(said, life).alias(_VALUES)))


def _values(said: Column, life: Column) -> Column:
    """The values of a life; a delete says which only where nobody else does."""

    def of(is_delete: bool) -> Column:
        mine = F.filter(said, lambda one: (one[_LIFE] == life) & (one[_IS_DELETE] == is_delete))
        return F.array_compact(F.array_distinct(F.transform(mine, lambda one: one[_VALUE])))

    return F.when(F.size(of(False)) > 0, of(False)).otherwise(of(True))


def _life_of(version: Column) -> Column:
    return F.size(F.filter(_col(ENDS), lambda end: end < version))


def _said(spec: DiffSpec, records: Column, name: str) -> Column:
    """What is said of a column: by the row before, by the logs, and by the records that are written.

    A life that had a row, or of which something is written, must have a value. Of others nothing is needed, and no two
    values may be said.
    """
    kind = spark_name(spec.log_schema.column(name).type)

    def entry(version: Column, value: Column, stands: Column, is_delete: Column) -> Column:
        return F.struct(
            _life_of(version).alias(_LIFE),
            value.cast(kind).alias(_VALUE),
            stands.alias(_COUNTS),
            is_delete.alias(_IS_DELETE),
        )

    yes, no = F.lit(True), F.lit(False)

    stood = stored_side(spec, old)
    version = stood.fast.version.cast("bigint")
    rows = [stood.state[name]] if name in stood.state else []
    rows += [stood.fast.wide[name]] if stood.fast.wide is not None and _is_wide(spec, name) else []
    known = F.array(*[F.when(version.isNotNull(), entry(version, value, yes, no)) for value in rows])

    def values_in(log: DiffLog) -> Column:
        def of(record: Record) -> Column:
            value = record.values.get(name, F.lit(None))
            if _is_wide(spec, name):
                value = F.coalesce(value, _col(WIDE_BY_VERSION)[record.fast][name])
            found = entry(record.fast, value, value.isNotNull() & ~record.deletes, record.deletes)
            return F.when(F.array_contains(_col(heard_name(log)), record.offset), found)

        return brought_by(spec, log, _col(applied_name(log)), of)

    fast = spec.fast_version.name
    written = F.transform(records, lambda record: entry(record[fast].cast("bigint"), record[name], yes, no))
    return F.array_compact(F.concat(known, *[values_in(log) for log in spec.logs], written))


def _is_wide(spec: DiffSpec, name: str) -> bool:
    return any(column.name == name for column in spec.wide_columns)

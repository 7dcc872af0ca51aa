"""Columns that a visit never changes, by which its target may be ordered: one value in all of its records."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from seamark.diffs.declare import DiffSpec
from seamark.diffs.news import values_told
from seamark.tables.frames import quoted


def constant_trouble(spec: DiffSpec, records: Column) -> Column:
    """Why the records of a visit do not have one value of each constant column, as text; NULL if they do."""
    reasons = [F.lit(None).cast("string")]
    for name in spec.constant:
        values = _values(spec, records, name)
        untold = f"its constant column '{name}' is NULL in all that is known of it"
        reasons.append(F.when((F.size(records) > 0) & (F.size(values) == 0), F.lit(untold)))
        first, second = (F.get(values, F.lit(place)).cast("string") for place in (0, 1))
        told = F.concat(F.lit(f"its constant column '{name}' changes from "), first, F.lit(" to "), second)
        reasons.append(F.when(F.size(values) > 1, told))
    return F.coalesce(*reasons)


def with_constants(spec: DiffSpec, records: Column) -> Column:
    """The records of a visit with its constants in all of them: those with an empty state must meet the others too."""
    values = {name: F.get(_values(spec, records, name), F.lit(0)) for name in spec.constant}

    def fill(record: Column) -> Column:
        for name, value in values.items():
            record = record.withField(quoted(name), value)
        return record

    return F.transform(records, fill)


def _values(spec: DiffSpec, records: Column, name: str) -> Column:
    """The values that a visit has in a column; of one that came and went between two runs, those that its logs say."""
    written = F.array_distinct(F.array_compact(F.transform(records, lambda record: record[name])))
    if all(column.name != name for column in spec.columns):  # one of the wide table, which every record has
        return written
    return F.when(F.size(written) > 0, written).otherwise(values_told(spec, name))

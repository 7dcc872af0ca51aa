"""The records of its logs that a row of a diff was made of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from seamark.ledger import Op
from seamark.steps.definition.definition import Definition
from seamark.steps.past.checkpoint import ReadAt
from seamark.steps.past.history import stored_source
from seamark.steps.past.why import Found, first_rows
from seamark.steps.rows.fetch import OFFSET
from seamark.tables.context import TableContext
from seamark.tables.frame import SparkFrame, quoted
from seamark.tables.read.choice import choose_values
from seamark.tables.read.records import read_changes


def log_records(
    context: TableContext, definition: Definition, row: Mapping[str, Any], read: Mapping[str, ReadAt], most: int
) -> Iterator[Found]:
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
        rows = first_rows(source, SparkFrame(news.orderBy(F.desc(OFFSET))), most)
        yield source, list(reversed(rows)), news.count() - len(rows)

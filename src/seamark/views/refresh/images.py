"""Changed images of a table that count for one of its sources: what changes no unit is left out."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.ledger import Op
from seamark.spark.causes import SPARK_ERRORS, Fault, fault_of
from seamark.spark.frames import arrow_rows
from seamark.tables.frame import CheckedFrame, LocalFrame, Session, SparkFrame, its, quoted, same_values
from seamark.tables.ordering import comparable
from seamark.tables.read.choice import all_of
from seamark.tables.read.source import TableSource
from seamark.transforms.keying import LAST, Changes, HandedInRows
from seamark.views.paths.actions import Action
from seamark.views.paths.facts import LiteralCondition

OP = "op"


def counted_images(action: Action, change: Changes, source: TableSource) -> CheckedFrame:
    """The images of a change that may change units, with the columns that a source uses and their offset.

    Left out are corrections whose images agree in all of these, images that fail a literal condition, and those with
    NULL where the path leaves the source.
    """
    columns = [name for name in source.schema.names if name in action.used]
    session = source.context.session
    if isinstance(change, HandedInRows):
        images = change.images(source, columns)
    else:
        images = _without_unchanged(change.images(source, [OP, *columns]), columns, session)
    images = holding(images, action.literals, source)
    for name in action.leaves_by:
        images = images.where_null(name, is_null=False)
    return images


def holding(rows: CheckedFrame, literals: Sequence[LiteralCondition], source: TableSource) -> CheckedFrame:
    """The rows for which all literal conditions of their source are true, as Spark says; it may keep others.

    A condition that fails on a row decides nothing here: the unit that the row belongs to is to fail by itself. So in
    large frames, where that would be known only later, only conditions that cannot fail are looked at.
    """
    local, session = rows.in_memory, source.context.session
    if local is None:
        sure = [literal for literal in literals if cannot_fail(literal, source)]
        return SparkFrame(_where(rows.to_spark(session), sure)) if sure else rows
    if not literals or local.num_rows == 0:
        return rows
    try:
        return LocalFrame(arrow_rows(_where(rows.to_spark(session), literals)).cast(local.schema))
    except SPARK_ERRORS as error:
        if fault_of(error) is not Fault.ROWS:
            raise
        return rows


def _where(rows: DataFrame, literals: Sequence[LiteralCondition]) -> DataFrame:
    named = rows.alias(_ROWS)
    return named.where(all_of([F.expr(f"({literal.sql(_ROWS)})") for literal in literals]))


_ROWS = "seamark_rows"
_COMPARED = re.compile(
    r"(?P<column>\S+(?: \. \S+)*) (?:=|==|<>|!=|<|>|<=|>=) (?:(?P<number>-? ?\d+)|(?P<text>'[^'\\]*'))"
)
_NULL_TEST = re.compile(r"\S+(?: \. \S+)* is (?:not )?null")


def cannot_fail(literal: LiteralCondition, source: TableSource) -> bool:
    """Whether a condition has a value for every row: a column compared with a constant of its kind, or with NULL."""
    if len(literal.used) != 1 or len(literal.columns) != 1:
        return False
    if _NULL_TEST.fullmatch(literal.computation.signs):
        return True
    found, kind = _COMPARED.fullmatch(literal.computation.signs), source.schema.column(literal.used[0]).type
    if found is None:
        return False
    return pa.types.is_string(kind) if found["text"] is not None else pa.types.is_integer(kind)


def _without_unchanged(images: CheckedFrame, columns: Sequence[str], session: Session) -> CheckedFrame:
    local = images.in_memory
    if local is not None:
        return LocalFrame(_changed_rows(local, columns).select([LAST, *columns]))
    return SparkFrame(_changed_in_spark(images.to_spark(session), columns).select(LAST, *map(quoted, columns)))


def _changed_rows(images: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows without corrections that change none of the columns; a correction's images follow one another."""
    corrections = images.filter(
        pc.is_in(images.column(OP), value_set=pa.array(_CORRECTIONS, images.schema.field(OP).type))
    )
    if corrections.num_rows == 0:
        return images
    ordered = corrections.sort_by(LAST)
    keys, offsets = comparable(ordered.select(list(columns))), ordered.column(LAST).to_pylist()
    same = {
        offset
        for place in range(0, len(keys) - 1, 2)
        if keys[place] == keys[place + 1]
        for offset in offsets[place : place + 2]
    }
    if not same:
        return images
    return images.filter(pc.invert(pc.is_in(images.column(LAST), value_set=pa.array(same, pa.int64()))))


_CORRECTIONS = [int(Op.CORRECT_FROM), int(Op.CORRECT_TO)]


def _changed_in_spark(images: DataFrame, columns: Sequence[str]) -> DataFrame:
    older = images.where(F.col(OP) == int(Op.CORRECT_FROM))
    newer = images.where(F.col(OP) == int(Op.CORRECT_TO)).select(
        (F.col(LAST) - 1).alias(its(LAST)), *[F.col(quoted(name)).alias(its(name)) for name in columns]
    )
    pairs = [(older[quoted(name)], newer[quoted(its(name))]) for name in columns]
    same = older.join(newer, (older[LAST] == newer[quoted(its(LAST))]) & same_values(pairs))
    unchanged = same.select(F.explode(F.array(F.col(LAST), F.col(LAST) + 1)).alias(its(LAST)))
    return images.join(unchanged, images[LAST] == unchanged[quoted(its(LAST))], "left_anti")

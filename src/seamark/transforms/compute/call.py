"""Calling a step's function: frames in, checked frames out."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.errors import BadOutput, BadValue, DuplicateKey, FrameMismatch, NullKey, SeamarkError, TableError
from seamark.spark.causes import SPARK_ERRORS, mark, raised_text
from seamark.spark.frames import arrow_rows
from seamark.steps.rows.fetch import OFFSET
from seamark.steps.rows.scope import AllKeys, KeyRange, KeyValues, Scope, filter_rows, held_rows, rows_outside
from seamark.steps.running.blame import KeyTrouble, blamed
from seamark.tables.computed import computed
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, SparkFrame, quoted
from seamark.tables.frames import OtherKinds, check_returned_frame
from seamark.tables.ordering import comparable
from seamark.tables.read.choice import all_of
from seamark.tables.read.source import TableSource
from seamark.tables.schema.convert import IN_UTC
from seamark.tables.write.change import appended_rows
from seamark.tables.write.slices import doubled_among
from seamark.transforms.compute.gather import Gathered
from seamark.transforms.compute.required import matched_result
from seamark.transforms.compute.returned import describe_returned, frames_returned
from seamark.transforms.declare.shape import Shape

FOREIGN_KEY = mark("foreign key")


def call(
    shape: Shape, function: Callable[..., Any], gathered: Gathered, context: TableContext, stack: ExitStack
) -> list[CheckedFrame]:
    """One call of a Spark function: its outputs, computed, checked and in memory or in files until the stack unwinds.

    `KeyTrouble` if the function fails on its rows, `BadOutput` if its outputs cannot take what it gave.
    """
    outputs = call_uncomputed(shape, function, gathered)
    pairs = zip(shape.outputs, outputs, strict=True)
    results = [_computed(shape, output, frame, gathered.scope, context, stack) for output, frame in pairs]
    for output, rows in zip(shape.outputs, results, strict=True):
        refuse_unknown_keys(gathered, output, rows)
    return results


def call_uncomputed(shape: Shape, function: Callable[..., Any], gathered: Gathered) -> list[CheckedFrame]:
    """One call of a Spark function: its outputs with the right columns, yet to be computed."""
    frames = [to_spark(source.source, frame) for source, frame in zip(shape.inputs, gathered.frames, strict=True)]
    try:
        answer = function(*frames)
    except (AnalysisException, SeamarkError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise blamed(error) from error
    pairs = zip(shape.outputs, as_outputs(shape, answer), strict=True)
    checked = [(output, check_output(shape, output, frame)) for output, frame in pairs]
    return [matched_result(shape, gathered.frames, output, frame) for output, frame in checked]


def to_spark(source: TableSource, rows: CheckedFrame) -> DataFrame:
    """Rows as the function gets them: the table's columns and nothing else."""
    return rows.drop(OFFSET).to_spark(source.context.session, source.schema.spark())


def as_outputs(shape: Shape, answer: Any) -> list[Any]:
    """What the function returned as one frame per output."""
    given = frames_returned(answer, len(shape.outputs))
    if given is None:
        raise BadOutput(
            f"step '{shape.step}' has {len(shape.outputs)} output(s) ({', '.join(o.name for o in shape.outputs)}), and "
            f"its function returned {describe_returned(answer)}. Nothing of this batch was written.",
            hint="return one frame per output, in the order of outputs=[…].",
        )
    return given


def check_output(shape: Shape, output: TableSource, frame: Any) -> CheckedFrame:
    """The frame with the output's columns, or `BadOutput`."""
    try:
        return check_returned_frame(output.name, output.schema, frame, with_nulls=not shape.shares_all_keys)
    except (BadValue, OtherKinds) as error:  # a key with this value is to blame, as it is where Spark finds it
        raise KeyTrouble(error) from None
    except (FrameMismatch, NullKey, TableError) as error:
        raise bad_output(shape, output, error) from None


def bad_output(shape: Shape, output: TableSource, error: TableError) -> BadOutput:
    """An error about a frame as one that names the step and the output."""
    return BadOutput(
        f"step '{shape.step}' gave what its output '{output.name}' cannot take: {error.what} "
        "Nothing of this batch was written.",
        hint=error.hint,
    )


def _computed(
    shape: Shape, output: TableSource, frame: CheckedFrame, scope: Scope, context: TableContext, stack: ExitStack
) -> CheckedFrame:
    arrow = pa.schema([pa.field(column.name, column.type) for column in output.schema.columns])
    try:
        rows = stack.enter_context(computed(context, frame, arrow))
    except SPARK_ERRORS as error:
        raise blamed(error) from error
    if rows.in_memory is None:
        return check_scope(shape, output, rows.to_spark(context.session), scope)
    return LocalFrame(check_rows(shape, output, rows.in_memory, scope))


def check_rows(shape: Shape, output: TableSource, rows: pa.Table, scope: Scope) -> pa.Table:
    """Rows in memory, each of whose keys is whole, there once and of the scope; `BadOutput` otherwise."""
    if not shape.shares_all_keys:
        for name in output.schema.key:  # a row of an outer join without a partner has no key, and belongs to none
            rows = rows.filter(rows.column(name).is_valid())
    nulls = {name: rows.column(name).null_count for name in output.schema.required}
    wrong = {name: count for name, count in nulls.items() if count}
    if wrong:
        listed = ", ".join(f"column '{name}' is NULL in {count} row(s)" for name, count in wrong.items())
        hint = "key columns and columns declared NOT NULL need a value in every row."
        raise bad_output(shape, output, NullKey(f"{listed}.", hint=hint))
    mine = filter_rows(scope, rows)
    if mine.num_rows < rows.num_rows and shape.shares_all_keys:
        raise _foreign(shape, output, rows, scope)
    doubled = doubled_among(output.schema, appended_rows(mine))
    if doubled is not None:
        shown = ", ".join(f"{name}={value}" for name, value in doubled.items())
        raise bad_output(
            shape, output, DuplicateKey(f"the key {shown} is there more than once.", hint="one row per key.")
        )
    return mine.cast(output.schema.arrow)


def refuse_unknown_keys(gathered: Gathered, output: TableSource, rows: CheckedFrame) -> None:
    """Refuse rows for keys that no input has, when all keys are computed: there the scope itself excludes no key.

    Checked for rows in memory only; for large frames it would cost another join.
    """
    shape, columns = gathered.shape, list(gathered.shape.keys)
    given, local = isinstance(gathered.scope, KeyValues), rows.in_memory
    if given or not columns or not shape.shares_all_keys or shape.looked_up or local is None:
        return
    pairs = zip(shape.inputs, gathered.frames, strict=True)
    plain = [frame.in_memory for source, frame in pairs if not source.is_reference]
    tables = [table for table in plain if table is not None]
    if len(tables) < len(plain):
        return
    known = {key for table in tables for key in comparable(table.select(columns))}
    foreign = [place for place, key in enumerate(comparable(local.select(columns))) if key not in known]
    if foreign:
        key = {name: local.column(name)[foreign[0]].as_py() for name in output.schema.key}
        raise _outside_error(shape, output, key, len(foreign))


def _foreign(shape: Shape, output: TableSource, rows: pa.Table, scope: Scope) -> BadOutput:
    holds = held_rows(scope, rows)
    key = {name: rows.column(name)[holds.index(False)].as_py() for name in output.schema.key}
    return _outside_error(shape, output, key, holds.count(False))


def _outside_error(shape: Shape, output: TableSource, key: dict[str, Any], count: int | None) -> BadOutput:
    shown = ", ".join(f"{name}={value}" for name, value in key.items())
    many = "" if count is None else f" ({count} such row{'s' * (count != 1)})"
    return BadOutput(
        f"step '{shape.step}' gave its output '{output.name}' a row with key {shown}, which is not among the transform "
        f"keys that it was called for{many}. Nothing of this batch was written.",
        hint="a row's transform keys must come from the rows it was made of; where they are NULL there, leave the rows "
        "out, or fill the column in a step before.",
    )


def check_scope(shape: Shape, output: TableSource, rows: DataFrame, scope: Scope) -> SparkFrame:
    """A large frame whose rows all belong to the scope; where inputs share only part of the keys, those that do."""
    if not scope.columns:
        return SparkFrame(rows)
    if not shape.shares_all_keys:
        return _with_whole_keys(output, rows, scope)
    foreign = arrow_rows(rows_outside(scope, rows, output).limit(1))
    if foreign.num_rows:
        key = {name: foreign.column(name)[0].as_py() for name in output.schema.key}
        raise _outside_error(shape, output, key, None)
    return SparkFrame(rows)


def asserted_scope(shape: Shape, output: TableSource, rows: CheckedFrame, scope: AllKeys | KeyRange) -> CheckedFrame:
    """A frame yet to be computed, in which Spark itself refuses a row that does not belong to the scope."""
    if rows.in_memory is not None:
        return LocalFrame(check_rows(shape, output, rows.in_memory, scope))
    frame = rows.to_spark(output.context.session)
    if not shape.shares_all_keys:
        return _with_whole_keys(output, frame, scope)
    if isinstance(scope, AllKeys):
        return rows
    key = F.to_json(F.struct(*[F.col(quoted(name)) for name in output.schema.key]), IN_UTC)
    refused = F.raise_error(F.concat(F.lit(FOREIGN_KEY), key)).cast("boolean")
    return SparkFrame(frame.where(F.when(scope.predicate(output), True).otherwise(refused)))


def _with_whole_keys(output: TableSource, rows: DataFrame, scope: Scope) -> SparkFrame:
    """The rows of a scope, without rows that have no key: those of an outer join without a partner."""
    whole = all_of([F.col(quoted(name)).isNotNull() for name in output.schema.key])  # NaN is a value
    return SparkFrame(scope.choice(output).of(rows.where(whole)))


def foreign_key_in(shape: Shape, error: BaseException) -> BadOutput | None:
    """The error, if Spark refused a row that does not belong to the scope."""
    found = raised_text(error, FOREIGN_KEY)
    return None if found is None else _outside_error(shape, shape.outputs[0], json.loads(found), None)

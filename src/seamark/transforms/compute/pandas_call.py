"""Functions for pandas: called on the executors with whole transform keys, where failing keys are caught."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from seamark.errors import BadOutput
from seamark.spark.causes import OWN_TROUBLE
from seamark.spark.frames import arrow_rows
from seamark.steps.rows.fetch import OFFSET
from seamark.steps.rows.keys import key_texts
from seamark.steps.rows.scope import KeyRange, Scope
from seamark.steps.running.blame import KeyTrouble, function_failed
from seamark.tables.computed import computed
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, Session, SparkFrame, quoted
from seamark.tables.read.choice import all_of
from seamark.tables.read.source import TableSource
from seamark.tables.schema.types import spark_type
from seamark.transforms.compute.call import check_rows, check_scope, refuse_unknown_keys
from seamark.transforms.compute.gather import Gathered, has_scope
from seamark.transforms.compute.pandas_worker import ERROR, FATAL, NUMBER, RECORD, TAG, WholeInput, Worker
from seamark.transforms.compute.required import matched_result
from seamark.transforms.declare.shape import Shape
from seamark.transforms.keying import Results


def compute_pandas(
    gathered: Gathered,
    function: Callable[..., Any],
    context: TableContext,
    stack: ExitStack,
    *,
    fail_fast: bool,
    most_failed: int,
) -> Results:
    """What a pandas function gives for a scope, in one Spark job; failing keys are left out, each with its error.

    No more than `most_failed` of them are held, and one to show that there are more; the others are counted.
    """
    shape, results = gathered.shape, Results.none(gathered.shape.outputs)
    if gathered.holds_no_key:
        return results
    context.session()  # columns of Spark's cannot be named before there is a session, and reading may have needed none
    columns = tuple(gathered.scope.columns or shape.group)
    keyed = _keyed_frames(gathered, columns)
    answer = _answer_schema(shape, columns)
    worker = Worker(
        function=cloudpickle.dumps(function),  # type: ignore[no-untyped-call]
        columns=columns,
        inputs=tuple(source.source.schema.arrow for source in shape.inputs),
        whole=_whole_inputs(gathered, keyed, context, stack),
        outputs=tuple((output.name, output.schema) for output in shape.outputs),
        answer=answer,
        own_trouble=OWN_TROUBLE,
        may_lack_keys=not shape.shares_all_keys,
    )
    frame = _tagged(gathered, columns, keyed, context).mapInArrow(worker, _spark_schema(answer))
    # The worker catches what the function raises. Any other error is not the function's: no key is to blame.
    found = stack.enter_context(computed(context, SparkFrame(frame), answer))
    wrong = held_failures(found, results, most_failed, context.session)
    _collect_failures(shape, wrong, columns, results, fail_fast=fail_fast)
    for number, output in enumerate(shape.outputs):
        rows = _output_rows(shape, output, number, found, gathered.scope)
        rows = matched_result(shape, gathered.frames, output, rows)
        refuse_unknown_keys(gathered, output, rows)
        results.outputs[number].append(rows)
    return results


def _answer_schema(shape: Shape, columns: Sequence[str]) -> pa.Schema:
    outputs = []
    for number, output in enumerate(shape.outputs):
        fields = [field.with_nullable(True) for field in output.schema.arrow]
        outputs.append(pa.field(f"out {number}", pa.struct(fields)))
    keys = [pa.field(name, shape.key_types[name]) for name in columns]
    report = [pa.field(NUMBER, pa.int32()), pa.field(ERROR, pa.string()), pa.field(FATAL, pa.bool_())]
    return pa.schema([*keys, *outputs, *report])


def _spark_schema(schema: pa.Schema) -> StructType:
    made = StructType()
    for field in schema:
        made = made.add(field.name, spark_type(field.type))
    return made


# --- rows in ----------------------------------------------------------------------------------------------------------


def _tagged(
    gathered: Gathered, columns: Sequence[str], keyed: Sequence[DataFrame | None], context: TableContext
) -> DataFrame:
    """One frame with the rows of all inputs that belong to keys, each key's rows together, in order of the keys."""
    shape = gathered.shape
    if not columns:  # one global key: a single call, with every input whole
        return context.session().range(0, 1, 1, 1).select(F.lit(-1).alias(TAG))
    pieces = []
    for number, frame in enumerate(keyed):
        if frame is None:
            continue
        names = shape.inputs[number].source.schema.names
        row = F.struct(*[F.col(quoted(f"in {name}")).alias(name) for name in names]).alias(f"in {number}")
        keys = [F.col(quoted(f"key {name}")).alias(name) for name in columns]
        pieces.append(frame.select(*keys, F.lit(number).alias(TAG), F.col(quoted(RECORD)), row))
    union = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), pieces)
    by = [quoted(name) for name in columns]
    return union.repartition(*by).sortWithinPartitions(*by, quoted(TAG))


def _keyed_frames(gathered: Gathered, columns: Sequence[str]) -> list[DataFrame | None]:
    """For each input its rows with their keys, under names that cannot meet; None for one that is given whole.

    Each row comes with the record that made it: by that a call knows a row which several of its keys name.
    """
    shape, scope = gathered.shape, KeyRange(tuple(columns), None, None)
    frames: list[DataFrame | None] = []
    for source, rows in zip(shape.inputs, gathered.frames, strict=True):
        values = [F.col(quoted(name)).alias(f"in {name}") for name in source.source.schema.names]
        values.append(F.col(OFFSET).alias(RECORD))
        if has_scope(shape, scope, source):
            keys = [F.col(quoted(name)).alias(f"key {name}") for name in columns]
            frames.append(_in_spark(source.source, rows).select(*keys, *values))
        elif columns and source.is_reference and set(columns) <= set(shape.primary.columns):
            reference = _in_spark(source.source, rows).select(*values)
            frames.append(_named_by(gathered, columns, source.join_keys, reference))
        else:
            frames.append(None)
    return frames


def _in_spark(source: TableSource, rows: CheckedFrame) -> DataFrame:
    """Rows with their `_offset`."""
    schema = StructType([StructField(OFFSET, LongType()), *source.schema.spark().fields])
    return rows.select(schema.names).to_spark(source.context.session, schema)


def _named_by(
    gathered: Gathered, columns: Sequence[str], pairs: Sequence[tuple[str, str]], reference: DataFrame
) -> DataFrame:
    """A reference's rows, once for each key whose rows name them."""
    shape = gathered.shape
    rows = _in_spark(shape.primary.source, gathered.frames[shape.inputs.index(shape.primary)])
    keys = [F.col(quoted(name)).alias(f"key {name}") for name in columns]
    names = [F.col(quoted(mine)).alias(f"by {mine}") for mine, _ in pairs]
    named = rows.select(*keys, *names).distinct()
    same = [named[quoted(f"by {mine}")] == reference[quoted(f"in {theirs}")] for mine, theirs in pairs]
    joined = named.join(reference, all_of(same))
    return joined.drop(*[f"by {mine}" for mine, _ in pairs])


def _whole_inputs(
    gathered: Gathered, keyed: Sequence[DataFrame | None], context: TableContext, stack: ExitStack
) -> tuple[WholeInput, ...]:
    """The inputs that every call gets whole: those whose rows do not have their key.

    Large ones are in files, which each task reads: never on the driver.
    """
    whole = []
    for number, (source, rows) in enumerate(zip(gathered.shape.inputs, gathered.frames, strict=True)):
        if keyed[number] is not None:
            continue
        kept = stack.enter_context(computed(context, rows.drop(OFFSET), source.source.schema.arrow))
        if kept.in_memory is not None:
            names = list(source.source.schema.names)
            whole.append(WholeInput(number, kept.in_memory.select(names)))
        else:
            whole.append(WholeInput(number, None, tuple(kept.to_spark(context.session).inputFiles())))
    return tuple(whole)


# --- rows and errors out ----------------------------------------------------------------------------------------------


def held_failures(found: CheckedFrame, results: Results, most: int, session: Session) -> pa.Table:
    """The lines about failed keys, what stops the step first; of too many only the first."""
    if found.in_memory is not None:
        return found.in_memory.filter(found.in_memory.column(ERROR).is_valid())
    lines = found.to_spark(session).where(F.col(quoted(ERROR)).isNotNull())
    wrong = arrow_rows(lines.orderBy(F.col(quoted(FATAL)).desc()).limit(most + 1))
    if wrong.num_rows > most:
        results.further = lines.count() - wrong.num_rows
    return wrong


def _collect_failures(
    shape: Shape, wrong: pa.Table, columns: Sequence[str], results: Results, *, fail_fast: bool
) -> None:
    keys = wrong.select(list(columns)).cast(pa.schema([pa.field(n, shape.key_types[n]) for n in columns]))
    for place, (text, fatal) in enumerate(zip(wrong.column(ERROR), wrong.column(FATAL), strict=True)):
        key = keys.slice(place, 1) if columns else pa.table({"": pa.nulls(1)}).select([])
        if fatal.as_py():
            raise BadOutput(
                f"step '{shape.step}', called for the keys from {key_texts(key)[0]} on, gave what its outputs cannot "
                f"take: {text.as_py()} Nothing of this batch was written.",
                hint="return one pandas frame per output, with the output's columns.",
            )
        if fail_fast:
            raise function_failed(shape.step, key_texts(key)[0], KeyTrouble(RuntimeError(text.as_py())))
        results.failed.append((key, text.as_py()))
        results.causes.append(RuntimeError(text.as_py()))


def _output_rows(shape: Shape, output: TableSource, number: int, found: CheckedFrame, scope: Scope) -> CheckedFrame:
    names, place = output.schema.names, f"out {number}"
    local = found.in_memory
    if local is None:
        rows = found.to_spark(output.context.session).where(F.col(quoted(NUMBER)) == number)
        own = rows.select(*[F.col(f"{quoted(place)}.{quoted(name)}").alias(name) for name in names])
        return check_scope(shape, output, own, scope)
    numbers = local.column(NUMBER).to_pylist()
    structs = local.filter(pa.array([n == number for n in numbers], pa.bool_())).column(place).combine_chunks()
    arrow = pa.schema([field.with_nullable(True) for field in output.schema.arrow])
    rows = pa.Table.from_arrays(structs.flatten(), names=list(names)).cast(arrow)
    return LocalFrame(check_rows(shape, output, rows, scope))

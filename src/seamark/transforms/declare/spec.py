"""A declared step, resolved against a store's tables and checked."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import pyarrow as pa
from pyspark import cloudpickle

from seamark.control import outputs_key
from seamark.errors import InvalidStep, SeamarkError, SeamarkWarning, TableError, nearest, warn
from seamark.steps.definition.definition import Definition, FunctionText, function_text, normal_sql, require_source
from seamark.steps.definition.project_files import is_project_module
from seamark.steps.definition.signature import call_misfit
from seamark.steps.past.history import PastCommit
from seamark.steps.running.run_config import OnChange
from seamark.tables.frame import CheckedFrame
from seamark.tables.read.source import TableSource
from seamark.tables.schema.table_schema import Column, check_table_name
from seamark.tables.table import Table, TableOrName
from seamark.transforms.compute.call import bad_output
from seamark.transforms.declare.declaration import (
    Algorithm,
    BatchTransform,
    CommitUnit,
    ComputeInput,
    InputLike,
    JoinSpec,
)
from seamark.transforms.declare.nondeterminism import warn_if_nondeterministic
from seamark.transforms.declare.shape import Input, Shape, make_shape
from seamark.transforms.declare.sql_text import check_named, sql_function
from seamark.transforms.function_keying import FunctionKeying, as_gathered
from seamark.transforms.keying import GatheredRows, Read
from seamark.transforms.keys.tracking import KEY, READ_AT, keys_schema, keys_table_name, processed_rows
from seamark.transforms.past_keying import keying_at_commit

log = logging.getLogger("seamark.run")

FindTable = Callable[[str], Table]


class StepWarning(SeamarkWarning):
    """Something about a step that may be meant, and may be a mistake."""


@dataclass(frozen=True)
class StepSpec:
    """A step that can be run: its shape, its function, its options and its definition."""

    name: str
    shape: Shape
    function: Callable[..., Any]
    options: BatchTransform
    keys_table: TableSource | None = None  # which keys were processed, for a step with track_keys

    @cached_property
    def definition(self) -> Definition:
        """What its rows are made by. Asked for only when the program is complete: helpers may come below the step."""
        declared, outputs = self.options, [output.name for output in self.written]
        if isinstance(declared.func, str):
            normal = normal_sql(declared.func)
            kind, function, text = "sql", self.name, FunctionText(declared.func, normal, normal)
        else:
            kind, function = "pandas" if declared.pandas else "python", _function_name(declared.func, self.name)
            text = function_text(self.name, declared.func, declared.version)
        return Definition(
            step=self.name,
            kind=kind,
            function=function,
            source=text.source,
            digest=text.digest,
            inputs=tuple((i.table, i.required, i.join_keys) for i in self.shape.inputs),
            outputs=tuple(outputs),
            keys=self.shape.keys,
            version=declared.version,
            first_digest=text.first_digest,
        )

    @property
    def keying(self) -> FunctionKeying:
        """Its keys, which columns of its inputs are."""
        is_pandas = self.options.pandas
        function = self.function if is_pandas else self._watched
        return FunctionKeying(self.shape, function, is_pandas, self.options.batch_keys)

    @property
    def deferred(self) -> frozenset[str]:
        """None: a run takes the changes of all inputs of a function."""
        return frozenset()

    def _watched(self, *frames: Any) -> Any:
        """What the function returns; if it depends on more than the inputs, that is warned of."""
        answer = self.function(*frames)
        warn_if_nondeterministic(self.name, self.definition.digest, answer)
        return answer

    def keying_of(self, commit: PastCommit) -> FunctionKeying | None:
        """The keys as they were when a commit was made; None if it was made by a function other than today's."""
        return keying_at_commit(self.definition, replace(self.keying, function=self.function), commit)

    def why_not_keep(self, older: Definition) -> str | None:
        """None: rows are found by their keys, whatever made them."""
        return None

    def processed(self, gathered: GatheredRows, failed: pa.Table | None, read: Read) -> CheckedFrame | None:
        """The rows for the table of processed keys after a batch; None for a step that keeps none."""
        if self.keys_table is None:
            return None
        rows = as_gathered(gathered)
        return processed_rows(self.keying, rows.processed_keys(), failed, read, self.keys_table)

    @property
    def sources(self) -> Mapping[str, TableSource]:
        """The tables that it reads, each once, by name."""
        return self.shape.sources

    @property
    def outputs(self) -> tuple[TableSource, ...]:
        """The tables that it is there for."""
        return self.shape.outputs

    @property
    def may_have_written(self) -> tuple[TableSource, ...]:
        """All tables that commits of it may have written."""
        return self.written

    def explain(self, output: TableSource, error: TableError) -> SeamarkError:
        """An error about rows that do not fit an output, as one that names the step."""
        return bad_output(self.shape, output, error)

    @property
    def filled(self) -> tuple[str, ...]:
        """The tables that its positions and failed keys are about, by name."""
        return tuple(output.name for output in self.written)

    @property
    def outputs_key(self) -> str:
        """The same as the control database names them."""
        return outputs_key(self.filled)

    @property
    def written(self) -> tuple[TableSource, ...]:
        """All tables that a commit of the step writes."""
        return (*self.shape.outputs, *((self.keys_table,) if self.keys_table else ()))


def resolve(declared: BatchTransform, find: FindTable) -> StepSpec:
    """The step that a declaration describes, or an error that names what is wrong with it."""
    name = declared.name or _own_name(declared)
    check_table_name(name)
    _check_options(name, declared)
    inputs = [_input(name, given, find) for given in declared.inputs]
    outputs = [_table(given, find).source for given in declared.outputs]
    shape = make_shape(name, inputs, outputs, declared.transform_keys)
    _check_parameters(shape, declared.func)
    _check_pandas(shape, declared)
    keys_table = _keys_table(name, shape) if declared.track_keys else None
    if not isinstance(declared.func, str):
        require_source(name, declared.func, declared.version)
    if declared.transform_keys is None and not shape.keys:
        _say_one_result(shape)
    return StepSpec(name, shape, _callable(declared, shape), declared, keys_table)


def _own_name(declared: BatchTransform) -> str:
    name = getattr(declared.func, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise InvalidStep(
            "a step needs a name, and its function has none of its own. It was not added.", hint='give name="…".'
        )
    return name


_CHOICES = {"commit": get_args(CommitUnit), "algorithm": get_args(Algorithm), "on_change": get_args(OnChange)}


def _check_options(name: str, declared: BatchTransform) -> None:
    for option, choices in _CHOICES.items():
        value = getattr(declared, option)
        if value not in choices:
            raise InvalidStep(
                f"step '{name}': {option}={value!r} is not one of {', '.join(map(repr, choices))}. It was not added."
            )
    for option in ("batch_rows", "batch_keys", "max_failed_keys"):
        value = getattr(declared, option)
        if option == "batch_keys" and value is None:
            continue  # as many as fit
        if not isinstance(value, int) or isinstance(value, bool) or value < (0 if option == "max_failed_keys" else 1):
            raise InvalidStep(f"step '{name}': {option}={value!r} is not a positive number. It was not added.")
    if declared.algorithm == "v1" and not declared.track_keys:
        raise InvalidStep(
            f"step '{name}': algorithm=\"v1\" compares with the keys that were processed, which nobody keeps. "
            "It was not added.",
            hint="give track_keys=True as well.",
        )


def _input(step: str, given: InputLike, find: FindTable) -> Input:
    match given:
        case JoinSpec():
            table, required, join = given.table, False, given.join_keys
        case ComputeInput():
            if given.join_type not in ("inner", "full"):
                raise InvalidStep(
                    f"step '{step}': join_type={given.join_type!r} is neither 'inner' nor 'full'. It was not added."
                )
            table, required, join = given.dt, given.join_type == "inner", given.join_keys
        case _:
            table, required, join = given, False, None
    return Input(_table(table, find).source.visible, required, tuple((join or {}).items()))


def _table(given: TableOrName, find: FindTable) -> Table:
    if isinstance(given, str):
        return find(given)
    if not isinstance(given, Table):
        raise InvalidStep(f"{given!r} is not a table. The step was not added.", hint="give a table or its name.")
    return given


def _check_pandas(shape: Shape, declared: BatchTransform) -> None:
    if declared.pandas and isinstance(declared.func, str):
        raise InvalidStep(f"step '{shape.step}' is SQL, which is not a function for pandas. It was not added.")
    if declared.pandas and shape.looked_up:
        raise InvalidStep(
            f"step '{shape.step}': its transform key {', '.join(shape.looked_up)} is found only through a reference, "
            "and a function for pandas gets the rows of whole keys. It was not added.",
            hint="make a step that adds the column to the rows first, or write the function for Spark.",
        )
    if declared.track_keys and (not shape.keys or shape.looked_up or not shape.shares_all_keys):
        raise InvalidStep(
            f"step '{shape.step}': track_keys needs transform keys that each plain input has. It was not added.",
            hint='leave track_keys out; only algorithm="v1" and first offsets need it.',
        )


def _check_parameters(shape: Shape, function: Callable[..., Any] | str) -> None:
    misfit = None if isinstance(function, str) else call_misfit(function, len(shape.inputs))
    if misfit is not None:
        raise InvalidStep(
            f"step '{shape.step}': its function {misfit}, and it has {len(shape.inputs)} input(s): "
            f"{', '.join(source.table for source in shape.inputs)}. It was not added.",
            hint="give the function one parameter for each input, in the order of inputs=[…].",
        )


def _say_one_result(shape: Shape) -> None:
    """Say that a step has no transform keys though nobody asked for that, and which columns may have been meant."""
    keys = [name for name in shape.outputs[0].schema.key if all(name in o.schema.key for o in shape.outputs)]
    columns = shape.primary.columns
    meant = [f"'{close}' of '{shape.primary.table}' for '{k}'" for k in keys if (close := _nearest(k, columns))]
    for source in shape.inputs:
        found = [name for name in keys if name in source.columns] if source is not shape.primary else []
        meant += [f"'{name}' of '{source.table}', with transform_keys=[\"{name}\"]" for name in found]
    text = (
        f"step '{shape.step}': no column of the outputs' key ({', '.join(keys) or 'none in common'}) is one of its "
        f"first input '{shape.primary.table}', so that all of it is one result, which any change computes as a whole. "
        + (f"Did you mean {', '.join(meant)}? " if meant else "")
        + "If one result is meant, give transform_keys=[]."
    )
    warn(log, text, StepWarning, stacklevel=5)


def _nearest(name: str, columns: Sequence[str]) -> str | None:
    """The column that a name is most like, whatever the case of the letters."""
    lower = {column.lower(): column for column in columns}
    close = nearest(name.lower(), lower)
    return lower[close] if close else None


def _keys_table(name: str, shape: Shape) -> TableSource:
    context = shape.primary.source.context
    own = next((key for key in shape.keys if key in (KEY, READ_AT)), None)
    if own is not None:
        raise InvalidStep(
            f"step '{name}': track_keys keeps a table that has a column '{own}' of its own, which is the name of a "
            "transform key. It was not added.",
            hint="rename the column, or leave track_keys out.",
        )
    columns = tuple(Column(key, shape.key_types[key], True) for key in shape.keys)
    return TableSource(context, keys_table_name(name), keys_schema(columns))


def _callable(declared: BatchTransform, shape: Shape) -> Callable[..., Any]:
    if isinstance(declared.func, str):
        return _sql_function(declared.func, shape)
    module = sys.modules.get(getattr(declared.func, "__module__", ""))
    if module is not None and module.__name__ != "__main__" and is_project_module(module):
        # Executors may not find a file of the project by its name: its functions travel by value.
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return declared.func


def _sql_function(text: str, shape: Shape) -> Callable[..., Any]:
    names = [source.table for source in shape.inputs]
    if len(set(names)) != len(names):
        raise InvalidStep(
            f"step '{shape.step}' is SQL and reads a table twice, which its text cannot tell apart. It was not added.",
            hint="write it as a function.",
        )
    check_named(shape.step, text, names)
    return sql_function(text, names, shape.primary.source)


def _function_name(function: Callable[..., Any], step: str) -> str:
    return str(getattr(function, "__qualname__", step))

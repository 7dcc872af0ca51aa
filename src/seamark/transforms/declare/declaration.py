"""What a person writes to declare a step: plain values, checked when the step is added to a store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from seamark.errors import InvalidStep, did_you_mean
from seamark.steps.running.run_config import OnChange
from seamark.tables.table import TableOrName

JoinType: TypeAlias = Literal["inner", "full"]
CommitUnit: TypeAlias = Literal["batch", "run"]
Algorithm: TypeAlias = Literal["v1", "v2"]

BATCH_ROWS = 1_000_000
MAX_FAILED_KEYS = 1_000


@dataclass(frozen=True)
class JoinSpec:
    """An input that is looked up: `join_keys` maps columns of the primary input to columns of this table."""

    table: TableOrName
    join_keys: Mapping[str, str] | None = None


@dataclass(frozen=True)
class ComputeInput:
    """An input with a say in which keys are computed: with `join_type="inner"` a key without a row here is not."""

    dt: TableOrName
    join_type: JoinType = "full"
    join_keys: Mapping[str, str] | None = None


InputLike: TypeAlias = TableOrName | JoinSpec | ComputeInput


@dataclass(frozen=True)
class BatchTransform:
    """A step: a function from the frames of its inputs to the frames of its outputs.

    `func` takes one frame per input, in order, and returns one per output; a text instead is Spark SQL that
    names its inputs in braces, `SELECT … FROM {posts}`. `transform_keys` are the columns by which it is computed again,
    by default the outputs' key columns that the first input has. With `pandas` the function takes and gives pandas
    frames and runs on the executors.
    """

    func: Callable[..., Any] | str
    inputs: Sequence[InputLike]
    outputs: Sequence[TableOrName]
    name: str | None = None
    transform_keys: Sequence[str] | None = None
    batch_rows: int = BATCH_ROWS
    batch_keys: int | None = None
    commit: CommitUnit = "batch"
    fail_fast: bool = False
    max_failed_keys: int = MAX_FAILED_KEYS
    track_keys: bool = False
    algorithm: Algorithm = "v2"
    on_change: OnChange = "ask"
    version: str | None = None
    pandas: bool = False


def refuse_unknown_options(options: Collection[str]) -> None:
    """Refuse names that are no options of a step."""
    known = [option.name for option in fields(BatchTransform) if option.name != "func"]
    for option in sorted(set(options) - set(known)):
        raise InvalidStep(
            f"a step has no option '{option}'. It was not added.", hint=did_you_mean(option, known, "Options")
        )

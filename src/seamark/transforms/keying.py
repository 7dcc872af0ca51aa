"""What a run asks of a step about its keys, whatever they are found by: the columns of a function's inputs, or a view.

A step says which keys changes lead to, reads the rows for some of them and computes these. Runs, plans, limits,
changelists and replay are the same for all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from seamark.control import BlockEntry
from seamark.errors import ComputeFailed
from seamark.ledger import Op
from seamark.steps.definition.definition import Definition
from seamark.steps.past.checkpoint import Checkpoint
from seamark.steps.rows.fetch import read_interval
from seamark.steps.rows.scope import AllKeys, KeyRange, KeyValues, Scope
from seamark.steps.running.blame import KeyTrouble
from seamark.steps.running.commit import Maker
from seamark.steps.running.run_config import OnChange
from seamark.steps.standing.pins import Pending
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame
from seamark.tables.read.source import TableSource
from seamark.transforms.declare.declaration import Algorithm, CommitUnit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from seamark.steps.past.history import PastCommit

FIRST, LAST = "its first", "offset"  # beside each key: the first and the last record that lead to it

Read: TypeAlias = Mapping[str, int | None]
"""The last record of each input that is read, by table; None while it has none."""


# --- changes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """Keys that changes in one input lead to, each with the first and the last record that leads to it."""

    table: str
    columns: tuple[str, ...]
    keys: CheckedFrame


@dataclass(frozen=True)
class ChangedBlocks:
    """Changed records of one input: the blocks that hold them."""

    table: str
    blocks: tuple[BlockEntry, ...]

    def images(self, source: TableSource, columns: Sequence[str]) -> CheckedFrame:
        """Some columns of the records, both images of each change, with their offsets."""
        return read_interval(source, self.blocks, columns)


@dataclass(frozen=True)
class HandedInRows:
    """Rows of one input that the caller says have changed; their offsets are placeholders."""

    table: str
    rows: CheckedFrame

    def images(self, source: TableSource, columns: Sequence[str]) -> CheckedFrame:
        """Some columns of the rows."""
        return self.rows.select([LAST, *columns])


Changes: TypeAlias = ChangedBlocks | HandedInRows


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoadedRows:
    """Rows of a table up to a pin, known from change records: the last record of each key that they touch."""

    records: pa.Table  # offset, op and the table's columns

    def live(self) -> pa.Table:
        """The records whose row still stands."""
        return self.records.filter(pc.not_equal(self.records.column("op"), int(Op.RETRACT)))


class GatheredRows(Protocol):
    """The rows of all inputs for a scope, as they were at the positions that a run reads at."""

    @property
    def scope(self) -> Scope:
        """The keys that they are for."""
        ...

    @property
    def are_local(self) -> bool:
        """Whether all of them are in memory."""
        ...

    @property
    def holds_no_key(self) -> bool:
        """Whether it is known that there is nothing to compute."""
        ...

    @property
    def is_narrowed_by_values(self) -> bool:
        """Whether a part of the scope is taken by listed keys, and not by the bounds of a range."""
        ...

    def narrowed(self, scope: Scope) -> Self:
        """The rows for a part of the scope."""
        ...

    def kept(self, context: TableContext, stack: ExitStack) -> Self:
        """The same rows, computed once, to be asked for often."""
        ...

    def sorted_keys(self) -> pa.Table:
        """The keys of the scope that there are rows for, in Spark's order; without columns if there are none."""
        ...


@dataclass
class Results:
    """The results for a scope: the rows of each output, and the keys that failed with their errors."""

    outputs: list[list[CheckedFrame]]
    failed: list[tuple[pa.Table, str]] = field(default_factory=list)
    causes: list[BaseException] = field(default_factory=list)  # the error behind each of these
    further: int = 0  # failed keys beyond those, which are too many to be held

    @staticmethod
    def none(outputs: Sequence[TableSource]) -> Results:
        """Nothing computed yet."""
        return Results([[] for _ in outputs])

    def add(self, frames: Sequence[CheckedFrame]) -> None:
        """Add the rows of one call."""
        for pieces, frame in zip(self.outputs, frames, strict=True):
            pieces.append(frame)


@dataclass(frozen=True, slots=True)
class KeyEstimate:
    """A number of keys: exact, an estimate, or, if neither, an upper bound."""

    keys: int
    is_exact: bool = False
    is_estimate: bool = False


# --- the protocol -----------------------------------------------------------------------------------------------------


class Keying(Protocol):
    """The keys of a step: how they are found, read and computed.

    `keys` are the columns of its outputs by which it is computed, `group` those by which all of them are cut into
    ranges: the same columns, or fewer where inputs share only part of the keys.
    """

    @property
    def context(self) -> TableContext:
        """Where its tables are."""
        ...

    @property
    def step(self) -> str:
        """The step's name."""
        ...

    @property
    def sources(self) -> Mapping[str, TableSource]:
        """The tables that are read, each once, in declared order."""
        ...

    @property
    def outputs(self) -> tuple[TableSource, ...]:
        """The tables that are written."""
        ...

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns by which it is computed; none if all rows are one result."""
        ...

    @property
    def group(self) -> tuple[str, ...]:
        """The columns by which all keys are cut into ranges; none if there is one range only."""
        ...

    @property
    def key_types(self) -> Mapping[str, pa.DataType]:
        """The types of the keys' columns."""
        ...

    @property
    def kinds_of_keys(self) -> Sequence[tuple[str, ...]]:
        """The columns that keys handed in may have, those that are preferred first."""
        ...

    @property
    def looks_back(self) -> bool:
        """Whether keys are looked up in versions since the last commit, so that its positions must be recorded."""
        ...

    def concerns_every_key(self, pending: Pending) -> bool:
        """Whether waiting records of an input concern every key."""
        ...

    def columns_needed(self, table: str) -> Sequence[str]:
        """The columns of an input by which its changes lead to keys; none if any change concerns every key."""
        ...

    def changed_keys(self, changes: Sequence[Changes], read: Read, before: Read) -> Iterator[Found]:
        """The keys that changed records of the inputs lead to, input after input.

        `read` says up to which record each input is read, `before` up to which it was read when its rows were last
        made.
        """
        ...

    def all_keys(self, read: Read) -> DataFrame:
        """Every key, or group of keys, that the inputs have."""
        ...

    def keys_of_groups(self, groups: DataFrame, read: Read) -> DataFrame:
        """All keys of some groups."""
        ...

    def ranges(self, read: Read) -> Sequence[KeyRange | AllKeys]:
        """Ranges that cover all keys there are, and all that there might be."""
        ...

    def ranges_at_most(self, keys: int, read: Read) -> int:
        """About how many ranges so many keys are cut into."""
        ...

    def scope_of(self, checkpoint: Checkpoint, stack: ExitStack) -> Scope | None:
        """The keys that a commit computed, from its checkpoint; None if it computed none."""
        ...

    def gather(self, scope: Scope, read: Read, loaded: Mapping[str, LoadedRows]) -> GatheredRows:
        """The rows of every input that belong to a scope; `loaded` has some that are known already."""
        ...

    def compute(
        self,
        gathered: GatheredRows,
        stack: ExitStack,
        *,
        fail_fast: bool,
        most_failed: int,
        trouble: KeyTrouble | None = None,
    ) -> Results:
        """The results for gathered rows; failing keys are left out, each with its error.

        With `trouble` the whole has failed already.
        """
        ...

    def settle(self, gathered: GatheredRows, results: Results, read: Read, stack: ExitStack) -> tuple[Scope, Results]:
        """The keys that are committed, and their results: those of the scope, and what else must be with them.

        Keys whose results do not fit those of others may become failures; keys that a result touches may be computed
        too, and join the scope. Replay asks it again.
        """
        ...

    def compute_while_writing(self, gathered: GatheredRows) -> Sequence[CheckedFrame] | None:
        """The rows of each output, yet to be computed, where many rows are computed once, while they are written.

        None where they must be computed before. What fails then is explained by `trouble_in`. They are not settled.
        """
        ...

    def trouble_in(self, error: ComputeFailed) -> KeyTrouble:
        """The failure of keys behind a failed write; raises the error if something else is behind it."""
        ...

    def count(self, gathered: GatheredRows, read: Read) -> int:
        """How many keys were computed of gathered rows."""
        ...

    def are_counted_at_once(self, waiting: Sequence[Pending], read: Read) -> bool:
        """Whether the keys that waiting records lead to can be counted from a few files."""
        ...

    def estimate(self, waiting: Sequence[Pending], read: Read, rows_of: Callable[[str], int]) -> KeyEstimate:
        """How many keys waiting records lead to, without looking; `rows_of` says how many rows an input has."""
        ...

    def every_key_at_most(self, read: Read) -> int:
        """An upper bound of how many keys there are."""
        ...

    def path_of(self, table: str) -> str:
        """How changes of an input lead to keys, for people."""
        ...


class RunOptions(Protocol):
    """What was said of how a step runs."""

    @property
    def batch_rows(self) -> int:
        """How many changed records are taken at once."""
        ...

    @property
    def commit(self) -> CommitUnit:
        """Whether each batch is committed, or all together: only where `settle` leaves the scopes as they are."""
        ...

    @property
    def fail_fast(self) -> bool:
        """Whether the first failing key stops a run."""
        ...

    @property
    def max_failed_keys(self) -> int:
        """With how many failed keys a run goes on."""
        ...

    @property
    def algorithm(self) -> Algorithm:
        """How keys are found."""
        ...

    @property
    def on_change(self) -> OnChange:
        """What happens to the rows of an older definition."""
        ...


class KeyedSpec(Maker, Protocol):
    """A declared step whose keys a run computes."""

    @property
    def keying(self) -> Keying:
        """Its keys."""
        ...

    @property
    def options(self) -> RunOptions:
        """What was said of how it runs."""
        ...

    @property
    def deferred(self) -> frozenset[str]:
        """Inputs that every run reads at their heads while their changes wait for a run of their own kind.

        A run by changes leaves their positions where they are; a run over all keys covers them like all others.
        """
        ...

    @property
    def keys_table(self) -> TableSource | None:
        """The table of processed keys, for a step that keeps one."""
        ...

    def why_not_keep(self, older: Definition) -> str | None:
        """Why rows that an older definition made cannot be kept beside those of today's; None if they can."""
        ...

    def processed(self, gathered: GatheredRows, failed: pa.Table | None, read: Read) -> CheckedFrame | None:
        """The rows for that table after a batch; None for a step without one."""
        ...

    def keying_of(self, commit: PastCommit) -> Keying | None:
        """The keys as they were when a commit was made; None if it was made by another definition, which is gone.

        `NotReplayed` if that definition is there and is not run.
        """
        ...


def no_keys(keying: Keying) -> KeyValues:
    """A scope without any key."""
    columns = keying.group or ("none",)
    return KeyValues(pa.schema([pa.field(n, keying.key_types.get(n, pa.int64())) for n in columns]).empty_table())

"""What runs report: counts per step, its error if it has one, and what a run would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from seamark.control import Mode
from seamark.steps.rows.changelist import ChangeList

if TYPE_CHECKING:
    from seamark.tables.care.fold import FoldReport


@dataclass
class StepReport:
    """What a run of one step did.

    `keys` were computed, in `batches` commits; `rows_in` change records (or rows, when all keys were computed) were
    read; `failed` keys failed. `error` is what stopped the step, or None; `mode` says how the keys were found.
    """

    step: str
    mode: Mode = Mode.SETTLED
    keys: int = 0
    batches: int = 0
    rows_in: int = 0
    appended: int = 0
    corrected: int = 0
    retracted: int = 0
    failed: int = 0
    seconds: float = 0.0
    error: BaseException | None = None
    changes: ChangeList = field(default_factory=ChangeList, repr=False)
    failures: tuple[tuple[str, str], ...] = ()  # key and error of those that failed in this run
    too_late: int = 0  # records of a diff that came after their visit's time to live

    @property
    def ok(self) -> bool:
        """Whether nothing stopped the step and no key failed."""
        return self.error is None and self.failed == 0

    @property
    def did_something(self) -> bool:
        """Whether the run committed anything, or something failed."""
        return self.batches > 0 or not self.ok

    @property
    def rows_out(self) -> int:
        """How many rows were written, corrected or retracted."""
        return self.appended + self.corrected + self.retracted

    def include(self, more: StepReport) -> None:
        """Add the counts of a further run of the same step."""
        if more.batches:
            self.mode = more.mode
        for name in ("keys", "batches", "rows_in", "appended", "corrected", "retracted", "failed", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(more, name))
        self.failures += more.failures


@dataclass
class RunReport:
    """What a run over several steps did: one report per step, in the order in which they ran."""

    steps: dict[str, StepReport] = field(default_factory=dict)
    feeds: dict[str, Any] = field(default_factory=dict)
    sinks: dict[str, Any] = field(default_factory=dict)
    folded: tuple[str, ...] = ()
    not_folded: dict[str, str] = field(
        default_factory=dict
    )  # tables that should have been folded, and why they were not
    left_out: Mapping[str, str] = field(default_factory=dict)  # views and handlers with errors, and these
    seconds: float = 0.0

    def add_folds(self, folds: Sequence[FoldReport]) -> None:
        """Add which tables were folded after the run, and which should have been but were not."""
        self.folded = tuple(done.table for done in folds if done.folded)
        self.not_folded = {left.table: left.reason for left in folds if not left.folded}

    @property
    def ok(self) -> bool:
        """Whether no key failed, every step could run and every sink could send, and no view was left out."""
        return not self.left_out and all(report.ok for report in (*self.steps.values(), *self.sinks.values()))

    @property
    def did_something(self) -> bool:
        """Whether any step or sink had work."""
        return any(report.did_something for report in (*self.steps.values(), *self.sinks.values()))


@dataclass(frozen=True)
class InputPlan:
    """What waits in one input, and the path by which its changes lead to keys."""

    table: str
    after: int | None
    upto: int | None
    pending_records: int
    path: str


@dataclass(frozen=True)
class StepPlan:
    """What a run of a step would do now: nothing was computed to find out, and nothing changed.

    `mode` is how the run would begin ("settled", "changes", "all keys", …), and `reason` says why. `keys` is how
    many keys would be computed: exactly if `keys_are_exact`, about if `keys_are_estimated`, else an upper bound.
    """

    step: str
    mode: Mode
    reason: str
    inputs: tuple[InputPlan, ...]
    outputs: tuple[str, ...]
    keys: int = 0
    keys_are_exact: bool = True
    keys_are_estimated: bool = False
    batches: int = 0
    failed_due: int = 0
    failed_waiting: int = 0

    @property
    def pending_records(self) -> int:
        """How many records wait in all inputs."""
        return sum(entry.pending_records for entry in self.inputs)

    @property
    def is_settled(self) -> bool:
        """Whether a run would do nothing."""
        return self.mode is Mode.SETTLED

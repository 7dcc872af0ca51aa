"""The offset table: how far each step has processed each input, to read and to set by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar

from seamark.clock import Clock
from seamark.control import Backlog, Control, Position
from seamark.errors import UnknownStep
from seamark.steps.standing.own_rows import rows_under


class Named(Protocol):
    """Anything with the name of a table."""

    @property
    def name(self) -> str:
        """The table's name."""
        ...


Row = TypeVar("Row", Position, Backlog)
InputTable: TypeAlias = str | Named | tuple[str, Any]


class OffsetStatistics(TypedDict):
    """One step on one input: how far it is and what waits for it."""

    transformation_id: str
    input_table_name: str
    update_ts_offset: float | None
    offset_age_seconds: float | None
    record_offset: int | None
    pending_records: int
    lag_seconds: float


class OffsetTable:
    """How far each step has processed each input.

    A position is a record: `get_record_offsets` gives it exactly. As a time, in seconds since 1970, it is the system
    time of the commit that the record came with. `initialise` sets the first offsets of a step from what it is known to
    have processed, and gives the times that it set. `inputs_of` gives the inputs of a step, or refuses one whose
    offsets may not be moved by hand. Offsets belong to a step and to its outputs, which `outputs` gives for the steps
    of the program: another program's step of the same name has its own. `may_wait` says how many seconds changes of an
    input may wait on purpose: a lag counts from then on.
    """

    def __init__(
        self,
        control: Control,
        clock: Clock,
        initialise: Callable[[str, Sequence[str]], dict[str, float]],
        inputs_of: Callable[[str], Sequence[str]] = lambda step: (),
        outputs: Callable[[], Mapping[str, str]] = dict,
        adopted_from: Callable[[str, Sequence[Position]], str | None] = lambda step, positions: None,
        may_wait: Callable[[str, str], float] = lambda step, table: 0.0,
    ) -> None:
        self._control = control
        self._clock = clock
        self._initialise = initialise
        self._inputs_of = inputs_of
        self._outputs = outputs
        self._adopted_from = adopted_from
        self._may_wait = may_wait

    def get_offsets_for_transformation(self, transformation_id: str) -> dict[str, float]:
        """The offset of each input as a time, by input; empty for a step that never ran."""
        found = self._positions(transformation_id)
        return {row.input_table: row.update_ts for row in found if row.update_ts is not None}

    def get_record_offsets(self, transformation_id: str) -> dict[str, int]:
        """The last processed record of each input, by input; empty for a step that never ran."""
        found = self._positions(transformation_id)
        return {row.input_table: row.record_offset for row in found if row.record_offset is not None}

    def _positions(self, step: str) -> list[Position]:
        found = self._own(step, self._control.index.positions(step))
        return sorted(found, key=lambda row: row.input_table)

    def _own(self, step: str, rows: Sequence[Row]) -> list[Row]:
        """Of all rows under a step's name, those of its outputs.

        For a step that this program does not declare, the outputs are not known: the row that is furthest behind counts
        for each input.
        """
        outputs = self._outputs().get(step)
        if outputs is not None:
            mine = rows_under(rows, outputs)
            if mine or not rows:
                return mine
            other = self._adopted_from(step, self._control.index.positions(step))
            return [] if other is None else rows_under(rows, other)
        least: dict[str, Row] = {}
        for row in sorted(rows, key=lambda row: -1 if row.record_offset is None else row.record_offset):
            least.setdefault(row.input_table, row)
        return [row for row in rows if least[row.input_table] is row]

    def update_offset(self, transformation_id: str, input_table_name: str, offset: float) -> None:
        """Raise the offset of one input to a time; it is never lowered."""
        self.update_offsets_bulk({(transformation_id, input_table_name): offset})

    def update_offsets_bulk(self, offsets: Mapping[tuple[str, str], float]) -> None:
        """Raise offsets, by (step, input table), to these times: all of them or none, and none is ever lowered.

        A time means the last record of the newest commit before it; a commit at exactly that time is read again.
        """
        for step, _ in offsets:
            if self._outputs():  # a program without steps may prepare those of another one
                self._refuse_unknown(step)
            self._inputs_of(step)  # raises for a step that must read every record
        self._control.offsets.raise_to(offsets, self._outputs())

    def reset_offset(self, transformation_id: str, input_table_name: str | None = None) -> None:
        """Forget how far a step has come, on one input or on all: its next run computes all keys."""
        self._refuse_unknown(transformation_id)
        inputs = self._inputs_of(transformation_id)
        outputs = self._outputs().get(transformation_id)
        self._control.offsets.reset(transformation_id, input_table_name, inputs, outputs)

    def _refuse_unknown(self, step: str) -> None:
        """Refuse a step that neither the program nor a position knows: its name is misspelt.

        To do nothing would look like having done it.
        """
        declared = self._outputs()
        if step not in declared:
            known = {*declared, *(row.step for row in self._control.index.positions())}
            if step not in known:
                raise UnknownStep(step, sorted(known))

    def initialize_offsets_from_transform_meta(
        self, transformation_id: str, input_tables: Sequence[InputTable]
    ) -> dict[str, float]:
        """Set offsets as far as every older record is known to be processed; gives the times that were set, by input.

        Inputs are given by name, as tables, or as pairs of a name and anything.
        """
        return self._initialise(transformation_id, [_name_of(table) for table in input_tables])

    def get_statistics(
        self, transformation_id: str | None = None, input_table_name: str | None = None
    ) -> list[OffsetStatistics]:
        """One entry per step and input: how far it is, how old that offset is, and how much waits for how long."""
        now = self._clock.now().timestamp()
        by_step: dict[str, list[Backlog]] = {}
        for backlog in self._control.offsets.backlogs(transformation_id):
            by_step.setdefault(backlog.step, []).append(backlog)
        own = [row for step, rows in by_step.items() for row in self._own(step, rows)]
        found = [_statistics(row, now, self._may_wait(row.step, row.input_table)) for row in own]
        return [line for line in found if input_table_name in (None, line["input_table_name"])]


def _name_of(table: InputTable) -> str:
    if isinstance(table, str):
        return table
    return table[0] if isinstance(table, tuple) else table.name


def _statistics(backlog: Backlog, now: float, may_wait: float) -> OffsetStatistics:
    since = backlog.oldest_pending_at
    return {
        "transformation_id": backlog.step,
        "input_table_name": backlog.input_table,
        "update_ts_offset": backlog.update_ts,
        "offset_age_seconds": None if backlog.update_ts is None else now - backlog.update_ts,
        "record_offset": backlog.record_offset,
        "pending_records": backlog.pending_records,
        # a commit's time may be ahead of the clock by the millisecond that keeps two commits apart
        "lag_seconds": 0.0 if since is None else max(0.0, now - since - may_wait),
    }

"""The offset table: how far each step has come on each of its inputs, to look at and to move by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypedDict

from seamark.clock import Clock
from seamark.control import Backlog, Control


class Named(Protocol):
    """A table, or whatever else goes by a table's name."""

    @property
    def name(self) -> str:
        """The table's name."""
        ...


InputTable: TypeAlias = str | Named | tuple[str, Any]


class OffsetStatistics(TypedDict):
    """One step on one input: where it stands and what waits for it."""

    transformation_id: str
    input_table_name: str
    update_ts_offset: float | None
    offset_age_seconds: float | None
    record_offset: int | None
    pending_records: int
    lag_seconds: float


class OffsetTable:
    """How far each step has processed each input.

    A position is a record: `get_record_offsets` tells it exactly. As a time, in seconds since 1970, it is the system
    time of the commit that the record came with. `initialise` sets the first offsets of a step from what it is known to
    have processed, and gives the times that it set. `inputs_of` gives the inputs of a step, or refuses one whose
    offsets may not be moved by hand.
    """

    def __init__(
        self,
        control: Control,
        clock: Clock,
        initialise: Callable[[str, Sequence[str]], dict[str, float]],
        inputs_of: Callable[[str], Sequence[str]] = lambda step: (),
    ) -> None:
        self._offsets = control.offsets
        self._clock = clock
        self._initialise = initialise
        self._inputs_of = inputs_of

    def get_offsets_for_transformation(self, step: str) -> dict[str, float]:
        """The offset of each input as a time, by input; empty for a step that never ran."""
        return self._offsets.times(step)

    def get_record_offsets(self, step: str) -> dict[str, int]:
        """The last processed record of each input, by input; empty for a step that never ran."""
        return self._offsets.record_offsets(step)

    def update_offsets_bulk(self, offsets: Mapping[tuple[str, str], float]) -> None:
        """Raise offsets, by (step, input table), to these times: all of them or none, and none is ever lowered.

        A time stands for the last record of the newest commit before it; a commit at exactly that time is read again.
        """
        for step, _ in offsets:
            self._inputs_of(step)  # refuses a step that must read every record
        self._offsets.raise_to(offsets)

    def reset_offset(self, step: str, table: str | None = None) -> None:
        """Forget how far a step has come, on one input or on all: its next run computes all keys."""
        self._offsets.reset(step, table, self._inputs_of(step))

    def initialize_offsets_from_transform_meta(
        self, transformation_id: str, input_tables: Sequence[InputTable]
    ) -> dict[str, float]:
        """Set offsets as far as every older record is known to be processed; gives the times that were set, by input.

        Inputs are given by name, as tables, or as pairs of a name and anything.
        """
        return self._initialise(transformation_id, [_name_of(table) for table in input_tables])

    def get_statistics(self, step: str | None = None) -> list[OffsetStatistics]:
        """Where a step, or every step, stands on each input, how old that is, and how much waits for how long."""
        now = self._clock.now().timestamp()
        return [_statistics(backlog, now) for backlog in self._offsets.backlogs(step)]


def _name_of(table: InputTable) -> str:
    if isinstance(table, str):
        return table
    return table[0] if isinstance(table, tuple) else table.name


def _statistics(backlog: Backlog, now: float) -> OffsetStatistics:
    since = backlog.oldest_pending_at
    return {
        "transformation_id": backlog.step,
        "input_table_name": backlog.input_table,
        "update_ts_offset": backlog.update_ts,
        "offset_age_seconds": None if backlog.update_ts is None else now - backlog.update_ts,
        "record_offset": backlog.record_offset,
        "pending_records": backlog.pending_records,
        # a commit's time may be ahead of the clock by the millisecond that keeps two commits apart
        "lag_seconds": 0.0 if since is None else max(0.0, now - since),
    }

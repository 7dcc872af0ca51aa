"""Running a sink: block after block from the chain to the target, in order, under the sink's lease."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from seamark import faults
from seamark.control import BlockEntry, Lease, Mode, RunRecord, SinkBacklog, SinkPosition, TableHead
from seamark.errors import InvalidSink, MalformedBlock, SeamarkError
from seamark.sinks.layout import Layout
from seamark.sinks.plan import SinkMode, SinkPlan, decide_mode, plan_sending
from seamark.sinks.report import SinkReport, SinkState
from seamark.sinks.start import Start, StartFacts, decide_start, writers
from seamark.sinks.target import Carried, Outlet, Place, Target
from seamark.tables.context import TableContext
from seamark.tables.schema.table_schema import TableSchema
from seamark.texts import MOST_LOGGED, record_of, storable

SINK_RUN = "sink:"
"""Comes before a sink's name among the runs: a table may have the same one."""

log = logging.getLogger("seamark.sinks")

OnSent = Callable[[SinkReport, int], None]
"""Called after each block with the report so far and the blocks left."""

SchemaAt = Callable[[TableHead], TableSchema | None]
"""The schema that a chain has at its head."""


def silent(_report: SinkReport, _left: int) -> None:
    """Nobody hears of it."""


class Sink:
    """A table bound to a target, as a person uses it."""

    def __init__(
        self,
        context: TableContext,
        name: str,
        table: str,
        outlet: Outlet,
        layout: Layout,
        schema: TableSchema,
        schema_at: SchemaAt,
        wait: float,
        adopts: str | None = None,
    ) -> None:
        self._context = context
        self.name = name
        self.table = table
        self.outlet = outlet
        self.layout = layout
        self.adopts = adopts
        self._schema = schema
        self._schema_at = schema_at
        self._wait = wait

    def __repr__(self) -> str:
        return f"Sink({self.name!r}: {self.table} -> {self.where})"

    @property
    def where(self) -> str:
        """The target as it may be shown, without secrets."""
        return self.outlet.where

    @property
    def position(self) -> int | None:
        """The sequence of the last block that the control database knows to be sent, or None."""
        return self._context.control.sinks.position(self.name, self.table, self.where)

    def pending(self) -> list[BlockEntry]:
        """The blocks with data that wait to be sent, oldest first, as far as the control database knows."""
        head = self._context.control.index.head(self.table)
        position = self.position
        if head is None or position == head.sequence:
            return []
        return self._blocks_after(position, head)

    def state(self) -> SinkState:
        """How far the sink is, as far as the control database knows; the target is not asked."""
        known = self._context.control.sinks.backlog(self.name, self.table, self.where)
        now = self._context.clock.now().timestamp()
        lag = 0.0 if known.oldest_at is None else max(0.0, now - known.oldest_at)
        return SinkState(known.position, known.blocks, known.records, lag)

    def plan(self, maker: str | None = None) -> SinkPlan:
        """What a run would carry now, as far as the control database knows; the target is not asked.

        `maker` is the step that writes the table, for those who show the plan.
        """
        head, waiting = self._waiting()
        if waiting.position is None and self.adopts is not None:
            # it continues from there
            waiting = self._context.control.sinks.backlog(self.adopts, self.table, self.where)
        return plan_sending(self.name, self.table, self.where, head, waiting, maker)

    def prepare(self) -> None:
        """Make the target's table, if there is none, before anything is sent: for others who write there as well."""
        head = self._context.control.index.head(self.table)
        with self._held() as lease, self.outlet.open(self._carried(head)) as target:
            known = self._start_facts(target)
            marker = known.markers.get(self.name)
            if known.is_new or (marker is not None and not marker.places and marker.adopted_by is None):
                self._start_over(lease, target, known)  # what was sent to a target that is no more waits again
            log.debug("sink '%s': %s is ready", self.name, self.where)

    def go_on_after(self, sequence: int | None) -> None:
        """Say by hand what the target has: all blocks up to this one, or none; the next run sends what comes after.

        For somebody who has looked, where the target itself can no longer say it. Other sinks that have carried this
        table there do not continue after that.
        """
        head = self._context.control.index.head(self.table)
        if head is None or (sequence is not None and self._hash_at(sequence) is None):
            ends = "has no blocks yet" if head is None else f"ends at block {head.sequence}"
            raise InvalidSink(
                f"sink '{self.name}' cannot continue after block {sequence} of '{self.table}', which {ends}. "
                "Nothing was changed.",
                hint=f"`seamark log {self.table}` lists the blocks.",
            )
        with self._held() as lease, self.outlet.open(self._carried(head)) as target:
            known = self._start_facts(target)
            for other in sorted(writers(known, self._hash_at)):
                self._adopt(target, other)
            # Afresh: what comes after is not there, and a token that is remembered must not swallow it.
            target.mark(None if sequence is None else self._place_at(sequence), None, afresh=True)
            self._context.control.sinks.forget(lease, self.name, self.table)
            if sequence is not None:
                self._context.control.sinks.keep(lease, self.name, self.table, sequence, self.where)

    def run(self, on_block: OnSent = silent) -> SinkReport:
        """Send every block that the target has not had yet, and report; raises what stops it.

        With nothing to send no lease is taken, no connection is opened and Spark is not asked for.
        """
        begun, (head, waiting) = time.monotonic(), self._waiting()
        report = SinkReport(self.name, self.table, position=waiting.position)
        if decide_mode(head, waiting)[0] is SinkMode.SETTLED:
            return report
        with self._held() as lease, self._on_record(report, begun):
            self._catch_up(lease, report, on_block)
        return report

    @contextmanager
    def _on_record(self, report: SinkReport, begun: float) -> Iterator[None]:
        """Write a run down that sent something or was stopped, for people who look at the project later."""
        try:
            yield
        except Exception as error:
            report.seconds = time.monotonic() - begun
            self._record(report, storable(record_of(error), MOST_LOGGED))
            raise
        report.seconds = time.monotonic() - begun
        if report.did_something:
            self._record(report, None)

    def _record(self, report: SinkReport, error: str | None) -> None:
        now = self._context.clock.now().timestamp()
        record = RunRecord(
            run_id=secrets.token_hex(16),
            step=f"{SINK_RUN}{self.name}",
            mode=Mode.SEND.value,
            started=now - report.seconds,
            ended=now,
            rows_in=report.records,
            rows_out=report.records,
        )
        if error is not None:
            record = replace(record, outcome="failed", error=error)
        try:
            self._context.control.record_run(record)
        except SeamarkError as trouble:  # what stopped the sink is raised all the same, and may be the same trouble
            log.warning("the run of sink '%s' could not be recorded: %s", self.name, trouble)

    def last_error(self) -> str | None:
        """What stopped the newest run that sent something or was stopped, or None if nothing did."""
        newest = self._context.control.index.runs(f"{SINK_RUN}{self.name}", newest=1)
        return newest[0].error if newest else None

    # --- how a run goes -----------------------------------------------------------------------------------------------

    def _catch_up(self, lease: Lease, report: SinkReport, on_block: OnSent) -> None:
        head, waiting = self._waiting()  # again, now that nobody else moves its position
        report.position = waiting.position
        mode, _ = decide_mode(head, waiting)
        if head is None or mode is SinkMode.SETTLED:
            return
        if mode is SinkMode.POSITION:
            self._keep(lease, report, head.sequence)
            return
        with self.outlet.open(self._carried(head)) as target:
            known = self._start_facts(target)
            start = decide_start(known, self._hash_at)
            if start.adopts is not None:
                self._adopt(target, start.adopts, afresh=start.afresh)
            if start.starts_over:
                self._start_over(lease, target, known)
                report.position = None
            self._send_all(lease, report, target, head, start, on_block)
        self._keep(lease, report, head.sequence)

    @contextmanager
    def _held(self) -> Iterator[Lease]:
        """The sink's lease, under that of its way: another name for the same way must not send at the same time.

        Where there is one row per key, no other table may come to the target either. The way's lease comes first for
        everybody, so that nobody waits in a circle.
        """
        leases = self._context.control.leases
        way = f"sink-way:{'' if self.layout.is_idempotent else f'{self.table} '}to {self.where}"
        with leases.held(way, self._wait), leases.held(f"sink:{self.name}", self._wait) as lease:
            yield lease

    def _adopt(self, target: Target, other: str, *, afresh: bool = False) -> None:
        """Take another sink's place: in the target, where it counts, and then in the control database."""
        control = self._context.control
        with control.leases.held(f"sink:{other}", self._wait) as theirs:
            target.adopt(other, afresh=afresh)
            faults.reached("sink-adopted")
            control.sinks.forget(theirs, other, self.table)
        log.info("sink '%s' continues in the place of '%s'", self.name, other)

    def _carried(self, head: TableHead | None) -> Carried:
        schema = self._schema if head is None else self._schema_at(head)
        if schema is None:
            raise MalformedBlock(f"the chain of table '{self.table}' declares no schema.")
        return Carried(self.name, self.table, schema.visible, self.layout)

    def _start_facts(self, target: Target) -> StartFacts:
        return StartFacts(
            sink=self.name,
            table=self.table,
            where=self.where,
            layout=self.layout,
            sent=self._sent(),
            is_new=target.is_new,
            is_empty=target.is_new or target.is_empty(),
            markers=target.markers(),
            adopts=self.adopts,
            strangers=target.strangers(),
            carried=self._carried_by_others(target),
        )

    def _sent(self) -> SinkPosition | None:
        """How far the sink has carried records, or None while no block behind it has any."""
        return next(iter(self._with_records(self._context.control.sinks.find(self.name, self.table))), None)

    def _carried_by_others(self, target: Target) -> list[SinkPosition]:
        """How far others have carried this table, wherever to; and this sink, to other tables beside the target."""
        kept = [
            each for each in self._context.control.sinks.all() if each.table == self.table and each.sink != self.name
        ]
        places = [(trace, place) for trace in target.elsewhere() for place in trace.marker.places]
        known = [
            SinkPosition(trace.sink, self.table, place.sequence, trace.target)
            for trace, place in places
            if self._hash_at(place.sequence) == place.hash  # else it is another project's table of this name
        ]
        return [*self._with_records(*kept), *known]

    def _with_records(self, *kept: SinkPosition | None) -> list[SinkPosition]:
        """Positions up to the last block with records; without those that have none.

        A position alone does not show that anything was sent: blocks without records move it, and leave no marker.
        """
        placed = [(each, self._place_at(each.sequence)) for each in kept if each is not None]
        return [replace(each, sequence=place.sequence) for each, place in placed if place is not None]

    def _start_over(self, lease: Lease, target: Target, known: StartFacts) -> None:
        """Forget what was sent to a target that is no more, before anything goes to the new one.

        The control database first: killed in between, the next run looks at the target again.
        """
        self._context.control.sinks.forget(lease, self.name, self.table)
        target.mark(None, None, afresh=known.may_remember)
        if known.is_empty and self.layout.is_idempotent:
            target.void()  # what others have sent to a table that was emptied is gone as well

    def _set_back(self, lease: Lease, target: Target, done: Place | None) -> None:
        """Let everybody know that a target has less than was sent to it, before anything goes there.

        The target first, under new tokens, while no block is in doubt: killed in between, the next run does it again.
        Once the control database knows it too, a block in doubt is one of this sink's that was sent since.
        """
        target.mark(done, None, afresh=True)
        faults.reached("sink-set-back")
        self._context.control.sinks.forget(lease, self.name, self.table)
        if done is not None:
            self._context.control.sinks.keep(lease, self.name, self.table, done.sequence, self.where)

    def _send_all(
        self,
        lease: Lease,
        report: SinkReport,
        target: Target,
        head: TableHead,
        start: Start,
        on_block: OnSent,
    ) -> None:
        """Send the blocks that are left."""
        blocks = self._blocks_after(start.after, head)
        done = None if start.after is None else self._place_at(start.after)
        if start.afresh:
            self._set_back(lease, target, done)
        if blocks and start.begun != Place.of(blocks[0]):  # else the older mark counts: it knows when the sending began
            target.mark(done, Place.of(blocks[0]))
        data = self._context.files(self.table).data
        for number, block in enumerate(blocks, 1):
            assert block.slice_hash is not None, "a block with offsets has a slice"
            faults.reached("sink-block-read")
            target.send(block, data.intact(block.slice_hash), in_doubt=start.begun == Place.of(block))
            faults.reached("sink-block-sent")
            # The next block is named before it is sent: if its insert is the last to get through, the next run knows
            # which block to ask about.
            target.mark(Place.of(block), Place.of(blocks[number]) if number < len(blocks) else None)
            faults.reached("sink-block-marked")
            self._keep(lease, report, block.sequence)
            faults.reached("sink-position-kept")
            self._add_to_report(report, block)
            on_block(report, len(blocks) - number)

    def _add_to_report(self, report: SinkReport, block: BlockEntry) -> None:
        records = _records(block)
        report.blocks += 1
        report.records += records
        fields = {"sink": self.name, "table": self.table, "block": block.sequence, "records": records}
        log.info(
            "sink '%s': block %d of '%s', %d records",
            self.name,
            block.sequence,
            self.table,
            records,
            extra={"seamark": fields},
        )

    def _keep(self, lease: Lease, report: SinkReport, sequence: int) -> None:
        self._context.control.sinks.keep(lease, self.name, self.table, sequence, self.where)
        report.position = sequence

    def _waiting(self) -> tuple[TableHead | None, SinkBacklog]:
        """Where the chain ends, and what of it waits; what is committed in between waits for the next run."""
        head = self._context.control.index.head(self.table)
        return head, self._context.control.sinks.backlog(self.name, self.table, self.where)

    # --- the chain ----------------------------------------------------------------------------------------------------

    def _blocks_after(self, sequence: int | None, head: TableHead) -> list[BlockEntry]:
        """The blocks with data after a sequence, up to a head, oldest first."""
        if head.last_offset is None:
            return []
        index = self._context.control.index
        last = None if sequence is None else index.newest_before(self.table, sequence)
        return index.slices(self.table, after=None if last is None else last.last_offset, upto=head.last_offset)

    def _place_at(self, sequence: int) -> Place | None:
        found = self._context.control.index.newest_before(self.table, sequence)
        return None if found is None else Place.of(found)

    def _hash_at(self, sequence: int) -> str | None:
        found = self._context.control.index.blocks(self.table, newest=1, upto=sequence)
        return found[0].hash if found and found[0].sequence == sequence else None


def _records(block: BlockEntry) -> int:
    return 0 if block.first_offset is None or block.last_offset is None else block.last_offset - block.first_offset + 1

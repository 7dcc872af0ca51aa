"""Scans: all units of a view, or those of a filter, computed again page by page, each page in a commit of its own."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace

from pyspark.errors import AnalysisException

from seamark.control import Lease, Mode, Scan, ScanId, ScanKind
from seamark.errors import InvalidStep, LeaseHeld, ScanRunning, did_you_mean
from seamark.spark.causes import explained
from seamark.steps.rows.scope import AllKeys, KeyRange, Scope, rest_of_ranges
from seamark.steps.running.observe import OnBatch, silent
from seamark.steps.running.report import StepReport
from seamark.tables.context import TableContext
from seamark.transforms.backlog import Backlog
from seamark.transforms.declare.safe_sql import UnsafeSql
from seamark.transforms.run import StepRun, Work
from seamark.transforms.step import Step
from seamark.views.keying import ViewKeying
from seamark.views.passes.pace import PAGE_UNITS, Pace
from seamark.views.passes.page import Bound, Page, cursor_in, cursor_text, filter_digest
from seamark.views.passes.units import PageUnits


@dataclass(frozen=True)
class Scanning:
    """A scan of one view. `job` is the handler that the view belongs to, or nothing."""

    context: TableContext
    step: Step
    keying: ViewKeying
    pace: Pace
    job: str = ""
    where: str | None = None
    on_batch: OnBatch = silent

    def run(self, part: str | None = None, *, restart: bool = False) -> StepReport:
        """Go through the view's parts, or one of them, each from where its last scan was cut off."""
        parts = self._parts(part)
        self._check_filter(parts)
        report = StepReport(self.step.name, mode=Mode.SCAN)
        with ExitStack() as stack:
            lease = self._leased(stack)
            for alias in parts:
                self._scan_part(lease, alias, report, restart=restart)
        return report

    @property
    def _digest(self) -> str:
        return self.step.spec.definition.digest

    def _leased(self, stack: ExitStack) -> Lease:
        leases, name = self.context.control.leases, f"scan:{self.step.name}"
        try:
            return stack.enter_context(leases.held(name, wait=0.0))
        except LeaseHeld:
            raise ScanRunning(self.step.name, leases.holder(name) or "somebody") from None

    def _parts(self, part: str | None) -> list[str]:
        aliases = [one.part.alias for one in self.keying.units.parts]
        if part is not None and part not in aliases:
            raise InvalidStep(
                f"view '{self.step.name}' has no part '{part}'. Nothing was scanned.",
                hint=did_you_mean(part, aliases, "Parts"),
            )
        return aliases if part is None else [part]

    def _check_filter(self, parts: list[str]) -> None:
        """Refuse a filter that is no condition on the rows of each part's left-most table, before anything is done."""
        if self.where is None:
            return
        if not self.keying.keys:
            raise InvalidStep(
                f"view '{self.step.name}' is computed as a whole, so no filter can choose some of it. "
                "Nothing was scanned.",
                hint="scan it without a filter.",
            )
        nothing = dict.fromkeys(self.keying.sources)
        finder = PageUnits(self.keying, nothing, nothing)
        for alias in parts:
            try:
                finder.leftmost_where(self.keying.units.part(alias), self.keying.tables(nothing, nothing), self.where)
            except (UnsafeSql, AnalysisException) as error:
                source = self.keying.leftmost_table(self.keying.units.part(alias))
                raise InvalidStep(
                    f"'{self.where}' is no condition on the rows of table '{source.name}': {explained(error)}. "
                    "Nothing was scanned.",
                    hint=f"columns of '{source.name}': {', '.join(source.schema.names)}.",
                ) from None

    # --- one part -----------------------------------------------------------------------------------------------------

    def _scan_part(self, lease: Lease, part: str, report: StepReport, *, restart: bool) -> None:
        scan = self._begun(lease, part, restart=restart)
        for page in self._ranges(self._cursor(scan)):
            scan = self._do(scan, page, report)
        while scan.done_at is None:
            scan = self._do(scan, Page(self.keying.keys, self._cursor(scan), None, part, self.where), report)

    def _begun(self, lease: Lease, part: str, *, restart: bool) -> Scan:
        """Where the scan of a part continues, or its beginning."""
        scans = self.context.control.scans
        scan_id = ScanId(self.job, self.step.name, part, ScanKind.SCAN, filter_digest(self.where))
        found = None if restart else scans.find(scan_id)
        scan = Scan(scan_id, self.pace.now()) if found is None or found.done_at is not None else found
        scan = replace(scan, rate=self.pace.rate)
        scans.keep(lease, scan)
        return scan

    def _cursor(self, scan: Scan) -> Bound:
        return cursor_in(scan.position, self.keying.keys, self.keying.key_types, self._digest)

    def _ranges(self, cursor: Bound) -> list[Page]:
        """The pages that are left, where left-most rows hold the units; none where these are looked up page by page.

        Rows that come meanwhile fall into one of these pages, or are found by their changes.
        """
        keying = self.keying
        if self.where is not None or not keying.has_ranges:
            return []
        read = {table: pin.offset for table, pin in self.step.backlog().pins.items()}
        read = {**dict.fromkeys(keying.sources), **read}
        ranges = replace(keying, batch_keys=self.pace.most or keying.batch_keys).ranges(read)
        left = ranges if cursor is None else rest_of_ranges(ranges, cursor)
        bounds = [(one.after, one.upto) if isinstance(one, KeyRange) else (None, None) for one in left]
        return [Page(keying.keys, after, upto, is_range=True) for after, upto in bounds]

    def _do(self, scan: Scan, page: Page, report: StepReport) -> Scan:
        """Compute and commit a page; gives how far the scan is after it."""
        begun, moved = self.pace.now(), [scan]

        def work(run: StepRun, backlog: Backlog) -> None:
            with ExitStack() as stack:
                taken, scope = self._scope(page, backlog, stack)

                def after(keys: int) -> Scan:
                    moved[0] = self._moved(scan, taken, keys)
                    return moved[0]

                listed = () if self.keying.keys else ("{}",)  # all rows are one unit
                run.do(backlog, Work(scope, Mode.SCAN, keys=listed, details=taken.details(), scan=after))

        done = self.step.run_pinned(Mode.SCAN, work)
        report.include(done)
        self.on_batch(report, 0 if moved[0].done_at is not None else 1)
        self.pace.wait(begun, done.keys)
        return moved[0]

    def _scope(self, page: Page, backlog: Backlog, stack: ExitStack) -> tuple[Page, Scope]:
        if not self.keying.keys:
            return page, AllKeys()
        if page.is_range:
            return page, page.bounds
        finder = PageUnits(self.keying, backlog.read, backlog.before)
        return finder.first(page, self.pace.most or self.keying.batch_keys or PAGE_UNITS, stack)

    def _moved(self, scan: Scan, page: Page, keys: int) -> Scan:
        done_at = self.pace.now() if page.upto is None else None
        position = cursor_text(page.columns, page.upto, self._digest)
        return replace(scan, position=position, rows_done=scan.rows_done + keys, done_at=done_at)

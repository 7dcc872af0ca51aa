"""The sinks of a store, by name, and running several of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from seamark.errors import InvalidSink, SeamarkError, UnknownSink
from seamark.sinks.report import SinkReport
from seamark.sinks.run import OnSent, SchemaAt, Sink, silent
from seamark.sinks.target import Outlet
from seamark.tables.context import TableContext
from seamark.tables.schema import TableSchema

log = logging.getLogger("seamark.sinks")


class SinkRegistry:
    """The sinks of a store."""

    def __init__(self, context: TableContext, schema_at: SchemaAt, wait: float) -> None:
        self._context = context
        self._schema_at = schema_at
        self._wait = wait
        self.sinks: dict[str, Sink] = {}

    def add(
        self,
        table: str,
        schema: TableSchema,
        outlet: Outlet,
        name: str | None,
        collapsing_key: tuple[str, ...] | None,
        taken: Sequence[str] = (),
    ) -> Sink:
        """Bind a table to a target, or refuse with an error that names what is wrong; then nothing was added."""
        name = name or f"{table}->{outlet.kind}:{outlet.label}"
        if name in self.sinks or name in taken:
            what = repr(self.sinks[name]) if name in self.sinks else f"a step '{name}'"
            raise InvalidSink(
                f"the name '{name}' is taken already: {what}. The second one was not added.",
                hint='give the sink another name with name="…".',
            )
        layout = outlet.layout_for(table, schema, collapsing_key)
        sink = Sink(self._context, name, table, outlet, layout, schema, self._schema_at, self._wait)
        self.sinks[name] = sink
        return sink

    def sink(self, name: str) -> Sink:
        """The sink of this name."""
        if name not in self.sinks:
            raise UnknownSink(name, list(self.sinks))
        return self.sinks[name]

    def among(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """The sinks that are meant by some names, all of them without any, and the names that are no sink's."""
        return [name for name in self.sinks if not names or name in names], [n for n in names if n not in self.sinks]

    def run(self, names: Sequence[str], *, fail_fast: bool, on_block: OnSent | None = None) -> dict[str, SinkReport]:
        """Run these sinks, each once. Trouble of a sink stands in its report, and the others go on."""
        return {name: _reported(self.sink(name), on_block or silent, fail_fast=fail_fast) for name in names}


def _reported(sink: Sink, on_block: OnSent, *, fail_fast: bool) -> SinkReport:
    begun = time.monotonic()
    sent: list[SinkReport] = []

    def tell(report: SinkReport, left: int) -> None:
        sent[:] = [report]
        on_block(report, left)

    try:
        return sink.run(tell)
    except Exception as error:
        if fail_fast:
            raise
        level = logging.WARNING if isinstance(error, SeamarkError) else logging.ERROR
        told = {"sink": sink.name, "stopped_by": type(error).__name__}
        log.log(level, "sink '%s' could not go on: %s", sink.name, error, extra={"seamark": told})
        report = sent[0] if sent else SinkReport(sink.name, sink.table, position=sink.position)
        report.error, report.seconds = error, time.monotonic() - begun
        return report

"""The sinks of a store, by name, and running several of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from seamark.errors import InvalidSink, SeamarkError, UnknownSink
from seamark.sinks.layout import Layout
from seamark.sinks.report import SinkReport
from seamark.sinks.run import OnSent, SchemaAt, Sink, silent
from seamark.sinks.target import Asked, Outlet
from seamark.tables.context import TableContext
from seamark.texts import MOST_LOGGED, record_of, storable

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
        asked: Asked,
        outlet: Outlet,
        name: str | None,
        adopts: str | None = None,
        taken: Sequence[str] = (),
    ) -> Sink:
        """Bind a table to a target, or refuse with an error that names what is wrong; then nothing was added."""
        name = name or f"{asked.table}->{outlet.kind}:{outlet.label}"
        if name in self.sinks or name in taken:
            what = repr(self.sinks[name]) if name in self.sinks else f"a step '{name}'"
            raise InvalidSink(
                f"the name '{name}' is taken already: {what}. The second one was not added.",
                hint='give the sink another name with name="…".',
            )
        layout = outlet.layout_for(asked)
        self._refuse_second_sink(asked.table, outlet, layout, name)
        self._refuse_adopting(name, adopts)
        sink = Sink(self._context, name, asked.table, outlet, layout, asked.schema, self._schema_at, self._wait, adopts)
        self.sinks[name] = sink
        return sink

    def _refuse_second_sink(self, table: str, outlet: Outlet, layout: Layout, name: str) -> None:
        """Refuse to carry a table twice to one target, where every record would count twice."""
        for sink in self.sinks.values():
            if (sink.table, sink.where) == (table, outlet.where) and not layout.is_idempotent:
                raise InvalidSink(
                    f"sink '{name}' is to carry '{table}' to {outlet.where}, and sink '{sink.name}' does so already. "
                    "The second one was not added, for every record would count twice.",
                    hint="one is enough; give the other one a table of its own with another table=.",
                )

    def _refuse_adopting(self, name: str, adopts: str | None) -> None:
        if adopts is not None and (adopts in self.sinks or adopts == name):
            raise InvalidSink(
                f"sink '{name}' is to take the place of '{adopts}', which is declared as well. It was not added.",
                hint=f"leave out the declaration of '{adopts}'." if adopts != name else "leave out adopt=.",
            )
        for sink in self.sinks.values():
            if sink.adopts == name:
                raise InvalidSink(
                    f"sink '{sink.name}' is to take the place of '{name}', which is declared as well. "
                    f"'{name}' was not added.",
                    hint=f"leave out the declaration of '{name}', or adopt= in that of '{sink.name}'.",
                )

    def sink(self, name: str) -> Sink:
        """The sink of this name."""
        if name not in self.sinks:
            raise UnknownSink(name, list(self.sinks))
        return self.sinks[name]

    def among(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """The sinks that are meant by some names, all of them without any, and the names that are no sink's."""
        return [name for name in self.sinks if not names or name in names], [n for n in names if n not in self.sinks]

    def run(self, names: Sequence[str], *, fail_fast: bool, on_block: OnSent | None = None) -> dict[str, SinkReport]:
        """Run these sinks, each once. Trouble of a sink is in its report, and the others continue."""
        return {name: _reported(self.sink(name), on_block or silent, fail_fast=fail_fast) for name in names}


def _reported(sink: Sink, on_block: OnSent, *, fail_fast: bool) -> SinkReport:
    begun = time.monotonic()
    sent: list[SinkReport] = []

    def observe(report: SinkReport, left: int) -> None:
        sent[:] = [report]
        on_block(report, left)

    try:
        return sink.run(observe)
    except Exception as error:
        report = sent[0] if sent else SinkReport(sink.name, sink.table)
        report.error, report.seconds = error, time.monotonic() - begun
        if fail_fast:
            raise
        level = logging.WARNING if isinstance(error, SeamarkError) else logging.ERROR
        fields = {"sink": sink.name, "stopped_by": type(error).__name__}
        text = storable(record_of(error), MOST_LOGGED)
        report.position = report.position if sent else sink.position
        log.log(level, "sink '%s' could not continue: %s", sink.name, text, extra={"seamark": fields})
        return report

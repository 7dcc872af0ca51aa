"""The sinks of a store: what carries its tables out, and the destinations that views name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.config import Config
from seamark.errors import InvalidSink
from seamark.sinks.plan import SinkPlan
from seamark.sinks.registry import SinkRegistry
from seamark.sinks.run import Sink
from seamark.sinks.target import Asked, Outlet
from seamark.steps.running.signed import as_signed
from seamark.store_care import StoreCare
from seamark.tables.context import TableContext
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.table import Table

if TYPE_CHECKING:
    from seamark.views.view import View

MakeOutlet = Callable[[str], Outlet]
"""Makes the target of a table from its name."""


@dataclass(frozen=True)
class _Carried:
    """A view that is carried to the destination that it names."""

    destination: str
    schema: TableSchema
    sink: str


class StoreSinks(StoreCare):
    """What a store offers for sinks."""

    def __init__(self, context: TableContext, config: Config) -> None:
        super().__init__(context)
        self.config = config
        self._sinks = SinkRegistry(context, self._catalog.schema_at, wait=config.scheduler.wait)
        self._destinations: dict[str, MakeOutlet] = {}
        self._carried: dict[str, _Carried] = {}

    def sink(self, table: str | Table, sink: Outlet, name: str | None = None, *, adopt: str | None = None) -> Sink:
        """Carry a table's changes to a target, at every `run`; under its name it continues after a restart.

        `adopt` names the sink that has done so until now: this one continues from its position, instead of that one.
        """
        known = self._catalog.known(table.name if isinstance(table, Table) else table)
        asked = Asked(known.name, known.schema)
        if (maker := as_signed(self._pipeline.maker_of(known.name))) is not None:
            asked = Asked(known.name, known.schema, maker.collapsing_key, maker.constant_columns)
        return self._sinks.add(asked, sink, name, adopt, taken=list(self._pipeline.steps))

    def sinks(self) -> dict[str, Sink]:
        """All sinks by name."""
        return dict(self._sinks.sinks)

    def plan_sinks(self, *names: str) -> dict[str, SinkPlan]:
        """What a run would carry now, by sink: these, or all. Nothing is sent, and no target is asked."""
        sinks, _ = self._sinks.among(names)
        return {name: self._sinks.sink(name).plan(self._maker_name(name)) for name in sinks}

    def _maker_name(self, sink: str) -> str | None:
        maker = self._pipeline.maker_of(self._sinks.sink(sink).table)
        return None if maker is None else maker.name

    def _sinks_of(self, tables: Sequence[str]) -> list[str]:
        """The sinks that carry some tables."""
        return [name for name, sink in self._sinks.sinks.items() if sink.table in tables]

    # --- destinations -------------------------------------------------------------------------------------------------

    def destination(self, name: str, make: MakeOutlet) -> None:
        """Let views say `DESTINATION name`: each is carried to the target that `make` makes from its table's name."""
        if name in self._destinations:
            raise InvalidSink(
                f"there is a destination '{name}' already. The second one was not added.",
                hint="give it another name.",
            )
        self._destinations[name] = make

    def _carry(self, views: Iterable[View]) -> None:
        """Carry those views that have a destination there, and no longer those that had one."""
        wanted = {view.name: view for view in views if view.target.destination is not None}
        sinks, carried = dict(self._sinks.sinks), dict(self._carried)
        try:
            for name, there in carried.items():
                view = wanted.get(name)
                if view is None or (view.target.destination, view.table.schema) != (there.destination, there.schema):
                    del self._sinks.sinks[there.sink], self._carried[name]
            for name, view in wanted.items():
                if name not in self._carried:
                    destination = str(view.target.destination)
                    sink = self.sink(name, self._destinations[destination](name))
                    self._carried[name] = _Carried(destination, view.table.schema, sink.name)
        except BaseException:
            self._sinks.sinks, self._carried = sinks, carried
            raise

"""A view of a store: a step whose keys are found through the joins of its SELECT."""

from __future__ import annotations

from collections.abc import Callable

from seamark.steps.running.prepare import Makers
from seamark.tables.context import TableContext
from seamark.tables.table import Table
from seamark.transforms.step import Step
from seamark.views.issues import MvIssues
from seamark.views.model import MvTarget
from seamark.views.spec import ViewSpec
from seamark.views.sql.ddl import Dialect
from seamark.views.sql.script import view_sql


class View(Step):
    """A materialized view: run it like any step, read its rows like any table's."""

    spec: ViewSpec

    def __init__(
        self, context: TableContext, spec: ViewSpec, makers: Callable[[], Makers], wait: float, issues: MvIssues
    ) -> None:
        super().__init__(context, spec, makers, wait)
        self.issues = issues

    def __repr__(self) -> str:
        return f"View({self.name!r}: {', '.join(self.inputs)})"

    @property
    def target(self) -> MvTarget:
        """The view's model."""
        return self.spec.target

    @property
    def table(self) -> Table:
        """The table with its rows."""
        output = self.spec.keying.output
        return Table(self._context, output.name, output.schema)

    def sql(self, dialect: str = "spark") -> str:
        """The queries that its runs amount to, and the table that it is kept in, in a dialect of SQL."""
        return view_sql(self.spec, Dialect(dialect))

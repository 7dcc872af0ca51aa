"""Empty tables in a Spark session, over which queries are analysed and never run."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from seamark.spark.causes import SPARK_ERRORS
from seamark.spark.frames import arrow_rows, empty_frame
from seamark.views.sql.queries import Relations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\] ")
_PLACE = re.compile(r"( SQLSTATE: \w+)?(; line \d+,? pos(ition)? \d+)?[;.]?\s*$")


class RefusedQuery(Exception):
    """Spark refuses a query, for the reason that `message` gives."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Scratch:
    """Empty tables as temporary views, under names that nobody else has: no view or table of the session is hidden."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._prefix = f"seamark_{secrets.token_hex(6)}"
        self._names: dict[str, str] = {}

    @property
    def relations(self) -> Relations:
        """What the tables are called in queries."""
        return Relations(self._names, f"{self._prefix}_changed", f"{self._prefix}_keys")

    def add(self, table: str, columns: StructType) -> None:
        """Let queries read a table; one of the same name is replaced."""
        name = self._names.setdefault(table, f"{self._prefix}_{len(self._names) + 1}")
        self._make(name, columns)

    def set_changed(self, columns: StructType) -> None:
        """Let queries read the images of a table's changes."""
        self._make(self.relations.changed, columns)

    def set_keys(self, columns: StructType) -> None:
        """Let queries read units."""
        self._make(self.relations.keys, columns)

    def _make(self, name: str, columns: StructType) -> None:
        empty_frame(self._session, columns).createOrReplaceTempView(name)

    def close(self) -> None:
        """Take all of it away again."""
        for name in (*self._names.values(), self.relations.changed, self.relations.keys):
            self._session.catalog.dropTempView(name)

    def types_of(self, text: str) -> StructType:
        """The columns that a query gives, or `RefusedQuery`."""
        try:
            return self._session.sql(text).schema
        except SPARK_ERRORS as error:
            raise RefusedQuery(self._said(error)) from None

    def takes(self, text: str) -> bool:
        """Whether Spark can analyse a query."""
        try:
            self.types_of(text)
        except RefusedQuery:
            return False
        return True

    def own_functions(self) -> frozenset[str]:
        """The names of Spark's own functions and operators."""
        return frozenset(arrow_rows(self._session.sql("SHOW SYSTEM FUNCTIONS")).column(0).to_pylist())

    def is_registered(self, function: str) -> bool:
        """Whether somebody has registered a function of this name."""
        return bool(self._session.catalog.functionExists(function))

    def _said(self, error: BaseException) -> str:
        """What Spark says, in a line: without its name for the error, and places in a text that nobody wrote so."""
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        for table, name in self._names.items():
            line = re.sub(rf"\b{name}\b", table.replace("\\", r"\\"), line)
        return _PLACE.sub("", _CONDITION.sub("", line)).strip()


@contextmanager
def scratch_in(session: SparkSession) -> Iterator[Scratch]:
    """Empty tables in a session, which are gone afterwards."""
    scratch = Scratch(session)
    try:
        yield scratch
    finally:
        scratch.close()

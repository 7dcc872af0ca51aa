"""A small shop whose tables change at random, and views over it that are compared with their queries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import seamark as sm
from seamark.views.view import View

TABLES = {
    "orders": ("id long, customer_id long, note string", "id"),
    "customer": ("id long, name string, region_id long", "id"),
    "region": ("id long, title string, country string", "id"),
    "order_ext": ("order_id long, memo string", "order_id"),
    "payment": ("pay_id long, order_id long, kind string, amount long", "pay_id"),
    "settings": ("code long, value string", "code"),
    "clicks": ("url string, user_id long", None),
}


@dataclass
class ViewWorld:
    """A store with the shop's tables, and views with the queries that they must equal."""

    store: sm.DataStore
    random: random.Random = field(default_factory=random.Random)
    queries: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tables = {name: self.store.table(name, columns, key=key) for name, (columns, key) in TABLES.items()}

    def add_table(self, name: str, columns: str, key: str | Sequence[str] | None = None) -> None:
        """One more table, or columns that one has grown by."""
        self.tables[name] = self.store.table(name, columns, key=key)

    def view(self, name: str, select: str, key: str | Sequence[str] | None = None, **options: Any) -> View:
        """A view that is compared with its own SELECT from now on."""
        self.queries[name] = select
        return self.store.view(name, select, key=key, **options)

    def put(self, table: str, *rows: tuple[Any, ...]) -> None:
        """Write whole rows, in the order of the table's columns."""
        names = self.tables[table].schema.names
        frame = [dict(zip(names, row, strict=True)) for row in rows]
        write = self.tables[table].upsert if self.tables[table].schema.key else self.tables[table].append
        write(frame)

    def drop(self, table: str, *keys: Any) -> None:
        """Delete rows by their key: a value, or a tuple where it is several columns."""
        names = self.tables[table].schema.key
        values = [key if isinstance(key, tuple) else (key,) for key in keys]
        self.tables[table].delete([dict(zip(names, key, strict=True)) for key in values])

    # --- by chance ----------------------------------------------------------------------------------------------------

    def change(self) -> None:
        """One change of one table: small values, so that rows meet."""
        table = self.random.choice(list(TABLES))
        if table == "clicks":
            self.put(table, (self.random.choice("pq"), self._some(3)))
            return
        row = {
            "orders": lambda: (self._one(5), self._some(3), self.random.choice([None, "a", "b"])),
            "customer": lambda: (self._one(3), self.random.choice([None, "x", "y"]), self._some(3)),
            "region": lambda: (self._one(3), self.random.choice("tu"), self.random.choice([None, "A", "B"])),
            "order_ext": lambda: (self._one(5), self.random.choice([None, "m"])),
            "payment": lambda: (self._one(4), self._some(5), self.random.choice("ABC"), self._one(9)),
            "settings": lambda: (self._one(2), self.random.choice("vw")),
        }[table]()
        if self.random.random() < 0.25:
            self.drop(table, row[0])
        else:
            self.put(table, row)

    def _one(self, below: int) -> int:
        return self.random.randrange(below)

    def _some(self, below: int) -> int | None:
        return self.random.choice([None, *range(below)])

    # --- what must hold -----------------------------------------------------------------------------------------------

    def run(self, *names: str, **options: Any) -> sm.RunReport:
        """A run in which no step had trouble."""
        report = self.store.run(*names, **options)
        errors = {name: step.error for name, step in report.steps.items() if step.error is not None}
        assert not errors, errors
        return report

    def keys(self, name: str = "v") -> int:
        """How many keys of a view a run computes."""
        return self.run().steps[name].keys

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """A view's rows as people see them, in order."""
        return sorted(map(tuple, self.store.table(name).rows().collect()), key=repr)

    def assert_equal(self) -> None:
        """Every view has the rows that its query gives over all tables, and a further run does nothing."""
        spark = self.store.spark
        for name, table in self.store.tables().items():
            table.rows().createOrReplaceTempView(name)
        for name, select in self.queries.items():
            wanted = spark.sql(select)
            found = self.store.table(name).rows().select(*wanted.columns)
            assert _ordered(found) == _ordered(wanted), name
            assert self.store.view(name).failed_keys() == (), name

    def assert_settled(self) -> None:
        """A further run does nothing."""
        idle = [name for name, step in self.run().steps.items() if step.did_something]
        assert idle == []


def _ordered(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()), key=repr)

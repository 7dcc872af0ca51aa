"""What views are measured on: orders with customers, regions, extensions and payments, and the views over them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.blog import ran
from bench.measure import seconds
from bench.people import store

TABLES = {
    "orders": ("id long, customer_id long, note string, amount long, status int", "id"),
    "customer": ("id long, name string, region_id long", "id"),
    "region": ("id long, title string", "id"),
    "order_ext": ("order_id long, memo string", "order_id"),
    "payment": ("pay_id long, order_id long, kind string", "pay_id"),
    "status": ("code int, title string", "code"),
}
STATUSES = 100
ORDER_V = """
SELECT o.id, o.note, c.name, r.title, x.memo, p.kind
FROM orders o
JOIN customer c ON c.id = o.customer_id
LEFT JOIN region r ON r.id = c.region_id
LEFT JOIN order_ext x ON x.order_id = o.id
LEFT JOIN payment p ON p.pay_id = o.id
"""
ORDER_V_TABLES = ("orders", "customer", "region", "order_ext", "payment")
IN_THE_LANGUAGE = """
CREATE ASYNC MATERIALIZED VIEW {name} AS
SELECT o.id AS id, o.note AS note, c.name AS name, r.title AS title, x.memo AS memo, p.kind AS kind
FROM orders AS o
JOIN customer AS c ON c.id = o.customer_id
LEFT JOIN region AS r ON r.id = c.region_id
LEFT JOIN order_ext AS x ON x.order_id = o.id
LEFT JOIN payment AS p ON p.pay_id = o.id;
"""
EDITED = {
    "orders": ("note", 500),
    "customer": ("name", 200),
    "region": ("title", 10),
    "order_ext": ("memo", 150),
    "payment": ("kind", 140),
}
WITH_STATUS = "SELECT o.id, o.note, s.title FROM orders o LEFT JOIN status s ON s.code = o.status"
BY_CUSTOMER = """
SELECT o.customer_id % {groups} AS part, count(*) AS orders, sum(o.amount) AS amount
FROM orders o GROUP BY o.customer_id % {groups}
"""
NEWEST = """
SELECT customer_id, id, note FROM (
  SELECT o.*, row_number() OVER (PARTITION BY customer_id ORDER BY id DESC) AS place FROM orders o
) WHERE place = 1
"""


class Shop:
    """A store with a shop's tables, folded; customers have as many orders each, regions as many customers."""

    def __init__(self, spark: SparkSession, folder: Path, orders: int) -> None:
        self.spark = spark
        self.orders_count, self.customers, self.regions = orders, max(orders // 10, 10), max(orders // 100, 5)
        self.ds = store(folder, spark)
        self.tables = {name: self.ds.table(name, columns, key=key) for name, (columns, key) in TABLES.items()}
        for name, table in self.tables.items():
            table.replace(self._rows(name))
        self.ds.fold()
        self.editions = 0

    def _rows(self, name: str) -> DataFrame:
        counts = {"customer": self.customers, "region": self.regions, "status": STATUSES}
        ids = self.spark.range(0, counts.get(name, self.orders_count), 1, 8)
        text = F.concat(F.lit(f"{name} "), F.col("id"))
        columns = {
            "orders": [
                "id",
                (F.col("id") % self.customers).alias("customer_id"),
                text.alias("note"),
                "id AS amount",
                f"CAST(id % {STATUSES} AS INT) AS status",
            ],
            "status": ["CAST(id AS INT) AS code", text.alias("title")],
            "customer": ["id", text.alias("name"), (F.col("id") % self.regions).alias("region_id")],
            "region": ["id", text.alias("title")],
            "order_ext": [F.col("id").alias("order_id"), text.alias("memo")],
            "payment": [F.col("id").alias("pay_id"), F.col("id").alias("order_id"), text.alias("kind")],
        }[name]
        return ids.select(*[F.expr(column) if isinstance(column, str) else column for column in columns])

    def view(self, name: str, select: str, key: str, dictionaries: Sequence[str] = ()) -> float:
        """A view, run for the first time and folded: how long the run took."""
        self.ds.view(name, select, key=key, dictionaries=dictionaries)
        return self._first_run(name)

    def view_in_the_language(self, name: str) -> float:
        """The view of five tables in the language of jobs."""
        self.ds.load_views(IN_THE_LANGUAGE.format(name=name), name)
        return self._first_run(name)

    def _first_run(self, name: str) -> float:
        took = seconds(lambda: ran(self.ds, name))
        self.ds.table(name).fold()
        return took

    def recomputed(self, select: str, delta: Path) -> float:
        """How long plain Spark takes to compute a view over all rows, and to write it as a Delta table."""
        for name, table in self.tables.items():
            table.rows().createOrReplaceTempView(name)
        return seconds(lambda: self.spark.sql(select).write.format("delta").mode("overwrite").save(str(delta)))

    def edit(self, table: str, column: str, count: int) -> pa.Table:
        """Change a column of so many rows, spread over the whole table, others each time; gives the rows."""
        self.editions += 1
        key = self.tables[table].schema.key[0]
        counts = {"customer": self.customers, "region": self.regions, "status": STATUSES}
        rows = counts.get(table, self.orders_count)
        apart = max(rows // count, 1)
        frame = self._rows(table).where(f"{key} % {apart} = {self.editions % apart}").limit(count)
        changed = frame.withColumn(column, F.concat(F.col(column).cast("string"), F.lit(f", {self.editions}")))
        rows = changed.toArrow()
        self.tables[table].upsert(rows)
        return rows

    def edit_all(self) -> dict[str, pa.Table]:
        """1 000 changes spread over the tables of the view of five; gives the rows, by table."""
        return {name: self.edit(name, column, count) for name, (column, count) in EDITED.items()}

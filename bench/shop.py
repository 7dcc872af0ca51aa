"""What views are measured on: orders with customers, regions, extensions and payments, and the views over them."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.blog import ran
from bench.measure import seconds
from bench.people import store

TABLES = {
    "orders": ("id long, customer_id long, note string, amount long", "id"),
    "customer": ("id long, name string, region_id long", "id"),
    "region": ("id long, title string", "id"),
    "order_ext": ("order_id long, memo string", "order_id"),
    "payment": ("pay_id long, order_id long, kind string", "pay_id"),
}
ORDER_V = """
SELECT o.id, o.note, c.name, r.title, x.memo, p.kind
FROM orders o
JOIN customer c ON c.id = o.customer_id
LEFT JOIN region r ON r.id = c.region_id
LEFT JOIN order_ext x ON x.order_id = o.id
LEFT JOIN payment p ON p.pay_id = o.id
"""
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
        counts = {"customer": self.customers, "region": self.regions}
        ids = self.spark.range(0, counts.get(name, self.orders_count), 1, 8)
        text = F.concat(F.lit(f"{name} "), F.col("id"))
        columns = {
            "orders": ["id", (F.col("id") % self.customers).alias("customer_id"), text.alias("note"), "id AS amount"],
            "customer": ["id", text.alias("name"), (F.col("id") % self.regions).alias("region_id")],
            "region": ["id", text.alias("title")],
            "order_ext": [F.col("id").alias("order_id"), text.alias("memo")],
            "payment": [F.col("id").alias("pay_id"), F.col("id").alias("order_id"), text.alias("kind")],
        }[name]
        return ids.select(*[F.expr(column) if isinstance(column, str) else column for column in columns])

    def view(self, name: str, select: str, key: str) -> float:
        """A view, run for the first time and folded: how long the run took."""
        self.ds.view(name, select, key=key)
        took = seconds(lambda: ran(self.ds, name))
        self.ds.table(name).fold()
        return took

    def recomputed(self, select: str, delta: Path) -> float:
        """How long plain Spark takes to compute a view over all rows, and to write it as a Delta table."""
        for name, table in self.tables.items():
            table.rows().createOrReplaceTempView(name)
        return seconds(lambda: self.spark.sql(select).write.format("delta").mode("overwrite").save(str(delta)))

    def edit(self, table: str, column: str, count: int) -> None:
        """Change a column of so many rows, spread over the whole table, others each time."""
        self.editions += 1
        key = self.tables[table].schema.key[0]
        rows = {"customer": self.customers, "region": self.regions}.get(table, self.orders_count)
        apart = max(rows // count, 1)
        frame = self._rows(table).where(f"{key} % {apart} = {self.editions % apart}").limit(count)
        changed = frame.withColumn(column, F.concat(F.col(column).cast("string"), F.lit(f", {self.editions}")))
        self.tables[table].upsert(changed.toArrow())

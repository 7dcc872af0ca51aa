"""Hidden columns: stored, compared and verified like any other, and seen by nobody but Seamark itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import seamark as sm
from seamark import ledger
from seamark.errors import InvalidSchema, SchemaChangeRefused
from seamark.facts.origins import find_origins
from seamark.facts.rows import read_rows
from seamark.ledger import SetDataSchema
from seamark.sinks.layout import Layout
from seamark.tables.care.rebuild import rebuild_control
from seamark.tables.schema.evolution import check_evolution, refuse_old_schema
from seamark.tables.schema.table_schema import Column, TableSchema, declare

ORDERS = "id long, customer string, amount long"
SEEN = "id long, line string"
HIDDEN = (Column("_part", pa.string(), True, hidden=True), Column("_owner", pa.int64(), True, hidden=True))
VIEW = TableSchema((*declare("order_v", SEEN, "id", None).columns, *HIDDEN), ("id",))


def owned(orders: Any) -> Any:
    """A line of each order, with the part and the owner that only Seamark sees."""
    return orders.selectExpr("id", "concat(customer, ' ', amount) AS line", "'main' AS _part", "amount * 10 AS _owner")


def copied(order_v: Any) -> Any:
    """What a function sees of the rows, as a text."""
    names = ",".join(order_v.columns)
    return order_v.selectExpr("id", f"'{names}' AS seen")


def copied_by_pandas(order_v: pd.DataFrame) -> pd.DataFrame:
    """The same for pandas."""
    return pd.DataFrame({"id": order_v["id"], "seen": ",".join(order_v.columns)})


class Shop:
    """A store with orders, a step that writes them with hidden columns, and three steps that read what it wrote."""

    def __init__(self, store: sm.DataStore) -> None:
        self.ds = store
        self.orders = store.table("orders", ORDERS, key="id")
        output = sm.Table(store._context, "order_v", VIEW)  # as a view declares it: there is no text for it
        store.add(sm.BatchTransform(owned, [self.orders], [output], name="order_v"))
        self.order_v = output

    def read_by_steps(self) -> None:
        """Add steps that read the table as people know it."""
        order_v = self.ds.table("order_v", SEEN, key="id")
        by_sql = self.ds.table("by_sql", SEEN, key="id")
        outputs = {name: self.ds.table(name, "id long, seen string", key="id") for name in ("by_spark", "by_pandas")}
        self.ds.add(sm.BatchTransform(copied, [order_v], [outputs["by_spark"]], name="by_spark"))
        self.ds.add(
            sm.BatchTransform(copied_by_pandas, ["order_v"], [outputs["by_pandas"]], name="by_pandas", pandas=True)
        )
        self.ds.add(sm.BatchTransform("SELECT * FROM {order_v}", [order_v], [by_sql], name="by_sql"))


@pytest.fixture
def open_shop(control_url: str, tmp_path: Path, spark: Any) -> Iterator[Callable[[], Shop]]:
    """Opens the test's shop, each time as another program does."""
    opened: list[sm.DataStore] = []

    def open_it() -> Shop:
        opened.append(sm.DataStore(control_url, tmp_path / "warehouse", spark=spark))
        return Shop(opened[-1])

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def open_plain(control_url: str, tmp_path: Path, spark: Any) -> Iterator[Callable[[], sm.DataStore]]:
    """Opens the same store without its steps."""
    opened: list[sm.DataStore] = []

    def open_it() -> sm.DataStore:
        opened.append(sm.DataStore(control_url, tmp_path / "warehouse", spark=spark))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


def orders_of(*rows: tuple[int, str, int]) -> pa.Table:
    ids, customers, amounts = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "customer": list(customers), "amount": list(amounts)})


def sorted_rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def stored_schema(store: sm.DataStore, table: str) -> ledger.DataSchema:
    """What the newest SetDataSchema of a table's chain says."""
    head = store.control.index.head(table)
    event = store._context.files(table).block(head.schema_block).event
    assert isinstance(event, SetDataSchema)
    return event.schema


class Watched:
    """A sink that keeps what it was asked for and opened with, and takes nothing."""

    kind, where, label = "watched", "watched://here", "out"

    def __init__(self) -> None:
        self.asked: tuple[str, ...] = ()
        self.carried: tuple[str, ...] = ()

    def layout_for(self, asked: Any) -> Layout:
        self.asked = asked.schema.names
        return Layout.keyed(asked.schema.key)

    @contextmanager
    def open(self, carried: Any) -> Iterator[Any]:
        self.carried = carried.schema.names
        raise NotImplementedError("nothing is sent")
        yield


# --- every door -------------------------------------------------------------------------------------------------------


def check_doors(store: sm.DataStore, table: sm.Table, wanted: list[tuple[int, str]], owners: Mapping[int, int]) -> None:
    """Nobody sees the hidden columns, and they are there."""
    assert table.schema.names == ("id", "line")
    assert table.rows().columns == ["id", "line"]
    assert sorted_rows(table.rows()) == wanted
    assert table.rows(as_of=table.head.offset).columns == ["id", "line"]
    for keys in (pa.table({"id": [wanted[0][0]]}), store.spark.createDataFrame([wanted[0][:1]], "id long")):
        found = table.get_data(keys)
        assert (found.columns, sorted_rows(found)) == (["id", "line"], wanted[:1])

    shown = read_rows(store, "order_v", limit=10, as_of=None)
    assert [column.name for column in shown.columns] == ["id", "line"]
    assert [tuple(row.items()) for row in shown.rows] == [(("id", id_), ("line", line)) for id_, line in wanted]
    (row,) = read_rows(store, "order_v", limit=10, as_of=None, key=["id=1"]).rows
    assert dict(row) == {"id": 1, "line": dict(wanted)[1]}
    why = store.why("order_v", {"id": 1})
    assert why.row == {"id": 1, "line": dict(wanted)[1]}
    assert [behind.table for behind in why.inputs] == ["orders"]
    assert find_origins(store, "order_v", ["id=1"], 10).row.values == why.row

    changes = table.changes().where("op IN (0, 3)").orderBy("offset").collect()
    assert {row.id: row._owner for row in changes} == dict(owners)
    assert [(field.name, field.extra) for field in stored_schema(store, "order_v").fields[-2:]] == [
        ("_part", {"seamark/hidden": True}),
        ("_owner", {"seamark/hidden": True}),
    ]


@pytest.mark.scenario("V77")
def test_hidden_columns_are_kept_and_nobody_sees_them(open_shop, open_plain):
    shop = open_shop()
    shop.orders.upsert(orders_of((1, "Ann", 3), (2, "Bob", 4)))
    assert shop.ds.run().ok
    shop.read_by_steps()
    report = shop.ds.run()
    assert report.ok, report
    check_doors(shop.ds, shop.order_v, [(1, "Ann 3"), (2, "Bob 4")], {1: 30, 2: 40})
    assert sorted_rows(shop.ds.table("by_spark").rows()) == [(1, "id,line"), (2, "id,line")]
    assert sorted_rows(shop.ds.table("by_pandas").rows()) == [(1, "id,line"), (2, "id,line")]
    assert sorted_rows(shop.ds.table("by_sql").rows()) == [(1, "Ann 3"), (2, "Bob 4")]
    (behind,) = shop.ds.why("by_spark", {"id": 1}).inputs
    assert (behind.table, behind.row) == ("order_v", {"id": 1, "line": "Ann 3"})
    assert [origin.table for origin in behind.inputs] == ["orders"]

    assert all(fold.folded for fold in shop.ds.fold())
    check_doors(shop.ds, shop.order_v, [(1, "Ann 3"), (2, "Bob 4")], {1: 30, 2: 40})

    fresh = open_plain()
    check_doors(fresh, fresh.table("order_v", SEEN, key="id"), [(1, "Ann 3"), (2, "Bob 4")], {1: 30, 2: 40})
    check_doors(fresh, fresh.table("order_v"), [(1, "Ann 3"), (2, "Bob 4")], {1: 30, 2: 40})

    again = open_shop()
    again.orders.upsert(orders_of((1, "Ann", 5)))
    assert again.ds.run("order_v").ok
    check_doors(again.ds, again.order_v, [(1, "Ann 5"), (2, "Bob 4")], {1: 50, 2: 40})
    assert again.ds.verify(rows=True, replay=True).ok


# --- comparisons ------------------------------------------------------------------------------------------------------


def test_rows_whose_hidden_columns_are_equal_are_not_written_again(ds):
    shop = Shop(ds)
    shop.orders.upsert(orders_of((1, "Ann", 3)))
    ds.run()
    ds.fold()
    head = shop.order_v.head

    ds.step("order_v").run_idx(pa.table({"id": [1]}))

    assert shop.order_v.changes(after=head.offset).count() == 0


@pytest.mark.parametrize("how", ["in memory", "in Spark"])
def test_a_hidden_column_that_differs_is_a_correction(ds, how, monkeypatch, set_small):
    if how == "in Spark":
        set_small(monkeypatch, 0)
    orders = ds.table("orders", ORDERS, key="id")
    output = sm.Table(ds._context, "order_v", VIEW)

    def by_amount(orders):
        return orders.selectExpr("id", "customer AS line", "'main' AS _part", "amount AS _owner")

    ds.add(sm.BatchTransform(by_amount, [orders], [output], name="order_v"))
    orders.upsert(orders_of((1, "Ann", 3)))
    ds.run()
    ds.fold()
    orders.upsert(orders_of((1, "Ann", 4)))
    ds.run()
    records = output.changes(after=0).collect()
    assert [(row.op, row.line, row._part, row._owner) for row in records] == [
        (2, "Ann", "main", 3),
        (3, "Ann", "main", 4),
    ]
    assert ds.verify(rows=True).ok


# --- sinks ------------------------------------------------------------------------------------------------------------


def test_a_sink_makes_and_fills_the_visible_columns(ds, tmp_path):
    shop = Shop(ds)
    shop.orders.upsert(orders_of((1, "Ann", 3)))
    ds.run()
    target = sm.ClickHouseSink(f"chdb:///{tmp_path / 'clickhouse'}", table="copy")
    ds.table("order_v")
    watched = Watched()
    ds.sink("order_v", watched, name="watched")
    ds.sink("order_v", target, name="copy")

    assert ds.run("copy").ok
    assert ds.run("watched").sinks["watched"].error is not None

    assert (watched.asked, watched.carried) == (("id", "line"), ("id", "line"))
    columns = [row["name"] for row in target.query("DESCRIBE TABLE copy")]
    assert columns[:2] == ["id", "line"]
    assert not {"_part", "_owner"} & set(columns)
    assert [(row["id"], row["line"]) for row in target.query("SELECT id, line FROM copy FINAL")] == [(1, "Ann 3")]


# --- schemas ----------------------------------------------------------------------------------------------------------


def test_a_schema_is_read_from_the_chain_as_it_was_written():
    assert TableSchema.from_ledger(VIEW.to_ledger()) == VIEW
    assert VIEW.visible == declare("order_v", SEEN, "id", None)
    assert (plain := VIEW.visible).visible is plain
    assert [column.name for column in VIEW.hidden] == ["_part", "_owner"]
    assert VIEW.visible.with_hidden_of(VIEW) == VIEW
    assert VIEW.with_hidden_of(VIEW) is VIEW


@pytest.mark.parametrize("name", ["_part", "_owner", "_Owner_2", "_owner_17"])
def test_nobody_can_declare_a_column_of_these_names(dry, name):
    with pytest.raises(InvalidSchema, match=f"'{name}' is reserved"):
        dry.table("t", f"id long, {name} long", key="id")


def test_what_people_declare_need_not_name_hidden_columns():
    seen, longer = VIEW.visible, declare("order_v", SEEN + ", note string", "id", None)
    assert not check_evolution("order_v", VIEW, seen)
    assert check_evolution("order_v", VIEW, longer)
    assert check_evolution("order_v", seen, VIEW)  # a view that becomes a union
    refuse_old_schema("order_v", VIEW.to_ledger(), seen)
    with pytest.raises(SchemaChangeRefused, match="its hidden columns _part, _owner are missing"):
        refuse_old_schema("order_v", VIEW.to_ledger(), seen, is_written=True)
    other = TableSchema((*seen.columns, Column("_part", pa.int64(), True, hidden=True)), ("id",))
    with pytest.raises(SchemaChangeRefused, match="column '_part' is string, not bigint"):
        check_evolution("order_v", VIEW, other)


def test_a_table_that_grows_keeps_its_hidden_columns(open_store, spark):
    shop = Shop(open_store(spark=spark))
    shop.orders.upsert(orders_of((1, "Ann", 3)))
    shop.ds.run()

    other = open_store(spark=spark)
    grown = other.table("order_v", SEEN + ", note string", key="id")
    assert grown.source.schema.names == ("id", "line", "note", "_part", "_owner")
    other.run()  # grows the tables that a program declares with more columns

    stored = TableSchema.from_ledger(stored_schema(other, "order_v"))
    assert stored == grown.source.schema
    assert sorted_rows(open_store(spark=spark).table("order_v").rows()) == [(1, "Ann 3", None)]
    assert grown.changes().select("_owner", "note").collect() == [(30, None)]
    assert other.verify().ok


def test_a_program_that_declared_the_table_before_it_was_written_reads_and_folds_it(open_store, spark):
    early = open_store(spark=spark)
    table = early.table("order_v", SEEN, key="id")
    shop = Shop(open_store(spark=spark))
    shop.orders.upsert(orders_of((1, "Ann", 3)))
    shop.ds.run()

    assert sorted_rows(table.rows()) == [(1, "Ann 3")]
    assert table.fold().folded

    assert sorted_rows(table.rows()) == [(1, "Ann 3")]
    fresh = open_store(spark=spark)
    step = Shop(fresh).ds.step("order_v")
    assert step.run_idx(pa.table({"id": [1]})).ok
    assert fresh.table("order_v").changes(after=0).count() == 0  # nothing differs: the base has them
    assert fresh.verify(rows=True).ok


def test_a_rebuilt_database_knows_them(open_store, spark, tmp_path):
    shop = Shop(open_store(spark=spark))
    shop.orders.upsert(orders_of((1, "Ann", 3)))
    shop.ds.run()
    rebuild_control(shop.ds.control, tmp_path / "warehouse")
    fresh = open_store(spark=spark).table("order_v")
    assert (fresh.rows().columns, fresh.source.schema.names) == (["id", "line"], ("id", "line", "_part", "_owner"))

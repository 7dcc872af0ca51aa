"""What `seamark sql` prints runs as it is printed: over the tables and the relations `changed` and `keys`."""

from __future__ import annotations

import re

import pytest
from tests.support.view_world import ViewWorld

import seamark as sm

ORDER_V = """
SELECT o.id, c.name, r.title, x.memo, p.pay_id, s.value FROM orders o JOIN customer c ON c.id = o.customer_id
LEFT JOIN region r ON r.id = c.region_id LEFT JOIN order_ext x ON x.order_id = o.id
LEFT JOIN payment p ON p.order_id = o.id AND p.kind = 'it''s' JOIN settings s ON s.code = 58
"""
PER_REGION = """
SELECT c.region_id, count(*) AS n FROM orders o JOIN customer c ON c.id = o.customer_id GROUP BY c.region_id
"""


@pytest.fixture
def shop(spark, tmp_path) -> ViewWorld:
    return ViewWorld(sm.DataStore(f"sqlite:///{tmp_path}/control.db", warehouse=tmp_path / "warehouse", spark=spark))


def queries(text: str) -> list[tuple[str, str]]:
    """What each query is for, and its text."""
    return re.findall(r"^-- ([^\n]*)\n(.*?);$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.scenario("V42")
@pytest.mark.scenario("V93")
@pytest.mark.scenario("V95")
@pytest.mark.parametrize(
    ("select", "key", "keys"),
    [(ORDER_V, ["id", "pay_id"], "id long"), (PER_REGION, "region_id", "_owner long, id long")],
)
def test_every_query_runs_as_it_is_printed(shop, spark, select, key, keys):
    view = shop.view("v", select, key=key)
    shop.put("customer", (1, "x", 5), (2, "y", None))
    shop.put("orders", *[(number, 1 + number % 2, "n") for number in range(1, 5)])
    shop.put("settings", (58, "v"))
    for name, table in shop.store.tables().items():
        table.rows().createOrReplaceTempView(name)
    found = {}
    spark.createDataFrame([], keys).createOrReplaceTempView("keys")
    for what, text in queries(view.sql())[1:]:
        changed = re.search(r"from changed images of '(\w+)'", what)
        if changed is not None:
            shop.store.table(changed[1]).rows().createOrReplaceTempView("changed")
        found[what] = spark.sql(text).collect()
    printed = "\n".join(found)
    assert "sync (ActionSync)" in printed
    if select == ORDER_V:
        assert "'customer' (c) to units: grab (ActionKeysGrab)" in printed
        assert "'payment' (p) to units: transform (ActionKeysTransform)" in printed
        assert "'settings' (s) to units: every key (ActionEveryKey)" in printed
        assert "p.kind = 'it''s'" in view.sql()
    (page,) = [rows for what, rows in found.items() if "a page of a scan" in what]
    assert [row[0] for row in page] == ([1, 2, 3, 4] if select == ORDER_V else [None, 5])

    spark.createDataFrame([(2,) * len(keys.split(","))], keys).createOrReplaceTempView("keys")
    (text,) = [text for what, text in queries(view.sql()) if "a page of a scan" in what]
    assert [row[0] for row in spark.sql(text).collect()] == ([3, 4] if select == ORDER_V else [5])


@pytest.mark.scenario("V93")
@pytest.mark.parametrize(("dialect", "types"), [("postgres", "bigint"), ("clickhouse", "Int64"), ("spark", "BIGINT")])
def test_the_table_is_proposed_in_three_dialects(shop, dialect, types):
    view = shop.view("v", ORDER_V, key=["id", "pay_id"])
    assert types in view.sql(dialect)
    shop.run()
    with pytest.raises(sm.SeamarkError, match="there is no dialect 'oracle'"):
        view.sql("oracle")

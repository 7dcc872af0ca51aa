"""Views that are paused stand still, in every program, and catch up when they are resumed."""

from __future__ import annotations

import pytest
from tests.support.view_world import ViewWorld

import seamark as sm
from seamark.errors import ViewPaused

ORDER_V = "SELECT o.id, o.note, c.name FROM orders o JOIN customer c ON c.id = o.customer_id"


def opened(spark, tmp_path) -> ViewWorld:
    shop = ViewWorld(sm.DataStore(f"sqlite:///{tmp_path}/control.db", warehouse=tmp_path / "warehouse", spark=spark))
    shop.view("v", ORDER_V, key="id")
    shop.view("w", "SELECT v.id, v.name FROM v", key="id")
    shop.view("other", "SELECT o.id FROM orders o", key="id")
    return shop


@pytest.mark.scenario("V46")
@pytest.mark.scenario("V84")
def test_a_view_that_is_paused_stands_still_until_it_is_resumed(spark, tmp_path):
    shop = opened(spark, tmp_path)
    shop.put("customer", (1, "x", None))
    shop.put("orders", (1, 1, "n"))
    shop.run()
    view = shop.store.view("v")
    view.pause()
    view.pause()
    assert view.is_paused

    elsewhere = opened(spark, tmp_path)
    elsewhere.put("orders", (2, 1, "m"))
    elsewhere.drop("orders", 1)
    for report in (elsewhere.run("v"), elsewhere.run()):
        assert (report.steps["v"].mode, report.steps["v"].keys, report.ok) == ("paused", 0, True)
    assert shop.rows("v") == [(1, "n", "x")]
    assert shop.rows("other") == [(2,)]
    plan = elsewhere.store.plan()["v"]
    assert plan.mode == "paused"
    assert plan.reason.startswith("paused since 20")
    assert plan.pending_records == 2
    (statistics,) = elsewhere.store.offset_table.get_statistics("v", "orders")
    assert statistics["pending_records"] == 2

    view = elsewhere.store.view("v")
    for compute in (view.scan, view.run_dictionaries, lambda: view.run_idx([{"id": 2}]), view.retry):
        with pytest.raises(ViewPaused, match="view 'v' is paused"):
            compute()
    changes = sm.ChangeList({"orders": spark.createDataFrame([(2,)], "id long")})
    assert elsewhere.store.run_changelist(changes).steps["v"].mode == "paused"

    view.resume()
    assert not view.is_paused
    shop.run()
    shop.assert_equal()
    shop.assert_settled()

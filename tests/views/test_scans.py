"""Scans: all rows of a view computed again, page by page, resumed where they were cut off."""

from __future__ import annotations

import pytest
from tests.support.view_world import ViewWorld

import seamark as sm
from seamark.control import Control, ScanKind
from seamark.errors import InvalidStep, ScanRunning

ORDER_V = """
SELECT o.id, o.note, c.name FROM orders o JOIN customer c ON c.id = o.customer_id
"""
UNITED = """
SELECT o.id, 1 AS source, o.note AS t FROM orders o
UNION ALL SELECT c.id, 2 AS source, c.name AS t FROM customer c
"""


@pytest.fixture
def shop(spark, tmp_path, clock) -> ViewWorld:
    return opened(spark, tmp_path, clock)


def opened(spark, tmp_path, clock) -> ViewWorld:
    store = sm.DataStore(f"sqlite:///{tmp_path}/control.db", warehouse=tmp_path / "warehouse", spark=spark, clock=clock)
    return ViewWorld(store)


def fill(shop: ViewWorld, orders: int = 10) -> None:
    shop.put("customer", (1, "x", 1), (2, "y", 2))
    shop.put("orders", *[(number, 1 + number % 2, "n") for number in range(1, orders + 1)])


def scans(shop: ViewWorld) -> list[tuple[str, int, bool]]:
    """The scans on record: part, rows done, and whether they are done."""
    return [
        (scan.id.part, scan.rows_done, scan.done_at is not None)
        for scan in shop.store.control.scans.all()
        if scan.id.kind is ScanKind.SCAN
    ]


def replayed(shop: ViewWorld) -> None:
    found = shop.store.verify(replay=True)
    assert (found.ok, found.not_replayable) == (True, 0), found.findings


@pytest.mark.scenario("V39")
def test_a_scan_fills_an_empty_view_at_the_rate_that_it_is_given(shop, clock):
    fill(shop, 50)
    view = shop.view("v", ORDER_V, key="id")
    seen, begun = [], clock.now()
    report = view.scan(rate=10, on_batch=lambda report, left: seen.append((report.keys, *scans(shop)[0])))

    assert (report.mode, report.keys, report.appended) == ("scan", 50, 50)
    assert (clock.now() - begun).total_seconds() == pytest.approx(5.0, rel=0.2)
    assert [done for _, _, _, done in seen] == [False, False, False, False, True]
    assert scans(shop) == [("default", 50, True)]
    shop.run()
    shop.assert_equal()
    shop.assert_settled()
    replayed(shop)


@pytest.mark.scenario("V40")
@pytest.mark.parametrize("key_is_computed", [False, True])
def test_a_scan_that_is_cut_off_goes_on_after_its_last_page(spark, tmp_path, clock, key_is_computed):
    select, key = (ORDER_V.replace("o.id,", "concat('o', o.id) AS k,"), "k") if key_is_computed else (ORDER_V, "id")
    shop = opened(spark, tmp_path, clock)
    fill(shop)
    view = shop.view("v", select, key=key)
    pages = []

    def cut_off(report, left):
        pages.append(report.keys)
        if len(pages) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        view.scan(rate=3, on_batch=cut_off)
    assert scans(shop) == [("default", 6, False)]

    shop = opened(spark, tmp_path, clock)
    view = shop.view("v", select, key=key)
    report = view.scan(rate=3)
    assert (report.keys, report.appended) == (4, 4)  # pages done are not repeated
    assert scans(shop) == [("default", 10, True)]
    assert len(shop.rows("v")) == 10
    shop.run()
    shop.assert_equal()
    replayed(shop)


@pytest.mark.scenario("V41")
def test_a_scan_is_never_further_than_its_committed_pages(shop, monkeypatch):
    fill(shop)
    view = shop.view("v", ORDER_V, key="id")
    seen = []
    commit = Control.commit

    def delayed(control, request):
        """Just before a page is committed, look from outside how far the scan is and which rows are there."""
        if request.scans:
            seen.append((scans(shop)[0][1], len(shop.rows("v"))))
        return commit(control, request)

    monkeypatch.setattr(Control, "commit", delayed)
    view.scan(rate=4)
    assert seen == [(0, 0), (4, 4), (8, 8)]
    assert scans(shop) == [("default", 10, True)]


@pytest.mark.scenario("V40")
@pytest.mark.scenario("V89")
def test_the_parts_of_a_union_have_positions_of_their_own(shop):
    fill(shop)
    view = shop.view("v", UNITED, key=["id", "source"])
    first, second = (part.alias for part in view.target.parts)
    assert view.scan(part=second).keys == 2
    assert scans(shop) == [(second, 2, True)]
    assert view.scan(rate=4).keys == 12
    assert sorted(scans(shop)) == sorted([(first, 10, True), (second, 2, True)])
    assert view.scan(rate=4, part=first, restart=True).keys == 10
    shop.run()
    shop.assert_equal()
    replayed(shop)
    with pytest.raises(InvalidStep, match="view 'v' has no part 'nope'"):
        view.scan(part="nope")


@pytest.mark.scenario("V89")
def test_a_scan_begins_again_after_its_end_and_where_it_is_asked_to(shop):
    fill(shop)
    view = shop.view("v", ORDER_V, key="id")
    shop.run()
    assert view.scan().keys == 10
    assert view.scan().keys == 10

    def cut_off(report, left):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        view.scan(rate=4, on_batch=cut_off)
    assert view.scan(rate=4, restart=True).keys == 10


@pytest.mark.scenario("V53")
def test_a_filter_chooses_the_keys_that_are_computed_again(shop):
    fill(shop)
    view = shop.view("v", ORDER_V, key="id")
    report = view.scan(where="o.id < 4 AND note = 'n'")
    assert (report.keys, report.appended) == (3, 3)
    assert view.scan(where="id % 2 = 0 -- even ones", rate=2).keys == 5
    assert len(scans(shop)) == 2  # each filter has a position of its own
    assert sorted(row[0] for row in shop.rows("v")) == [1, 2, 3, 4, 6, 8, 10]
    shop.run()
    shop.assert_equal()
    replayed(shop)
    for wrong in (
        "nope = 1",
        "id = 1) OR (SELECT true FROM customer",
        "id IN (SELECT id FROM customer)",
        "count(*) > 1",
    ):
        with pytest.raises(InvalidStep, match="is no condition on the rows of table 'orders'"):
            view.scan(where=wrong)


def test_a_scan_takes_away_rows_whose_order_is_gone(shop, spark):
    fill(shop)
    view = shop.view("v", ORDER_V, key="id")
    shop.view("w", ORDER_V.replace("o.id,", "concat('o', o.id) AS k,"), key="k")
    shop.run()
    shop.drop("orders", 3)
    assert view.scan().retracted == 1
    assert shop.store.view("w").scan().retracted == 1
    assert len(shop.rows("v")) == len(shop.rows("w")) == 9
    shop.run()
    shop.assert_equal()
    replayed(shop)


@pytest.mark.scenario("V43")
def test_changes_during_a_scan_are_not_lost(shop):
    fill(shop)
    view = shop.view("v", ORDER_V, key="id")
    shop.run()

    def between(report, left):
        shop.put("orders", (report.keys, 2, f"changed at {report.keys}"))
        shop.put("orders", (11, 1, f"changed at {report.keys}"))
        shop.run()

    view.scan(rate=3, on_batch=between)
    shop.run()
    shop.assert_equal()
    shop.assert_settled()
    replayed(shop)


@pytest.mark.parametrize("rate", [0, -1, True, 1e-9, float("nan"), float("inf"), 10**400, "5"])
def test_a_rate_is_a_number_above_zero(shop, rate):
    fill(shop)
    with pytest.raises(InvalidStep, match="is not a number of rows per second"):
        shop.view("v", ORDER_V, key="id").scan(rate=rate)


def test_a_second_scan_of_a_view_is_refused(shop):
    fill(shop)
    view = shop.view("v", ORDER_V, key="id")

    def second(report, left):
        with pytest.raises(ScanRunning, match="view 'v' is being scanned already"):
            view.scan()

    assert view.scan(on_batch=second).keys == 10


def test_groups_and_what_is_computed_as_a_whole_are_scanned_too(shop):
    fill(shop)
    grouped = shop.view("g", "SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id", key="customer_id")
    whole = shop.view("f", "SELECT 1 AS k, count(*) AS n FROM orders", key="k", refresh="full")
    assert grouped.scan(rate=1).keys == 2
    assert grouped.scan(where="id < 3").keys == 2
    assert whole.scan().keys == 1
    with pytest.raises(InvalidStep, match="computed as a whole"):
        whole.scan(where="id < 3")
    shop.run()
    shop.assert_equal()
    replayed(shop)


def test_a_scan_that_was_cut_off_begins_again_under_another_text(shop):
    """What the first text has made is what the second one is to make anew."""
    fill(shop)
    view = shop.view("v", "SELECT o.id, o.note FROM orders o", key="id")
    shop.run()

    def cut_off(report, left):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        view.scan(rate=4, on_batch=cut_off)
    changed = shop.view("v", "SELECT o.id, upper(o.note) AS note FROM orders o", key="id", on_change="keep")
    assert changed.scan(rate=4).corrected == 10
    shop.run()
    shop.assert_equal()

"""Several inputs: one key, part of a key, no key in common, and keys that only a reference has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import seamark as sm

Row = tuple[Any, ...]


def write(table: sm.Table, *rows: Row) -> None:
    table.upsert(_frame(table, table.schema.names, rows))


def delete(table: sm.Table, *keys: Any) -> None:
    table.delete(_frame(table, table.key, [key if isinstance(key, tuple) else (key,) for key in keys]))


def _frame(table: sm.Table, names: Sequence[str], rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    types = [table.schema.column(name).type for name in names]
    return pa.Table.from_arrays([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=list(names))


def rows(table: sm.Table) -> list[Row]:
    found = [tuple(row.values()) for row in table.rows().toArrow().to_pylist()]
    return sorted(found, key=lambda row: [(value is not None, value) for value in row])


def is_idle(ds: sm.DataStore) -> bool:
    """Whether a further run does nothing."""
    heads = ds.heads()
    return not ds.run().did_something and ds.heads() == heads


def offsets(ds: sm.DataStore, step: str) -> dict[str, int | None]:
    return ds.offset_table.get_record_offsets(step)


# --- one key ----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X40")
def test_two_inputs_with_one_key_are_joined_whichever_of_them_changes(ds):
    prices = ds.table("prices", "id long, price long", key="id")
    stocks = ds.table("stocks", "id long, stock long", key="id")
    goods = ds.table("goods", "id long, price long, stock long", key="id")

    @ds.transform(inputs=[prices, stocks], outputs=[goods])
    def join(prices, stocks):
        return prices.join(stocks, "id", "full_outer").select("id", "price", "stock")

    write(prices, (1, 10), (2, 20))
    write(stocks, (2, 5), (3, 6))
    assert ds.run().steps["join"].keys == 3
    assert rows(goods) == [(1, 10, None), (2, 20, 5), (3, None, 6)]
    before = offsets(ds, "join")

    write(stocks, (1, 7))
    assert ds.run().steps["join"].keys == 1
    assert rows(goods) == [(1, 10, 7), (2, 20, 5), (3, None, 6)]
    after = offsets(ds, "join")
    assert (after["prices"], after["stocks"]) == (before["prices"], stocks.head.offset)

    write(prices, (3, 30))
    delete(prices, 2)
    delete(stocks, 2)
    assert ds.run().steps["join"].keys == 2
    assert rows(goods) == [(1, 10, 7), (3, 30, 6)]
    assert is_idle(ds)


@pytest.mark.scenario("X39")
@pytest.mark.hazard("H8")
def test_a_key_without_a_row_in_an_input_that_is_required_is_not_computed(ds):
    prices = ds.table("prices", "id long, price long", key="id")
    stocks = ds.table("stocks", "id long, stock long", key="id")
    goods = ds.table("goods", "id long, price long, stock long", key="id")

    @ds.transform(inputs=[prices, sm.ComputeInput(stocks, join_type="inner")], outputs=[goods])
    def join(prices, stocks):
        return prices.join(stocks, "id", "full_outer").select("id", "price", "stock")

    write(prices, (1, 10), (2, 20))
    write(stocks, (2, 5), (3, 6))
    ds.run()
    assert rows(goods) == [(2, 20, 5), (3, None, 6)]

    write(prices, (1, 11))
    assert ds.run().steps["join"].keys == 0
    write(stocks, (1, 7))
    delete(stocks, 2)
    ds.run()
    assert rows(goods) == [(1, 11, 7), (3, None, 6)]
    assert is_idle(ds)


# --- part of a key ----------------------------------------------------------------------------------------------------


@pytest.fixture
def boxes(ds: sm.DataStore) -> tuple[sm.Table, sm.Table, sm.Table]:
    """Images and their boxes; an image without a box appears as box 0 if it is a drawing."""
    image = ds.table("image", "image_id long, kind string", key="image_id")
    box = ds.table("box", "image_id long, box_id long, label string", key=["image_id", "box_id"])
    found = ds.table("found", "image_id long, box_id long, line string", key=["image_id", "box_id"])

    @ds.transform(inputs=[image, box], outputs=[found], transform_keys=["image_id", "box_id"])
    def tell(image, box):
        return image.join(box, "image_id", "full_outer").selectExpr(
            "image_id",
            "coalesce(box_id, if(kind = 'drawing', 0L, NULL)) AS box_id",
            "concat(coalesce(kind, '?'), ': ', coalesce(label, 'empty')) AS line",
        )

    return image, box, found


@pytest.mark.scenario("X41")
@pytest.mark.hazard("H5")
def test_a_changed_image_computes_all_its_boxes_however_old(ds, boxes):
    image, box, found = boxes
    write(image, (1, "photo"), (2, "photo"))
    write(box, (1, 1, "cat"), (1, 2, "dog"), (2, 1, "cow"))
    ds.run()
    write(box, (2, 1, "sheep"))
    ds.run()

    write(image, (1, "drawing"))
    report = ds.run().steps["tell"]

    assert (report.keys, report.corrected) == (2, 2)
    assert rows(found) == [(1, 1, "drawing: cat"), (1, 2, "drawing: dog"), (2, 1, "photo: sheep")]

    write(box, (1, 3, "hen"))  # a new box of an old image
    ds.run()
    assert rows(found)[2] == (1, 3, "drawing: hen")
    delete(image, 1)
    ds.run()
    assert rows(found) == [(1, 1, "?: cat"), (1, 2, "?: dog"), (1, 3, "?: hen"), (2, 1, "photo: sheep")]
    assert is_idle(ds)


@pytest.mark.scenario("X76")
@pytest.mark.hazard("H21")
def test_an_image_without_a_box_is_computed_once(ds, boxes):
    image, box, found = boxes
    write(image, (1, "photo"), (2, "drawing"))
    ds.run()
    assert rows(found) == [(2, 0, "drawing: empty")]  # the photo gives no row with a full key, and no error
    assert is_idle(ds)

    write(image, (3, "photo"), (4, "drawing"))
    report = ds.run().steps["tell"]
    assert (report.failed, report.appended) == (0, 1)
    assert is_idle(ds)

    write(box, (2, 1, "cat"), (3, 1, "dog"))
    ds.run()
    assert rows(found) == [(2, 1, "drawing: cat"), (3, 1, "photo: dog"), (4, 0, "drawing: empty")]

    delete(box, (2, 1), (3, 1))
    ds.run()
    assert rows(found) == [(2, 0, "drawing: empty"), (4, 0, "drawing: empty")]
    assert is_idle(ds)


# --- no key in common -------------------------------------------------------------------------------------------------


@pytest.fixture
def pairs(ds: sm.DataStore) -> tuple[sm.Table, sm.Table, sm.Table]:
    one = ds.table("one", "a string, x long", key="a")
    two = ds.table("two", "b string, y long", key="b")
    pairs = ds.table("pairs", "a string, b string, product long", key=["a", "b"])

    @ds.transform(inputs=[one, two], outputs=[pairs], transform_keys=["a", "b"])
    def multiply(one, two):
        return one.crossJoin(two).selectExpr("a", "b", "x * y AS product")

    return one, two, pairs


@pytest.mark.scenario("X42")
@pytest.mark.hazard("H5")
def test_a_new_row_is_paired_with_every_row_of_the_other_side_however_old(ds, pairs):
    one, two, products = pairs
    write(one, ("a1", 1), ("a2", 2))
    write(two, ("b1", 10), ("b2", 20))
    ds.run()
    assert rows(products) == [("a1", "b1", 10), ("a1", "b2", 20), ("a2", "b1", 20), ("a2", "b2", 40)]

    write(one, ("a3", 3))
    assert ds.run().steps["multiply"].appended == 2
    write(one, ("a4", 4))
    write(two, ("b3", 30))  # a new row with a new row, and each with the old ones
    assert ds.run().steps["multiply"].appended == 6
    assert len(rows(products)) == 12
    assert ("a4", "b3", 120) in rows(products)

    write(two, ("b1", 11))
    assert ds.run().steps["multiply"].corrected == 4
    assert is_idle(ds)


@pytest.mark.scenario("X77")
@pytest.mark.parametrize("reset", [False, True])
def test_pairs_go_with_either_side_and_with_both(ds, pairs, reset):
    one, two, products = pairs
    write(one, ("a1", 1), ("a2", 2))
    write(two, ("b1", 10), ("b2", 20))
    ds.run()

    delete(one, "a1")
    delete(two, "b1")
    if reset:  # by all keys instead of by changes
        ds.offset_table.reset_offset("multiply")
    assert ds.run().steps["multiply"].retracted == 3

    assert rows(products) == [("a2", "b2", 40)]
    assert is_idle(ds)


@pytest.mark.scenario("X42")
@pytest.mark.hazard("H5")
def test_settings_that_change_compute_every_key(ds):
    posts = ds.table("posts", "post_id long, n long", key="post_id")
    settings = ds.table("settings", "name string, factor long", key="name")
    scaled = ds.table("scaled", "post_id long, n long", key="post_id")

    @ds.transform(inputs=[posts, settings], outputs=[scaled])
    def scale(posts, settings):
        return posts.crossJoin(settings).selectExpr("post_id", "n * factor AS n")

    write(posts, (1, 1), (2, 2))
    write(settings, ("all", 10))
    ds.run()
    write(posts, (3, 3))
    assert ds.run().steps["scale"].keys == 1
    assert rows(scaled) == [(1, 10), (2, 20), (3, 30)]

    write(settings, ("all", 100))
    assert ds.run().steps["scale"].keys == 3
    assert rows(scaled) == [(1, 100), (2, 200), (3, 300)]

    delete(settings, "all")
    assert ds.run().steps["scale"].retracted == 3
    assert is_idle(ds)


# --- keys that only a reference has -----------------------------------------------------------------------------------


@pytest.fixture
def regions(ds: sm.DataStore) -> tuple[sm.Table, sm.Table, sm.Table]:
    posts = ds.table("posts", "post_id long, user_id long, n long", key="post_id")
    profiles = ds.table("profiles", "id long, region string", key="id")
    totals = ds.table("totals", "region string, total long", key="region")
    reference = sm.JoinSpec(profiles, join_keys={"user_id": "id"})

    @ds.transform(inputs=[posts, reference], outputs=[totals], transform_keys=["region"])
    def add_up(posts, profiles):
        named = posts.join(profiles, posts.user_id == profiles.id)
        checked = named.selectExpr("region", "if(n = 13, raise_error('bad luck'), n) AS n")
        return checked.groupBy("region").sum("n").toDF("region", "total")

    write(posts, (1, 100, 1), (2, 100, 2), (3, 200, 4), (4, 300, 8))
    write(profiles, (100, "north"), (200, "south"), (300, "east"))
    ds.run()
    assert rows(totals) == [("east", 8), ("north", 3), ("south", 4)]
    return posts, profiles, totals


@pytest.mark.scenario("X75")
def test_a_profile_that_moves_while_one_of_its_posts_goes_leaves_both_regions_right(ds, regions):
    posts, profiles, totals = regions

    write(profiles, (100, "south"))
    delete(posts, 1)
    report = ds.run().steps["add_up"]

    assert report.keys == 2  # the east is not computed
    assert rows(totals) == [("east", 8), ("south", 6)]

    delete(profiles, 300)
    ds.run()
    assert rows(totals) == [("south", 6)]
    write(posts, (3, 300, 4))
    write(profiles, (300, "west"))
    ds.run()
    assert rows(totals) == [("south", 2), ("west", 12)]
    assert is_idle(ds)


@pytest.mark.scenario("X47")
def test_a_region_that_fails_fails_alone(ds, regions):
    posts, _, totals = regions

    write(posts, (5, 200, 13), (6, 100, 10), (7, 300, 20))
    report = ds.run().steps["add_up"]

    assert report.failed == 1
    assert ds.step("add_up").failures().region.tolist() == ["south"]
    assert rows(totals) == [("east", 28), ("north", 13), ("south", 4)]

    ds.offset_table.reset_offset("add_up")  # and when all keys are gone through
    assert ds.run().steps["add_up"].failed == 1
    assert rows(totals) == [("east", 28), ("north", 13), ("south", 4)]

    delete(posts, 5)
    assert ds.run().ok
    assert rows(totals) == [("east", 28), ("north", 13), ("south", 4)]
    assert len(ds.step("add_up").failures()) == 0
    assert is_idle(ds)


@pytest.mark.scenario("X75")
def test_a_key_of_both_tables_that_a_partial_run_made_on_the_way_is_found_again(ds):
    posts = ds.table("posts", "post_id long, user_id long, kind string", key="post_id")
    profiles = ds.table("profiles", "id long, region string", key="id")
    counts = ds.table("counts", "kind string, region string, posts long", key=["kind", "region"])
    reference = sm.JoinSpec(profiles, join_keys={"user_id": "id"})

    @ds.transform(inputs=[posts, reference], outputs=[counts], transform_keys=["kind", "region"])
    def count(posts, profiles):
        named = posts.join(profiles, posts.user_id == profiles.id)
        return named.groupBy("kind", "region").count().toDF("kind", "region", "posts")

    write(posts, (1, 100, "text"), (2, 200, "film"))
    write(profiles, (100, "north"), (200, "south"))
    ds.run()

    write(posts, (1, 200, "text"))
    write(profiles, (200, "east"))
    ds.step("count").run_idx(pa.table({"kind": ["text"], "region": ["east"]}))  # only this key is made
    assert rows(counts) == [("film", "south", 1), ("text", "east", 1), ("text", "north", 1)]
    write(posts, (1, 100, "text"))
    write(profiles, (200, "west"))

    ds.run()

    assert rows(counts) == [("film", "west", 1), ("text", "north", 1)]
    assert is_idle(ds)

"""Values of every type as columns, as what tables are joined by and as groups, under names that need backticks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.support.view_world import ViewWorld

import seamark as sm
from seamark.errors import ViewError

SUMMER = datetime(2026, 3, 29, 1, 30, 0, 123456, UTC)  # in the hour that Europe's clocks skip
OLD = datetime(1901, 12, 31, 23, 59, 59, 999999, UTC)

THINGS = (
    "id long, `Mixed-Case` string, ts timestamp, ntz timestamp_ntz, day date, price decimal(10,2), raw binary, "
    "tags array<string>, place struct<x:long,`Y-z`:string>, weight double, is_new boolean, other_id long"
)
OTHERS = "`Other-Key` long, ts timestamp, day date, price decimal(12,4), raw binary, weight double, name string"


@pytest.fixture
def shop(spark, tmp_path) -> ViewWorld:
    found = ViewWorld(sm.DataStore(f"sqlite:///{tmp_path}/control.db", warehouse=tmp_path / "warehouse", spark=spark))
    found.add_table("thing", THINGS, key="id")
    found.add_table("other", OTHERS, key="Other-Key")
    return found


def thing(number: int, ts: datetime | None = None, **values: Any) -> tuple[Any, ...]:
    """A row of `thing`, NULL where nothing is said."""
    names = ["Mixed-Case", "ntz", "day", "price", "raw", "tags", "place", "weight", "is_new", "other_id"]
    values["ntz"] = None if ts is None else ts.replace(tzinfo=None) + timedelta(hours=1)
    rest = [values.pop(name, None) for name in names[1:]]
    return (number, values.pop("text", None), ts, *rest)


def fill(shop: ViewWorld) -> None:
    place = {"x": 1, "Y-z": "q"}
    shop.put(
        "other",
        (1, SUMMER, date(2026, 3, 29), Decimal("1.5000"), b"\x00\xff", 0.0, "one\ntwo"),
        (2, OLD, None, Decimal("2.25"), b"", float("inf"), "two"),
        (3, None, None, None, None, None, None),
    )
    shop.put(
        "thing",
        thing(1, SUMMER, text="A\nB", day=date(2026, 3, 29), price=Decimal("1.5"), raw=b"\x00\xff", tags=["a", None]),
        thing(2, OLD, text="a\nb", price=Decimal("2.25"), raw=b"", tags=[], place=place, weight=-0.0, other_id=1),
        thing(3),
        thing(4, SUMMER, text="", day=date(1901, 1, 1), place=place, weight=float("inf"), is_new=False, other_id=3),
    )


def change(shop: ViewWorld) -> None:
    """Most values become those of another row."""
    shop.put(
        "other",
        (1, OLD, date(1901, 1, 1), Decimal("2.25"), b"", float("inf"), "ONE"),
        (2, SUMMER, date(2026, 3, 29), Decimal("1.50"), b"\x00\xff", -0.0, None),
    )
    shop.put(
        "thing",
        thing(1, OLD, text="A\nB", price=Decimal("-1.5"), raw=b"", tags=["b"], place={"x": 2, "Y-z": None}, other_id=2),
        thing(3, SUMMER, text="a\nb", day=date(1901, 1, 1), tags=["c"], weight=0.0, is_new=True, other_id=1),
    )
    shop.drop("thing", 4)


def test_tables_are_joined_by_values_of_every_type(shop):
    shop.view("whole", "SELECT * FROM thing")
    for column in ("ts", "price", "raw", "weight"):
        shop.view(
            f"by_{column}",
            f"SELECT t.id, o.`Other-Key` AS `Its-Key`, o.name, t.place.`Y-z`, t.tags, upper(t.`Mixed-Case`) AS `Upper` "
            f"FROM thing t LEFT JOIN other o ON o.{column} = t.{column}",
            key="id",
        )
    fill(shop)
    shop.run()
    shop.assert_equal()
    change(shop)
    assert [step.keys for step in shop.run().steps.values()] == [3, 4, 4, 4, 4]
    shop.assert_equal()
    shop.assert_settled()


def test_rows_are_grouped_by_values_of_every_type(shop):
    groups = {
        "ntz": "t.ntz",
        "month": "date_trunc('month', t.ts)",
        "price": "o.price",
        "raw": "t.raw",
        "text": "t.`Mixed-Case`",
        "x": "t.place.x",
    }
    for name, group in groups.items():
        shop.view(
            f"by_{name}",
            f"SELECT {group} AS k, count(*) AS n, max(t.tags) AS tags, max(o.name) AS name FROM thing t "
            f"LEFT JOIN other o ON o.`Other-Key` = t.other_id WHERE {group} IS NOT NULL GROUP BY {group}",
            key="k",
        )
    shop.view("ranks", "SELECT t.id, count(*) OVER (PARTITION BY t.raw, cast(t.ts AS date)) AS n FROM thing t")
    fill(shop)
    shop.run()
    shop.assert_equal()
    change(shop)
    shop.run()
    shop.assert_equal()
    shop.assert_settled()


def test_what_is_no_key_is_refused_as_a_group_that_rows_would_be_found_again_by(shop):
    for column in ("tags", "place", "weight"):
        with pytest.raises(ViewError, match=f"'t.{column}', a .*are no keys") as raised:
            shop.view("v", f"SELECT to_json(array(t.{column})) AS k FROM thing t GROUP BY t.{column}", key="k")
        assert {issue.kind for issue in raised.value.issues if issue.is_error} == {"UnsupportedKeyType"}


def test_a_generator_in_a_subquery_fails_the_units_whose_rows_it_doubles(shop):
    text = "SELECT t.id, t.tag FROM (SELECT id, explode(array('a', note)) AS tag FROM orders) t"
    shop.view("v", text, key="id")
    shop.put("orders", (1, 1, "b"))
    shop.run()
    (failure,) = shop.store.view("v").failed_keys()
    assert failure.error == "2 rows have the key id=1"
    with pytest.raises(ViewError, match="SeveralRowsPerKey"):
        shop.view("w", text)


def test_a_group_by_a_text_with_a_collation_of_its_own_is_refused(shop):
    with pytest.raises(ViewError, match="is of a type that no table can hold"):
        shop.view(
            "v", "SELECT lower(o.note) AS k FROM orders o GROUP BY o.note COLLATE UTF8_LCASE, lower(o.note)", key="k"
        )

"""The names that the document gives are there, each with its role; and many views are checked in little time."""

import time

import pytest
from tests.support.views import SHOP, linked, paths, table

from seamark import views
from seamark.errors import UnfitKey
from seamark.views.checks.check import Surroundings, check
from seamark.views.language.script import read_script


@pytest.mark.scenario("V95")
def test_the_documents_names_are_there():
    names = """MvContext MvTarget MvPart MvJoinSource MvJoinCondition MvComputation MvLiteral MvColumn MvHandler MvInput
        MvTableInfo MvKeyInfo MvKeyPrefix MvKey MvIssue ActionSync ActionKeysTransform ActionKeysGrab ActionEveryKey"""
    for name in names.split():
        assert getattr(views, name).__name__ == name
        assert name in views.__all__


@pytest.mark.scenario("V95")
def test_keys_and_their_prefixes_know_their_table():
    line = table("line", "order_id long, no int, note string", ["order_id", "no"])
    assert line.key.columns == ("order_id", "no")
    assert line.key.prefix(7).columns == ("order_id",)
    assert line.key.key(7, 1).values == (7, 1)
    assert line.key.starts_with(["order_id"])
    assert line.key.starts_with(["no", "order_id"])
    assert not line.key.starts_with(["no"])
    with pytest.raises(UnfitKey, match=r"'line': 1 values were given for its key \(order_id, no\)"):
        line.key.key(7)
    with pytest.raises(UnfitKey, match="3 values"):
        line.key.prefix(1, 2, 3)


@pytest.mark.scenario("V12")
@pytest.mark.scenario("V15")
def test_the_kind_of_path_of_each_source():
    found = paths(
        """SELECT o.id, c.name, r.title, x.memo, p.kind, s.value FROM orders o JOIN customer c ON c.id = o.customer_id
        LEFT JOIN region r ON r.id = c.region_id LEFT JOIN order_ext x ON x.order_id = o.id
        LEFT JOIN payment p ON p.order_id = o.id JOIN settings s ON s.code = 58"""
    )
    assert [(action.table, str(action.kind), type(action)) for action in found.actions] == [
        ("orders", "sync", views.ActionSync),
        ("customer", "grab", views.ActionKeysGrab),
        ("region", "grab", views.ActionKeysGrab),
        ("order_ext", "transform", views.ActionKeysTransform),
        ("payment", "transform", views.ActionKeysTransform),
        ("settings", "every key", views.ActionEveryKey),
    ]


@pytest.mark.scenario("V28")
def test_columns_in_where_and_in_compute_on_are_used():
    part = linked(
        "CREATE ASYNC MATERIALIZED VIEW v AS SELECT o.id AS id, COMPUTE ON c.region_id #[1]# AS x FROM orders AS o "
        "JOIN customer AS c ON c.id = o.customer_id WHERE #[ c.name <> 'x' ]#"
    ).parts[0]
    assert views_used(part) == [{"id", "customer_id"}, {"id", "region_id", "name"}]


def test_an_expression_that_cannot_be_read_uses_what_it_declares_or_else_everything():
    select = "CREATE ASYNC MATERIALIZED VIEW v AS SELECT o.id AS id, {} #[ o.note !! o ]# AS x FROM orders AS o"
    assert views_used(linked(select.format("COMPUTE ON o.note")).parts[0]) == [{"id", "note"}]
    assert views_used(linked(select.format("")).parts[0]) == [{"id", "note", "customer_id"}]


def views_used(part):
    from seamark.views.paths.actions import paths_of

    return [set(action.used) for action in paths_of(part).actions]


def test_five_hundred_views_are_read_and_checked_in_five_seconds():
    one = """CREATE ASYNC MATERIALIZED VIEW v{0} PRIMARY KEY (id) AS
        SELECT o.id AS id, #[ upper(o.note || '{0}') ]# AS loud,
        c.name AS name, r.title AS title, #[ coalesce(x.memo, 'none {0}') ]# AS memo FROM orders AS o
        JOIN customer AS c ON c.id = o.customer_id LEFT JOIN region AS r ON r.id = c.region_id
        LEFT JOIN order_ext AS x ON x.order_id = o.id WHERE #[ o.note NOT IN ('a', '{0}') ]#;
    CREATE MATERIALIZED VIEW w{0} AS SELECT c.region_id, count(*) AS n, max(o.id + {0}) AS m FROM orders o
        LEFT JOIN customer c ON c.id = o.customer_id WHERE EXISTS (SELECT 1 FROM payment p WHERE p.order_id = o.id)
        GROUP BY c.region_id"""
    text = ";\n".join(one.format(number) for number in range(250))

    begin = time.process_time()
    found = check(read_script(text), Surroundings(SHOP))
    seconds = time.process_time() - begin

    assert len(found.context.targets) == 500
    assert found.issues.ok
    assert seconds < 5

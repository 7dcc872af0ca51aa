"""The same view in the document's language and in plain SQL: equal models but for text, equal paths."""

import pytest
from tests.support.views import linked, linked_reading

from seamark.views.language.script import read_script, read_view
from seamark.views.meaning import digest, meaning
from seamark.views.paths.actions import paths_of

PAIRS = {
    "five tables": (
        """SELECT o.id AS id, c.name AS name, r.title AS title, 1 AS source, 'x' AS label
        FROM orders AS o JOIN customer AS c ON c.id = o.customer_id LEFT JOIN region AS r ON r.id = c.region_id
        LEFT OUTER JOIN order_ext AS x ON x.order_id = o.id AND x.memo = 'm' JOIN settings AS s ON s.code = 58""",
        """select o.id, c.name, r.title, 1 source, 'x' AS label from orders o inner join customer c
        on (c.id = o.customer_id) left join region r on r.id=c.region_id left join order_ext x
        on x.order_id = o.id and x.memo = 'm' join `settings` s on s.code = 58 -- the end""",
    ),
    "expressions": (
        """SELECT o.id AS id, #[ upper(o.note) ]# AS loud, COMPUTE ON o.note #[length( o.note )]# AS size
        FROM orders AS o WHERE #[ o.note <> 'x' AND o.id > 3 ]#""",
        "SELECT o.id, upper(o.note) AS loud, length(o.note) AS size FROM orders o WHERE o.note <> 'x' AND (o.id > 3)",
    ),
    "a plain column in brackets": (
        "SELECT #[ o.id ]# AS id, #[ 5 ]# AS five FROM orders AS o WHERE o.note = 'x'",
        "SELECT o.id AS id, 5 AS five FROM orders o WHERE o.note = 'x'",
    ),
    "groups": (
        """SELECT c.region_id AS region, #[ count(*) ]# AS n FROM orders AS o JOIN customer AS c ON c.id = o.customer_id
        WHERE o.note IN ('a', 'b') GROUP BY c.region_id""",
        """SELECT c.region_id AS region, count(*) AS n FROM orders o JOIN customer c ON c.id = o.customer_id
        WHERE o.note IN ('a', 'b') GROUP BY region""",
    ),
}


@pytest.mark.scenario("V56")
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_the_same_view_written_twice_is_the_same_model_with_the_same_paths(pair):
    document = linked(f"CREATE ASYNC MATERIALIZED VIEW v AS {pair[0]}")
    plain = linked_reading(read_view("v", pair[1]))
    script = linked_reading(read_script(f"CREATE MATERIALIZED VIEW v AS {pair[1]}"))

    assert meaning(document) == meaning(plain) == meaning(script)
    assert digest(document) == digest(plain)
    assert [shown(part) for part in document.parts] == [shown(part) for part in plain.parts]


def shown(part):
    paths = paths_of(part)
    kinds = [(a.table, a.kind, a.used, [x.columns[0][1] for x in a.literals]) for a in paths.actions]
    return kinds, [column.leaf for column in paths.unit.columns]


@pytest.mark.parametrize(
    "other",
    [
        "SELECT o.id, o.note AS NOTE FROM orders o",
        "SELECT o.id, o.note FROM orders o WHERE o.id = 1",
        "SELECT o.id, o.note FROM orders p, orders o",
        "SELECT DISTINCT o.id, o.note FROM orders o",
        "SELECT o.id, upper(o.note) AS note FROM orders o",
        "SELECT o.id, 'o.note' AS note FROM orders o",
    ],
)
def test_another_view_is_another_model(other):
    assert digest(linked("SELECT o.id, o.note FROM orders o")) != digest(linked(other))


def test_layout_comments_and_quotes_do_not_count_and_texts_do():
    one = linked("SELECT o.id, concat(o.note, 'A') AS x FROM orders o")
    assert digest(one) == digest(linked("SELECT `o`.ID AS id,\n  CONCAT( o.note , 'A') x -- x\nFROM orders AS O"))
    assert digest(one) != digest(linked("SELECT o.id, concat(o.note, 'a') AS x FROM orders o"))

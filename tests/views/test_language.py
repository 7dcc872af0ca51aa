"""The document's language: what each form means, and what is said of a text that has another."""

import pytest
from tests.support.views import SHOP, linked, only_target

from seamark.views.language.script import read_script
from seamark.views.meaning import meaning
from seamark.views.model import MvJoinKind, MvLiteral, MvReference

FULL_VIEW = """
CREATE ASYNC MATERIALIZED VIEW order_v PRIMARY KEY (id) DESTINATION ch AS
  SELECT o.id AS id, 1 AS source, 'it''s' AS label, #[ upper(o.note) ]# AS loud,
         COMPUTE ON o.id #[ o.id + 1 ]# AS next_id, c.name AS name
  FROM orders AS o
  JOIN customer AS c ON c.id = o.customer_id
  LEFT JOIN region AS r ON r.id = c.region_id
  LEFT OUTER JOIN order_ext AS x ON x.order_id = o.id AND x.memo = 'm'
  INNER JOIN settings AS s ON s.code = 58
  WHERE #[ o.note <> 'gone' ]#;
"""


@pytest.mark.scenario("V1")
def test_a_view_with_everything_gives_exactly_this_model():
    target = only_target(FULL_VIEW)
    (part,) = target.parts

    assert (target.name, target.key, target.destination) == ("order_v", ("id",), "ch")
    assert [(s.alias, s.table, s.kind) for s in part.sources] == [
        ("o", "orders", MvJoinKind.FROM),
        ("c", "customer", MvJoinKind.INNER),
        ("r", "region", MvJoinKind.LEFT),
        ("x", "order_ext", MvJoinKind.LEFT),
        ("s", "settings", MvJoinKind.INNER),
    ]
    assert [[(shown(c.left), shown(c.right)) for c in s.conditions] for s in part.sources] == [
        [],
        [("c.id", "o.customer_id")],
        [("r.id", "c.region_id")],
        [("x.order_id", "o.id"), ("x.memo", "m")],
        [("s.code", 58)],
    ]
    by_name = {column.name: column for column in part.columns}
    assert shown(by_name["id"].value) == "o.id"
    assert by_name["source"].value == MvLiteral(1, "1")
    assert by_name["label"].value == MvLiteral("it's", "'it''s'")
    assert by_name["loud"].computation.signs == "upper ( o . note )"
    assert [r.shown for r in by_name["loud"].computation.references] == ["o.note"]
    assert by_name["loud"].computation.declared is None
    assert [r.shown for r in by_name["next_id"].computation.declared] == ["o.id"]
    assert [condition.computation.signs for condition in part.filter] == ["o . note <> 'gone'"]


def shown(value):
    return value.shown if isinstance(value, MvReference) else value.value


@pytest.mark.scenario("V2")
def test_case_comments_quotes_and_commas_change_nothing():
    plain = """CREATE ASYNC MATERIALIZED VIEW v AS
        SELECT o.id AS id, c.name AS name FROM orders AS o JOIN customer AS c ON c.id = o.customer_id"""
    other = """-- a view
        create async Materialized VIEW `v` as /* here; */
        select o.id as id, `c`.name AS `name`, -- a comma more
        from orders as o inner join `customer` as c on c.id = o.`customer_id`;;"""
    assert meaning(linked(plain)) == meaning(linked(other))


@pytest.mark.scenario("V3")
@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("SELECT o.id AS id FROM orders AS o\nRIGHT JOIN customer AS c ON c.id = o.id", 2, 1, "'RIGHT' stands where"),
        ("SELECT o.id AS id FROM orders\nJOIN customer AS c ON c.id = o.id", 2, 1, "where AS is expected"),
        ("SELECT o.id AS id FROM orders AS o\nJOIN customer AS c ON o.a > c.b", 2, 27, "where '=' is expected"),
        (
            "(SELECT o.id AS id FROM orders AS o)\nUNION ALL (SELECT o.id AS id FROM orders AS o)",
            2,
            1,
            "AS is expected",
        ),
    ],
)
def test_what_the_language_does_not_have_is_one_error_at_its_place(text, line, column, message):
    (issue,) = read_script("CREATE ASYNC MATERIALIZED VIEW v AS\n" + text).issues
    assert (issue.kind, issue.line, issue.column) == ("ParserError", line + 1, column)
    assert message in issue.message


@pytest.mark.scenario("V3")
def test_a_handler_without_commas_is_an_error_and_two_errors_are_both_reported():
    text = (
        "CREATE ASYNC HANDLER h PROCESS v INPUT t CHANGEFEED f AS STREAM;\n"
        "CREATE ASYNC MATERIALIZED VIEW v AS SELECT o.id AS id FROM t AS o;\n"
        "CREATE ASYNC MATERIALIZED VIEW w AS SELECT o.id AS id FROM t AS o FULL JOIN u AS u ON u.id = o.id"
    )
    reading = read_script(text)
    assert [(i.kind, i.line, i.column) for i in reading.issues] == [("ParserError", 1, 34), ("ParserError", 3, 67)]
    assert [target.name for target in reading.targets] == ["v"]


@pytest.mark.scenario("V4")
def test_constants_keep_their_kind_in_the_model_and_in_the_select():
    target = only_target(
        "CREATE ASYNC MATERIALIZED VIEW v AS SELECT o.id AS id FROM orders AS o "
        "JOIN payment AS p ON p.order_id = o.id AND p.kind = 0 AND p.a = -5 AND p.b = '0' AND p.c = '1's"
    )
    conditions = target.parts[0].sources[1].conditions
    assert [c.right for c in conditions[1:]] == [
        MvLiteral(0, "0"),
        MvLiteral(-5, "-5"),
        MvLiteral("0", "'0'"),
        MvLiteral("1", "'1'"),
    ]
    assert "p.kind = 0 AND p.a = -5 AND p.b = '0' AND p.c = '1'" in target.parts[0].text.text


@pytest.mark.scenario("V5")
def test_quoted_columns_in_compute_on_and_an_expression_up_to_its_first_end():
    target = only_target(
        "CREATE ASYNC MATERIALIZED VIEW v AS SELECT COMPUTE ON o.`a b`, o.id #[ a[0] || '#]' ]# AS x FROM t AS o"
    )
    computation = target.parts[0].columns[0].computation
    assert [r.words for r in computation.declared] == [("o", "a b"), ("o", "id")]
    assert computation.text.strip("( )") == "a[0] || '#]'"
    assert "( a[0] || '#]' ) AS x" in target.parts[0].text.text


@pytest.mark.scenario("V6")
@pytest.mark.parametrize("text", ["", ";", " ;\n; ", "-- nothing", "/* nothing; */ ;"])
def test_a_text_without_statement_is_one_clear_error(text):
    (issue,) = read_script(text).issues
    assert issue.kind == "ParserError"
    assert "no statement" in issue.message


@pytest.mark.scenario("V80")
def test_places_are_counted_in_signs_and_shown_with_a_caret():
    text = "-- größer\r\nCREATE ASYNC MATERIALIZED VIEW v AS\r\n\tSELECT ö.id AS id FROM t AS ö JOIN u AS u ON u.id > 1"
    (issue,) = read_script(text, "views.sql").issues
    assert (issue.source, issue.line, issue.column) == ("views.sql", 3, 52)
    first, line, caret = str(issue).split("\n")
    assert first.startswith("views.sql:3:52: error ParserError: '>' stands where '=' is expected")
    assert line == "    \tSELECT ö.id AS id FROM t AS ö JOIN u AS u ON u.id > 1"
    assert caret == "    \t" + " " * 50 + "^"


@pytest.mark.scenario("V81")
def test_a_name_may_hold_a_dollar_and_others_need_backticks():
    text = """
        CREATE ASYNC MATERIALIZED VIEW v$1 AS SELECT a$b.c$d AS e$f FROM t$ AS a$b;
        CREATE ASYNC HANDLER h$ PROCESS v$1, INPUT t$ CHANGEFEED f AS STREAM;
        CREATE ASYNC MATERIALIZED VIEW `a-b` AS SELECT o.id AS `1a` FROM `größe` AS o;
    """
    reading = read_script(text)
    assert not reading.issues
    assert [target.name for target in reading.targets] == ["v$1", "a-b"]
    assert reading.targets[0].parts[0].text.text == "SELECT `a$b`.`c$d` AS `e$f`\nFROM `t$` AS `a$b`"
    assert reading.handlers[0].inputs[0].table == "t$"
    for wrong in ("a-b", "1a"):
        assert read_script(f"CREATE ASYNC MATERIALIZED VIEW {wrong} AS SELECT o.id AS id FROM t AS o").issues


@pytest.mark.scenario("V72")
def test_plain_sql_stands_in_the_same_scripts():
    text = """
        CREATE MATERIALIZED VIEW a PRIMARY KEY (id) AS SELECT id, note FROM orders;
        CREATE MATERIALIZED VIEW b REFRESH FULL AS SELECT max(id) AS id FROM orders;
        CREATE MATERIALIZED VIEW c AS SELECT id FROM orders WHERE (note = 'x';
        CREATE MATERIALIZED VIEW d AS SELECT id FROM orders WHERE note = ';' -- end
    """
    reading = read_script(text)
    assert [(t.name, t.key, t.refresh.value) for t in reading.targets] == [
        ("a", ("id",), "incremental"),
        ("b", None, "full"),
        ("d", None, "incremental"),
    ]
    assert [(i.kind, i.line, i.column) for i in reading.issues] == [("ParserError", 4, 67)]
    assert reading.targets[2].parts[0].text.text == "SELECT id FROM orders WHERE note = ';' -- end"


def test_plain_where_and_group_by_are_spark_sql():
    target = only_target(
        "CREATE ASYNC MATERIALIZED VIEW v AS SELECT c.region_id AS region, #[ count(*) ]# AS n FROM orders AS o "
        "JOIN customer AS c ON c.id = o.customer_id WHERE o.note = 'x' AND cast(o.id AS int) > 3 GROUP BY c.region_id"
    )
    (part,) = target.parts
    assert [c.computation.signs for c in part.filter] == ["o . note = 'x'", "cast ( o . id as int ) > 3"]
    assert [g.signs for g in part.groups] == ["c . region_id"]
    assert SHOP.find("orders") is not None

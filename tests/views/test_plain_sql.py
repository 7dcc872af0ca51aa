"""Plain SQL as Spark reads it: names, stars, USING, ambiguous columns, full views, and places of tables."""

import pytest
from tests.support.views import SHOP, linked, paths, table

from seamark.views.checks.check import Surroundings, check
from seamark.views.language.script import read_script, read_view
from seamark.views.model import MvJoinKind, MvRefresh, MvUnitKind
from seamark.views.paths.keys import key_of, transform_keys
from seamark.views.paths.units import unit_of
from seamark.views.table_info import KnownTables


def columns(select):
    return [column.name for part in linked(select).parts for column in part.columns]


def issues(select, key=("id",), refresh=MvRefresh.INCREMENTAL):
    found = check(read_view("v", select, key, refresh), Surroundings(SHOP)).issues
    return [(i.kind, i.line, i.column) for i in found if i.is_error]


@pytest.mark.scenario("V58")
@pytest.mark.parametrize(
    ("select", "names"),
    [
        ("SELECT ID, o.Note FROM orders o", ["ID", "Note"]),
        ("SELECT * FROM orders", ["id", "customer_id", "note"]),
        ("SELECT c.*, o.id AS order_id FROM orders o JOIN customer c ON c.id = o.customer_id",
         ["id", "name", "region_id", "order_id"]),
        ("SELECT * FROM line l JOIN line_ext x USING (order_id)",
         ["order_id", "no", "product", "kind", "line_no", "memo"]),
        ("SELECT * FROM orders o LEFT SEMI JOIN customer c ON c.id = o.customer_id", ["id", "customer_id", "note"]),
        ("SELECT t.* EXCEPT (name) FROM (SELECT id, name, 1 AS one FROM customer) t", ["id", "one"]),
        ("SELECT id, upper(note) `Loud one`, length(note) size FROM orders", ["id", "Loud one", "size"]),
        ("SELECT code, inline(items) AS (a, b) FROM (SELECT code, tags AS items FROM settings)", ["code", "a", "b"]),
    ],
)  # fmt: skip
def test_the_names_of_the_columns_are_those_that_spark_gives(select, names):
    assert columns(select) == names


@pytest.mark.scenario("V58")
def test_a_column_of_using_is_that_of_the_left_side():
    (part,) = linked("SELECT order_id, no FROM line LEFT JOIN order_ext USING (order_id)").parts
    assert part.columns[0].value.source == 0
    assert part.sources[1].kind is MvJoinKind.LEFT
    (condition,) = part.sources[1].conditions
    assert [(r.source, r.column) for r in condition.columns] == [(1, "order_id"), (0, "order_id")]


@pytest.mark.scenario("V58")
def test_a_comma_join_with_its_equality_in_where_has_the_paths_of_a_join():
    comma = paths("SELECT o.id, c.name FROM orders o, customer c WHERE c.id = o.customer_id AND c.name = 'x'")
    join = paths("SELECT o.id, c.name FROM orders o JOIN customer c ON c.id = o.customer_id WHERE c.name = 'x'")
    assert [action.kind for action in comma.actions] == [action.kind for action in join.actions] == ["sync", "grab"]


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("SELECT id FROM orders o JOIN customer c ON c.id = o.customer_id", ("IllegalOutputReference", 1, 8)),
        ("SELECT o.id FROM orders o JOIN customer c ON id = o.customer_id", ("UnknownColumnInCondition", 1, 46)),
        ("SELECT o.id FROM orders o WHERE nope = 1", ("UnknownColumn", 1, 33)),
        ("SELECT o.id, c.name FROM orders o SEMI JOIN customer c ON c.id = o.customer_id", ("UnknownAlias", 1, 14)),
        ("SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM payment p WHERE p.nope = o.id)",
         ("UnknownColumn", 1, 71)),
        ("SELECT o.id FROM orders o JOIN (SELECT id AS a FROM customer) c ON c.id = o.id",
         ("UnknownColumnInCondition", 1, 68)),
        ("SELECT id, upper(note) FROM orders", ("ParserError", 1, 12)),
        ("SELECT z.* FROM orders o", ("UnknownAlias", 1, 8)),
        ("SELECT id FROM orders JOIN payment USING (id)", ("UnknownColumnInCondition", 1, 43)),
        ("SELECT id FROM orders GROUP BY 3", ("ParserError", 1, 32)),
        ("SELECT sum(id) OVER w AS id FROM orders", ("ParserError", 1, 21)),
        ("SELECT id FROM orders; SELECT 1", ("ParserError", 1, 24)),
        ("UPDATE orders SET id = 1", ("ParserError", 1, 1)),
        ("SELECT id FROM orders WHERE note = 'x", ("LexerError", 1, 36)),
        ("SELECT id, note, id AS x, * FROM orders", ("DuplicateColumn", 1, 27)),
    ],
)  # fmt: skip
def test_what_is_wrong_is_blamed_on_its_place(select, expected):
    assert issues(select)[0] == expected


def test_the_nearer_query_has_the_name_and_an_alias_of_the_list_only_what_no_table_has():
    (part,) = linked("SELECT id, (SELECT max(amount) FROM payment WHERE order_id = id) AS m FROM orders").parts
    inner = part.columns[1].computation.queries[0].query
    assert [(r.column, r.level) for r in inner.where[0].computation.references] == [("order_id", 0), ("id", 1)]
    (part,) = linked("SELECT id AS note, upper(note) AS loud, loud AS again FROM orders").parts
    assert part.columns[1].computation.references[0].column == "note"
    assert part.columns[2].value is part.columns[1].value


def test_a_lambda_and_a_struct_use_the_columns_that_they_name():
    found = paths(
        "SELECT s.code, transform(s.tags, t -> concat(t, s.value)) AS x, filter(tags, value -> value > 'a') AS y "
        "FROM settings s"
    )
    (part,) = linked("SELECT s.code, transform(s.tags, (t, i) -> t || i) AS x FROM settings s").parts
    assert found.actions[0].used == {"code", "tags", "value"}
    assert [r.shown for r in part.columns[1].computation.references] == ["s.tags"]


@pytest.mark.scenario("V70")
@pytest.mark.parametrize("refresh", [MvRefresh.FULL, MvRefresh.AUTO])
def test_what_is_refused_is_computed_as_a_whole_where_that_is_asked_for(refresh):
    select = (
        "WITH orders AS (SELECT * FROM `orders` o) SELECT t.id FROM orders t JOIN payment p ON p.order_id = t.id "
        "LATERAL VIEW explode(split(t.note, ',')) x AS y LIMIT 3"
    )
    assert issues(select)[0][0] == "NotIncremental"
    assert issues(select, refresh=refresh) == []
    checked = check(read_view("v", select, ["id"], refresh), Surroundings(SHOP))
    (target,) = checked.context.targets
    assert target.is_full
    assert target.tables == ("orders", "payment")
    text = target.parts[0].text.text
    assert [source.place.of(text) for source in target.parts[0].tables] == ["`orders`", "payment"]


@pytest.mark.scenario("V70")
def test_all_tables_of_a_union_inside_are_known_and_a_view_over_it_sees_its_columns():
    select = "SELECT t.id FROM (SELECT id FROM orders UNION ALL SELECT id FROM customer) t"
    script = read_script(
        f"CREATE MATERIALIZED VIEW v PRIMARY KEY (id) REFRESH FULL AS {select};"
        "CREATE MATERIALIZED VIEW w AS SELECT id FROM v; CREATE MATERIALIZED VIEW x AS SELECT nope FROM v;"
        "CREATE MATERIALIZED VIEW y PRIMARY KEY (a) REFRESH FULL AS SELECT * FROM "
        "(SELECT id AS a FROM orders UNION SELECT 2) t;"
        "CREATE MATERIALIZED VIEW z PRIMARY KEY (a) AS SELECT a FROM y"
    )
    checked = check(script, Surroundings(SHOP))
    assert checked.context.target("v").tables == ("orders", "customer")
    assert [(i.kind, i.line) for i in checked.issues if i.is_error] == [("IllegalOutputReference", 1)]
    assert checked.wrong_views == {"x"}


@pytest.mark.scenario("V70")
def test_a_text_whose_unit_is_missing_only_once_it_is_linked_falls_back_to_full():
    for select in (
        "SELECT count(*) AS n FROM orders",
        "SELECT id, rank() OVER (ORDER BY id) AS n FROM orders",
        "SELECT n, count(*) AS m FROM (SELECT count(*) AS n FROM orders GROUP BY note) t GROUP BY n",
    ):
        reading = read_view("v", select, ["n"], MvRefresh.AUTO)
        checked = check(reading, Surroundings(SHOP))
        assert checked.context.targets[0].is_full
        assert checked.context.targets[0].parts[0].refusals
        assert [i.kind for i in checked.issues if i.is_error] == []


def test_windows_with_a_partition_written_in_two_ways_have_it_in_common():
    found = paths(
        "SELECT o.id, rank() OVER (PARTITION BY customer_id ORDER BY o.id) AS a, "
        "rank() OVER (PARTITION BY o.CUSTOMER_ID, c.name ORDER BY o.id) AS b "
        "FROM orders o JOIN customer c ON c.id = o.customer_id"
    )
    assert [column.shown for column in found.unit.columns] == ["customer_id"]


@pytest.mark.scenario("V70")
def test_a_text_that_can_be_kept_by_units_is_with_auto():
    target = read_view("v", "SELECT id FROM orders", None, MvRefresh.AUTO).targets[0]
    assert not target.is_full


@pytest.mark.parametrize(
    ("select", "key", "origin", "hidden"),
    [
        ("SELECT id, note FROM orders", ("id",), "left-most", False),
        ("SELECT note, no, order_id FROM line l JOIN orders o ON o.id = l.order_id", ("order_id", "no"),
         "left-most", False),
        ("SELECT customer_id AS c, count(*) AS n FROM orders GROUP BY customer_id", ("c",), "groups", False),
        ("SELECT DISTINCT note, id FROM orders", ("note", "id"), "groups", False),
        ("SELECT upper(note) AS u, count(*) AS n FROM orders GROUP BY upper(note)", ("u",), "groups", False),
        ("SELECT id, rank() OVER (PARTITION BY customer_id ORDER BY id) AS r FROM orders", ("id",), "left-most", True),
        ("WITH t AS (SELECT customer_id AS c, count(*) AS n FROM orders GROUP BY 1) SELECT t.n, t.c AS k, name FROM t "
         "JOIN customer x ON x.id = t.c", ("k",), "groups", False),
        ("SELECT note FROM orders", (), "left-most", True),
        ("SELECT o.id, p.kind FROM orders o JOIN payment p ON p.order_id = o.id", (), "left-most", True),
        ("SELECT o.id, p.n FROM orders o LEFT JOIN (SELECT order_id, count(*) AS n FROM payment GROUP BY 1) p "
         "ON p.order_id = o.id", ("id",), "left-most", False),
        ("SELECT o.id, s.value FROM orders o JOIN settings s ON s.code = 58", ("id",), "left-most", False),
        ("SELECT o.id, c.name FROM orders o, customer c WHERE c.id = o.customer_id", ("id",), "left-most", False),
    ],
)  # fmt: skip
def test_the_key_that_is_found_and_whether_rows_need_hidden_columns(select, key, origin, hidden):
    target = linked(select)
    found = key_of(target, None)
    assert (found.columns, found.origin) == (key, origin)
    assert (transform_keys(target.parts[0], unit_of(target.parts[0]), key) is None) == hidden


@pytest.mark.scenario("V64")
@pytest.mark.scenario("V68")
def test_units_of_left_most_queries():
    found = paths(
        "WITH t AS (SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id) SELECT * FROM t WHERE n > 1"
    )
    assert found.unit.kind is MvUnitKind.GROUP
    assert found.actions[0].literals == ()


@pytest.mark.parametrize("name", ["limit", "offset", "window", "date", "first", "left", "key", "value", "start"])
def test_a_column_may_be_called_like_a_word_of_sql(name):
    known = KnownTables.of(table("t", f"id long, {name}{'_' if name == 'offset' else ''} long", "id"))
    name = known.find("t").columns[1]
    for select in (
        f"SELECT id, {name} AS x FROM t WHERE {name} > 3 AND {name} < 5 OR t.{name} = 4",
        f"SELECT id, {name} + 1 AS x FROM t WHERE id = 1 GROUP BY id, {name} HAVING {name} > 1",
    ):
        found = paths(select, known)
        assert found.part.refusals == ()
        assert found.actions[0].used == {"id", name}


@pytest.mark.parametrize(
    "tail", ["LIMIT 3", "WHERE id = 1 LIMIT 3", "GROUP BY id LIMIT 3", "WHERE `id` LIMIT 3", "t LIMIT 3"]
)
def test_a_limit_is_a_limit_whatever_stands_before_it(tail):
    assert [kind for kind, _, _ in issues(f"SELECT id FROM orders {tail}")] == ["NotIncremental"]


def test_subqueries_without_alias_stand_side_by_side():
    text = "SELECT a, b FROM (SELECT id AS a FROM orders) JOIN (SELECT id AS b FROM customer) ON b = a"
    assert issues(text, ["a"]) == []
    assert [action.kind for action in paths(text).actions] == ["sync", "transform"]


def test_whole_numbers_and_floats_do_not_compare():
    text = "SELECT o.id FROM orders o JOIN payment p ON p.pay_id = o.id AND p.paid = o.customer_id"
    assert issues(text) == [("JoinTypes", 1, 65)]


def test_names_in_braces_backslashes_and_hints_are_left_alone():
    text = "SELECT /*+ SHUFFLE_HASH(o) */ id, '{a} \\\\' AS `b}` FROM orders o -- ;"
    (part,) = linked(text).parts
    assert part.text.text == text
    assert [source.place.of(text) for source in part.tables] == ["orders"]


def test_the_places_of_tables_are_those_of_their_names():
    text = (
        "WITH a AS (SELECT id FROM orders) SELECT x.id FROM a x JOIN `customer` AS c ON c.id = x.id "
        "WHERE x.id IN (SELECT order_id FROM payment)"
    )
    (part,) = linked(text).parts
    assert [(s.table, s.place.of(text)) for s in part.tables] == [
        ("orders", "orders"),
        ("customer", "`customer`"),
        ("payment", "payment"),
    ]


@pytest.mark.parametrize("end", [";", " ; -- the end;", ";;\n;"])
def test_what_spark_gets_ends_before_a_semicolon(end):
    (part,) = linked("SELECT id, ';' AS x FROM orders -- why; not\n" + end).parts
    assert part.text.text == "SELECT id, ';' AS x FROM orders -- why; not\n" + (" " if end[0] == " " else "")

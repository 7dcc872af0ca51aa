"""What Spark says of views: expressions that fail, queries that cannot run, and results that rows do not decide."""

from __future__ import annotations

import pytest
from tests.support.views import SHOP, table

from seamark.views.analysis.analyse import analysis
from seamark.views.analysis.calls import calls_in
from seamark.views.checks.check import Surroundings, check
from seamark.views.issues import MvIssue
from seamark.views.language.script import Reading, read_script, read_view
from seamark.views.model import MvRefresh
from seamark.views.plain_sql.signs import Signs
from seamark.views.table_info import KnownTables

HANDLER = "CREATE ASYNC HANDLER h PROCESS v, INPUT orders CHANGEFEED log AS STREAM"
TARGET = table("v", "id long, name string, memo string", "id")
SHOP_AND_V = KnownTables.of(*SHOP.infos.values(), TARGET)


@pytest.fixture
def issues(spark):
    """The issues of a script or reading, analysed."""

    def of(given: str | Reading, tables: KnownTables = SHOP_AND_V) -> list[MvIssue]:
        reading = read_script(given) if isinstance(given, str) else given
        found = check(reading, Surroundings(tables), analyse=analysis(lambda: spark)).issues
        assert found.skipped == ()
        return list(found)

    return of


@pytest.fixture
def kinds(issues):
    """The kinds of issues of a plain view, with the words that each is blamed on."""

    def of(select: str, key: tuple[str, ...] | None = ("id",), **options) -> list[tuple[str, str]]:
        found = issues(read_view("w", select, key, **options), SHOP)
        return [(issue.kind, issue.shown[issue.column - 1 :].split()[0]) for issue in found]

    return of


def placed(found: list[MvIssue]) -> list[tuple[str, str, int, int]]:
    return [(issue.kind, issue.severity, issue.line, issue.column) for issue in found]


def view(select: str) -> str:
    return f"CREATE ASYNC MATERIALIZED VIEW v AS\n{select};\n{HANDLER};"


# --- who is to blame --------------------------------------------------------------------------------------------------


@pytest.mark.scenario("V9")
def test_a_computed_column_is_blamed_alone_among_three(issues):
    found = issues(
        view("SELECT o.id AS id, #[ upper(o.note) ]# AS name,\n COMPUTE ON o.id #[ nope(1) ]# AS memo FROM orders AS o")
    )
    assert placed(found) == [("SqlCustomColumnError", "error", 3, 2)]
    assert found[0].message.startswith("column 'memo': ")
    assert "nope" in found[0].message
    assert "SQLSTATE" not in found[0].message
    assert found[0].phase == "analysis"


@pytest.mark.scenario("V9")
def test_a_filter_is_blamed_and_so_are_two_mistakes(issues):
    found = issues(
        view("SELECT o.id AS id, #[ nope(o.id) ]# AS memo FROM orders AS o\nWHERE #[ o.note + array(1) > 2 ]#")
    )
    assert [(issue.kind, issue.line) for issue in found] == [("SqlCustomColumnError", 2), ("SqlCustomFilterError", 3)]


@pytest.mark.scenario("V9")
def test_where_no_expression_is_to_blame_the_view_is(issues):
    numbers = KnownTables.of(*SHOP.infos.values(), TARGET, table("odd", "k array<long>, x string", None))
    (found,) = issues(
        read_view("w", "SELECT o.id, (o.id = s.tags) AS same FROM orders o JOIN settings s ON s.code = o.id", ["id"]),
        numbers,
    )
    assert found.kind == "SqlCustomColumnError"
    (whole,) = [
        i
        for i in issues(read_view("w", "SELECT o.id FROM orders o JOIN settings s ON s.tags > o.id", ["id"]), numbers)
        if i.is_error
    ]
    assert (whole.kind, whole.line, whole.column) == ("SqlUnexpectedError", 1, 1)


@pytest.mark.scenario("V57")
def test_what_a_person_wrote_reaches_spark_word_for_word(issues):
    select = """SELECT /*+ BROADCAST(c) */ o.id, -- a comment with {braces} and 'quotes
      concat('it''s {not} a field', c.name, '\\\\d', r'\\d') AS `memo` /* } */
    FROM orders o JOIN customer c ON c.id = o.customer_id"""
    assert issues(read_view("w", select, ["id"]), SHOP) == []


# --- what it gives ----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("V10")
def test_types_that_do_not_fit_the_table_or_any_table(kinds, issues):
    found = issues(view("SELECT o.id AS id, #[ o.id + 1 ]# AS name, #[ 1 = 1 ]# AS memo FROM orders AS o"))
    assert [(issue.kind, issue.line) for issue in found] == [("TypeMismatch", 2), ("TypeMismatch", 2)]
    assert "column 'name' is bigint, and the table has string" in found[0].message
    assert kinds("SELECT id, map('a', note) AS m FROM orders") == [("TypeMismatch", "map('a',")]
    assert kinds("SELECT id, NULL AS nothing FROM orders") == [("TypeMismatch", "NULL")]
    assert issues(view("SELECT o.id AS id, #[ NULL ]# AS name FROM orders AS o")) == []


@pytest.mark.scenario("V10")
def test_parts_whose_computed_types_differ(kinds):
    select = "SELECT id, upper(note) AS x FROM orders UNION ALL SELECT id, id + 1 AS x FROM customer"
    assert kinds(select)[-1][0] == "UnionMismatch"
    same = "SELECT concat('o-', id) AS id FROM orders UNION ALL SELECT concat('c-', id) AS id FROM customer"
    assert [kind for kind, _ in kinds(same) if kind == "UnionMismatch"] == []


@pytest.mark.scenario("V37")
def test_a_view_is_read_by_another_with_the_types_that_spark_gives_it(issues):
    first = "CREATE MATERIALIZED VIEW a PRIMARY KEY (id) AS SELECT id, length(note) AS n FROM orders;"
    good = "CREATE MATERIALIZED VIEW b PRIMARY KEY (id) AS SELECT id, n + 1 AS m FROM a;"
    assert issues(good + first, SHOP) == []
    wrong = "CREATE MATERIALIZED VIEW b PRIMARY KEY (id) AS SELECT id, explode(n) AS m FROM a;"
    (found,) = [i for i in issues(first + wrong, SHOP) if i.phase == "analysis" and i.is_error]
    assert found.kind == "SqlCustomColumnError"
    broken = first.replace("length(note)", "nope(note)")
    assert [i.kind for i in issues(broken + good, SHOP)] == ["SqlCustomColumnError"]  # b is not blamed for a


# --- the same in each run ---------------------------------------------------------------------------------------------


@pytest.mark.scenario("V52")
@pytest.mark.scenario("V73")
@pytest.mark.parametrize(
    ("expression", "blamed"),
    [
        ("rand()", "rand()"),
        ("now()", "now()"),
        ("uuid()", "uuid()"),
        ("concat(note, current_timestamp)", "current_timestamp)"),
        ("current_date()", "current_date()"),
        ("TIMESTAMP 'now'", "'now'"),
        ("CASE WHEN id > 1 THEN monotonically_increasing_id() END", "monotonically_increasing_id()"),
        ("current_user()", "current_user()"),
    ],
)
def test_clocks_and_chance(kinds, expression, blamed):
    found = kinds(f"SELECT id, {expression} AS x FROM orders")
    assert ("NotDeterministic", blamed) in found, found


@pytest.mark.scenario("V73")
def test_what_is_no_clock(kinds):
    selects = [
        "SELECT id, 'now' AS x, date'2026-01-01' AS y FROM orders WHERE note IN ('rand()', 'today')",
        "SELECT id, div AS x FROM (SELECT id, id div (3) AS div FROM orders) WHERE NOT (id IS NULL)",
        "WITH rand (id, x) AS (SELECT id, note FROM orders) SELECT id, x FROM rand",
    ]
    for select in selects:
        assert [kind for kind, _ in kinds(select) if kind == "NotDeterministic"] == [], select


@pytest.mark.scenario("V73")
def test_a_registered_function_is_refused_and_left_as_it_is(spark, kinds):
    spark.udf.register("shout_of_tests", lambda text: text.upper())
    assert kinds("SELECT id, shout_of_tests(note) AS x FROM orders") == [("TemporaryFunction", "shout_of_tests(note)")]
    assert spark.sql("SELECT shout_of_tests('a') AS x").first().x == "A"


@pytest.mark.scenario("V73")
def test_results_that_depend_on_the_order_of_rows(kinds):
    def of(expression: str) -> list[str]:
        found = kinds(f"SELECT customer_id, {expression} AS x FROM orders GROUP BY customer_id", None)
        return [kind for kind, _ in found if kind != "NullableKey"]

    assert of("first(note)") == ["OrderDependent"]
    assert of("collect_list(note)") == ["OrderDependent"]
    assert of("sort_array(collect_list(note))") == []
    assert of("array_sort(collect_list(note) FILTER (WHERE note > 'a'))") == []
    assert of("max(note)") == []
    window = "SELECT id, first_value(note) {} AS x FROM orders"
    for over in ("OVER (PARTITION BY customer_id ORDER BY id)", "IGNORE NULLS OVER (PARTITION BY note ORDER BY id)"):
        assert kinds(window.format(over)) == []
    assert kinds(window.format("OVER (PARTITION BY customer_id)")) == [("OrderDependent", "first_value(note)")]
    named = f"{window.format('OVER w')} WINDOW w AS (PARTITION BY customer_id"
    assert kinds(f"{named} ORDER BY id)") == []
    assert kinds(f"{named})") == [("OrderDependent", "first_value(note)")]


@pytest.mark.scenario("V73")
def test_sums_of_floats(kinds):
    def of(expression: str) -> list[tuple[str, str]]:
        found = kinds(f"SELECT order_id, {expression} AS x FROM payment GROUP BY order_id", None)
        return [issue for issue in found if issue[0] != "NullableKey"]

    assert of("sum(paid)") == [("FloatingAggregate", "sum(paid)")]
    assert of("1 + avg(DISTINCT paid * 2)") == [("FloatingAggregate", "avg(DISTINCT")]
    assert of("sum(amount)") == []
    assert of("avg(amount)") == []
    assert of("max(paid)") == []
    assert of("sum(cast(paid AS decimal(18, 2)))") == []
    inner = (
        "SELECT o.id, p.x FROM orders o LEFT JOIN (SELECT order_id, sum(paid) AS x FROM payment GROUP BY order_id) p"
    )
    assert ("FloatingAggregate", "sum(paid)") in kinds(f"{inner} ON p.order_id = o.id")


# --- every query ------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("V54")
def test_every_query_of_every_kind_of_unit_is_analysed(spark, issues, count_jobs, monkeypatch):
    from seamark.views.analysis.scratch import Scratch

    asked: list[str] = []
    plain = Scratch.types_of
    monkeypatch.setattr(Scratch, "types_of", lambda self, text: asked.append(text) or plain(self, text))
    select = (
        "SELECT r.country, coalesce(c.name, 'none') AS who, count(*) AS n FROM orders o "
        "LEFT JOIN customer c ON c.id = o.customer_id LEFT JOIN region r ON r.id = c.region_id GROUP BY 1, 2"
    )
    views = {view.name for view in spark.catalog.listTables()}
    with count_jobs() as counter:
        assert [i.kind for i in issues(read_view("w", select), SHOP) if i.is_error] == []
    assert counter.jobs == 0  # analysed, and not run
    assert {view.name for view in spark.catalog.listTables()} == views
    texts = "\n".join(asked)
    assert "_changed AS changed" in texts
    assert "_keys AS keys" in texts
    assert len(asked) >= 5


@pytest.mark.scenario("V54")
def test_a_query_that_spark_refuses_is_named(issues, monkeypatch):
    from seamark.views.analysis import analyse

    monkeypatch.setattr(analyse, "path_query", lambda *_: "SELECT nope")
    (found,) = issues(
        read_view("w", "SELECT o.id, x.memo FROM orders o LEFT JOIN order_ext x ON x.order_id = o.id"), SHOP
    )
    assert found.kind == "SqlUnexpectedError"
    assert "the query from 'x' to units (transform) cannot be run" in found.message
    assert found.shown[found.column - 1 :].startswith("order_ext")


@pytest.mark.scenario("V70")
def test_a_view_that_is_recomputed_is_analysed_too(kinds):
    full = {"refresh": MvRefresh.FULL}
    assert kinds("SELECT id, note FROM orders ORDER BY id LIMIT 10", **full) == []
    assert kinds("SELECT id, nope(note) AS x FROM orders LIMIT 10", **full)[0][0] == "SqlCustomColumnError"
    found = kinds("SELECT id, rand() AS x FROM orders ORDER BY id LIMIT 10", **full)
    assert [kind for kind, _ in found] == ["NotDeterministic"]


@pytest.mark.scenario("V70")
@pytest.mark.parametrize("refresh", [MvRefresh.FULL, MvRefresh.AUTO])
def test_rows_that_are_taken_by_chance_are_no_view(kinds, refresh):
    for sample in ("(50 PERCENT)", "(5 ROWS)", "(BUCKET 1 OUT OF 2)", "(50 PERCENT) REPEATABLE (7)"):
        found = kinds(f"SELECT id FROM orders TABLESAMPLE {sample}", refresh=refresh)
        assert found == [("NotDeterministic", "TABLESAMPLE")]
    inside = "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM payment TABLESAMPLE (1 ROWS))"
    assert kinds(inside, refresh=refresh) == [("NotDeterministic", "TABLESAMPLE")]
    assert kinds("WITH `tablesample` (id) AS (SELECT id FROM orders) SELECT id FROM `tablesample`") == []


@pytest.mark.scenario("V70")
def test_a_limit_without_an_order_is_warned_of(kinds):
    def of(select: str) -> list[tuple[str, str]]:
        return kinds(select, refresh=MvRefresh.FULL)

    assert of("SELECT id FROM orders LIMIT 3") == [("OrderDependent", "LIMIT")]
    assert of("SELECT id FROM orders LIMIT 3 OFFSET 2") == [("OrderDependent", "LIMIT")]
    assert of("SELECT id FROM orders OFFSET 2") == [("OrderDependent", "OFFSET")]
    assert of("SELECT id FROM orders SORT BY id LIMIT (1 + 2)") == [("OrderDependent", "LIMIT")]
    assert of("SELECT id FROM orders ORDER BY id LIMIT 3") == []
    assert of("SELECT id FROM orders LIMIT ALL") == []
    inner = "SELECT o.id FROM orders o JOIN (SELECT id FROM customer{} LIMIT 3) c ON c.id = o.customer_id ORDER BY 1"
    assert of(inner.format("")) == [("OrderDependent", "LIMIT")]
    assert of(inner.format(" ORDER BY id")) == []
    assert of("SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM customer LIMIT 1) ORDER BY id LIMIT 3") == []


@pytest.mark.scenario("V70")
def test_rows_of_a_table_function_are_decided_by_its_arguments(kinds):
    select = "SELECT o.id * 10 + r.id AS id FROM orders o CROSS JOIN range(3) r"
    assert kinds(select) == [("NotIncremental", "range(3)")]
    assert kinds(select, refresh=MvRefresh.FULL) == []
    assert kinds("SELECT o.id FROM orders o CROSS JOIN sql_keywords() k", refresh=MvRefresh.FULL)[0][0] == (
        "NotDeterministic"
    )


@pytest.mark.scenario("V10")
def test_a_column_that_is_null_in_one_part_has_the_type_of_the_others(kinds, issues):
    for one, other in (("note", "NULL"), ("NULL", "name")):
        union = f"SELECT id, {one} AS x FROM orders UNION ALL SELECT id + 100 AS id, {other} AS x FROM customer"
        assert [kind for kind, _ in kinds(union) if kind not in ("ComplexKeyGeneration", "NullableKey")] == []
    script = read_script(
        f"CREATE MATERIALIZED VIEW v PRIMARY KEY (id) AS {union}; "
        "CREATE MATERIALIZED VIEW w AS SELECT id, upper(x) AS x FROM v"
    )
    assert [issue for issue in issues(script, SHOP) if issue.is_error] == []
    nothing = "SELECT id, NULL AS x FROM orders UNION ALL SELECT id, NULL AS x FROM customer"
    assert [kind for kind, _ in kinds(nothing) if kind == "TypeMismatch"] == ["TypeMismatch", "TypeMismatch"]


def test_calls_and_what_encloses_them():
    signs = Signs("sort_array(collect_list(DISTINCT a)) + db.f(1) + x.first (b) OVER (w), left(c, 2) FILTER (WHERE d)")
    assert [(c.name, c.within, c.behind) for c in calls_in(signs)] == [
        ("sort_array", "", ""),
        ("collect_list", "sort_array", ""),
        ("db.f", "", ""),
        ("x.first", "", "OVER"),
        ("over", "", ""),
        ("left", "", ""),
        ("filter", "", ""),
    ]


@pytest.mark.parametrize(
    ("group", "word"),
    [("split(o.note, ',')", "split(o.note,"), ("o.id / 2", "o.id"), ("struct(o.note)", "struct(o.note)")],
)
def test_a_computed_group_by_which_no_row_can_be_found_again_is_refused(kinds, group, word):
    found = kinds(f"SELECT to_json(struct({group} AS g)) AS k, count(*) AS n FROM orders o GROUP BY {group}", ("k",))
    assert found == [("UnsupportedKeyType", word)]


def test_computed_groups_of_parts_stand_in_one_column_or_are_refused(kinds):
    united = (
        "SELECT {} AS k, count(*) AS n FROM orders o GROUP BY {} UNION ALL SELECT o.note AS k, 1 AS n FROM orders o"
    )
    moment = "to_timestamp(o.note)"
    assert "UnsupportedKeyType" in dict(kinds(united.format(f"string({moment})", moment), ("k",)))
    assert "UnsupportedKeyType" not in dict(kinds(united.format("upper(o.note)", "upper(o.note)"), ("k",)))

"""Every kind of issue: its smallest text raises exactly this issue, at this place, and nothing else."""

from dataclasses import dataclass

import pytest
from tests.support.views import SHOP, table

from seamark.views.checks.check import Checked, Surroundings, check
from seamark.views.issues import KINDS, PHASES
from seamark.views.language.script import Reading, read_script, read_view
from seamark.views.model import MvRefresh, MvTarget
from seamark.views.table_info import KnownTables

HANDLER = "CREATE ASYNC HANDLER h PROCESS v, INPUT orders CHANGEFEED log AS STREAM"
TARGETS = [table("v", "id long, name string, memo string", "id")]


def tables(*more):
    return KnownTables.of(*SHOP.infos.values(), *TARGETS, *more)


def checked(text: str, *more, hints: bool = False, destinations=("ch",)) -> Checked:
    return check(read_script(text), Surroundings(tables(*more), destinations), hints=hints)


def view(select: str, *inputs: str, key: str = "", name: str = "v") -> str:
    """A view over orders and more, with a handler that has all inputs."""
    feeds = "".join(f", INPUT {t} CHANGEFEED log AS STREAM" for t in inputs)
    create = f"CREATE ASYNC MATERIALIZED VIEW {name} {key} AS\n{select}"
    return f"{create};\n{HANDLER.replace('PROCESS v', f'PROCESS {name}')}{feeds};"


@dataclass(frozen=True)
class Row:
    kind: str
    text: str
    line: int
    column: int
    severity: str = "error"
    hints: bool = False


GOOD = "SELECT o.id AS id FROM orders AS o"
JOINED = "SELECT o.id AS id FROM orders AS o JOIN customer AS c ON c.id = o.customer_id"
TOTAL = "SELECT o.id AS id FROM orders AS o\nJOIN settings AS s ON s.code = 58"

# fmt: off
ROWS = [
    Row("LexerError", "CREATE ASYNC MATERIALIZED VIEW v AS\nSELECT ? AS id FROM orders AS o", 2, 8),
    Row("ParserError", f"CREATE ASYNC MATERIALIZED VIEW v AS\n{GOOD} RIGHT JOIN customer AS c ON c.id = o.id", 2, 36),
    Row("DuplicateView", f"{view(GOOD)}\nCREATE ASYNC MATERIALIZED VIEW v AS {GOOD}", 4, 32),
    Row("DuplicateViewPart", view(f"({GOOD}) AS a UNION ALL\n({GOOD}) AS a"), 3, 41),
    Row("DuplicateHandler", f"{view(GOOD)}\n{HANDLER}", 4, 22),
    Row("IllegalHandlerName", view(GOOD).replace("HANDLER h", "HANDLER SYS$x"), 3, 22),
    Row("DuplicateInput", view(GOOD, "orders"), 3, 80),
    Row("UnknownView", f"{view(GOOD)}\nCREATE ASYNC HANDLER i PROCESS w, INPUT orders CHANGEFEED log AS STREAM", 4, 32),
    Row("UnknownAlias", view("SELECT o.id AS id, z.id AS name FROM orders AS o"), 2, 20),
    Row(
        "UnknownAlias", view(JOINED.replace("= o.customer_id", "= z.id"), "customer"), 2, 65
    ),
    Row("UnknownAlias", view("SELECT o.id AS id, COMPUTE ON z.id #[1]# AS name FROM orders AS o"), 2, 31),
    Row("EmptyHandler", f"{view(GOOD)}\nCREATE ASYNC HANDLER i INPUT orders CHANGEFEED log AS STREAM", 4, 22),
    Row("UnknownInputTable", view(GOOD, "nope"), 3, 80),
    Row("MissingTargetTable", view(GOOD, name="w"), 1, 32, "warning"),
    Row("UnknownSourceTable", view("SELECT o.id AS id FROM nope AS o"), 2, 24),
    Row("MismatchedSourceTable", view("SELECT o.id AS id FROM Orders AS o"), 2, 24),
    Row("ViewMultiHandlers", f"{view(GOOD)}\n{HANDLER.replace('HANDLER h', 'HANDLER i')}", 4, 32),
    Row("UselessView", f"CREATE ASYNC MATERIALIZED VIEW v AS {GOOD}", 1, 32, "warning"),
    Row("IllegalJoinCondition", view(f"{JOINED} AND 1 = 2", "customer"), 2, 83),
    Row("IllegalJoinCondition", view(f"{JOINED} AND c.id = c.region_id", "customer"), 2, 83),
    Row("IllegalJoinCondition", view(f"{JOINED} AND o.id = o.customer_id", "customer"), 2, 83),
    Row("UnknownColumnInCondition", view(JOINED.replace("c.id", "c.nope"), "customer"), 2, 58),
    Row("IllegalOutputReference", view("SELECT o.nope AS id FROM orders AS o"), 2, 8),
    Row("UnknownOutputColumn", view("SELECT o.id AS id, o.note AS nope FROM orders AS o"), 2, 20),
    Row("UnknownOutputColumn", view("SELECT o.id AS id, #[1]# AS nope FROM orders AS o"), 2, 20),
    Row("UnknownColumn", view("SELECT o.id AS id, COMPUTE ON o.nope #[1]# AS name FROM orders AS o"), 2, 31),
    Row("UnknownColumn", view("SELECT o.id AS id FROM orders AS o WHERE COMPUTE ON o.nope #[true]#"), 2, 53),
    Row(
        "MissingJoinIndex",
        view(
            "SELECT o.id AS id FROM orders AS o LEFT JOIN line AS l ON l.no = o.id AND l.order_id = 1",
            "line",
            key="PRIMARY KEY (id)",
        ),
        2,
        46,
        "hint",
        hints=True,
    ),
    Row("KeyExtractionImpossible", view(TOTAL, "settings"), 3, 6, "warning"),
    Row("UnknownChangefeed", view(GOOD).replace("CHANGEFEED log", "CHANGEFEED nope"), 3, 59),
    Row("MissingConsumer", view(GOOD).replace("HANDLER h", "HANDLER h CONSUMER c"), 3, 70),
    Row("MissingInput", view(JOINED), 3, 32, "warning"),
    Row("UselessInput", view(GOOD, "customer"), 3, 80, "warning"),
    Row("SqlCustomFilterError", view("SELECT o.id AS id FROM orders AS o WHERE #[ nope( ]#"), 2, 42),
    Row("SqlCustomColumnError", view("SELECT o.id AS id, #[ nope(1 ]# AS memo, #[1]# AS name FROM orders AS o"), 2, 20),
    Row("ComplexKeyGeneration", view("SELECT #[ concat(o.id, o.note) ]# AS id FROM orders AS o"), 2, 8, "warning"),
    # beyond the document
    Row("DuplicateAlias", view(f"{JOINED} JOIN region AS c ON c.id = o.id", "customer", "region"), 2, 94),
    Row("DuplicateColumn", view("SELECT o.id AS id, o.note AS ID FROM orders AS o"), 2, 20),
    Row(
        "ForwardReference",
        view(JOINED.replace("= o.customer_id", "= r.id JOIN region AS r ON r.id = c.region_id"), "customer", "region"),
        2,
        65,
    ),
    Row("ReservedName", view("SELECT o.id AS id, o.note AS _part FROM orders AS o"), 2, 20),
    Row(
        "CyclicViews",
        f"CREATE MATERIALIZED VIEW a AS SELECT id FROM b;\n{view(GOOD)}\n"
        "CREATE MATERIALIZED VIEW b AS SELECT id FROM a",
        1,
        26,
    ),
    Row("UnionMismatch", view(f"({GOOD}) AS a UNION ALL\n(SELECT o.note AS id FROM orders AS o) AS b"), 3, 9),
    Row("KeyNotProduced", view("SELECT o.note AS name FROM orders AS o"), 1, 32),
    Row("KeyMismatch", view("SELECT o.id AS id, #[ 'x' ]# AS name FROM orders AS o", key="PRIMARY KEY (name)"), 1, 47),
    Row("SeveralRowsPerKey", view(f"{GOOD} LEFT JOIN payment AS p ON p.order_id = o.id", "payment"), 2, 46, "warning"),
    Row("RequiredColumnMissing", view(GOOD, name="w2"), 2, 1),
    Row("NullableKey", view("SELECT o.customer_id AS id FROM orders AS o"), 2, 8, "warning"),
    Row(
        "UnkeyedLeftmost",
        view("SELECT c.url AS name, c.user_id AS id FROM clicks AS c").replace("orders", "clicks"),
        2,
        44,
    ),
    Row("JoinTypes", view(JOINED.replace("= o.customer_id", "= o.note"), "customer"), 2, 58),
    Row("UnknownDestination", view(GOOD, key="DESTINATION nope"), 1, 46),
    Row("BatchLeftmost", view(GOOD).replace("STREAM", "BATCH"), 2, 24, "warning"),
    Row(
        "UndeclaredColumn",
        view("SELECT o.id AS id, COMPUTE ON o.id #[ o.note ]# AS name FROM orders AS o"),
        2,
        39,
        "warning",
    ),
    Row(
        "UnsupportedKeyType",
        "CREATE MATERIALIZED VIEW w PRIMARY KEY (n) AS SELECT count(*) AS n FROM payment\nGROUP BY paid",
        2,
        10,
    ),
    Row(
        "OwnerOutOfReach",
        "CREATE MATERIALIZED VIEW w PRIMARY KEY (note) AS\n"
        "WITH r AS (SELECT coalesce(note, '') note FROM orders) SELECT note FROM r",
        2,
        73,
    ),
    Row("NotIncremental", "CREATE MATERIALIZED VIEW w AS\nSELECT id FROM orders LIMIT 3", 2, 23),
    Row("OrderIgnored", "CREATE MATERIALIZED VIEW w AS\nSELECT id FROM orders ORDER BY id", 2, 23, "warning"),
]
# fmt: on
REQUIRED = table("w2", "id long, name string not null", "id")


@pytest.mark.scenario("V9")
@pytest.mark.parametrize("row", ROWS, ids=[f"{n}-{row.kind}" for n, row in enumerate(ROWS)])
def test_the_smallest_text_raises_exactly_this_issue(row):
    found = checked(row.text, REQUIRED, hints=row.hints).issues
    assert [(i.kind, i.severity, i.line, i.column) for i in found] == [
        (row.kind, row.severity, row.line, row.column)
    ], f"\n{found}"


def test_every_kind_that_needs_no_spark_has_its_smallest_text():
    without_spark = {kind for kind, (_, phase) in KINDS.items() if phase != "analysis"}
    assert {row.kind for row in ROWS} == without_spark


@pytest.mark.scenario("V9")
def test_an_issue_of_a_doubled_view_names_both_places():
    found = checked(f"{view(GOOD)}\nCREATE ASYNC MATERIALIZED VIEW v AS {GOOD}").issues
    assert "at 1:32" in found[0].message


@pytest.mark.scenario("V52")
def test_a_parse_error_ends_all_checking():
    found = checked(
        f"CREATE ASYNC MATERIALIZED VIEW v AS SELECT o.id AS id FROM nope AS o;\nnonsense\n;{HANDLER}"
    ).issues
    assert [issue.kind for issue in found] == ["ParserError"]
    assert found.skipped == PHASES[1:]
    assert not found.ok


def test_analysis_is_skipped_where_nobody_asks_for_it_and_gets_what_has_no_error():
    seen = []

    def analyse(found: Checked):
        seen.append((sorted(t.name for t in found.context.targets), found.wrong_views))
        return ()

    text = f"{view(GOOD)}\nCREATE MATERIALIZED VIEW w AS SELECT nope FROM orders"
    assert checked(text).issues.skipped == ("analysis",)
    assert check(read_script(text), Surroundings(tables()), analyse=analyse).issues.skipped == ()
    assert seen == [(["v", "w"], frozenset({"w"}))]


@pytest.mark.scenario("V11")
@pytest.mark.scenario("V47")
def test_a_handler_of_a_view_with_an_error_has_an_error_itself():
    text = f"{view('SELECT o.nope AS id FROM orders AS o')}\nCREATE ASYNC MATERIALIZED VIEW w AS {GOOD};" + (
        "CREATE ASYNC HANDLER i PROCESS w, INPUT orders CHANGEFEED log AS STREAM"
    )
    found = checked(text)
    assert (found.wrong_views, found.wrong_handlers) == ({"v"}, {"h"})


@pytest.mark.scenario("V12")
def test_the_five_table_view_has_nothing_of_note_but_several_rows_per_key():
    select = (
        "SELECT o.id AS id, c.name AS name, p.kind AS memo FROM orders AS o JOIN customer AS c ON c.id = o.customer_id "
        "LEFT JOIN region AS r ON r.id = c.region_id LEFT JOIN order_ext AS x ON x.order_id = o.id\n"
        "LEFT JOIN payment AS p ON p.order_id = o.id"
    )
    inputs = ("customer", "region", "order_ext", "payment")
    found = checked(view(select, *inputs, key="PRIMARY KEY (id)")).issues
    assert [(i.kind, i.line, i.column) for i in found] == [("SeveralRowsPerKey", 3, 11)]


@pytest.mark.scenario("V48")
@pytest.mark.parametrize(
    ("key", "expected"),
    [(None, [("SeveralRowsPerKey", "error")]), (["id"], [("SeveralRowsPerKey", "warning")]), (["id", "pay_id"], [])],
)
def test_a_join_that_multiplies_rows_needs_the_key_of_the_joined_table(key, expected):
    reading = read_view("w", "SELECT o.id, p.pay_id FROM orders o JOIN payment p ON p.order_id = o.id", key)
    found = check(reading, Surroundings(tables())).issues
    assert [(i.kind, i.severity) for i in found if i.kind != "NullableKey"] == expected


@pytest.mark.scenario("V48")
def test_groups_are_the_key_by_default():
    reading = read_view("w", "SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id")
    assert [i.kind for i in check(reading, Surroundings(tables())).issues] == ["NullableKey"]


@pytest.mark.scenario("V71")
def test_an_owner_that_does_not_come_out_of_a_cte_is_named():
    lost = read_view("w", "WITH r AS (SELECT note FROM orders) SELECT note FROM r", ["note"])
    (issue,) = [i for i in check(lost, Surroundings(tables())).issues if i.is_error]
    assert issue.kind == "OwnerOutOfReach"
    assert "'orders.id'" in issue.message
    assert "'r'" in issue.message
    kept = read_view("w", "WITH r AS (SELECT id, note FROM orders) SELECT note FROM r", ["note"])
    assert check(kept, Surroundings(tables())).issues.ok


@pytest.mark.scenario("V37")
def test_a_view_over_views_is_checked_against_their_columns():
    text = """
        CREATE MATERIALIZED VIEW top AS SELECT t.customer_id, t.n, t.nope FROM totals t;
        CREATE MATERIALIZED VIEW totals AS SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id
    """
    found = checked(text).issues
    assert [i.kind for i in found if i.is_error] == ["IllegalOutputReference"]
    assert "columns: customer_id, n" in next(i for i in found if i.is_error).message


def test_a_cycle_names_its_members():
    text = "CREATE MATERIALIZED VIEW a AS SELECT id FROM b; CREATE MATERIALIZED VIEW b AS SELECT id FROM a"
    (issue,) = [i for i in checked(text).issues if i.kind == "CyclicViews"]
    assert "a → b → a" in issue.message


def test_what_two_scripts_say_is_checked_together():
    reading = read_script(f"CREATE ASYNC MATERIALIZED VIEW v AS {GOOD}", "a.sql") + read_script(HANDLER, "b.sql")
    assert isinstance(reading, Reading)
    assert check(reading, Surroundings(tables())).issues == []


def test_a_view_with_an_error_is_not_checked_further():
    found = checked("CREATE MATERIALIZED VIEW v AS SELECT o.nope AS id, o.note AS unknown FROM orders o")
    assert [i.kind for i in found.issues] == ["IllegalOutputReference"]
    found = checked("CREATE MATERIALIZED VIEW v AS SELECT o.note AS unknown FROM orders o")
    assert [i.kind for i in found.issues] == ["UnknownOutputColumn"]


@pytest.mark.scenario("V8")
def test_issues_are_sorted_by_their_place_and_shown_with_it():
    text = f"{view('SELECT z.id AS id, y.id AS name FROM orders AS o')}\n{HANDLER.replace('HANDLER h', 'HANDLER i')}"
    found = checked(text).issues
    assert [(i.line, i.column) for i in found] == [(2, 8), (2, 20), (4, 32)]
    assert str(found).splitlines()[:3] == [
        "2:8: error UnknownAlias: there is no table 'z' here; aliases: o.",
        "    SELECT z.id AS id, y.id AS name FROM orders AS o;",
        "           ^",
    ]


@pytest.mark.parametrize(
    ("dictionaries", "expected"),
    [
        (["customer"], []),
        (["nope"], ["UnknownInputTable"]),
        (["region"], ["UselessInput"]),
        (["orders"], ["BatchLeftmost"]),
    ],
)
def test_dictionaries_of_a_view_are_tables_that_it_reads(dictionaries, expected):
    select = "SELECT o.id, c.name FROM orders o JOIN customer c ON c.id = o.customer_id"
    reading = read_view("w", select, dictionaries=dictionaries)
    assert [i.kind for i in check(reading, Surroundings(tables())).issues] == expected


@pytest.mark.parametrize(
    ("condition", "column"),
    [
        ("o.note IN (SELECT p.order_id FROM payment p)", 17),
        ("(o.id, o.note) IN (SELECT p.order_id, p.pay_id FROM payment p)", 17),
        ("EXISTS (SELECT 1 FROM payment p WHERE p.order_id = o.note)", 55),
    ],
)
def test_columns_that_a_subquery_compares_are_of_one_kind_too(condition, column):
    reading = read_view("w", f"SELECT o.id FROM orders o\nWHERE 1 = 1 AND {condition}")
    (issue,) = check(reading, Surroundings(tables())).issues
    assert (issue.kind, issue.severity, issue.line, issue.column) == ("JoinTypes", "error", 2, column)
    assert "'o.note' is string" in issue.message


@pytest.mark.scenario("V63")
def test_a_dictionary_that_concerns_every_key_is_not_warned_of_and_a_stream_is_at_its_place():
    select = "SELECT o.id, s.value FROM orders o\nJOIN settings s ON s.code = 58"
    (issue,) = check(read_view("w", select), Surroundings(tables())).issues
    assert (issue.kind, issue.line, issue.column) == ("KeyExtractionImpossible", 2, 6)
    assert check(read_view("w", select, dictionaries=["settings"]), Surroundings(tables())).issues == []


@pytest.mark.scenario("V10")
def test_parts_of_other_numbers_of_columns_and_a_required_column():
    text = (
        "CREATE MATERIALIZED VIEW w PRIMARY KEY (id) AS SELECT id, note FROM orders UNION ALL\nSELECT id FROM customer"
    )
    (issue,) = checked(text).issues
    assert (issue.kind, issue.line, issue.column) == ("UnionMismatch", 2, 1)
    (issue,) = checked("CREATE MATERIALIZED VIEW w2 AS SELECT id FROM orders", REQUIRED).issues
    assert (issue.kind, "'name'" in issue.message) == ("RequiredColumnMissing", True)


# --- unions, and views that are computed as a whole -------------------------------------------------------------------


@pytest.mark.scenario("V31")
@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        ("id, note FROM orders", "id, name AS note FROM customer", [("SeveralRowsPerKey", "warning")]),
        ("id, 1 AS n, note FROM orders", "id, 2 AS n, name AS note FROM customer", [("SeveralRowsPerKey", "warning")]),
        ("DISTINCT id, 'o' AS n FROM orders", "DISTINCT id, 'c' AS n FROM customer", []),
        ("DISTINCT id, 'o' AS n FROM orders", "id, 'o' AS n FROM customer", [("SeveralRowsPerKey", "warning")]),
    ],
)
def test_parts_whose_rows_can_have_one_key_are_warned_of(first, other, expected):
    select = f"SELECT {first}\nUNION ALL SELECT {other}"
    found = check(read_view("w", select), Surroundings(tables())).issues
    assert [(i.kind, i.severity) for i in found] == expected
    assert all((i.line, i.column) == (2, 11) for i in found)
    assert all("rows of parts 'part_1' and 'part_2' can have the same key (id" in i.message for i in found)
    assert check(read_view("w", select, ["id"]), Surroundings(tables())).issues == []


@pytest.mark.scenario("V70")
@pytest.mark.parametrize(
    ("select", "key", "kind"),
    [
        ("SELECT url, user_id FROM clicks", ["url"], "UnkeyedLeftmost"),
        ("WITH r AS (SELECT note FROM orders) SELECT note FROM r", ["note"], "OwnerOutOfReach"),
        ("SELECT count(*) AS n FROM payment GROUP BY paid", ["n"], "UnsupportedKeyType"),
        (
            "SELECT concat('o', id) AS k FROM orders UNION ALL SELECT concat('p', amount) AS k FROM payment "
            "GROUP BY amount, kind = 'A'",
            ["k"],
            None,
        ),
    ],
)
def test_auto_computes_a_view_as_a_whole_where_its_rows_could_not_be_found_again(select, key, kind):
    def target_with(refresh: MvRefresh) -> tuple[MvTarget, list[str]]:
        found = check(read_view("w", select, key, refresh), Surroundings(tables()))
        return found.context.targets[0], [i.kind for i in found.issues if i.is_error]

    assert target_with(MvRefresh.INCREMENTAL)[1] == ([kind] if kind else [])
    target, errors = target_with(MvRefresh.AUTO)
    assert (target.is_full, errors) == (kind is not None, [])
    assert bool(target.why_full) == (kind is not None)
    assert target_with(MvRefresh.FULL)[1] == []


@pytest.mark.parametrize("refresh", ["FULL", "AUTO"])
def test_a_view_that_reads_no_table_is_refused_however_it_is_refreshed(refresh):
    for select in ("SELECT 1 AS id", "SELECT id FROM range(3)"):
        found = checked(f"CREATE MATERIALIZED VIEW w PRIMARY KEY (id) REFRESH {refresh} AS {select}").issues
        assert [issue.kind for issue in found] == ["NotIncremental"]
        assert "reads no table" in found[0].message

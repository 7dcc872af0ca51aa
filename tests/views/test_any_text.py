"""Whatever text comes: issues with a place and never another exception, nor a word on the screen."""

from random import Random

import pytest
from tests.support.view_texts import DOCUMENT, PLAIN, random_words, spoiled
from tests.support.views import SHOP

from seamark.views.checks.check import Surroundings, check
from seamark.views.language.script import Reading, read_script, read_view
from seamark.views.model import MvPart, MvRefresh
from seamark.views.paths.actions import paths_of
from seamark.views.plain_sql.read import tables_of

SURROUNDINGS = Surroundings(SHOP, ("ch",))


def read(r: Random) -> Reading:
    text = random_words(r) if r.random() < 0.2 else spoiled(r, r.choice([DOCUMENT, *PLAIN]))
    if r.random() < 0.5:
        return read_script(f"CREATE MATERIALIZED VIEW v PRIMARY KEY (id) AS {text}" if r.random() < 0.3 else text)
    return read_view("v", text, ["id"], r.choice(list(MvRefresh)))


def holds(reading: Reading) -> None:
    checked = check(reading, SURROUNDINGS, hints=True)
    for issue in checked.issues:
        assert issue.line >= 1
        assert 1 <= issue.column <= len(issue.shown) + 2
        assert str(issue)
    if checked.issues.ok:
        for target in checked.context.targets:
            for part in target.parts:
                for source in part.tables:
                    assert source.place.of(part.text.text).replace("`", "").casefold() == str(source.table).casefold()
                assert_the_same_tables(part)
                if part.query is not None:
                    assert len(paths_of(part).actions) == len(part.tables)


def assert_the_same_tables(part: MvPart) -> None:
    """The tables that were read clause by clause are those that sqlglot finds; a CTE that is not used has more."""
    own = {(source.table, source.place) for source in part.tables}
    others = set(tables_of(part.text.text))
    assert own == others or (own < others and "WITH" in part.text.text.upper())


def test_the_unspoiled_texts_are_read():
    assert not read_script(DOCUMENT).issues
    assert not any(read_view("v", text).issues for text in PLAIN[:5])


@pytest.mark.parametrize("seed", range(10))
def test_random_and_cut_texts_give_issues_and_nothing_else(seed, caplog):
    r = Random(seed)
    for _ in range(200):
        holds(read(r))
    assert caplog.records == []


@pytest.mark.long
def test_ten_thousand_random_and_cut_texts_give_issues_and_nothing_else():
    r = Random("long")
    for _ in range(10_000):
        holds(read(r))


DEEP = {
    "open parentheses": "(" * 500,
    "parentheses": "SELECT " + "(" * 500 + "1" + ")" * 500 + " AS a FROM t",
    "open subqueries": "SELECT a FROM " + "(SELECT a FROM " * 60,
    "subqueries": "SELECT a FROM " + "(SELECT a FROM " * 60 + "t" + ")" * 60,
    "CTEs, each used twice": "WITH c0 AS (SELECT x FROM t)"
    + "".join(f", c{i} AS (SELECT a.x FROM c{i - 1} a JOIN c{i - 1} b)" for i in range(1, 30))
    + " SELECT x FROM c29",
    "a long sum": "SELECT " + " + ".join(["1"] * 3_000) + " AS id FROM orders",
    "many NOTs": "SELECT id FROM orders WHERE " + "NOT " * 3_000 + "true",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_what_is_nested_deeply_is_an_issue(text):
    holds(read_view("v", text))
    holds(read_script(f"CREATE ASYNC MATERIALIZED VIEW v AS SELECT #[ {text} ]# AS id FROM orders AS o"))


def test_large_views_are_read():
    columns = ", ".join(f"o.note AS c{i}" for i in range(200))
    joins = " ".join(f"LEFT JOIN customer AS c{i} ON c{i}.id = o.customer_id" for i in range(20))
    part = f"(SELECT o.id AS id, {columns} FROM orders AS o {joins})"
    reading = read_script(
        "CREATE ASYNC MATERIALIZED VIEW v AS " + " UNION ALL ".join(f"{part} AS p{i}" for i in range(50))
    )
    assert len(reading.targets[0].parts) == 50
    assert len(reading.targets[0].parts[49].columns) == 201

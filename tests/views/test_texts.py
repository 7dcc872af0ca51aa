"""The texts of a view: run over tiny tables they give what the simulation computes; and the proposed tables."""

from random import Random

import duckdb
import pytest
from tests.support.view_simulation.keeping import Kept
from tests.support.view_simulation.random_views import random_case
from tests.support.view_simulation.sql import COLUMNS, sort_key
from tests.support.view_simulation.text import text_of
from tests.support.views import linked, paths

from seamark.views.paths.actions import ActionEveryKey, ActionKeysTransform
from seamark.views.paths.units import unit_of
from seamark.views.sql.ddl import Dialect, create_table, proposed_columns
from seamark.views.sql.queries import owner_names, path_query, refresh_query, unit_names
from seamark.views.sql.units import units_query


def duck(text: str) -> str:
    """The text as DuckDB takes it: these words mean the same in Spark."""
    for spark, other in (("LEFT SEMI", "SEMI"), ("LEFT ANTI", "ANTI"), ("<=>", "IS NOT DISTINCT FROM"), ("`", '"')):
        text = text.replace(spark, other)
    return text


@pytest.fixture
def database():
    """DuckDB, which counts NULL before other values, as Spark does."""
    with duckdb.connect() as found:
        found.execute("SET default_null_order = 'nulls_first'; SET threads = 1")
        yield found


def fill(found, name, columns, rows):
    listed = ", ".join("(" + ", ".join("NULL" if v is None else str(v) for v in row) + ")" for row in rows)
    found.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({', '.join(f'{c} BIGINT' for c in columns)})")
    if listed:
        found.execute(f"INSERT INTO {name} VALUES {listed}")


def fill_tables(found, kept):
    for name in kept.tables:
        fill(found, name, COLUMNS, kept.rows[name].values())


@pytest.mark.scenario("V42")
@pytest.mark.scenario("V49")
def test_the_units_of_rows_are_at_least_those_of_every_moment(database):
    found_any = 0
    for n in range(300):
        case = random_case(Random(f"units {n}"))
        kept = Kept(case.view, case.tables, [], case.rows)
        for happening in case.happenings:
            if happening[0] == "put":
                kept.put(*happening[1:])
        if kept.is_owner:
            continue
        keys = {row[0] for row in kept.versions(kept.leaves[kept.leftmost]) if row[0] % 2}
        expected = kept.units_of(keys)
        for name in kept.tables:
            fill(database, name, COLUMNS, kept.versions(name))
        fill(database, "keys", ["id"], [(key,) for key in keys])
        waiting = {s for s, leaf in kept.leaf_of.items() if kept.waiting()[kept.leaves[leaf]]}
        rows = set(database.sql(duck(units_query(kept.paths, waiting=waiting))).fetchall())
        assert rows == expected, f"{n}: {text_of(case.view)}"
        assert set(database.sql(duck(units_query(kept.paths))).fetchall()) >= expected
        found_any += bool(rows)
    assert found_any > 50


def shown(view, row):
    """The row without the columns of SEMI and ANTI sources, which the simulation fills with NULL."""
    if view.kind != "plain":
        return row
    seen = [s.kind not in ("semi", "anti") for s in view.sources for _ in range(s.width)]
    return tuple(value for value, is_seen in zip(row, seen, strict=True) if is_seen)


@pytest.mark.scenario("V42")
def test_the_refresh_of_some_units_gives_exactly_their_rows(database):
    kinds = set()
    for n in range(120):
        r = Random(f"refresh {n}")
        case = random_case(r)
        kept = Kept(case.view, case.tables, [], case.rows)
        right = kept.from_scratch()
        units = sorted((u for u in right if r.random() < 0.6), key=sort_key)
        part, unit = kept.paths.part, kept.paths.unit
        kinds.add(unit.kind)
        fill_tables(database, kept)
        fill(database, "keys", unit_names(unit), units)
        rows = database.sql(duck(refresh_query(part, unit))).fetchall()
        expected = units if case.view.distinct else [shown(case.view, row) for u in units for row in right[u]]
        assert sorted(rows, key=sort_key) == sorted(expected, key=sort_key), f"{n}: {text_of(case.view)}"
    assert len(kinds) == 3


@pytest.mark.scenario("V42")
def test_a_path_query_gives_the_keys_that_the_path_leads_to(database):
    kinds = set()
    for n in range(120):
        r = Random(f"path {n}")
        case = random_case(r)
        kept = Kept(case.view, case.tables, [], case.rows)
        fill_tables(database, kept)
        for action in kept.actions:
            records = [(row, None) for row in case.rows[action.table] if r.random() < 0.5]
            images = kept.images(action, records)
            fill(database, "changed", COLUMNS, [row for row, _ in records])
            rows = set(database.sql(duck(path_query(kept.paths, action))).fetchall())
            kinds.add(action.kind)
            assert rows == expected_keys(kept, action, images), f"{n} {action}: {text_of(case.view)}"
    assert len(kinds) == 4


@pytest.mark.scenario("V14")
def test_conditions_of_a_hop_stand_in_parentheses():
    found = paths(
        "SELECT o.id, r.title FROM orders o JOIN customer c ON c.id = o.customer_id LEFT JOIN region r "
        "ON r.id = c.region_id AND r.country = 'X' WHERE c.name = 'A' OR c.id = 3"
    )
    assert path_query(found, found.actions[2]) == (
        "SELECT DISTINCT h2.`id`\n"
        "FROM changed\n"
        "JOIN `customer` AS h1 ON h1.`region_id` = changed.`id` AND (h1.`name` = 'A' OR h1.`id` = 3)\n"
        "JOIN `orders` AS h2 ON h2.`customer_id` = h1.`id`\n"
        "WHERE (changed.`country` = 'X')"
    )


def expected_keys(kept, action, images):
    leftmost = kept.rows[kept.leaves[kept.leftmost]].values()
    if isinstance(action, ActionEveryKey):
        return {(row[0],) for row in leftmost} if images else set()
    if isinstance(action, ActionKeysTransform):
        return {tuple(row[COLUMNS.index(name)] for name in action.columns) for row in images}
    if action.kind == "sync":
        return {(row[0],) for row in images}
    pinned = Kept.__new__(Kept)
    pinned.__dict__ |= kept.__dict__ | {"is_owner": True}  # at the pins
    return {(row[0],) for row in pinned.grabbed(action, images)}


@pytest.mark.scenario("V57")
def test_the_persons_words_stay_as_they_are():
    text = (
        "SELECT /*+ BROADCAST(c) */ o.id, '{x} it''s \\' FROM y' AS t -- why; not\n"
        "FROM orders o JOIN customer c ON c.id = o.customer_id OR (c.name = 'WHERE')\r\nWHERE o.id = 1 OR o.id = 2"
    )
    found = paths(text)
    assert found.part.text.text == text
    head, _, tail = text.partition("WHERE o.id")
    same = "keys.`id` IS NOT DISTINCT FROM `o`.`id`"
    assert refresh_query(found.part, found.unit) == (
        f"{head}WHERE (o.id{tail}\n) AND EXISTS (SELECT 1 FROM keys AS keys WHERE {same})"
    )


def test_hidden_columns_stand_before_the_others():
    found = paths("SELECT DISTINCT upper(c.name) AS n FROM orders o JOIN customer c ON c.id = o.customer_id")
    assert refresh_query(found.part, found.unit, with_owners=True).startswith(
        "SELECT DISTINCT upper(c.name) AS `_owner`, upper(c.name) AS n FROM"
    )
    inner = paths("WITH r AS (SELECT id AS a FROM orders) SELECT b.a AS x FROM (SELECT a FROM r) AS b")
    assert refresh_query(inner.part, inner.unit, with_owners=True).startswith(
        "SELECT `b`.`a` AS `_owner`, b.a AS x FROM (SELECT a FROM (SELECT id AS a FROM orders\nWHERE EXISTS"
    )
    assert owner_names(3) == ("_owner", "_owner_2", "_owner_3")


def test_a_with_that_is_used_twice_is_narrowed_where_it_is_leftmost_only():
    found = paths(
        "WITH o AS (SELECT id, customer_id FROM orders) SELECT a.id FROM o a JOIN o b ON b.id = a.customer_id"
    )
    assert refresh_query(found.part, found.unit).count("EXISTS") == 1


@pytest.mark.scenario("V93")
def test_the_proposed_table_in_three_dialects():
    target = linked(
        "SELECT l.order_id, l.no, l.product, count(*) OVER (PARTITION BY l.order_id) AS n, "
        "cast(l.no AS decimal(5,2)) AS d, s.tags, l.product RLIKE 'x' AS found "
        "FROM line l LEFT JOIN settings s ON s.code = l.no"
    )
    key = ("ORDER_ID", "no")
    columns = proposed_columns(target, key)
    assert create_table("v$1", columns, key, Dialect.SPARK) == (
        "CREATE TABLE `v$1` (\n"
        "  `order_id` BIGINT NOT NULL,\n"
        "  `no` INT NOT NULL,\n"
        "  `product` STRING,\n"
        "  `n` BIGINT,\n"
        "  `d` DECIMAL(5,2),\n"
        "  `tags` array<string>,\n"
        "  `found` STRING -- computed: Spark tells its type\n"
        ")\nUSING delta /* key: `order_id`, `no` */"
    )
    assert create_table("v", columns, key, Dialect.POSTGRES) == (
        'CREATE TABLE "v" (\n'
        '  "order_id" bigint NOT NULL,\n'
        '  "no" integer NOT NULL,\n'
        '  "product" text,\n'
        '  "n" bigint,\n'
        '  "d" numeric(5,2),\n'
        '  "tags" text[],\n'
        '  "found" text, -- computed: Spark tells its type\n'
        '  PRIMARY KEY ("order_id", "no")\n)'
    )
    assert create_table("v", columns, key, Dialect.CLICKHOUSE) == (
        "CREATE TABLE `v` (\n"
        "  `order_id` Int64,\n"
        "  `no` Int32,\n"
        "  `product` Nullable(String),\n"
        "  `n` Nullable(Int64),\n"
        "  `d` Nullable(Decimal(5, 2)),\n"
        "  `tags` Array(Nullable(String)),\n"
        "  `found` Nullable(String) -- computed: Spark tells its type\n"
        ")\nENGINE = ReplacingMergeTree\nORDER BY (`order_id`, `no`)"
    )


def test_the_units_of_rows_with_every_column_written_out():
    found = paths(
        "SELECT upper(kind) AS k, count(*) AS n FROM line LEFT JOIN line_ext USING (order_id) "
        "WHERE memo <> 'x' AND EXISTS (SELECT 1 FROM orders o WHERE o.id = order_id) GROUP BY upper(kind)"
    )
    same = " AND ".join(f"keys.`{name}` IS NOT DISTINCT FROM v.`{name}`" for name in ("order_id", "no"))
    assert units_query(found, {0: "line_versions"}, waiting=()) == (
        "SELECT DISTINCT upper(`line`.`kind`) AS `_owner`\n"
        f"FROM (SELECT v.* FROM line_versions AS v WHERE EXISTS (SELECT 1 FROM keys WHERE {same})) AS `line`\n"
        "LEFT JOIN `line_ext` AS `line_ext` ON `line_ext`.`order_id` = `line`.`order_id`\n"
        "WHERE (`line_ext`.`memo` <> 'x')"
    )


def test_a_full_view_has_one_unit():
    part = linked("SELECT count(*) AS n FROM orders").parts[0]
    assert unit_of(part).columns == ()

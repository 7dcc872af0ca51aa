"""SQL from a chain: one query over the inputs is let through, anything that reaches further is refused."""

from __future__ import annotations

import pytest

from seamark.transforms.declare.safe_sql import UnsafeSql, checked_query

QUERIES = [
    "SELECT id, name AS user, 'nowhere' AS place FROM {posts}",
    "SELECT p.user, 'it is now' AS text FROM {posts} p",
    "SELECT id, text FROM {posts}",
    "SELECT id, upper(text) AS text FROM {posts}",
    "select concat(a.text, '!') as t from {posts} a left join {b} as b on a.id = b.id and b.x "
    "in (1,2) where a.id > 3 group by a.id, b.x having count(*) > 1 order by 1, 2 limit 3;",
    "WITH a AS (SELECT * FROM {posts}), b AS (SELECT max(id) AS m FROM a) SELECT a.* FROM a, b WHERE a.id = b.m",
    "SELECT id, x FROM {posts} LATERAL VIEW explode(split(text, ' ')) t AS x",
    "SELECT id, p, x FROM {posts} LATERAL VIEW posexplode(split(text, ' ')) t AS p, x WHERE p > 1",
    "SELECT extract(year FROM at) y, trim(both 'x' from s) FROM {posts}",
    "(SELECT 1 AS x) UNION ALL (SELECT id FROM {posts})",
    "SELECT id FROM {posts} UNION SELECT id FROM {b}",
    "SELECT a IS NOT DISTINCT FROM b AS c FROM {posts}",
    "-- c\nSELECT /* x */ id, sum(v) OVER (PARTITION BY a, b ORDER BY c, d) FROM {posts}",
    "SELECT cast(x as decimal(10,2)), x::int, transform(a, y -> y + 1), CASE WHEN (a) THEN 1 ELSE 2 END FROM {posts}",
    "SELECT t.a FROM (SELECT id AS a FROM {posts}) AS t(a)",
    "SELECT * FROM ({posts} JOIN {b} USING (id))",
    "SELECT * FROM {posts} p, LATERAL (SELECT max(x) FROM {b} b WHERE b.id = p.id)",
    "SELECT '{{a}}' x, r'\\d' FROM {posts}",
    "SELECT DATE '2020-01-01', INTERVAL 1 DAY, `weird name` FROM {posts} WHERE EXISTS (SELECT 1 FROM {b})",
    "SELECT * FROM {posts} WHERE id IN (SELECT id FROM {b} WHERE x = (SELECT max(x) FROM {b}))",
    "with a(x, y) as (select 1, 2 from {posts}) select x from a",
    "SELECT * EXCEPT (a, b) FROM {posts}",
    "SELECT regexp_replace(t, '\\\\d+', '') FROM {posts}",
]

UNSAFE = [
    "SELECT id, current_timestamp AS at FROM {posts}",
    "SELECT id FROM {posts} WHERE day < CURRENT_DATE",
    "SELECT id, current_user FROM {posts}",
    "SELECT id, TIMESTAMP 'now' AS at FROM {posts}",
    "SELECT id, DATE ' Today ' AS day FROM {posts}",
    "SELECT id, CAST('tomorrow Europe/Paris' AS timestamp) AS at FROM {posts}",
    "SELECT id FROM {posts} TABLESAMPLE (50 PERCENT)",
    "INSERT OVERWRITE DIRECTORY '/x' USING csv SELECT 1",
    "SELECT * FROM parquet.`/etc/passwd`",
    "SELECT * FROM {posts}, parquet.`/x`",
    "SELECT * FROM {posts} where, parquet.`/x`",
    "SELECT * FROM {posts} where (b), parquet.`/x`",
    "SELECT * FROM {posts} AS where, parquet.`/x`",
    "SELECT is distinct FROM parquet.`/x`",
    "SELECT all is distinct FROM parquet.`/x`",
    "SELECT reflect('java.lang.Runtime','exec') FROM {posts}",
    "SELECT java_method('a','b')",
    "SELECT `reflect`('a','b')",
    "SELECT system.builtin.reflect('a','b')",
    "SELECT x AS reflect('a','b') FROM {posts}",
    "SELECT 1; DROP TABLE x",
    "SELECT 1) UNION SELECT * FROM x --",
    "SELECT * FROM other",
    "SELECT * FROM (other)",
    "SELECT * FROM ({posts} JOIN other)",
    "SELECT * FROM (other JOIN {posts})",
    "SELECT TRANSFORM(id) USING 'cat' AS x FROM {posts}",
    "MAP id USING 'cat' FROM {posts}",
    "FROM {posts} MAP id USING 'cat'",
    "SELECT ${env:HOME} FROM {posts}",
    "SELECT '${{env:HOME}}' FROM {posts}",
    "SELECT {posts.write} FROM {posts}",
    "SELECT '{other}' FROM {posts}",
    "TABLE other",
    "SELECT 1 UNION TABLE other",
    "SELECT (TABLE other)",
    "SELECT 1 FROM {posts} UNION FROM other SELECT 1",
    "WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a",
    "SELECT * FROM (WITH secret AS (SELECT 1) SELECT * FROM secret) JOIN secret",
    "WITH a AS (SELECT 1) INSERT INTO x SELECT * FROM a",
    "SELECT * FROM range(10)",
    "SELECT * FROM IDENTIFIER('x')",
    "SELECT * FROM {posts} |> JOIN other",
    "SELECT input_file_name() FROM {posts}",
    "SELECT my_udf(x) FROM {posts}",
    "SELECT 1 /* /* */ FROM other */ FROM {posts}",
    "SELECT 1 -- a \\\n, * FROM other\n FROM {posts}",
    "SELECT * FROM {posts} LATERAL VIEW python_worker_logs() t",
    "SELECT * FROM {posts} LATERAL VIEW explode(a) t AS x, parquet.`/x`",
    "SELECT * FROM VALUES (1), (parquet.`/x`)",
    "SELECT * FROM {posts} NATURAL JOIN other",
    'SELECT x FROM "other"',
    "SET x = 1",
    "DESCRIBE other",
    "EXPLAIN SELECT 1",
    "",
    "SELECT f(x from other) from {posts}",
    "SELECT exists(from other select 1)",
    "SELECT 1 in (from other select 1)",
    "SELECT * FROM {posts} STREAM, other",
    "SELECT xpath(x, 'a') FROM {posts}",
    "SELECT a FROM {posts} GROUP BY a JOIN other",
    "SELECT * FROM {posts} WINDOW, other",
    "SELECT * FROM stream(other)",
    "SELECT * FROM {posts} PIVOT (reflect('a') FOR x IN (1))",
]


@pytest.mark.scenario("L69")
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_over_the_inputs_is_run_where_only_a_query_can_stand(query):
    checked = checked_query(query, ["posts", "b"])
    assert checked.startswith("SELECT * FROM (")
    assert "--" not in checked
    assert "/*" not in checked


@pytest.mark.scenario("L69")
@pytest.mark.parametrize("text", UNSAFE)
def test_what_is_no_query_or_reaches_further_is_refused_with_a_reason(text):
    with pytest.raises(UnsafeSql) as refused:
        checked_query(text, ["posts", "b"])
    assert str(refused.value)


def test_the_reason_names_what_is_in_the_way():
    with pytest.raises(UnsafeSql, match="it reads 'parquet', which is not one of the step's inputs"):
        checked_query("SELECT * FROM parquet.`/etc/passwd`", ["posts"])
    with pytest.raises(UnsafeSql, match="it calls 'reflect'"):
        checked_query("SELECT reflect('java.lang.System', 'exit') FROM {posts}", ["posts"])

"""Texts of views to be cut, mixed and spoiled."""

from __future__ import annotations

from random import Random

DOCUMENT = """
CREATE ASYNC MATERIALIZED VIEW order_v PRIMARY KEY (id) DESTINATION ch AS
  SELECT o.id AS id, 1 AS source, 'it''s' AS label, #[ upper(o.note) || '#' ]# AS `loud one`,
         COMPUTE ON o.id, c.`name` #[ CASE WHEN o.id > 0 THEN c.name END ]# AS next_id, -- a comment; with a sign
  FROM orders AS o JOIN customer AS c ON c.id = o.customer_id AND c.name = 'x'u
  LEFT OUTER JOIN region AS r ON r.id = c.region_id /* and; more */ WHERE #[ o.note <> 'gone;' ]#;
CREATE ASYNC MATERIALIZED VIEW two AS
  (SELECT o.id AS id FROM orders AS o WHERE o.id BETWEEN 1 AND 3 AND o.note IN ('a', 'b')) AS a
  UNION ALL SELECT c.id AS id FROM customer AS c GROUP BY c.id AS b;
CREATE ASYNC HANDLER h CONSUMER k PROCESS order_v, PROCESS two, INPUT orders CHANGEFEED log AS STREAM,
  INPUT region CHANGEFEED log AS BATCH;
"""
PLAIN = (
    """WITH src AS (SELECT * FROM orders), r (a, b) AS (SELECT id, note FROM src WHERE id <> 3)
    SELECT /*+ BROADCAST(c) */ r.a, c.*, row_number() OVER (PARTITION BY r.a, r.b ORDER BY c.id DESC) n
    FROM r LEFT JOIN customer c USING (id)""",
    """SELECT o.id, p.paid, (SELECT max(code) FROM settings) m FROM orders o
    LEFT JOIN (SELECT order_id, sum(amount) AS paid FROM payment GROUP BY order_id HAVING count(*) > 1) p
    ON p.order_id = o.id WHERE EXISTS (SELECT 1 FROM line l WHERE l.order_id = o.id AND l.kind = 'A')
    AND o.customer_id NOT IN (SELECT id FROM customer) ORDER BY 1 NULLS LAST""",
    "SELECT DISTINCT c.region_id, upper(c.name) AS name FROM orders o, customer c WHERE c.id = o.customer_id OR false",
    """SELECT c.region_id, count(*) FILTER (WHERE o.id > 1) n, collect_list(o.note) FROM orders o
    LEFT SEMI JOIN customer c ON c.id = o.customer_id GROUP BY 1, cast(o.id AS string)
    UNION ALL (SELECT 1, 2, array('x') FROM region LIMIT 3)""",
    """SELECT transform(tags, t -> t || code) AS t, explode(tags) AS x, tags[0].a, `code` FROM settings s
    WHERE value RLIKE r'\\d'""",
    """SELECT a FROM t1 FULL OUTER JOIN t2 ON t1.a = t2.b, LATERAL VIEW explode(x) q AS y GROUP BY ROLLUP (a)
    WINDOW w AS ()""",
)
_SIGNS = [*"'\"`()[]{};,.*=<>-+/\\#$?@!|&%~^: \n\t\r\0é字🙂", "#[", "]#", "--", "/*", "*/", "<=>", "->", "::"]
_WORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "JOIN",
    "LEFT",
    "RIGHT",
    "ON",
    "AND",
    "OR",
    "NOT",
    "IN",
    "EXISTS",
    "GROUP",
    "BY",
    "ORDER",
    "LIMIT",
    "UNION",
    "ALL",
    "AS",
    "WITH",
    "OVER",
    "PARTITION",
    "CREATE",
    "ASYNC",
    "MATERIALIZED",
    "VIEW",
    "HANDLER",
    "INPUT",
    "PROCESS",
    "LATERAL",
    "VALUES",
    "CASE",
    "WHEN",
    "END",
    "BETWEEN",
    "NULL",
    "DISTINCT",
    "USING",
    "SEMI",
    "PIVOT",
    "TABLESAMPLE",
    "CUBE",
    "INTERVAL",
    "DATE",
    "CAST",
    "HAVING",
    "WINDOW",
    "QUALIFY",
    "EXCEPT",
    "RECURSIVE",
    "o.id",
    "orders",
    "1",
    "'x'",
]


def spoiled(r: Random, text: str) -> str:
    """The text with something cut out, put in, doubled or moved."""
    for _ in range(r.choice([1, 1, 2, 3])):
        begin = r.randrange(len(text) + 1)
        end = min(len(text), begin + r.choice([1, 2, 5, 20, 100]))
        match r.randrange(5):
            case 0:
                text = text[:begin] + text[end:]
            case 1:
                text = text[:begin] + r.choice([*_SIGNS, f" {r.choice(_WORDS)} "]) + text[begin:]
            case 2:
                text = text[:end] + text[begin:end] + text[end:]
            case 3:
                text = text[:begin]
            case 4:
                other = r.choice([DOCUMENT, *PLAIN])
                place = r.randrange(len(other))
                text = text[:begin] + other[place : place + r.choice([3, 10, 40])] + text[end:]
    return text


def random_words(r: Random) -> str:
    """Words and signs in no order."""
    return " ".join(r.choice([*_WORDS, *_SIGNS]) for _ in range(r.randrange(1, 40)))

-- The language of jobs: what is computed stands between #[ and ]#, and a handler says which table is followed how.

-- One wide row per order.
CREATE ASYNC MATERIALIZED VIEW order_wide PRIMARY KEY (order_id) AS
SELECT o.order_id AS order_id,
       o.placed AS placed,
       c.name AS customer,
       COMPUTE ON r.title #[ coalesce(r.title, 'elsewhere') ]# AS region,
       COMPUTE ON s.title, o.status #[ coalesce(s.title, upper(o.status)) ]# AS status,
       o.amount AS amount
FROM orders AS o
JOIN customers AS c ON c.customer_id = o.customer_id
LEFT JOIN regions AS r ON r.region_id = c.region_id
LEFT JOIN statuses AS s ON s.code = o.status;

-- The entries of all accounts: what was ordered, and what was paid. Their key is computed.
CREATE ASYNC MATERIALIZED VIEW entry PRIMARY KEY (entry) AS
(
    SELECT COMPUTE ON o.order_id #[ concat('order ', o.order_id) ]# AS entry,
           o.customer_id AS customer_id,
           o.amount AS amount
    FROM orders AS o
    WHERE #[ o.status <> 'cancelled' ]#
) AS ordered
UNION ALL
(
    SELECT COMPUTE ON p.payment_id #[ concat('payment ', p.payment_id) ]# AS entry,
           o.customer_id AS customer_id,
           COMPUTE ON p.amount #[ -p.amount ]# AS amount
    FROM payments AS p
    JOIN orders AS o ON o.order_id = p.order_id
) AS paid;

-- Changes of statuses wait in their log until a pass takes them: one word may concern half of all orders.
CREATE ASYNC HANDLER shop
    PROCESS order_wide,
    PROCESS entry,
    INPUT orders CHANGEFEED log AS STREAM,
    INPUT customers CHANGEFEED log AS STREAM,
    INPUT regions CHANGEFEED log AS STREAM,
    INPUT payments CHANGEFEED log AS STREAM,
    INPUT statuses CHANGEFEED log AS BATCH;

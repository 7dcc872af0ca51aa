-- Plain Spark SQL. These views read the views of the other file: a run computes each after those that it reads.

-- What each customer owes: one row per group, so the group is the key.
CREATE MATERIALIZED VIEW balance AS
SELECT e.customer_id, sum(e.amount) AS owes, count(*) AS entries
FROM entry e
GROUP BY e.customer_id;

-- Sales of a region in a month, under a key that is computed from both.
CREATE MATERIALIZED VIEW sales PRIMARY KEY (sales) AS
SELECT concat(w.region, ' ', date_format(w.placed, 'yyyy-MM')) AS sales, count(*) AS orders, sum(w.amount) AS amount
FROM order_wide w
GROUP BY concat(w.region, ' ', date_format(w.placed, 'yyyy-MM'));

-- A view over a view over a view: who owes more than 150.
CREATE MATERIALIZED VIEW debtor PRIMARY KEY (customer_id) AS
SELECT b.customer_id, c.name, r.title AS region, b.owes
FROM balance b
JOIN customers c ON c.customer_id = b.customer_id
LEFT JOIN regions r ON r.region_id = c.region_id
WHERE b.owes > 150;

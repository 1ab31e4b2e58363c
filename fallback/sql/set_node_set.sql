-- Records another set of Redis nodes, if the recorded one is as expected.
-- $1 text expected; $2 text next
-- returns one row when recorded
UPDATE {schema}.idempotency_meta AS m SET node_set = $2, node_set_at = clock_timestamp()
WHERE m.only_row AND m.node_set = $1
RETURNING m.node_set

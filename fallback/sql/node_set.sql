-- The set of Redis nodes that the engines on this ledger share.
-- returns one row: node set, since when (null: none recorded)
SELECT m.node_set, m.node_set_at FROM {schema}.idempotency_meta AS m WHERE m.only_row

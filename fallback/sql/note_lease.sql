-- Notes that leases of this length are granted: how long take-overs stay
-- still after an adoption.
-- $1 int8 lease in microseconds
-- returns the longest lease noted
UPDATE {schema}.idempotency_meta AS m SET max_lease_us = greatest(m.max_lease_us, $1)
WHERE m.only_row AND m.max_lease_us < $1
RETURNING m.max_lease_us

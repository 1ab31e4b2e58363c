-- Lists rows in the order of their digests, without responses.
-- $1 text state ("": any); $2 bytea after this digest; $3 int8 how many
-- returns {record}
SELECT {record}
FROM {schema}.idempotency_keys AS k
WHERE k.digest > $2 AND ($1 = '' OR k.state = $1)
ORDER BY k.digest
LIMIT $3

-- One adoption at a time, through a pooler too.
-- $1 int8 key of the schema
SELECT pg_advisory_xact_lock($1)

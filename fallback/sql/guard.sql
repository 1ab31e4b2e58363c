-- Held by a claim's transaction until it is over, its commit included: whoever
-- has to know whether a claim of which no verdict came can still land waits
-- for it (sql/wait.sql).
-- $1 int8 names one send of a batch of claims
SELECT pg_advisory_xact_lock($1)
